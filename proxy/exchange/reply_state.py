"""The states of a streamed reply, and every way from one to another.

READING ── done ──> READ ── end ──> ENDED
   │ └─── end ──> ENDED_EARLY
   │
   │ crash                     crash: from READ to PASSED
   └──────> PASSING ── done ──> PASSED

break off: from READING and READ to BROKEN_OFF; fail: from each to FAILED
"""

from __future__ import annotations

from enum import Enum, auto


class ReplyState(Enum):
    """What becomes of the upstream's next events, and what the engine has still to say."""

    # The engine reads them.
    READING = auto()
    # None follow, for the upstream said `[DONE]`, or was told to stop. The engine has not said its last.
    READ = auto()
    # The engine raised what it never should: they leave as they come (contract C6).
    PASSING = auto()
    # The same, and none follow.
    PASSED = auto()
    # The engine has said its last.
    ENDED = auto()
    # The same, and the upstream never said `[DONE]`.
    ENDED_EARLY = auto()
    # They cannot be read, or what the engine made of them cannot be written. What the engine holds may leave.
    BROKEN_OFF = auto()
    # The reply cannot go on, and the engine is not asked any more.
    FAILED = auto()


class ReplyStep(Enum):
    """What happens to the reply."""

    # `[DONE]` came, or the upstream was told to stop.
    DONE = auto()
    # The upstream's body has ended, and the engine has said its last.
    END = auto()
    # The engine raised what it never should, and nothing was changed before.
    CRASH = auto()
    # The bytes that came cannot be read, or the writer has a defect.
    BREAK_OFF = auto()
    # The engine or the dialect says that the reply cannot go on.
    FAIL = auto()


TRANSITIONS: dict[ReplyState, dict[ReplyStep, ReplyState]] = {
    ReplyState.READING: {
        ReplyStep.DONE: ReplyState.READ,
        ReplyStep.END: ReplyState.ENDED_EARLY,
        ReplyStep.CRASH: ReplyState.PASSING,
        ReplyStep.BREAK_OFF: ReplyState.BROKEN_OFF,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    ReplyState.READ: {
        ReplyStep.END: ReplyState.ENDED,
        ReplyStep.CRASH: ReplyState.PASSED,
        ReplyStep.BREAK_OFF: ReplyState.BROKEN_OFF,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    ReplyState.PASSING: {
        ReplyStep.DONE: ReplyState.PASSED,
        ReplyStep.CRASH: ReplyState.PASSING,
        ReplyStep.BREAK_OFF: ReplyState.FAILED,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    ReplyState.PASSED: {
        ReplyStep.CRASH: ReplyState.PASSED,
        ReplyStep.BREAK_OFF: ReplyState.FAILED,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    # What was kept back is written after the end, and may fail there.
    ReplyState.ENDED: {
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    ReplyState.ENDED_EARLY: {
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    # Chunks after the failure change nothing.
    ReplyState.BROKEN_OFF: {
        ReplyStep.DONE: ReplyState.BROKEN_OFF,
        ReplyStep.CRASH: ReplyState.FAILED,
        ReplyStep.BREAK_OFF: ReplyState.BROKEN_OFF,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
    ReplyState.FAILED: {
        ReplyStep.DONE: ReplyState.FAILED,
        ReplyStep.CRASH: ReplyState.FAILED,
        ReplyStep.BREAK_OFF: ReplyState.FAILED,
        ReplyStep.FAIL: ReplyState.FAILED,
    },
}

# The upstream has said all.
DONE = (ReplyState.READ, ReplyState.PASSED, ReplyState.ENDED)
# Events leave as they come.
PASSES = (ReplyState.PASSING, ReplyState.PASSED)
# The engine has not said its last.
IN_ENGINE = (ReplyState.READING, ReplyState.READ, ReplyState.BROKEN_OFF)
# The engine is asked for its last events.
MAY_END = (ReplyState.READING, ReplyState.READ)
# The engine has said its last, or is not asked any more.
OVER = (ReplyState.ENDED, ReplyState.ENDED_EARLY, ReplyState.FAILED)
