"""Reasoning that a server left in the text, taken apart for the dialects that show it on its own (F70, F73).

Only what stands at the beginning of a segment is reasoning: the reply's beginning, the place behind other reasoning, or
behind a call. A marker in the middle of prose is prose. Where a marker may have begun, its characters wait; nothing
else does.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from proxy.formats.reasoning import REASONING_MARKERS

Kind = Literal["text", "thinking"]
Piece: TypeAlias = tuple[Kind, str]

# What begins reasoning, with what ends it; gpt-oss' last answer begins with a header too, and is text.
_CLOSERS: dict[str, tuple[str, ...]] = {
    thought.opener: thought.closers for thought in REASONING_MARKERS if "final" not in thought.opener
}
_HEADERS = tuple(thought.opener for thought in REASONING_MARKERS if "final" in thought.opener)
_MARKERS = (*_CLOSERS, *_HEADERS)
_LONGEST = max(map(len, _MARKERS))
_BLANKS = re.compile(r"\s*")
_MAX_BLANKS = 4096


class ThinkingSplitter:
    """Text in any cut to pieces of text and of reasoning; equal results at every cut, joined by kind."""

    def __init__(self) -> None:
        self._closers: tuple[str, ...] = ()
        self._fresh = True
        # What is not decided begins at `_at`.
        self._pending = ""
        self._at = 0

    @property
    def closer(self) -> str:
        """What would end the reasoning that is open; "" if none is."""
        return next(iter(self._closers), "")

    @property
    def waits(self) -> bool:
        """True while text is waited with."""
        return bool(self._pending)

    @property
    def in_text(self) -> bool:
        """True if all that comes is text, until something else than text does."""
        return not (self._fresh or self._closers or self._pending)

    def feed(self, text: str) -> list[Piece]:
        """Take the next text; give what is decided."""
        if not (self._fresh or self._closers or self._pending):
            return [("text", text)]
        self._pending += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        self._pending, self._at = self._pending[self._at :], 0
        return pieces

    def segment(self) -> list[Piece]:
        """Say that something else than text comes: give what waits. The text behind it may begin with reasoning."""
        rest, self._pending = self._pending, ""
        kind: Kind = "text"
        if self._closers:
            kind = "thinking"
        self._fresh, self._closers = True, ()
        if not rest:
            return []
        return [(kind, rest)]

    def _step(self, pieces: list[Piece]) -> bool:
        """Decide the first part of what is pending; False if nothing more can be decided now."""
        if self._closers:
            return self._inside(pieces)
        if not self._fresh:
            self._give("text", len(self._pending), pieces)
            return False
        start = _BLANKS.match(self._pending, self._at).end()  # type: ignore[union-attr]
        if start == len(self._pending):
            # Nobody needs more of them than that.
            self._pending = self._pending[: self._at + _MAX_BLANKS]
            return False
        marker = next((marker for marker in _MARKERS if self._pending.startswith(marker, start)), None)
        if marker is not None:
            self._at = start + len(marker)
            self._closers = _CLOSERS.get(marker, ())
            self._fresh = not self._closers and marker not in _HEADERS
            return True
        if self._may_begin_marker(start):
            return False
        self._fresh = False
        return True

    def _may_begin_marker(self, start: int) -> bool:
        """True if what is pending from `start` on is the beginning of a marker, `<thi`."""
        if len(self._pending) - start >= _LONGEST:
            return False
        return any(marker.startswith(self._pending[start:]) for marker in _MARKERS)

    def _inside(self, pieces: list[Piece]) -> bool:
        """Reasoning goes on as far as no end of it has begun."""
        found = [(at, closer) for closer in self._closers if (at := self._pending.find(closer, self._at)) >= 0]
        if not found:
            tail = self._pending[max(self._at, len(self._pending) - _LONGEST) :]
            keep = max(_overlap(tail, closer) for closer in self._closers)
            self._give("thinking", len(self._pending) - keep, pieces)
            return False
        at, closer = min(found)
        self._give("thinking", at, pieces)
        # gpt-oss begins each next message with the token that may also end the one before.
        if closer != "<|start|>":
            self._at += len(closer)
        self._closers, self._fresh = (), True
        return True

    def _give(self, kind: Kind, end: int, pieces: list[Piece]) -> None:
        if end > self._at:
            pieces.append((kind, self._pending[self._at : end]))
            self._at = end


def _overlap(text: str, marker: str) -> int:
    """How many characters at the end of the text begin the marker."""
    return next((size for size in range(min(len(text), len(marker) - 1), 0, -1) if text.endswith(marker[:size])), 0)
