"""The times of the events of one answer: the model server's part, and what the proxy added to it.

Of the times between events each EACH-th is taken, so that they cost no more than a count; all others are rare. Nothing
here asks a clock: who measures has read it.

    request is read ── request goes up ───── its first event ── to the client ── next ── to the client
          |                  |────── first ───────|                    |
          |──────────────────|────── added ───────|────────────────────|
                                                  |────────── gap ────────────────|── added ──|
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from functools import partial

# One in so many times between events is taken. A power of two, less one, by which a count is masked.
EACH = 8
MASK = EACH - 1

# The upper ends of the buckets, in seconds.
FIRST_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
GAP_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ADDED_BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)

_NO_COUNTS: list[int] = []


class Durations:
    """A histogram: how many durations fell into each bucket, the last of which has no upper end, and their sum. There
    are no buckets before the first duration: of most replies nothing is ever repaired, or held.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = _NO_COUNTS
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """One more. A clock that was read by two threads may seem to go back a little."""
        if not self.counts:
            self.counts = [0] * (len(self.bounds) + 1)
        seconds = max(0.0, seconds)
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class EventTimes:
    """The durations of one request's reply.

    `first`: from when the request goes up until the model server's first event; `added_first`: what else passes until
    the client has its first one. `gap`: between two arrivals of the model server's bytes, mostly one event each;
    `added`: from an arrival until what is made of it leaves. `held`: how long text waited that might have become a
    call. `repair`: how long the steps took in which something was repaired.
    """

    first: Durations = field(default_factory=partial(Durations, FIRST_BOUNDS))
    added_first: Durations = field(default_factory=partial(Durations, FIRST_BOUNDS))
    gap: Durations = field(default_factory=partial(Durations, GAP_BOUNDS))
    added: Durations = field(default_factory=partial(Durations, ADDED_BOUNDS))
    held: Durations = field(default_factory=partial(Durations, FIRST_BOUNDS))
    repair: Durations = field(default_factory=partial(Durations, ADDED_BOUNDS))
