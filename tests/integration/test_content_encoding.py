"""Unrequested compression of upstream responses: decompressed at every chunk boundary, bounded, or an error."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from proxy.errors import UpstreamBroken
from tests.conftest import Inside
from tests.support.helpers import all_cuts
from tests.support.messages_ask import ask
from tests.support.messages_checker import check_stream
from tests.support.scripted import DONE, LAST, ROLE, SSE, Act, Upstream, answer, chat, chunked, completion, finish, text
from tests.unit.upstream.test_content_encoding import EACH, decoded

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
EVENTS = [ROLE, text("So. "), text("you"), finish(), DONE]


@pytest.mark.parametrize("end", [b"x", b"\0x", b"garbage", b"\0\0\x1f\x8bgarbage", b"\x1f"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_bytes_after_a_compressed_answer_are_an_error(inside: Inside, path: str, end: bytes) -> None:
    for cut in all_cuts(gzip.compress(b"So.", mtime=0) + end):
        with pytest.raises(UpstreamBroken):
            decoded(cut)
    packed = gzip.compress(json.dumps(completion("So.")).encode(), mtime=0)
    with Upstream([answer(packed + end, headers={"Content-Encoding": "gzip"})]) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).post(path, json=chat(stream=False) if path == CHAT else ask())
        assert response.status_code == 502 and b"compressed answer" in response.data


@pytest.mark.parametrize("end", [b"x", b"\0x", b"garbage" * 9, b"\x1f", b"\x1f\x8b\x08garbage", b"<html></html>"])
@pytest.mark.parametrize("step", [3, 10**6])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_bytes_after_a_finished_stream_are_ignored(inside: Inside, path: str, step: int, end: bytes) -> None:
    """Some front ends append bytes to compressed data. The reply itself is complete."""
    with Upstream(streamed("gzip", gzip.compress(b"".join(EVENTS), mtime=0) + end, step)) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        data = inside(server.url).post(path, json=chat() if path == CHAT else ask(stream=True)).data
    if path == CHAT:
        assert data == b"".join(EVENTS)
    else:
        assert b"message_stop" in data
        check_stream(data)


@pytest.mark.parametrize("end", [b"x", b"\0x", b"garbage" * 9, b"\x1f", b"\x1f\x8b\x08garbage"])
@pytest.mark.parametrize("step", [3, 10**6])
def test_bytes_after_an_unfinished_stream_are_an_error(inside: Inside, step: int, end: bytes) -> None:
    with Upstream(streamed("gzip", gzip.compress(b"".join(EVENTS[:-1]), mtime=0) + end, step)) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert b'"error"' in data and b"compressed answer" in data and DONE not in data


@pytest.mark.parametrize("step", [3, 10**6])
def test_a_reset_after_a_finished_stream_is_an_error(inside: Inside, step: int) -> None:
    """C4: junk after the compressed data does not hide that the body is incomplete."""
    script = streamed("gzip", gzip.compress(b"".join(EVENTS), mtime=0) + b"junk", step)[:-1]
    with Upstream([*script, Act.RST]) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert b'"error"' in data and DONE not in data


ERROR = json.dumps({"error": {"message": "engine died", "type": "x", "code": 500}}).encode()


@EACH
@pytest.mark.parametrize("given", ["{}", "identity, {}", "{}, identity"])
def test_a_forwarded_error_is_decompressed(
    inside: Inside, coding: str, pack: Callable[[bytes], bytes], given: str
) -> None:
    with Upstream([answer(pack(ERROR), 500, {"Content-Encoding": given.format(coding)})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
    assert (response.status_code, response.data) == (500, ERROR)
    assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip, gzip"])
def test_a_forwarded_error_in_an_unknown_coding_is_replaced(inside: Inside, coding: str) -> None:
    """It may contain a key."""
    with Upstream([answer(b"abc", 429, {"Content-Encoding": coding, "Retry-After": "7"})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert "429 Too Many Requests" in response.get_json()["error"]["message"]
    assert "Content-Encoding" not in response.headers


def streamed(coding: str, packed: bytes, step: int = 7) -> list[Any]:
    opening = SSE.replace(b"\r\n\r\n", f"\r\nContent-Encoding: {coding}\r\n\r\n".encode())
    return [opening, *(chunked(packed[at : at + step]) for at in range(0, len(packed), step)), LAST]


def test_each_event_is_forwarded_when_it_arrives(inside: Inside) -> None:
    """The proxy decompresses each flush without waiting for the next one."""
    packing = zlib.compressobj(wbits=31)
    with Upstream() as server:
        gate = server.gate()
        first = packing.compress(ROLE + text("So. ")) + packing.flush(zlib.Z_SYNC_FLUSH)
        rest = packing.compress(b"".join(EVENTS[2:])) + packing.flush()
        opening = SSE.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
        server.play([opening, chunked(first), gate, chunked(rest), LAST])
        response = inside(server.url).post(CHAT, json=chat(), buffered=False)
        parts = iter(response.response)
        got = b""
        while b"So. " not in got:
            got += bytes(next(parts))  # type: ignore[arg-type]
        gate.open()
        assert got + b"".join(bytes(part) for part in parts) == b"".join(EVENTS)  # type: ignore[arg-type]
        response.close()


@pytest.mark.parametrize("coding", ["gzip", "br", "identity", "gzip, br"])
def test_a_forwarded_path_keeps_its_coding(inside: Inside, coding: str) -> None:
    packed = gzip.compress(b'{"data": []}', mtime=0)
    with Upstream([answer(packed, headers={"Content-Encoding": coding})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
        assert (response.data, response.headers["Content-Encoding"]) == (packed, coding)
        assert response.headers["Content-Length"] == str(len(packed))
