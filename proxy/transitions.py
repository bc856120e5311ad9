"""Moving by a table of transitions: who wants to know what can become of a state reads its table, and nothing else.

TRANSITIONS = {Door.OPEN: {Step.CLOSE: Door.CLOSED}, Door.CLOSED: {}}

next_state(TRANSITIONS, Door.OPEN, Step.CLOSE) is Door.CLOSED
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar


class QuickEnum(Enum):
    """An enum for states that a table is asked for with every read: by itself one hashes by a function of Python."""

    __hash__ = object.__hash__


State = TypeVar("State", bound=Enum)
Step = TypeVar("Step", bound=Enum)


class IllegalTransition(RuntimeError):
    """Something was moved in a way that its table does not know: a defect of the proxy, never of a server."""


def next_state(table: Mapping[State, Mapping[Step, State]], state: State, step: Step) -> State:
    """The state behind a step by a table of transitions; IllegalTransition if it has none."""
    try:
        return table[state][step]
    except KeyError:
        raise IllegalTransition(f"what is {state.name} cannot {step.name}") from None
