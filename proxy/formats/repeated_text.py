"""Text that says the same again and again is scanned once, and what follows of it is passed at once.

    <tool_call><tool_call><tool_call><tool_call>…

A model that has lost its way writes such text, and who wants to keep a proxy busy has it written: each opener begins a
candidate, which costs as much as a hundred bytes of prose or more. What the scanner makes of a text depends on the
bytes that it looks at from a place on, and on its own state there. So where both are what they were a piece of text
ago, it would do again what it did, and as long as the piece goes on repeating itself it need not.
"""

from __future__ import annotations

from collections import Counter

from proxy.parsing.buffer import MAX_CHARACTER, TextBuffer
from proxy.parsing.markdown import MAX_BEFORE, Markdown

# Where less text is there than this, it is not worth to look, unless what came before repeats itself.
MUCH = 128
# The longest piece that is told again: so much of the text before a place is known.
MAX_PIECE = MAX_BEFORE
# How far the scanner may look ahead in text that is passed. What looks further reads much at a time, and is cheap.
MAX_LOOK = 8192
# Places that are compared with one before them; then a later one takes its place.
MOST_PLACES = 64
# Text that tells at once that two places are not alike.
_NEAR = 16
_MAX_BLOCK = 64 * 1024


class RepeatedText:
    """Remembers one place of the text, and finds out at later ones whether the text between them repeats itself.

    The place that is remembered is moved on after one, two, four, … others, so that a piece is found which has as many
    of them (R. P. Brent's way to find a cycle).
    """

    def __init__(self, buffer: TextBuffer) -> None:
        self._buffer = buffer
        self._place = -1
        self._near = b""
        self._state: object = None
        self._refusals: Counter[str] = Counter()
        self._seen = 0
        self._most = 1
        # The last place that was compared was alike.
        self.goes_on = False

    def forget(self) -> None:
        """Something else than text has come, or text was let go before it was read: nothing goes on from there."""
        self._place = -1

    def may_go_on(self, at: int) -> bool:
        """Whether the text here may be what it was at the place that is remembered, or this is a place to remember."""
        self._seen += 1
        if self._place < 0:
            return True
        if self._seen >= self._most:
            return True
        return self._buffer.data.startswith(self._near, at - self._buffer.base)

    def pass_on(self, at: int, state: object, markdown: Markdown, refusals: Counter[str]) -> int:
        """How far the text is passed from here on, where the scanner is in this state; `at` if it is not.

        `markdown` follows the text up to here, and goes on to there; to `refusals` are added those of the text that is
        passed.
        """
        # What may begin here depends on the character before it, too.
        state = (state, self._buffer.rereads, markdown.state, self._buffer.near(at)[-MAX_CHARACTER:])
        self.goes_on = self._place >= 0 and self._state == state
        if self.goes_on:
            end = self._passed(at, markdown.before, refusals)
            if end > at:
                markdown.pass_repeated(self._buffer.slice(max(at, end - MAX_BEFORE), end))
            self._most = 1
            self._remember(end, state, refusals)
            return end
        if self._place < 0 or self._seen >= self._most:
            self._remember(at, state, refusals)
        return at

    def _passed(self, at: int, before: bytes, refusals: Counter[str]) -> int:
        length = at - self._place
        if not 0 < length <= min(MAX_PIECE, len(before)):
            return at
        looked = self._buffer.looked - self._place
        if looked > MAX_LOOK:
            return at
        if at + looked > self._buffer.end:
            return at
        end = self._end_of_run(before[-length:], at)
        # From each place that is passed the scanner would see the same as from the one before.
        times = (end - at - looked) // length + 1
        if times <= 0:
            return at
        for reason, count in (refusals - self._refusals).items():
            refusals[reason] += times * count
        return at + times * length

    def _end_of_run(self, piece: bytes, at: int) -> int:
        """Up to where the text is this piece, again and again."""
        data, base = self._buffer.data, self._buffer.base
        place = at - base
        block = piece
        while data.startswith(block, place):
            place += len(block)
            if len(block) < _MAX_BLOCK:
                block += block
        while len(block) > len(piece):
            block = block[: len(block) // 2]
            if data.startswith(block, place):
                place += len(block)
        return base + place

    def _remember(self, at: int, state: object, refusals: Counter[str]) -> None:
        """Compare the places that come with this one."""
        self._place, self._state = at, state
        self._near = self._buffer.slice(at, at + _NEAR)
        self._refusals = refusals.copy()
        self._seen = 0
        self._most = min(2 * self._most, MOST_PLACES)
        self._buffer.looked = at
