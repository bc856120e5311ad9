"""A malformed HTTP request gets one JSON error that quotes none of it."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse

import pytest

from tests.faults.bench import Bench, Benches
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once

KEY = "Key-0123456789-abcdefghijklmnopqrstuvwxyz"
# Requests with a misplaced key: the bytes, the status, and the error.
LEAKING = {
    "no version": ("POST %s?key=KEY\r\nHost: x\r\n\r\n", 400, "invalid request line"),
    "blanks in the line": ("POST %s KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid http version"),
    "a lower-case method": ("post %s?KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid request method"),
    "an unknown version": ("POST %s?KEY HTTP/9.9\r\nHost: x\r\n\r\n", 400, "invalid http version"),
    "a long line": ("POST %s?" + "KEY" * 200 + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "limit request line"),
    "a long header": ("POST %s HTTP/1.1\r\nHost: x\r\nA: " + "KEY" * 300 + "\r\n\r\n", 431, "limit request headers"),
    "many headers": ("POST %s HTTP/1.1\r\nHost: x\r\n" + "A: KEY\r\n" * 90 + "\r\n", 431, "limit request headers"),
    "no colon": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization Bearer KEY\r\n\r\n", 400, "invalid header"),
    "a blank before the colon": ("POST %s HTTP/1.1\r\nHost: x\r\nx-api-KEY : KEY\r\n\r\n", 400, "invalid header name"),
    "a folded line": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization:\r\n Bearer KEY\r\n\r\n", 400, "obsolete folding"),
    "a coding": ("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: KEY\r\n\r\n", 501, "unsupported transfer coding"),
    "an unknown expectation": ("POST %s HTTP/1.1\r\nHost: x\r\nExpect: KEY\r\n\r\n", 417, "expectation failed"),
    "a key in a bad line": ("KEY\r\n\r\n", 400, "invalid request line"),
}
# Framings that are ambiguous or announce too much: the header, the start of the body, and the status.
FRAMINGS = {
    "a bare LF in the trailers": ("Transfer-Encoding: chunked", b"0\r\nA: b\n\n", 400),
    "no size": ("Transfer-Encoding: chunked", b"x\r\n", 400),
    "a negative size": ("Transfer-Encoding: chunked", b"-1\r\n", 400),
    "more data than the size": ("Transfer-Encoding: chunked", b"1\r\n{}\r\n", 400),
    "a length over the limit": ("Content-Length: 999999999999", b"{", 413),
    "too many digits": ("Content-Length: 9999999999999", b"{", 413),
    "not a number": ("Content-Length: 5a", b"{", 400),
    "a sign": ("Content-Length: +5", b"{", 400),
    "two equal lengths": ("Content-Length: 5\r\nContent-Length: 5", b"{", 400),
    "two lengths": ("Content-Length: 5\r\nContent-Length: 6", b"{", 400),
    "a list of lengths": ("Content-Length: 5, 5", b"{", 400),
    "length and coding": ("Content-Length: 5\r\nTransfer-Encoding: chunked", b"{", 400),
    "two codings": ("Transfer-Encoding: gzip, chunked", b"1\r\n{", 400),
    "identity": ("Transfer-Encoding: identity, chunked", b"1\r\n{", 400),
    "another coding": ("Transfer-Encoding: gzip, x", b"{", 501),
    "a space before the colon": ("Content-Length : 5", b"{", 400),
    "a space before the colon of the coding": ("Transfer-Encoding : chunked", b"1\r\n{", 400),
    "a folded line": ("Transfer-Encoding:\r\n chunked", b"1\r\n{", 400),
    "a bare LF in the head": ("Content-Length: 100000\n\n", b"{", 400),
    "a bare LF at the head's end": ("Content-Length: 100000\r\n\n", b"{", 400),
    "100-continue for too much": ("Expect: 100-continue\r\nContent-Length: 999999999", b"", 413),
    "another expectation": ("Expect: 200-ok\r\nContent-Length: 100000", b"{", 417),
    "two hosts": ("Host: y\r\nContent-Length: 2", b"{}", 400),
}
TARGETS = {
    "no host": "GET /health HTTP/1.1\r\n\r\n",
    "an absolute URL": "GET http://127.0.0.1/health HTTP/1.1\r\nHost: x\r\n\r\n",
    "another server": "GET http://evil.example/v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tunnel": "CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("refusals"), stack)()


def refused(bench: Bench, sent: bytes, *, closes: bool = True) -> tuple[int, bytes]:
    """Return status and body of the JSON error for these bytes. The connection is closed if `closes`."""
    with closing(socket.create_connection(("127.0.0.1", bench.proxy.port), PATIENCE)) as client:
        client.sendall(sent)
        with closing(HTTPResponse(client)) as response:
            response.begin()
            body = response.read()
            assert response.getheader("content-type") == "application/json", body
        assert not closes or (response.getheader("connection") == "close" and client.recv(1) == b"")
    assert bench.upstream.seen == []
    bench.settled()
    return response.status, body


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("bad", LEAKING.values(), ids=LEAKING)
def test_a_malformed_request_is_an_error_that_quotes_nothing(
    bench: Bench, bad: tuple[str, int, str], dialect: Dialect
) -> None:
    said, status, wrong = bad
    given, body = refused(bench, said.replace("%s", dialect.path).replace("KEY", KEY).encode())
    error = json.loads(body)["error"]
    assert (given, error["type"], error["code"], error["param"]) == (status, "invalid_request_error", status, None)
    assert KEY[:12].encode() not in body and f"{status} " in error["message"] and f"({wrong})" in error["message"]
    log = bench.proxy.log.read_text()
    assert "Invalid request from ip=127.0.0.1" in log and KEY[:12] not in log


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("bad", FRAMINGS.values(), ids=FRAMINGS)
def test_a_bad_framing_is_rejected_immediately(bench: Bench, dialect: Dialect, bad: tuple[str, bytes, int]) -> None:
    """The client sends no more data, and its time limit has not passed."""
    line, begun, status = bad
    given, body = refused(bench, f"POST {dialect.path} HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode() + begun)
    assert given in (status, dialect.status(status)), body
    if b"not valid HTTP" not in body:
        assert dialect.error(body, given).words


@pytest.mark.parametrize("sent", TARGETS.values(), ids=TARGETS)
def test_a_target_on_another_host_is_rejected(bench: Bench, sent: str) -> None:
    assert 400 <= refused(bench, sent.encode(), closes=False)[0] < 500
