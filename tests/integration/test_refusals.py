"""A malformed HTTP request gets one JSON error, and nothing of it is quoted."""

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
# Each with a key, its status, and what is wrong.
BAD = {
    "no version": ("POST %s?key=KEY\r\nHost: x\r\n\r\n", 400, "invalid request line"),
    "blanks in the line": ("POST %s KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid http version"),
    "a method in small letters": ("post %s?KEY HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid request method"),
    "an unknown version": ("POST %s?KEY HTTP/9.9\r\nHost: x\r\n\r\n", 400, "invalid http version"),
    "a long line": ("POST %s?" + "KEY" * 200 + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "limit request line"),
    "a long header": ("POST %s HTTP/1.1\r\nHost: x\r\nA: " + "KEY" * 300 + "\r\n\r\n", 431, "limit request headers"),
    "many headers": ("POST %s HTTP/1.1\r\nHost: x\r\n" + "A: KEY\r\n" * 90 + "\r\n", 431, "limit request headers"),
    "no colon": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization Bearer KEY\r\n\r\n", 400, "invalid header"),
    "a blank before the colon": ("POST %s HTTP/1.1\r\nHost: x\r\nx-api-KEY : KEY\r\n\r\n", 400, "invalid header name"),
    "a folded line": ("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization:\r\n Bearer KEY\r\n\r\n", 400, "obsolete folding"),
    "a coding": ("POST %s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: KEY\r\n\r\n", 501, "unsupported transfer coding"),
    "an odd expectation": ("POST %s HTTP/1.1\r\nHost: x\r\nExpect: KEY\r\n\r\n", 417, "expectation failed"),
    "a key in a bad line": ("KEY\r\n\r\n", 400, "invalid request line"),
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("refusals"), stack)()


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_malformed_request_is_a_json_error(bench: Bench, bad: tuple[str, int, str], dialect: Dialect) -> None:
    said, status, wrong = bad
    with closing(socket.create_connection(("127.0.0.1", bench.proxy.port), PATIENCE)) as client:
        client.sendall(said.replace("%s", dialect.path).replace("KEY", KEY).encode())
        with closing(HTTPResponse(client)) as response:
            response.begin()
            assert (response.status, response.getheader("content-type")) == (status, "application/json")
            body = response.read()
    error = json.loads(body)["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", status, None)
    assert KEY[:12].encode() not in body and f"{status} " in error["message"] and f"({wrong})" in error["message"]
    bench.proxy.health()
    log = bench.proxy.log.read_text()
    assert "Invalid request from ip=127.0.0.1" in log and KEY[:12] not in log
