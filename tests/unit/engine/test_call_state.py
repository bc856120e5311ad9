"""The states of a structured call: what can become of one, and what never may."""

from __future__ import annotations

import itertools

import pytest

from proxy.engine.call_state import TRANSITIONS, CallState, CallStep
from proxy.engine.pending_call import PendingCall
from proxy.engine.release_policy import ReleasePolicy
from proxy.transitions import IllegalTransition, next_state

LEGAL = [(state, step, behind) for state, steps in TRANSITIONS.items() for step, behind in steps.items()]
ILLEGAL = [(state, step) for state, step in itertools.product(CallState, CallStep) if step not in TRANSITIONS[state]]


def test_the_table_knows_each_state() -> None:
    assert set(TRANSITIONS) == set(CallState)


@pytest.mark.parametrize(("state", "step", "behind"), LEGAL)
def test_a_step_of_the_table_leads_to_its_state(state: CallState, step: CallStep, behind: CallState) -> None:
    assert next_state(TRANSITIONS, state, step) is behind


@pytest.mark.parametrize(("state", "step"), ILLEGAL)
def test_every_other_step_is_a_defect(state: CallState, step: CallStep) -> None:
    with pytest.raises(IllegalTransition, match=f"{state.name} cannot {step.name}"):
        next_state(TRANSITIONS, state, step)


def test_each_state_but_the_last_can_be_closed() -> None:
    """C4: whatever came of a call, the end of the reply is its end."""
    for state in CallState:
        assert (CallStep.CLOSE in TRANSITIONS[state]) is (state is not CallState.CLOSED)


def test_each_state_can_be_reached() -> None:
    reached = {CallState.COLLECTING}
    for _ in CallState:
        reached |= {behind for state, _, behind in LEGAL if state in reached}
    assert reached == set(CallState)


def test_what_the_client_has_seen_is_never_dropped() -> None:
    """C4: an opened call is finished, or the reply fails."""
    for state in (CallState.STREAMING, CallState.COMPLETE):
        assert CallStep.DROP not in TRANSITIONS[state]


def test_a_call_that_streams() -> None:
    call = PendingCall(names=["bash"])
    call.collect("{")
    assert call.can_begin and call.begin(ReleasePolicy(None)) == "{"
    assert (call.state, call.unresolved) == (CallState.READING, True)
    call.open(0, "call_1", "bash")
    assert (call.state, call.was_opened, call.unresolved) == (CallState.STREAMING, True, False)
    call.close()
    assert call.state is CallState.CLOSED


def test_a_call_that_leaves_at_once() -> None:
    call = PendingCall(names=["bash"])
    call.open(0, "call_1", "bash")
    call.complete("{}")
    assert (call.state, call.final_arguments) == (CallState.COMPLETE, "{}")


def test_a_call_that_does_not_leave() -> None:
    call = PendingCall()
    call.drop()
    assert call.dropped and not call.unresolved and not call.was_opened


def test_a_call_is_not_opened_twice() -> None:
    """C5: a client gets each call once."""
    call = PendingCall()
    call.open(0, "call_1", "bash")
    with pytest.raises(IllegalTransition):
        call.open(1, "call_2", "bash")
    assert (call.index, call.id) == (0, "call_1")


def test_a_dropped_call_stays_dropped() -> None:
    call = PendingCall()
    call.drop()
    with pytest.raises(IllegalTransition):
        call.open(0, "call_1", "bash")
    with pytest.raises(IllegalTransition):
        call.drop()
