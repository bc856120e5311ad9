"""Which model server a request goes to where there are several. Sans-IO: the caller has the clock.

A conversation stays at one server, whose cache then has its beginning, as long as that server can be reached and has
not many more streams than the others. A server to which no connection can be made is out for a second, then for twice
as long each time; then one request tries it again. Nothing else puts a server out: what it answers is its answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

# A conversation leaves its server where that has more streams than so many times the mean of the others, and so many.
CROWDED_TIMES = 2
CROWDED_MORE = 4
# Seconds for which a server is out: at first, and at most.
FIRST_OUT = 1.0
LONGEST_OUT = 30.0
# Seconds in which a server that was out must take a connection, and in which no other request tries it.
PROBE_SECONDS = 1.0
_DOUBLINGS = 5
_LONG_AGO = float("-inf")


@dataclass(slots=True)
class Load:
    """How a server stands in one worker: the calls that are open, and in a row the connections that were not made."""

    streams: int = 0
    failures: int = 0
    _failed: float = _LONG_AGO
    _out_until: float = _LONG_AGO
    _tried_until: float = _LONG_AGO

    def out(self, now: float) -> bool:
        """True while no connection is to be tried without need."""
        return now < self._out_until

    def free(self, now: float) -> bool:
        """True if a request may go there: it is not out, and after that no other request is trying it."""
        return now >= max(self._out_until, self._tried_until)

    def take(self, now: float) -> None:
        """A request goes there; if the server was out, no other one does until it is known how this one fares."""
        if self.failures:
            self._tried_until = now + PROBE_SECONDS

    def made(self, began: float) -> None:
        """An attempt that began then has a connection."""
        if began >= self._failed:
            self.failures = 0
            self._out_until = self._tried_until = _LONG_AGO

    def failed(self, began: float, now: float) -> None:
        """One has none. Many may begin before the first of them fails; together they count once."""
        if began > self._failed:
            self._failed = now
            self._out_until = now + min(FIRST_OUT * 2 ** min(self.failures, _DOUBLINGS), LONGEST_OUT)
            self.failures += 1


def order(loads: Mapping[str, Load], key: bytes, now: float, *, sticky: bool) -> list[str]:
    """The servers in the order in which a request tries them; those that are out come last.

    The first is that of the `key` if the request is `sticky` and the server neither out nor crowded, else the one with
    the fewest streams; of equal ones the key's.
    """
    ranked = sorted(loads, key=lambda name: _weight(key, name), reverse=True)
    free = [name for name in ranked if loads[name].free(now)]
    by_streams = sorted(free, key=lambda name: loads[name].streams)
    if sticky and free and free[0] == ranked[0] and not _crowded(loads, free):
        by_streams.remove(free[0])
        by_streams.insert(0, free[0])
    return by_streams + [name for name in ranked if name not in free]


def _weight(key: bytes, name: str) -> bytes:
    """Rendezvous hashing: one server more, or less, moves only the keys that it gets, or had."""
    return blake2b(name.encode(), key=key[:64], digest_size=8).digest()


def _crowded(loads: Mapping[str, Load], free: list[str]) -> bool:
    """True if the first has too many streams. The mean is that of the others: of two, one never has twice the mean."""
    own, *others = (loads[name].streams for name in free)
    return bool(others) and own > CROWDED_TIMES * sum(others) / len(others) + CROWDED_MORE


