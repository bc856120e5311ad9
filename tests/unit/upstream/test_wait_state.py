"""What the reading of an answer waits for: each step from each state, and what a driver sees of it."""

from __future__ import annotations

import itertools

import pytest

from proxy.transitions import IllegalTransition, next_state
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.wait_state import TRANSITIONS, WaitState, WaitStep

LEGAL = [(state, step, behind) for state, steps in TRANSITIONS.items() for step, behind in steps.items()]
ILLEGAL = [(state, step) for state, step in itertools.product(WaitState, WaitStep) if step not in TRANSITIONS[state]]
DRIVEN = [state for state in WaitState if state is not WaitState.ALONE]


def new_wait() -> AnswerWait:
    return AnswerWait(None, Timeouts(1.0))


def test_the_table_knows_each_state() -> None:
    assert set(TRANSITIONS) == set(WaitState)


@pytest.mark.parametrize(("state", "step", "behind"), LEGAL)
def test_a_step_of_the_table_leads_to_its_state(state: WaitState, step: WaitStep, behind: WaitState) -> None:
    assert next_state(TRANSITIONS, state, step) is behind


@pytest.mark.parametrize(("state", "step"), ILLEGAL)
def test_every_other_step_is_a_defect(state: WaitState, step: WaitStep) -> None:
    with pytest.raises(IllegalTransition, match=f"{state.name} cannot {step.name}"):
        next_state(TRANSITIONS, state, step)


def test_each_state_can_be_reached() -> None:
    reached = {WaitState.ALONE}
    for _ in WaitState:
        reached |= {behind for state, _, behind in LEGAL if state in reached}
    assert reached == set(WaitState)


@pytest.mark.parametrize("state", WaitState)
def test_whatever_a_driver_tells_or_leaves_is_never_a_defect(state: WaitState) -> None:
    """The pump's thread drives all streams: one of them must not end it."""
    assert next_state(TRANSITIONS, state, WaitStep.LET_GO) is WaitState.ALONE
    assert WaitStep.BYTES_CAME in TRANSITIONS[state]


@pytest.mark.parametrize("state", WaitState)
def test_only_a_driver_ends_the_waiting_alone(state: WaitState) -> None:
    steps = {step for step, behind in TRANSITIONS[WaitState.ALONE].items() if behind is not WaitState.ALONE}
    assert steps == {WaitStep.DRIVE}
    assert (WaitStep.DRIVE in TRANSITIONS[state]) is (state is WaitState.ALONE)


@pytest.mark.parametrize("state", DRIVEN)
def test_a_reading_that_was_left_anywhere_can_be_begun_anew(state: WaitState) -> None:
    begun = next_state(TRANSITIONS, state, WaitStep.RESUME)
    assert WaitStep.TAKE in TRANSITIONS[begun]


@pytest.mark.parametrize("state", [WaitState.RUNNING, WaitState.PARKED, WaitState.READABLE])
def test_a_reply_may_end_wherever_it_waits(state: WaitState) -> None:
    """Its end may be a thread's: what the lane has passed to the client while it was parked may have been all."""
    for step in (WaitStep.BLOCK, WaitStep.COMPUTE):
        assert next_state(TRANSITIONS, next_state(TRANSITIONS, state, step), WaitStep.RESUME) is WaitState.RUNNING


def test_nothing_is_for_another_thread_where_nobody_drives() -> None:
    wait = new_wait()
    assert [*wait.on_a_thread(), *wait.on_a_long_step()] == []
    assert not (wait.driven or wait.parked or wait.blocks or wait.computes)


def test_a_driver_is_told_what_the_next_step_does_and_only_before_it() -> None:
    wait = new_wait()
    wait.drive()
    for steps, expected in ((wait.on_a_thread(), (True, False)), (wait.on_a_long_step(), (False, True))):
        assert next(iter(steps)) == b""
        assert (wait.blocks, wait.computes) == expected
        assert list(steps) == []
        assert not (wait.blocks or wait.computes)


def test_a_driver_that_lets_go_while_a_step_is_to_come_leaves_it_alone() -> None:
    wait = new_wait()
    wait.drive()
    steps = wait.on_a_thread()
    assert next(iter(steps)) == b""
    wait.let_go()
    assert list(steps) == []
    assert not (wait.driven or wait.blocks)
