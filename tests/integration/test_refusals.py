"""What is no request that could be read: told in the words of the path's API, and nothing of it is quoted."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from typing import Any

import pytest

from tests.faults.bench import Bench, Benches
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once

KEY = "Key-0123456789-abcdefghijklmnopqrstuvwxyz"
# Each with a key, its status, and a word of what it must say.
BAD = {
    "no version": ("POST %s?key=KEY\r\nHost: x\r\n\r\n", 400, "first line"),
    "blanks in the line": ("POST %s KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, ""),
    "a method in small letters": ("post %s?KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, "method"),
    "an unknown version": ("POST %s?KEY HTTP/9.9\r\nHost: x\r\n\r\n", 400, ""),
    "a long line": ("POST %s?" + "KEY" * 200 + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "first line is too long"),
    "a long header": ("POST %s HTTP/1.1\r\nHost: x\r\nA: " + "KEY" * 300 + "\r\n\r\n", 431, "headers"),
    "many headers": ("POST %s HTTP/1.1\r\nHost: x\r\n" + "A: KEY\r\n" * 90 + "\r\n", 431, "headers"),
    "a long head": ("POST %s HTTP/1.1\r\nHost: x\r\n" + "A: KEY\r\n" * 900, 431, "max_request_head"),
    "no colon": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization Bearer KEY\r\n\r\n", 400, "header"),
    "a blank before the colon": ("POST %s HTTP/1.1\r\nHost: x\r\nx-api-KEY : KEY\r\n\r\n", 400, "header"),
    "a folded line": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization:\r\n Bearer KEY\r\n\r\n", 400, "next line"),
    "an odd coding": ("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: KEY\r\n\r\n", 501, "Transfer-Encoding"),
    "an odd expectation": ("POST %s HTTP/1.1\r\nHost: x\r\nExpect: KEY\r\nContent-Length: 2\r\n\r\n{}", 417, "Expect"),
    "a key in a bad line": ("KEY\r\n\r\n", 400, ""),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("refusals"), stack)()


def asked(port: int, said: str) -> tuple[int, Any, bytes]:
    """The status, the type and the body of the answer."""
    with closing(socket.create_connection(("127.0.0.1", port), PATIENCE)) as client:
        client.sendall(said.encode())
        with closing(HTTPResponse(client)) as response:
            response.begin()
            return response.status, response.getheader("content-type"), response.read()


@pytest.mark.parametrize("way", ["", "/for/pi"])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_it_is_told_in_the_words_of_its_path(
    bench: Bench, bad: tuple[str, int, str], dialect: Dialect, way: str
) -> None:
    said, status, word = bad
    got, kind, body = asked(bench.proxy.port, said.replace("%s", way + dialect.path).replace("KEY", KEY))
    if "%s" not in said:
        dialect = DIALECTS["chat"]
    assert (got, kind) == (dialect.status(status), "application/json")
    assert KEY[:12].encode() not in body
    told = dialect.error(body, got)
    assert told.error and word in told.words and ";" in told.words


@pytest.mark.parametrize("path", ["/", "/v1/embeddings", "/nothing", "/v1/messagesx"])
def test_every_other_path_gets_the_error_object_of_openai(bench: Bench, path: str) -> None:
    status, _, body = asked(bench.proxy.port, f"get {path} HTTP/1.1\r\nHost: x\r\n\r\n")
    error = json.loads(body)["error"]
    assert (status, error["type"], error["code"], error["param"]) == (400, "invalid_request_error", 400, None)


# With `anthropic-version`: the form of the errors, as the same path has it where the request can be read.
BY_HEADER = {
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "messages",
    "/v1/models": "messages",
    "/v1/models/a/b": "messages",
    "/for/pi/v1/models": "messages",
    "/nothing": "messages",
    "/": "messages",
    "/v1/chat/completions": "chat",
    "/v1/chat/completions?x=/v1/messages": "chat",
    "/for/pi/v1/chat/completions": "chat",
    "/v1/embeddings": "chat",
    "/v1/completions": "chat",
    "/tokenize": "chat",
    "/detokenize": "chat",
}


@pytest.mark.parametrize("header", ["anthropic-version: 2023-06-01", "Anthropic-Version:2023-06-01"])
@pytest.mark.parametrize("path", BY_HEADER)
@pytest.mark.parametrize("method", ["get", "GET"])
def test_where_the_path_decides_nothing_the_header_does(bench: Bench, path: str, header: str, method: str) -> None:
    """Of what cannot be read, and of what can but is refused: without a Host there is no telling whose it is."""
    status, _, body = asked(bench.proxy.port, f"{method} {path} HTTP/1.1\r\n{header}\r\n\r\n")
    assert status == 400
    assert DIALECTS[BY_HEADER[path]].error(body, 400).error


@pytest.mark.parametrize("said", ["nothing\r\n", "GET\r\n", "GET /v1/models\r\n", "\x01 / HTTP/1.1\r\n"])
def test_a_line_that_names_no_path_leaves_it_to_the_header(bench: Bench, said: str) -> None:
    for header, dialect in (("anthropic-version: 1", "messages"), ("x-anthropic-version: 1", "chat")):
        status, _, body = asked(bench.proxy.port, f"{said}Host: x\r\n{header}\r\n\r\n")
        assert (status, bool(DIALECTS[dialect].error(body, 400).error)) == (400, True)




def test_the_log_says_it_without_the_key(bench: Bench) -> None:
    asked(bench.proxy.port, f"POST /{KEY} HTTP/9.9\r\nHost: x\r\n\r\n")
    bench.proxy.health()
    log = bench.proxy.log.read_text()
    assert "Invalid request from ip=127.0.0.1" in log and KEY[:12] not in log
