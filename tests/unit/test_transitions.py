"""Moving by a table of transitions."""

from __future__ import annotations

from enum import Enum, auto

import pytest

from proxy.transitions import IllegalTransition, next_state


class Door(Enum):
    """What a door is."""

    OPEN = auto()
    CLOSED = auto()
    GONE = auto()


class Push(Enum):
    """What is done to it."""

    CLOSE = auto()
    OPEN = auto()


TABLE = {Door.OPEN: {Push.CLOSE: Door.CLOSED}, Door.CLOSED: {Push.OPEN: Door.OPEN, Push.CLOSE: Door.CLOSED}}


@pytest.mark.parametrize(
    ("state", "step", "behind"),
    [
        (Door.OPEN, Push.CLOSE, Door.CLOSED),
        (Door.CLOSED, Push.OPEN, Door.OPEN),
        (Door.CLOSED, Push.CLOSE, Door.CLOSED),
    ],
)
def test_a_step_leads_to_the_state_of_the_table(state: Door, step: Push, behind: Door) -> None:
    assert next_state(TABLE, state, step) is behind


@pytest.mark.parametrize("state", [Door.OPEN, Door.GONE])
def test_a_step_that_the_table_lacks_is_told_by_its_names_and_no_key_error(state: Door) -> None:
    with pytest.raises(IllegalTransition, match=f"what is {state.name} cannot OPEN") as raised:
        next_state(TABLE, state, Push.OPEN)
    assert raised.value.__suppress_context__
