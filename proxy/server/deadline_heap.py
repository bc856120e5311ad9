"""A heap of deadlines. Entries move only when they reach the top."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

NEVER = float("inf")
# The number of stale entries that are always tolerated before the heap is rebuilt.
_SLACK = 256


class DeadlineHeap:
    """Deadlines of any hashable things.

    A stream's heartbeat moves with every write, usually to a later moment. That only changes a dict. When the old entry
    reaches the top of the heap, it is pushed again with the later moment.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any]] = []
        self._due: dict[Hashable, float] = {}
        # The moment of each thing's current entry. Its other entries are stale.
        self._entered: dict[Hashable, float] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, thing: Hashable, moment: float) -> None:
        """Set or change a deadline."""
        self._due[thing] = moment
        if moment < self._entered.get(thing, NEVER):
            self._enter(thing, moment)

    def discard(self, thing: Hashable) -> None:
        """Remove a deadline."""
        self._due.pop(thing, None)
        self._entered.pop(thing, None)
        if len(self._heap) > _SLACK + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._entered.get(entry[2]) == entry[0]]
            heapify(self._heap)

    def first(self) -> float:
        """Return a moment before which nothing is due."""
        return self._heap[0][0] if self._heap else NEVER

    def take(self, now: float) -> list[Any]:
        """Remove and return the things that are due, earliest first."""
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
