"""Compressed answers although nobody asked for them: undone at every cut, within bounds, or an error."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.limits import MAX_ANSWER
from proxy.upstream.content_encoding import Decoder
from tests.conftest import Inside
from tests.support.helpers import all_cuts, received
from tests.support.messages_ask import ask
from tests.support.messages_checker import check_stream
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    finish,
    head,
    text,
)

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
EVENTS = [ROLE, text("So. "), text("you"), finish(), DONE]


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


WAYS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "two members": ("gzip", lambda data: gzip.compress(data[:9], mtime=0) + gzip.compress(data[9:], mtime=0)),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", raw_deflate),
    "stored": ("gzip", lambda data: gzip.compress(data, 0, mtime=0)),
}
EACH = pytest.mark.parametrize(("coding", "pack"), WAYS.values(), ids=WAYS)


def undone(cut: Iterator[bytes] | list[bytes]) -> bytes:
    decoder = Decoder()
    found = b"".join(piece for part in cut for piece in decoder.feed(part))
    decoder.finish()
    return found


@EACH
@pytest.mark.parametrize("data", [b"", b"a", b"So. " * 50, os.urandom(300)], ids=["nothing", "a", "text", "noise"])
def test_it_is_undone_at_every_cut(coding: str, pack: Callable[[bytes], bytes], data: bytes) -> None:
    for cut in all_cuts(pack(data), 10):
        assert undone(cut) == data


def test_what_is_large_comes_in_pieces() -> None:
    decoder = Decoder()
    data = os.urandom(1000) * 4000
    pieces = [*decoder.feed(gzip.compress(data, mtime=0))]
    assert b"".join(pieces) == data and max(map(len, pieces)) <= 256 * 1024


def test_a_bomb_is_given_up_before_it_is_large() -> None:
    packing = zlib.compressobj(wbits=31)
    bomb = b"".join(packing.compress(b"\0" * 2**20) for _ in range(MAX_ANSWER // 2**20 + 8))
    decoder, size = Decoder(), 0
    with pytest.raises(LimitExceeded):
        for piece in decoder.feed(bomb):
            size += len(piece)
            assert size <= MAX_ANSWER


@EACH
def test_what_breaks_off_is_none(coding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)))
    for end in (1, 5, 9, len(packed) - 1):
        with pytest.raises(UpstreamBroken):
            undone([packed[:end]])


@pytest.mark.parametrize(
    "data", [b"no gzip at all", b"\x1f\x8bgarbage", b"\x78\x9cgarbage", gzip.compress(b"a", mtime=0) + b"b"]
)
def test_what_is_no_such_coding_is_an_error(data: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        undone([data])


@pytest.mark.parametrize("end", [b"\0", b"\0" * 1000, b"\0\0" + gzip.compress(b"", mtime=0) + b"\0"])
def test_zeros_that_fill_a_block_are_passed_over(end: bytes) -> None:
    for cut in all_cuts(gzip.compress(b"So.", mtime=0) + end, 20):
        assert undone(cut) == b"So."


@pytest.mark.parametrize("end", [b"x", b"\0x", b"garbage", b"\0\0\x1f\x8bgarbage", b"\x1f"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_what_is_none_behind_the_end_is_an_error_of_the_server(inside: Inside, path: str, end: bytes) -> None:
    for cut in all_cuts(gzip.compress(b"So.", mtime=0) + end, 20):
        with pytest.raises(UpstreamBroken):
            undone(cut)
    packed = gzip.compress(json.dumps(completion("So.")).encode(), mtime=0)
    with Upstream([answer(packed + end, headers={"Content-Encoding": "gzip"})]) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).post(path, json=chat(stream=False) if path == CHAT else ask())
        assert response.status_code == 502 and b"compressed answer" in response.data


ERROR = json.dumps({"error": {"message": "engine died", "type": "x", "code": 500}}).encode()


@EACH
@pytest.mark.parametrize("given", ["{}", "identity, {}", "{}, identity"])
def test_an_error_of_a_path_that_passes_can_be_read(
    inside: Inside, coding: str, pack: Callable[[bytes], bytes], given: str
) -> None:
    with Upstream([answer(pack(ERROR), 500, {"Content-Encoding": given.format(coding)})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
    assert (response.status_code, response.data) == (500, ERROR)
    assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip, gzip"])
def test_an_error_of_a_path_that_passes_that_nobody_here_can_read_is_told(inside: Inside, coding: str) -> None:
    """What is in it may be a key."""
    with Upstream([answer(b"abc", 429, {"Content-Encoding": coding, "Retry-After": "7"})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert "429 Too Many Requests" in response.get_json()["error"]["message"]
    assert "Content-Encoding" not in response.headers


def streamed(coding: str, packed: bytes, step: int = 7) -> list[Any]:
    opening = SSE.replace(b"\r\n\r\n", f"\r\nContent-Encoding: {coding}\r\n\r\n".encode())
    return [opening, *(chunked(packed[at : at + step]) for at in range(0, len(packed), step)), LAST]


@EACH
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_stream_is_read(inside: Inside, path: str, coding: str, pack: Callable[[bytes], bytes]) -> None:
    with Upstream(streamed(coding, pack(b"".join(EVENTS)))) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).post(path, json=chat() if path == CHAT else ask(stream=True))
        assert response.status_code == 200 and "Content-Encoding" not in response.headers
        if path == CHAT:
            assert response.data == b"".join(EVENTS)
            assert received(response.data)[0].text == "So. you"
        else:
            assert b'"So. "' in response.data and b"message_stop" in response.data


def test_each_event_leaves_when_it_is_here(inside: Inside) -> None:
    """A server that flushes behind each event is not waited for."""
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


@EACH
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_a_whole_answer_is_read(inside: Inside, path: str, coding: str, pack: Callable[[bytes], bytes]) -> None:
    body = json.dumps(completion("So.")).encode()
    with Upstream([answer(pack(body), headers={"Content-Encoding": coding})]) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).post(path, json=chat(stream=False) if path == CHAT else ask())
        assert response.status_code == 200 and b"So." in response.data
        assert "Content-Encoding" not in response.headers


@EACH
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_error_is_read(inside: Inside, path: str, coding: str, pack: Callable[[bytes], bytes]) -> None:
    body = json.dumps({"error": {"message": "engine died", "type": "x", "code": 500}}).encode()
    with Upstream([answer(pack(body), 500, {"Content-Encoding": coding})]) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).post(path, json=chat(stream=False) if path == CHAT else ask())
        assert response.status_code == 500 and b"engine died" in response.data


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "compress"])
def test_a_coding_that_is_not_known_is_an_error_that_names_it(inside: Inside, coding: str) -> None:
    with Upstream([answer(b"abc", headers={"Content-Encoding": coding})]) as server:
        response = inside(server.url).post(CHAT, json=chat(stream=False))
        assert response.status_code == 502 and coding in response.get_json()["error"]["message"]


def test_an_error_in_a_coding_that_is_not_known_keeps_its_status(inside: Inside) -> None:
    with Upstream([answer(b"abc", 429, {"Content-Encoding": "br", "Retry-After": "7"})]) as server:
        response = inside(server.url).post(CHAT, json=chat(stream=False))
        assert (response.status_code, response.headers["Retry-After"]) == (429, "7")


@pytest.mark.parametrize("coding", ["gzip", "br", "identity", "gzip, br"])
def test_a_path_that_passes_keeps_its_coding(inside: Inside, coding: str) -> None:
    packed = gzip.compress(b'{"data": []}', mtime=0)
    with Upstream([answer(packed, headers={"Content-Encoding": coding})]) as server:
        response = inside(server.url).post("/v1/embeddings", json={})
        assert (response.data, response.headers["Content-Encoding"]) == (packed, coding)
        assert response.headers["Content-Length"] == str(len(packed))


def test_an_empty_body_is_none_whatever_its_coding(inside: Inside) -> None:
    with Upstream([head(503, {"Content-Encoding": "gzip", "Content-Length": "0"})]) as server:
        assert inside(server.url).post(CHAT, json=chat()).status_code == 503


def test_a_messages_stream_of_a_compressed_one_is_whole(inside: Inside) -> None:
    with Upstream(streamed("gzip", gzip.compress(b"".join(EVENTS)), 3)) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        check_stream(inside(server.url).post(MESSAGES, json=ask(stream=True)).data)
