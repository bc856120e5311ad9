"""The wait for an answer when a driver polls the descriptors: no step ever blocks."""

from __future__ import annotations

import time

import pytest

from proxy.errors import ClientGone
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import UpstreamCall
from tests.support.socketless import answer_with, bytes_came

BODY = b"x" * 40_000


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def driven(timeouts: Timeouts) -> AnswerWait:
    wait = AnswerWait(None, timeouts)
    wait.drive()
    return wait


def begun() -> UpstreamCall:
    """Return an answer whose head and first part have arrived."""
    return bytes_came(b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\npart", stays=True)


def test_received_bytes_prevent_a_timeout(clock: Clock) -> None:
    wait = driven(Timeouts(5))
    with begun() as call:
        parts = wait.receive(call)
        assert next(parts) is None
        wait.readable()
        assert next(parts) == b"part"
        assert next(parts) is None
        clock.now += 9
        wait.readable()
        assert next(parts) is None and wait.parked


def test_an_overdue_end_of_a_body_is_not_awaited(clock: Clock) -> None:
    wait = driven(Timeouts(50))
    with answer_with(200, BODY) as call:
        parts = wait.receive(call)
        assert next(parts) is None
        wait.expect_end(1.0)
        clock.now += 1.0
        assert [*parts] == []


def test_a_client_that_left_stays_gone_when_the_worker_ends() -> None:
    wait = driven(Timeouts(10))
    wait.client_left()
    wait.worker_ends()
    with answer_with(200, BODY) as call, pytest.raises(ClientGone):
        next(wait.receive(call))


def test_bytes_held_in_the_lane_do_not_replace_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has received nothing, although the model server was not silent."""
    wait = driven(Timeouts(10, heartbeat=5))
    with answer_with(200, BODY) as call:
        next(wait.receive(call))
        later = time.monotonic() + 6
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert wait.passed(b"") == b"" and wait.heartbeat_due
        assert wait.passed(b"a") == b"a" and not wait.heartbeat_due
