"""Paths that pass as they are: status, the headers that mean something, and the very bytes, as they come."""

from __future__ import annotations

import time

import pytest

from proxy.errors import UpstreamBroken, UpstreamTimeout
from proxy.pump import Patience, Pump
from proxy.relay import Relayed, relay
from proxy.upstream import Target
from proxy.upstream import Upstream as Caller
from tests.scripted import DONE, LAST, SSE, Act, Upstream, answer, chunked, text

PATIENT = Patience(10, 10)


def relayed(server: Upstream, patience: Patience = PATIENT) -> Relayed:
    return relay(Caller(Target(server.url)).open("POST", "/x", {}, b"{}"), Pump(None, patience))


@pytest.mark.parametrize("status", [200, 201, 302, 404, 500])
def test_status_and_body_pass_as_they_are(status: int) -> None:
    body = b'{"b": 1,\n "a": NaN, "\xff"'
    with Upstream([answer(body, status)]) as server:
        passed = relayed(server)
        assert (passed.status, passed.length) == (status, str(len(body)))
        assert b"".join(passed.parts) == body


def test_only_headers_that_mean_something_behind_a_proxy_pass() -> None:
    """Header policy, down."""
    kept = {"Content-Type": "text/plain", "Retry-After": "3", "X-Request-Id": "u", "X-Should-Retry": "false"}
    dropped = {"Set-Cookie": "a=b", "Server": "uvicorn", "Date": "now", "Connection": "x-foo", "X-Foo": "1"}
    with Upstream([answer(b"", headers={**kept, **dropped})]) as server:
        passed = relayed(server)
        assert dict(passed.headers) == kept
        assert b"".join(passed.parts) == b""


def test_the_parts_leave_as_they_come() -> None:
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE, chunked(text("a")), gate, chunked(text("b")) + chunked(DONE), LAST])
        passed = relayed(server)
        first = b""
        while first != text("a"):
            first += next(passed.parts)
        gate.open()
        assert b"".join(passed.parts) == text("b") + DONE


def test_what_breaks_off_raises_after_what_came() -> None:
    with Upstream([answer(b"half", headers={"Content-Length": "8"})]) as server:
        passed = relayed(server)
        got = b""
        with pytest.raises(UpstreamBroken):
            for part in passed.parts:
                got += part
        assert got == b"half"


@pytest.mark.parametrize("action,error", [(Act.CLOSE, UpstreamBroken), (Act.EXPECT_CLOSE, UpstreamTimeout)])
def test_what_fails_before_the_head_raises_at_once_and_closes(action: Act, error: type[Exception]) -> None:
    with Upstream([action]) as server:
        with pytest.raises(error):
            relayed(server, Patience(0.1, 10))
        if action is Act.EXPECT_CLOSE:
            assert server.seen[0].gone_after(time.monotonic())


@pytest.mark.parametrize("begun", [True, False])
def test_closing_the_parts_closes_the_upstream_whether_they_were_begun_or_not(begun: bool) -> None:
    """K1: a client that leaves right after the head leaves a generator that never ran."""
    with Upstream([SSE + chunked(text("a")), Act.EXPECT_CLOSE]) as server:
        passed = relayed(server)
        if begun:
            next(passed.parts)
        passed.parts.close()
        assert server.seen[0].gone_after(time.monotonic())
