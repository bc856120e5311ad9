"""Which of the calls that were read in a reply are taken: none that lists tools or was copied, and not too many."""

from __future__ import annotations

from proxy.formats.copied_calls import Copies
from proxy.formats.spans import Candidate
from proxy.formats.tool_listings import lists_tools
from proxy.parsing.cursor import NotACall, RawCall, Rejection

# A reply that goes on copying means none of it.
MAX_COPIED = 32
# How often in a reply a row that came to nothing is read again for a wrapped call in it.
MAX_GOING_BACK = 4


class ScanLimits:
    """What refuses calls that can be read, how many of one reply were copied and may still be taken, and how often its
    reading went back.

    `copies` knows the tool results since the last user message; `off` are the names of formats whose calls are prose.
    """

    def __init__(self, copies: Copies, off: frozenset[str], *, max_held: int, max_calls: int) -> None:
        self._copies = copies
        self._off = off
        self._max_held = max_held
        self._left = max_calls
        self._copied = 0
        self.went_back = 0

    @property
    def state(self) -> tuple[int, ...]:
        """All that is counted."""
        return self._left, self._copied, self.went_back

    @property
    def may_go_back(self) -> bool:
        """True if a row may be read again."""
        return self.went_back < MAX_GOING_BACK

    @property
    def takes_no_more(self) -> bool:
        """True if no further call would be taken."""
        if self._left <= 0:
            return True
        return self._copied >= MAX_COPIED

    def take(self, calls: tuple[RawCall, ...]) -> None:
        """These calls are taken."""
        self._left -= len(calls)

    def check(self, candidate: Candidate, calls: tuple[RawCall, ...], *, behind_listing: bool) -> None:
        """Refuse what lists tools or was copied from a tool result (F89), and calls over the limits."""
        cursor = candidate.cursor
        if lists_tools(calls, behind_listing=behind_listing):
            raise NotACall(Rejection.DEFINITION)
        if calls and candidate.format in self._off:
            raise NotACall(Rejection.FORMAT_OFF)
        if cursor.pos - candidate.start > self._max_held:
            raise NotACall(Rejection.OVER_LIMIT)
        if len(calls) > self._left:
            raise NotACall(Rejection.OVER_LIMIT)
        if any(self._copies.hold(cursor.text(start, end)) for start, end in candidate.evidence.spans):
            self._copied += 1
            raise NotACall(Rejection.COPIED)
