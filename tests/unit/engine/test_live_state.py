"""What may leave of a call's arguments: every step from every state, and no other."""

from __future__ import annotations

import pytest

from proxy.engine.live_state import BROKEN, CLOSED, TRANSITIONS, LiveState, LiveStep
from tests.support.tables import check_way

WAYS = {
    (LiveState.STREAMING, LiveStep.CLOSE): LiveState.COMPLETE,
    (LiveState.STREAMING, LiveStep.CLOSE_IN_DOUBT): LiveState.UNDECIDED,
    (LiveState.STREAMING, LiveStep.BREAK_OFF): LiveState.BROKEN,
    (LiveState.UNDECIDED, LiveStep.ACCEPT): LiveState.COMPLETE,
    (LiveState.UNDECIDED, LiveStep.REFUSE): LiveState.BROKEN_CLOSED,
    (LiveState.UNDECIDED, LiveStep.REOPEN): LiveState.BROKEN,
    (LiveState.COMPLETE, LiveStep.REOPEN): LiveState.OVERRUN,
    (LiveState.BROKEN, LiveStep.CLOSE): LiveState.BROKEN_CLOSED,
    (LiveState.BROKEN_CLOSED, LiveStep.REOPEN): LiveState.BROKEN,
}


@pytest.mark.parametrize("state", LiveState)
@pytest.mark.parametrize("step", LiveStep)
def test_every_step_leads_where_the_table_says(state: LiveState, step: LiveStep) -> None:
    check_way(TRANSITIONS, WAYS, state, step)


def test_what_is_broken_does_not_stream_and_what_is_closed_has_an_end() -> None:
    assert set(BROKEN) == {LiveState.BROKEN, LiveState.BROKEN_CLOSED, LiveState.OVERRUN}
    assert set(CLOSED) == {LiveState.UNDECIDED, LiveState.COMPLETE, LiveState.BROKEN_CLOSED}
