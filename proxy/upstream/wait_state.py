"""The states of the wait for an answer, and every way from one to another.

              drive             park            bytes_came             take
    ALONE ────────────> RUNNING ─────> PARKED ────────────> READABLE ─────────> RUNNING

    resume: from PARKED, BLOCKS and COMPUTES to RUNNING
    block, compute: from RUNNING, PARKED and READABLE to BLOCKS and COMPUTES
    let_go: from each to ALONE

A driver takes what comes of many streams on one thread (server/pump.py):

    RUNNING     it makes a step, which reads what there is
    PARKED      nothing is there: the driver waits for the socket, beside those of other streams
    READABLE    the socket has something: the driver makes the next step
    BLOCKS      the step found the end of a reply that may be asked for once more: that is a thread's
"""

from __future__ import annotations

from enum import auto

from proxy.transitions import QuickEnum


class WaitState(QuickEnum):
    """The thing for which the reading of an answer waits, as whoever drives it must know."""

    # Nobody drives it: where nothing has come it blocks, in a poll of its own.
    ALONE = auto()
    # Nothing: there is more to do at once.
    RUNNING = auto()
    # The upstream's bytes, or a deadline.
    PARKED = auto()
    # The next step, which takes the upstream's bytes.
    READABLE = auto()
    # A thread: the next step may block.
    BLOCKS = auto()
    # A thread: the next step may compute for long.
    COMPUTES = auto()


class WaitStep(QuickEnum):
    """An event that moves the wait."""

    # A driver takes it: it may not block any more.
    DRIVE = auto()
    # The driver is at its end: it may block.
    LET_GO = auto()
    # Nothing has come, and nothing is due.
    PARK = auto()
    # The driver has seen that there is something to receive.
    BYTES_CAME = auto()
    # What came is received.
    TAKE = auto()
    # What follows may block.
    BLOCK = auto()
    # What follows may compute for long.
    COMPUTE = auto()
    # The step for which it waited is made.
    RESUME = auto()


# What comes while a thread makes a step is seen again behind it: the driver's epoll tells of it for as long as it is
# there.
TRANSITIONS: dict[WaitState, dict[WaitStep, WaitState]] = {
    WaitState.ALONE: {
        WaitStep.DRIVE: WaitState.RUNNING,
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.BYTES_CAME: WaitState.ALONE,
        WaitStep.RESUME: WaitState.ALONE,
    },
    WaitState.RUNNING: {
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.PARK: WaitState.PARKED,
        WaitStep.BYTES_CAME: WaitState.READABLE,
        WaitStep.TAKE: WaitState.RUNNING,
        WaitStep.BLOCK: WaitState.BLOCKS,
        WaitStep.COMPUTE: WaitState.COMPUTES,
        WaitStep.RESUME: WaitState.RUNNING,
    },
    # What passed meanwhile, by the lane, may have ended the reply.
    WaitState.PARKED: {
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.BYTES_CAME: WaitState.READABLE,
        WaitStep.BLOCK: WaitState.BLOCKS,
        WaitStep.COMPUTE: WaitState.COMPUTES,
        WaitStep.RESUME: WaitState.RUNNING,
    },
    WaitState.READABLE: {
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.BYTES_CAME: WaitState.READABLE,
        WaitStep.TAKE: WaitState.RUNNING,
        WaitStep.BLOCK: WaitState.BLOCKS,
        WaitStep.COMPUTE: WaitState.COMPUTES,
        WaitStep.RESUME: WaitState.READABLE,
    },
    WaitState.BLOCKS: {
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.BYTES_CAME: WaitState.BLOCKS,
        WaitStep.RESUME: WaitState.RUNNING,
    },
    WaitState.COMPUTES: {
        WaitStep.LET_GO: WaitState.ALONE,
        WaitStep.BYTES_CAME: WaitState.COMPUTES,
        WaitStep.RESUME: WaitState.RUNNING,
    },
}
