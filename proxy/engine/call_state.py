"""The states of a structured call, and every way from one to another.

Everything that moves a call is here: who wants to know what can become of a call reads this table and nothing else.

                     begin                open                  complete
    COLLECTING ──────────────> READING ──────────> STREAMING ─────────────> COMPLETE
        └──────────── open ────────┼───────────────────^
        └──────────── drop ────────┴──> DROPPED

    close: from each of them to CLOSED, when the reply is over
"""

from __future__ import annotations

from enum import Enum, auto


class CallState(Enum):
    """What the client has of a call, and what may still become of it."""

    # Its deltas are kept as they come: its name is not known yet, or its arguments do not begin as an object.
    COLLECTING = auto()
    # Its object is read as it comes. Nothing of it has left: it may still go back to text.
    READING = auto()
    # The client has its name and id; arguments leave as soon as nothing can change them any more.
    STREAMING = auto()
    # All of its arguments left at once, repaired, before the reply was over.
    COMPLETE = auto()
    # Nothing of it leaves: the client has it already, or wants no further call.
    DROPPED = auto()
    # The reply is over.
    CLOSED = auto()


class CallStep(Enum):
    """What happens to a call."""

    # Its name is known, and its object begins.
    BEGIN = auto()
    # The client gets its name and id.
    OPEN = auto()
    # The client gets all of its arguments at once.
    COMPLETE = auto()
    # It is a repetition, or one call more than the client wants.
    DROP = auto()
    # The reply is over.
    CLOSE = auto()


TRANSITIONS: dict[CallState, dict[CallStep, CallState]] = {
    CallState.COLLECTING: {
        CallStep.BEGIN: CallState.READING,
        CallStep.OPEN: CallState.STREAMING,
        CallStep.DROP: CallState.DROPPED,
        CallStep.CLOSE: CallState.CLOSED,
    },
    CallState.READING: {
        CallStep.OPEN: CallState.STREAMING,
        CallStep.DROP: CallState.DROPPED,
        CallStep.CLOSE: CallState.CLOSED,
    },
    CallState.STREAMING: {
        CallStep.COMPLETE: CallState.COMPLETE,
        CallStep.CLOSE: CallState.CLOSED,
    },
    CallState.COMPLETE: {
        CallStep.CLOSE: CallState.CLOSED,
    },
    CallState.DROPPED: {
        CallStep.CLOSE: CallState.CLOSED,
    },
    CallState.CLOSED: {},
}
