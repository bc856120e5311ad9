"""The wait for an answer under a driver, which sees to the descriptors itself: no step of it ever blocks."""

from __future__ import annotations

import time

import pytest

from proxy.errors import ClientGone, Unavailable, UpstreamTimeout
from proxy.upstream.answer_wait import NEVER, AnswerWait, Timeouts
from proxy.upstream.client import UpstreamCall
from tests.support.socketless import answer_with, bytes_came

BODY = b"x" * 40_000


class Clock:
    """A clock that goes as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


class Turn:
    """Whose turn it is to compute."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def take(self) -> None:
        self.said.append("take")

    def give_back(self) -> None:
        self.said.append("give back")


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def driven(timeouts: Timeouts) -> AnswerWait:
    wait = AnswerWait(None, timeouts)
    wait.drive()
    return wait


def test_where_nothing_has_come_it_is_parked_until_it_is_told() -> None:
    wait = driven(Timeouts(10))
    with answer_with(200, BODY) as call:
        parts = wait.receive(call)
        assert next(parts) is None
        assert wait.parked and wait.descriptor == call.fileno() and not wait.may_pass
        wait.readable()
        first = next(parts)
        assert first and not wait.parked


def test_a_step_takes_no_more_than_a_share_so_that_other_streams_have_theirs() -> None:
    wait = driven(Timeouts(10))
    with answer_with(200, BODY) as call:
        given: list[bytes] = []
        for part in wait.receive(call):
            if part is None:
                wait.readable()
            else:
                given.append(part)
        assert b"".join(given) == BODY and max(map(len, given)) <= 16 * 1024 and len(given) > 2


@pytest.mark.parametrize("stage", ["on_a_thread", "on_a_long_step"])
def test_a_driver_is_told_that_the_next_step_is_for_a_thread(stage: str) -> None:
    wait = driven(Timeouts(10))
    steps = getattr(wait, stage)()
    assert next(steps) == b""
    assert (wait.blocks, wait.computes) == (stage == "on_a_thread", stage == "on_a_long_step")
    assert [*steps] == [] and not wait.blocks and not wait.computes


def test_without_a_driver_there_is_nobody_to_tell() -> None:
    assert [*AnswerWait(None, Timeouts(10)).on_a_thread()] == []


def test_the_deadline_is_that_which_comes_first(clock: Clock) -> None:
    wait = driven(Timeouts(20, heartbeat=15, total=100))
    assert wait.deadline == 1015.0
    wait.alarm(1004.0)
    assert wait.deadline == 1004.0
    wait.expect_end(2.0)
    assert wait.deadline == 1002.0
    wait.expect_end(9.0)
    assert wait.deadline == 1002.0
    wait.start_over()
    assert wait.deadline == 1015.0
    clock.now = 1008.0
    wait.wrote()
    assert wait.deadline == 1023.0
    assert driven(Timeouts(20)).deadline == NEVER


def test_a_heartbeat_is_due_when_the_client_has_had_nothing_for_the_interval(clock: Clock) -> None:
    wait = driven(Timeouts(30, heartbeat=15))
    clock.now = 1014.9
    assert not wait.heartbeat_due
    clock.now = 1015.0
    assert wait.heartbeat_due
    wait.wrote()
    assert not wait.heartbeat_due
    clock.now = 9999.0
    assert not driven(Timeouts(30)).heartbeat_due


@pytest.mark.parametrize(
    ("timeouts", "seconds", "words"),
    [
        (Timeouts(5), 5, r"did not answer within 5 s \(idle_timeout\)"),
        (Timeouts(50, total=7), 7, r"longer than 7 s \(total_timeout\)"),
    ],
)
def test_a_time_that_is_over_is_a_timeout_that_names_its_limit(
    clock: Clock, timeouts: Timeouts, seconds: int, words: str
) -> None:
    wait = driven(timeouts)
    with answer_with(200, BODY) as call:
        parts = wait.receive(call)
        assert next(parts) is None
        clock.now += seconds - 0.1
        assert next(parts) is None
        clock.now += 0.1
        with pytest.raises(UpstreamTimeout, match=words):
            next(parts)


def begun() -> UpstreamCall:
    """An answer of which the head and a part have come."""
    return bytes_came(b"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\npart", stays=True)


def test_silence_after_the_head_is_a_timeout(clock: Clock) -> None:
    wait = driven(Timeouts(5))
    with begun() as call:
        parts = wait.receive(call)
        assert next(parts) is None
        wait.readable()
        assert next(parts) == b"part"
        assert next(parts) is None and wait.parked
        clock.now += 5
        with pytest.raises(UpstreamTimeout, match=r"silent for 5 s \(idle_timeout\)"):
            next(parts)


def test_bytes_that_have_come_after_all_excuse_a_silence(clock: Clock) -> None:
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


def test_a_body_that_should_have_ended_is_not_waited_for(clock: Clock) -> None:
    wait = driven(Timeouts(50))
    with answer_with(200, BODY) as call:
        parts = wait.receive(call)
        assert next(parts) is None
        wait.expect_end(1.0)
        clock.now += 1.0
        assert [*parts] == []


@pytest.mark.parametrize(("tell", "error"), [("client_left", ClientGone), ("worker_ends", Unavailable)])
def test_what_the_driver_has_seen_ends_the_wait(tell: str, error: type[Exception]) -> None:
    wait = driven(Timeouts(10))
    with answer_with(200, BODY) as call:
        parts = wait.receive(call)
        assert next(parts) is None
        getattr(wait, tell)()
        with pytest.raises(error):
            next(parts)


def test_a_client_that_left_does_not_come_back_as_the_worker_ends() -> None:
    wait = driven(Timeouts(10))
    wait.client_left()
    wait.worker_ends()
    with answer_with(200, BODY) as call, pytest.raises(ClientGone):
        next(wait.receive(call))


def test_what_leaves_by_the_lane_is_reported_and_unchanged() -> None:
    wait = driven(Timeouts(10, heartbeat=15))
    assert wait.leaves(b"a") == b"a"
    reported: list[bytes] = []
    wait.on_lane = reported.append
    assert wait.leaves(b"b") == b"b" and reported == [b"b"]


def test_what_waits_in_the_lane_is_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client has seen nothing of it, but the model server was not silent."""
    wait = driven(Timeouts(10, heartbeat=5))
    with answer_with(200, BODY) as call:
        next(wait.receive(call))
        later = time.monotonic() + 6
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert wait.keeps_back() == b"" and wait.heartbeat_due
        assert wait.leaves(b"a") == b"a" and not wait.heartbeat_due


def test_only_a_parked_wait_with_a_lane_may_pass() -> None:
    wait = driven(Timeouts(10))
    wait.on_lane = len
    with answer_with(200, BODY) as call:
        assert not wait.may_pass
        next(wait.receive(call))
        assert wait.may_pass


def test_the_turn_is_given_back_while_it_blocks() -> None:
    turn = Turn()
    wait = AnswerWait(None, Timeouts(10), turn=turn)
    wait.start_over()
    waiting = wait.connecting()
    assert turn.said == [] and waiting.seconds == NEVER
    waiting.begins()
    assert turn.said == ["give back"]
    with answer_with(200, b"a") as call:
        assert [*wait.receive(call)] == [b"a"]
    assert turn.said == ["give back", *["give back", "take"] * ((len(turn.said) - 1) // 2)] and len(turn.said) > 1
    AnswerWait(None, Timeouts(10)).connecting().begins()


def test_what_the_lane_does_not_take_closes_it_and_needs_a_step() -> None:
    wait = driven(Timeouts(10))
    assert wait.pass_by() is None
    given = [None, b"", b"data"]
    wait.lane = given.pop
    assert wait.pass_by() == b"data"
    assert wait.pass_by() == b""
    assert wait.lane is not None
    assert wait.pass_by() is None
    assert wait.lane is None
