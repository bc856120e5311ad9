"""When each of many things is due: a heap whose entries move only when they come up.

gunicorn's configuration loads it by its path, so it imports nothing of the package. It knows no clock.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

NEVER = float("inf")
# So many entries of things that are gone may lie in the heap before it is made anew, beside one for each that is left.
_SLACK = 256


class DeadlineHeap:
    """Things and the moments at which they are due, all of one clock.

    A stream's heartbeat moves with every byte that is written, mostly to a later moment: that costs no more than a
    note. The entry stays where it is, and is put back with the later moment when it comes up.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any]] = []
        self._due: dict[Hashable, float] = {}
        # The moment of the one entry of each that counts; the others are passed over.
        self._entered: dict[Hashable, float] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, thing: Hashable, moment: float) -> None:
        """It is due at this moment, whatever was said of it before."""
        self._due[thing] = moment
        if moment < self._entered.get(thing, NEVER):
            self._enter(thing, moment)

    def discard(self, thing: Hashable) -> None:
        """It is not due any more."""
        self._due.pop(thing, None)
        self._entered.pop(thing, None)
        if len(self._heap) > _SLACK + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._entered.get(entry[2]) == entry[0]]
            heapify(self._heap)

    def first(self) -> float:
        """A moment before which nothing is due."""
        return self._heap[0][0] if self._heap else NEVER

    def take(self, now: float) -> list[Any]:
        """Take out and return what is due now, the earliest first."""
        due_now: list[Any] = []
        while self._heap and self._heap[0][0] <= now:
            moment, _, thing = heappop(self._heap)
            if self._entered.get(thing) != moment:
                continue
            del self._entered[thing]
            due = self._due[thing]
            if due <= now:
                del self._due[thing]
                due_now.append(thing)
            elif due < NEVER:
                self._enter(thing, due)
        return due_now

    def _enter(self, thing: Hashable, moment: float) -> None:
        self._entered[thing] = moment
        heappush(self._heap, (moment, next(self._order), thing))
