"""Tables of transitions, each held against what a test says of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from proxy.transitions import IllegalTransition, State, Step, next_state


def check_way(
    table: Mapping[State, Mapping[Step, State]], ways: Mapping[tuple[State, Step], State], state: State, step: Step
) -> None:
    """The table has each state, and a step leads where `ways` says; where that says nothing it is a defect."""
    assert set(table) == set(type(state))
    if (state, step) in ways:
        assert next_state(table, state, step) is ways[state, step]
        return
    with pytest.raises(IllegalTransition, match=f"{state.name} cannot {step.name}"):
        next_state(table, state, step)
