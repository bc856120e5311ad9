"""Turns to compute: the pump's and the poll's first, then one request's after the other.

The pump gives Python's lock away at each of its system calls, and whoever computes then keeps it for a while. Beside 50
requests that came at once a round of the pump over 50 streams took 330 ms, of which it computed for 50. So the threads
of requests compute while they have the turn, and give it back where they wait; the pump has it for each of its rounds,
and so has the worker's poll, which accepts connections and reads requests, where it would hold others up.

Nobody has to have the turn: who waits for too long, or for somebody who has had it for too long, goes on without it, as
it would if there were none.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

# Nobody waits for a request that has had the turn for so long, in seconds: it waits for something itself, or computes
# for long, and then the interpreter cuts it into slices. Rounds of the pump and of the poll may take longer, where many
# streams begin.
MOST_SECONDS = 0.02
MOST_ROUND_SECONDS = 1.0
# So long a request waits in all; the pump and the poll, for each of the two locks.
WAIT_SECONDS = 0.5
FIRST_SECONDS = 0.002

_NEVER = float("inf")


class Turns:
    """The turns of one worker. Of all requests one alone has the turn or waits for it, the others stand in line behind
    it; it asks to be next, and so do the pump and the poll, which are next before all that stand in line.

    While there are streams a thread that computes gives the interpreter's lock away after `slices[0]` seconds, else
    after `slices[1]`; without them that stays as it is.
    """

    def __init__(self, slices: tuple[float, float] | None = None) -> None:
        self._slices = slices
        self._line = threading.Lock()
        self._next = threading.Lock()
        self._turn = threading.Lock()
        # Since when somebody has the turn, and for how long that may be.
        self._since = _NEVER
        self._most = MOST_SECONDS
        # The pump's thread, which has the turn already.
        self._pump = 0
        self._has_streams = False
        # One for each request that stands in line: to add and to take one is a single step of the interpreter.
        self._in_line: list[None] = []

    @property
    def in_line(self) -> int:
        """How many requests stand in line."""
        return len(self._in_line)

    def turn(self, out_of_line: Callable[[], None]) -> Turn:
        """A turn for a request; `out_of_line` is called whenever it does not stand in line any more."""
        return Turn(self, out_of_line)

    def until(self) -> float:
        """Until when somebody waits who begins to wait now (`time.monotonic`)."""
        return time.monotonic() + WAIT_SECONDS

    def streams_begin(self) -> None:
        """There are streams now."""
        self._has_streams = True
        if self._slices is not None:
            sys.setswitchinterval(self._slices[0])

    def streams_end(self) -> None:
        """There are none any more."""
        self._has_streams = False
        if self._slices is not None:
            sys.setswitchinterval(self._slices[1])

    def begin_round(self) -> bool:
        """Take the turn for a round of the pump; False if that must go on without it."""
        self._pump = threading.get_ident()
        return self._take_first()

    def begin_poll(self) -> bool:
        """Take the turn for a round of the worker's poll; False if that goes on without it.

        Without streams, and with nobody in line, one request computes at most, or nearly so. To wait for its end cost
        a twentieth of a request that is alone: who waits has to get the interpreter's lock once more.
        """
        if not self._has_streams and not self._in_line:
            return False
        return self._take_first()

    def _take_first(self) -> bool:
        """Take the turn before all that stand in line; False if that would take longer than some milliseconds."""
        patience = 0 if self._lasts_too_long() else FIRST_SECONDS
        if not self._next.acquire(timeout=patience):
            return False
        has_turn = self._turn.acquire(timeout=patience)
        self._next.release()
        if has_turn:
            self._begin(MOST_ROUND_SECONDS)
        return has_turn

    def end_round(self) -> None:
        """Give back what `begin_round` or `begin_poll` has taken."""
        self._since = _NEVER
        self._turn.release()

    def take(self, until: float | None = None) -> bool:
        """Wait for the turn of a request, `until` then at most; False if it must go on without it."""
        if self._take_at_once():
            return True
        if until is None:
            until = self.until()
        if self._is_vain(until) or threading.get_ident() == self._pump:
            return False
        if not self._stand_in_line(until):
            return False
        if not self._take_as_next(until):
            self._line.release()
            return False
        self._begin(MOST_SECONDS)
        return True

    def _take_at_once(self) -> bool:
        """Take the turn if nobody has it, and nobody waits: without a look at the clock for how long."""
        if not self._line.acquire(False):
            return False
        # Who waits as the next one, the pump too, goes first.
        if self._next.locked() or not self._turn.acquire(False):
            self._line.release()
            return False
        self._begin(MOST_SECONDS)
        return True

    def _stand_in_line(self, until: float) -> bool:
        """Wait until all requests before have had their turn."""
        self._in_line.append(None)
        try:
            return self._acquire(self._line, until)
        finally:
            self._in_line.pop()

    def _take_as_next(self, until: float) -> bool:
        """Wait for the turn as the one request that is first in line, behind the pump if that waits already."""
        if not self._acquire(self._next, until):
            return False
        try:
            return self._acquire(self._turn, until)
        finally:
            self._next.release()

    def _acquire(self, lock: threading.Lock, until: float) -> bool:
        while not lock.acquire(timeout=MOST_SECONDS):
            if self._is_vain(until):
                return False
        return True

    def give_back(self) -> None:
        """Give back what `take` has taken."""
        self._since = _NEVER
        self._turn.release()
        self._line.release()

    def _is_vain(self, until: float) -> bool:
        """True for who has waited long enough, or would wait for somebody who keeps the turn."""
        return time.monotonic() > until or self._lasts_too_long()

    def _begin(self, most: float) -> None:
        self._since, self._most = time.monotonic(), most

    def _lasts_too_long(self) -> bool:
        """True if somebody has had the turn for longer than others wait for it."""
        return time.monotonic() > self._since + self._most


class Turn:
    """The turn of one request. Used by one thread at a time."""

    __slots__ = ("_is_held", "_out_of_line", "_turns")

    def __init__(self, turns: Turns, out_of_line: Callable[[], None]) -> None:
        self._turns = turns
        self._out_of_line = out_of_line
        self._is_held = False

    def take(self, until: float | None = None) -> None:
        """Wait for the turn, but not for long, `until` then if that is said; again if need be."""
        if not self._is_held:
            self._is_held = self._turns.take(until)
            self._out_of_line()

    def give_back(self) -> None:
        """Let another one compute; again if need be."""
        if self._is_held:
            self._is_held = False
            self._turns.give_back()
