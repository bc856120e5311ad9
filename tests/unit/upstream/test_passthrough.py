"""Paths that pass as they are: status, headers, and the very bytes, whatever the answer is."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamBroken
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import UpstreamCall
from proxy.upstream.responses import PassthroughResponse, pass_through
from tests.support.socketless import answer_with, bytes_came

BODY = b'{"b": 1,\n "a": NaN, "\xff"'


def passed(call: UpstreamCall) -> PassthroughResponse:
    return pass_through(call, AnswerWait(None, Timeouts(10)))


@pytest.mark.parametrize("status", [200, 201, 302, 404, 500, 599])
def test_status_and_body_pass_as_they_are(status: int) -> None:
    with answer_with(status, BODY, {"Content-Type": "text/plain", "Server": "uvicorn"}) as call:
        made = passed(call)
        assert (made.status, made.length, made.headers) == (status, len(BODY), (("Content-Type", "text/plain"),))
        assert b"".join(made.parts) == BODY


@pytest.mark.parametrize("status", [99, 199, 600, 999])
def test_a_status_that_is_none_is_an_upstream_that_broke(status: int) -> None:
    """No server may send it on: gunicorn would refuse it, and the request never end."""
    line = b"HTTP/1.1 %03d x\r\nContent-Length: 0\r\n\r\n" % status
    with bytes_came(line) as call, pytest.raises(UpstreamBroken):
        passed(call)


def test_an_answer_without_a_body_has_no_parts() -> None:
    with bytes_came(b"HTTP/1.1 204 No Content\r\n\r\n") as call:
        made = passed(call)
        assert (made.status, made.length, [*made.parts]) == (204, None, [])


def test_what_breaks_off_raises_after_what_came() -> None:
    with bytes_came(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf") as call:
        made, got = passed(call), b""
        with pytest.raises(UpstreamBroken):
            for part in made.parts:
                got += part
    assert got == b"half"


@pytest.mark.parametrize("came", [b"", b"HTTP/1.1 2", b"no HTTP\r\n\r\n"], ids=["nothing", "half a head", "no HTTP"])
def test_what_fails_before_the_head_raises_at_once(came: bytes) -> None:
    with bytes_came(came) as call, pytest.raises(UpstreamBroken):
        passed(call)
