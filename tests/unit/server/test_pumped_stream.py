"""A stream on the pump, without a socket: its states, what its client has still to take, and a client that takes
nothing."""

from __future__ import annotations

import pytest

from proxy.server.pumped_stream import TRANSITIONS, Ending, OutBuffer, PumpedStream, Stall, State


def stream() -> PumpedStream:
    return PumpedStream(iter(()), None, None, lambda whole: None, chunked=True, idle=30.0)


def test_a_part_is_a_chunk_and_the_end_is_one_too() -> None:
    out = OutBuffer(chunked=True)
    assert not out
    out.add(b"0123456789abcdef")
    assert bytes(out.pending) == b"10\r\n0123456789abcdef\r\n" and out
    out.sent(len(out.pending))
    assert not out
    out.end()
    assert bytes(out.pending) == b"0\r\n\r\n"


def test_a_client_that_knows_no_chunks_gets_the_bytes() -> None:
    out = OutBuffer(chunked=False)
    out.add(b"So")
    assert bytes(out.pending) == b"So"
    out.sent(2)
    out.end()
    assert not out


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_what_is_taken_bit_by_bit_is_all_that_was_given(step: int) -> None:
    out, taken = OutBuffer(chunked=True), b""
    out.add(b"word " * 20)
    while out:
        taken += bytes(out.pending[:step])
        out.sent(min(step, len(out.pending)))
        if len(taken) == step:
            out.end()  # it may be said while something is pending
    assert taken == b"64\r\n" + b"word " * 20 + b"\r\n0\r\n\r\n"


def test_what_nobody_takes_is_forgotten() -> None:
    out = OutBuffer(chunked=True)
    out.add(b"So")
    out.clear()
    assert not out


def test_a_client_that_takes_something_now_and_then_is_none_that_takes_nothing() -> None:
    stall = Stall(30.0)
    stall.begin(1000, 100.0)
    assert not stall.lasts(1000, 129.0)
    assert not stall.lasts(999, 131.0)  # one byte counts
    assert not stall.lasts(999, 160.0)
    assert stall.lasts(999, 161.0)


def test_what_takes_nothing_is_seen_at_the_idle_time() -> None:
    stall = Stall(5.0)
    stall.begin(10, 0.0)
    assert not stall.lasts(10, 4.9) and stall.lasts(10, 5.0)


def test_every_state_has_its_transitions_and_all_lead_to_the_end() -> None:
    assert set(TRANSITIONS) == set(State)
    assert not TRANSITIONS[State.ENDED]
    for state in State:
        reached, todo = set[State](), [state]
        while todo:
            new = set(TRANSITIONS[todo.pop()]) - reached
            reached |= new
            todo += new
        assert State.ENDED in reached or state is State.ENDED


LEGAL = [(before, after) for before in State for after in State if after in TRANSITIONS[before]]
ILLEGAL = [(before, after) for before in State for after in State if after not in TRANSITIONS[before]]


@pytest.mark.parametrize(("before", "after"), LEGAL)
def test_a_stream_goes_where_its_table_says(before: State, after: State) -> None:
    one = stream()
    one.state = before
    one.move(after)
    assert one.state is after


@pytest.mark.parametrize(("before", "after"), ILLEGAL)
def test_what_may_not_follow_is_a_defect(before: State, after: State) -> None:
    one = stream()
    one.state = before
    with pytest.raises(RuntimeError, match="cannot change"):
        one.move(after)
    assert one.state is before


def test_only_a_stream_whose_steps_are_made_goes_to_a_thread_or_comes_to_its_end() -> None:
    for after in (State.ON_THREAD, State.FINISHING):
        assert [before for before in State if after in TRANSITIONS[before]] == [State.RUNNING]
    assert len(ILLEGAL) > len(LEGAL)


def test_a_stream_begins_ready_and_whole() -> None:
    one = stream()
    assert (one.state, one.ending) == (State.READY, Ending.WHOLE)
    assert (one.is_whole, one.is_gone, one.is_broken) == (True, False, False)


def test_the_first_thing_that_goes_wrong_is_how_a_stream_ends() -> None:
    lost, broken = stream(), stream()
    for _ in range(2):
        lost.lose_client()
        broken.break_off()
        assert (lost.is_whole, lost.is_gone, lost.is_broken) == (False, True, False)
        assert (broken.is_whole, broken.is_gone, broken.is_broken) == (False, False, True)
        lost.break_off()
        broken.lose_client()
