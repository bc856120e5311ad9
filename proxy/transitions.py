"""State machines as transition tables: a table lists every step that each state allows.

TRANSITIONS = {Door.OPEN: {Step.CLOSE: Door.CLOSED}, Door.CLOSED: {}}

next_state(TRANSITIONS, Door.OPEN, Step.CLOSE) is Door.CLOSED
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar


class QuickEnum(Enum):
    """Enum with a fast hash, for states that are looked up at every read: Enum's own hash is a Python function."""

    __hash__ = object.__hash__


State = TypeVar("State", bound=Enum)
Step = TypeVar("Step", bound=Enum)


class IllegalTransition(RuntimeError):
    """A step that the table does not allow: a defect of the proxy, never of a server."""


def next_state(table: Mapping[State, Mapping[Step, State]], state: State, step: Step) -> State:
    """Return the state after a step. Raises IllegalTransition if the table has no such step."""
    try:
        return table[state][step]
    except KeyError:
        raise IllegalTransition(f"no step {step.name} in state {state.name}") from None
