"""The states of a call's arguments while they are read as they come, and every way from one to another.

                   close                         accept
    STREAMING ──────────────────────> COMPLETE <───────── UNDECIDED
        │ └──── close_in_doubt ───────────────────────────^   │
        │                                                     │ refuse
        └─ break_off ─> BROKEN ─────────── close ───────> BROKEN_CLOSED

    reopen: from COMPLETE to OVERRUN, from UNDECIDED and BROKEN_CLOSED to BROKEN
"""

from __future__ import annotations

from enum import Enum, auto


class LiveState(Enum):
    """What may leave of the arguments that came, and whether their object has ended."""

    # A strict prefix of an object: parts leave as soon as nothing can change them.
    #     {"path": "a.py", "content": "x =
    STREAMING = auto()
    # The object seems to have ended, but the last mark may be one of its string's own: only the end of the call tells.
    #     {"code": "print("}
    #     ")"}
    UNDECIDED = auto()
    # The object has ended, and all of it may leave as it came.
    #     {"path": "a.py"}{"path": "b.py"}    a second object is another call's
    COMPLETE = auto()
    # Nothing more leaves before the end of the call. The object has not ended.
    #     {"path": "a.py", 'content'
    BROKEN = auto()
    # Nothing more leaves before the end of the call. The object seems to have ended.
    #     {"path": "a.py", 'content': 'x'}
    BROKEN_CLOSED = auto()
    # All of an object left, and it had not ended: nothing can finish what the client has.
    #     {"items": [1, 2]}
    #     , 3]}
    OVERRUN = auto()


class LiveStep(Enum):
    """What happens to the arguments."""

    # The brace that ends the object came.
    CLOSE = auto()
    # The same, behind a mark that may be one of its last string's own.
    CLOSE_IN_DOUBT = auto()
    # What came is no strict JSON, or a repair may change it.
    BREAK_OFF = auto()
    # The call is over, and its object was whole and right.
    ACCEPT = auto()
    # The call is over, and its object needs a repair.
    REFUSE = auto()
    # What came behind the object is a part of it.
    REOPEN = auto()


TRANSITIONS: dict[LiveState, dict[LiveStep, LiveState]] = {
    LiveState.STREAMING: {
        LiveStep.CLOSE: LiveState.COMPLETE,
        LiveStep.CLOSE_IN_DOUBT: LiveState.UNDECIDED,
        LiveStep.BREAK_OFF: LiveState.BROKEN,
    },
    LiveState.UNDECIDED: {
        LiveStep.ACCEPT: LiveState.COMPLETE,
        LiveStep.REFUSE: LiveState.BROKEN_CLOSED,
        LiveStep.REOPEN: LiveState.BROKEN,
    },
    LiveState.COMPLETE: {
        LiveStep.REOPEN: LiveState.OVERRUN,
    },
    LiveState.BROKEN: {
        LiveStep.CLOSE: LiveState.BROKEN_CLOSED,
    },
    LiveState.BROKEN_CLOSED: {
        LiveStep.REOPEN: LiveState.BROKEN,
    },
    LiveState.OVERRUN: {},
}

# The object has ended, if its last mark is the end of its last string.
CLOSED = (LiveState.UNDECIDED, LiveState.COMPLETE, LiveState.BROKEN_CLOSED)
# Nothing more leaves before the end of the call.
BROKEN = (LiveState.BROKEN, LiveState.BROKEN_CLOSED, LiveState.OVERRUN)
