"""How long events took, by a clock of the test's own: first events, gaps, and what the proxy adds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from proxy.upstream import answer_wait
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import UpstreamCall
from proxy.upstream.event_times import EACH, GAP_BOUNDS, Durations, EventTimes


class Clock:
    """A clock that stands still until it is set."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Call:
    """An answer whose parts are given one by one; "" ends it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.status = 200
        self.complete = False
        self.more = False
        self._fd = os.eventfd(0)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        os.close(self._fd)

    def receive(self, most: int = 0) -> bytes:
        data = self.parts.pop(0)
        self.complete = not data
        return data


class Reply:
    """A reply that is driven as the pump drives it, by a clock that the test sets."""

    def __init__(self, clock: Clock, began: float, *, whole: bool = False) -> None:
        self.clock = clock
        self.times = EventTimes()
        timeouts = Timeouts(600, until_complete=whole)
        self.wait = AnswerWait(None, timeouts, times=self.times, began=began)
        self.wait.drive()
        self.call = Call()
        self.parts: Iterator[bytes | None] = iter(())

    def asks(self) -> None:
        self.wait.start_over()
        self.parts = self.wait.receive(cast(UpstreamCall, self.call))
        assert next(self.parts) is None and self.wait.parked

    def comes(self, at: float, taken: float) -> None:
        """Bytes are seen at one moment, and taken by the generator at another."""
        self.clock.now = taken
        self.wait.readable(at)
        self.call.parts.append(b"data")
        assert next(self.parts) == b"data"

    def leaves(self, at: float) -> None:
        """What was made of it goes to the client; then the next bytes are waited for."""
        self.clock.now = at
        self.wait.answers()
        assert next(self.parts) is None and self.wait.parked

    def passes(self, came: float, left: float) -> None:
        """Bytes take the lane."""
        self.clock.now = left
        self.wait.lane = lambda: self.wait.leaves(b"data")
        assert self.wait.pass_by(came) == b"data"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own = Clock()
    monkeypatch.setattr(answer_wait, "time", SimpleNamespace(monotonic=own.monotonic))
    return own


@pytest.fixture
def reply(clock: Clock) -> Iterator[Reply]:
    one = Reply(clock, began=998.0)
    yield one
    one.call.close()


def seen(durations: Durations) -> list[float]:
    """The upper ends of the buckets into which something fell, as often as it did."""
    ends = (*durations.bounds, float("inf"))
    return [end for end, count in zip(ends, durations.counts or [0] * len(ends), strict=True) for _ in range(count)]


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    durations = Durations(GAP_BOUNDS)
    for seconds in (0.0, 0.001, 0.0011, 60.0, 61.0, -1.0):
        durations.add(seconds)
    assert seen(durations) == [0.001, 0.001, 0.001, 0.0025, 60.0, float("inf")]
    assert durations.total == pytest.approx(121.0021)


def test_of_the_first_event_both_parts_are_told_once(reply: Reply) -> None:
    """Read at 998, up at 1000, the first event at 1004, with the client at 1004.5: 4 s and 2.5 s."""
    reply.asks()
    reply.comes(1004.0, taken=1004.1)
    reply.leaves(1004.5)
    reply.comes(1005.0, taken=1005.0)
    reply.leaves(1005.0)
    assert seen(reply.times.first) == [5.0] and reply.times.first.total == pytest.approx(4.0)
    assert seen(reply.times.added_first) == [2.5] and reply.times.added_first.total == pytest.approx(2.5)


def test_a_second_try_is_added_by_the_proxy(reply: Reply) -> None:
    reply.asks()
    reply.comes(1004.0, taken=1004.0)
    reply.clock.now = 1010.0
    reply.asks()
    reply.comes(1011.0, taken=1011.0)
    reply.leaves(1011.0)
    assert reply.times.first.total == pytest.approx(1.0)
    assert reply.times.added_first.total == pytest.approx(12.0)


def test_what_never_reaches_the_client_has_no_first_event(reply: Reply) -> None:
    reply.asks()
    reply.wait.answers()
    assert seen(reply.times.first) == seen(reply.times.added_first) == []


def test_gaps_are_between_arrivals_however_long_the_reader_takes(reply: Reply) -> None:
    reply.asks()
    reply.comes(1001.0, taken=1001.0)
    reply.leaves(1001.0)
    reply.comes(1002.0, taken=1007.0)
    reply.leaves(1009.0)
    assert reply.times.gap.total == pytest.approx(1.0) and seen(reply.times.gap) == [1.0]
    assert reply.times.added.total == pytest.approx(7.0) and seen(reply.times.added) == [10.0]


def test_one_in_so_many_gaps_is_taken_by_the_lane_and_beside_it(reply: Reply) -> None:
    reply.asks()
    reply.comes(1001.0, taken=1001.0)
    reply.leaves(1001.0)
    for number in range(1, 2 * EACH + 1):
        reply.passes(1001.0 + number, 1001.002 + number)
    assert seen(reply.times.gap) == [1.0, 1.0]
    assert seen(reply.times.added) == [0.0025, 0.0025]
    reply.comes(1100.0, taken=1100.0)
    assert seen(reply.times.gap)[2:] == [float("inf")]


def test_what_was_left_of_an_arrival_comes_when_it_is_taken(reply: Reply) -> None:
    """A step takes so much; of the rest no descriptor tells."""
    reply.asks()
    reply.comes(1001.0, taken=1001.0)
    reply.call.more, reply.clock.now = True, 1001.3
    reply.call.parts.append(b"more")
    assert next(reply.parts) == b"more"
    assert reply.times.gap.total == pytest.approx(0.3)


def test_a_whole_answer_has_no_events(clock: Clock) -> None:
    one = Reply(clock, began=1000.0, whole=True)
    one.asks()
    for at in (1001.0, 1002.0, 1003.0):
        one.comes(at, taken=at)
        one.leaves(at)
    one.call.close()
    assert not any(seen(each) for each in (one.times.first, one.times.gap, one.times.added))


def test_without_a_driver_an_arrival_is_when_the_poll_has_told_of_it(clock: Clock) -> None:
    one = Reply(clock, began=1000.0)
    one.wait.let_go()
    os.eventfd_write(one.call.fileno(), 1)
    one.wait.start_over()
    one.call.parts = [b"a", b"b", b""]
    for part in one.wait.receive(cast(UpstreamCall, one.call)):
        assert part is not None
        one.wait.answers()
        clock.now += 2.0
    one.call.close()
    assert seen(one.times.gap) == [2.5] and one.times.gap.total == pytest.approx(2.0)


def test_a_pass_before_anything_was_taken_is_counted_as_nothing_odd(clock: Clock) -> None:
    times: Any = EventTimes()
    wait = AnswerWait(None, Timeouts(1), times=times)
    wait.leaves(b"x")
    assert times.gap.total == 0.0
