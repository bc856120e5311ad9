"""What becomes of a streamed reply: every step from every state, and no other."""

from __future__ import annotations

import pytest

from proxy.exchange.reply_state import DONE, IN_ENGINE, MAY_END, OVER, PASSES, TRANSITIONS, ReplyState, ReplyStep
from proxy.transitions import IllegalTransition, next_state

# Each state: what follows by `done`, `end`, `crash`, `break off` and `fail`; None where that is a defect.
WAYS: dict[ReplyState, tuple[ReplyState | None, ...]] = {
    ReplyState.READING: (
        *(ReplyState.READ, ReplyState.ENDED_EARLY, ReplyState.PASSING),
        *(ReplyState.BROKEN_OFF, ReplyState.FAILED),
    ),
    ReplyState.READ: (None, ReplyState.ENDED, ReplyState.PASSED, ReplyState.BROKEN_OFF, ReplyState.FAILED),
    ReplyState.PASSING: (ReplyState.PASSED, None, ReplyState.PASSING, ReplyState.FAILED, ReplyState.FAILED),
    ReplyState.PASSED: (None, None, ReplyState.PASSED, ReplyState.FAILED, ReplyState.FAILED),
    ReplyState.ENDED: (None, None, None, None, ReplyState.FAILED),
    ReplyState.ENDED_EARLY: (None, None, None, None, ReplyState.FAILED),
    ReplyState.BROKEN_OFF: (
        *(ReplyState.BROKEN_OFF, None, ReplyState.FAILED),
        *(ReplyState.BROKEN_OFF, ReplyState.FAILED),
    ),
    ReplyState.FAILED: (ReplyState.FAILED, None, ReplyState.FAILED, ReplyState.FAILED, ReplyState.FAILED),
}


@pytest.mark.parametrize("state", ReplyState)
@pytest.mark.parametrize("step", ReplyStep)
def test_every_step_leads_where_the_table_says(state: ReplyState, step: ReplyStep) -> None:
    expected = WAYS[state][[*ReplyStep].index(step)]
    if expected is not None:
        assert next_state(TRANSITIONS, state, step) is expected
        return
    with pytest.raises(IllegalTransition, match=f"{state.name} cannot {step.name}"):
        next_state(TRANSITIONS, state, step)


def test_every_state_has_its_ways_and_each_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(ReplyState)
    reached = {ReplyState.READING}
    for _ in ReplyState:
        reached |= {behind for state in reached for behind in TRANSITIONS[state].values()}
    assert reached == set(ReplyState)


@pytest.mark.parametrize("state", ReplyState)
def test_any_reply_may_fail_and_none_goes_on_behind_that(state: ReplyState) -> None:
    assert next_state(TRANSITIONS, state, ReplyStep.FAIL) is ReplyState.FAILED
    assert set(TRANSITIONS[ReplyState.FAILED].values()) == {ReplyState.FAILED}


def test_each_state_belongs_to_the_engine_or_passes_or_is_over() -> None:
    assert {*IN_ENGINE, *PASSES, *OVER} == set(ReplyState)
    assert len(IN_ENGINE) + len(PASSES) + len(OVER) == len(ReplyState)
    assert set(MAY_END) == {state for state in ReplyState if ReplyStep.END in TRANSITIONS[state]}
    assert set(DONE) == {ReplyState.READ, ReplyState.PASSED, ReplyState.ENDED}
