"""The scanner: finds calls in the text of a reply while it is being written.

It knows no format: the grammar says what may begin a call, and the parser of that format says what comes of it. Prose
is let go at once; held is only what can still become a call (contract C2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..limits import MAX_CALLS, MAX_HELD
from ..reader import NotACall, Parsing, RawCall, Reader, Window
from ..tools import Tools
from . import Format, Grammar
from .markdown import Markdown

# A call of this length that stands verbatim in a tool result was copied from there (contract C3, F89).
MIN_COPIED = 24
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_CODE_MAY_END = re.compile(rb"[`~\n]")


@dataclass(frozen=True, slots=True)
class Prose:
    """The text between two byte offsets of the reply is no call."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """The text between two byte offsets is these calls; none for blanks and tokens that are dropped."""

    start: int
    end: int
    calls: tuple[RawCall, ...]
    format: str


Piece: TypeAlias = Prose | Found


class _Candidate:
    """A parser at work on a span that may become calls; `start` is where its opener stands in the window."""

    def __init__(self, item: Format, window: Window, start: int, tools: Tools) -> None:
        self.format = item.name
        self.start = start
        self.reader = Reader(window, start, tools)
        self._parsing: Parsing[tuple[RawCall, ...]] = item.parse(self.reader)

    def go_on(self) -> tuple[RawCall, ...] | None:
        """The calls, or None while more text is needed; NotACall if it is none."""
        try:
            next(self._parsing)
        except StopIteration as done:
            calls: tuple[RawCall, ...] = done.value
            return calls
        return None


class Scanner:
    """Text in any cut to pieces; all bytes of the text are in exactly one piece, in order.

    `results` are the texts of the tool results since the last user message; `max_held` limits the bytes that wait for
    one call, `max_calls` the calls: what goes over them is prose.
    """

    def __init__(
        self,
        tools: Tools,
        grammar: Grammar,
        *,
        results: tuple[str, ...] = (),
        max_held: int = MAX_HELD,
        max_calls: int = MAX_CALLS,
    ) -> None:
        self._tools = tools
        self._grammar = grammar
        self._results = results
        self._max_held = max_held
        self._calls_left = max_calls
        self._window = Window()
        self._base = 0
        self._pos = 0
        self._markdown = Markdown()
        self._candidate: _Candidate | None = None
        self._after_call = False

    @property
    def held(self) -> bool:
        """True if some text waits."""
        return bool(self._window.data)

    @property
    def confident(self) -> bool:
        """True while the text that waits has named an offered tool."""
        return self._candidate is not None and self._candidate.reader.named and not self._candidate.reader.void

    def feed(self, text: str) -> tuple[Piece, ...]:
        """Take the next text; give what is decided."""
        if self._window.ended:
            raise ValueError("feed after finish")
        data = text.encode("utf-8", "surrogatepass")
        if self.glide(data):
            return (Prose(self._base - len(data), self._base),)
        self._window.data += data
        pieces = tuple(self._scan())
        if len(self._window.data) > self._max_held:
            pieces += self.release()
        return pieces

    def glide(self, data: bytes) -> bool:
        """Take the next text, in UTF-8, if all of it is prose because nothing waits and no call can begin in it."""
        if self._window.data or self._after_call or self._grammar.first_byte.search(data):
            return False
        self._markdown.feed(data)
        self._base += len(data)
        return True

    def release(self) -> tuple[Piece, ...]:
        """Let go of all that waits, as prose: it took too long, or something else has come."""
        data, candidate = self._window.data, self._candidate
        if not data:
            return ()
        self._markdown.feed(data[candidate.start if candidate else self._pos :])
        if candidate is not None and candidate.reader.pos == len(data):
            # It is read on to its end: what is inside a string of it is still no call.
            candidate.reader.void = True
            candidate.start = len(data)
        else:
            self._candidate = None
            self._pos = len(data)
        return (self._prose(len(data)),)

    def finish(self, *, stopped: bool) -> tuple[Piece, ...]:
        """Say that no more text comes; `stopped` if the model ended by itself."""
        self._window.ended = True
        self._window.stopped = stopped
        pieces = tuple(self._scan())
        if not self._window.data:
            return pieces
        if self._after_call and stopped:
            return (*pieces, self._take((), "blanks", len(self._window.data)))
        return (*pieces, self._prose(len(self._window.data)))

    def _scan(self) -> Iterator[Piece]:
        while self._candidate or self._find_candidate():
            candidate = self._candidate
            assert candidate is not None
            if candidate.start and not self._after_call:
                yield self._prose(candidate.start)
            try:
                calls = candidate.go_on()
                if calls is None:
                    yield from self._let_go_void(candidate)
                    return
                self._check(candidate, calls)
            except NotACall:
                self._candidate = None
                self._pos = candidate.reader.pos
                self._markdown.feed(self._window.data[candidate.start : self._pos])
                self._after_call = False
                continue
            yield self._take(calls, candidate.format, candidate.reader.pos)
        if not self._after_call and self._pos:
            yield self._prose(self._pos)

    def _let_go_void(self, candidate: _Candidate) -> Iterator[Piece]:
        """Nothing will come of it: what was read of it need not wait for its end."""
        end = candidate.reader.pos
        if candidate.reader.void and end:
            self._markdown.feed(self._window.data[candidate.start : end])
            candidate.start = end
            yield self._prose(end)

    def _find_candidate(self) -> bool:
        """Go on to the next place where a call may begin; False if all text was seen or the rest is undecided."""
        data, markdown = self._window.data, self._markdown
        while self._pos < len(data):
            if self._after_call and not self._skip_blanks():
                return False
            # Code may hold anything; only what can end it is of interest there.
            pattern = _CODE_MAY_END if markdown.in_code else self._grammar.first_byte
            match = pattern.search(data, self._pos)
            at = match.start() if match else len(data)
            del match  # it would keep the window from growing
            if at > self._pos:
                self._after_call = False
                markdown.feed(data[self._pos : at])
                self._pos = at
            if at < len(data) and self._opens(at):
                return self._candidate is not None
        return False

    def _opens(self, at: int) -> bool:
        """Whether something begins here: then there is a candidate now, or more text is needed to tell."""
        data, markdown = self._window.data, self._markdown
        if not markdown.in_code:
            for item in self._grammar.by_first_byte.get(data[at], ()):
                if item.line_start and not markdown.line_start:
                    continue
                here = bytes(data[at : at + len(item.opener)])
                if here == item.opener:
                    self._candidate = _Candidate(item, self._window, at, self._tools)
                    return True
                if item.opener.startswith(here) and not self._window.ended:
                    return True
        self._after_call = False
        markdown.feed(data[at : at + 1])
        self._pos = at + 1
        return False

    def _skip_blanks(self) -> bool:
        """Behind a call, step over blanks; False if nothing else has come yet."""
        match = _NOT_BLANK.search(self._window.data, self._pos)
        self._pos = match.start() if match else len(self._window.data)
        return match is not None

    def _check(self, candidate: _Candidate, calls: tuple[RawCall, ...]) -> None:
        """Refuse what was copied from a tool result (F89), and calls over the limit."""
        too_long = candidate.reader.pos - candidate.start > self._max_held
        if candidate.reader.void or too_long or len(calls) > self._calls_left:
            raise NotACall
        for start, end in candidate.reader.spans:
            text = candidate.reader.text(start, end)
            if len(text) >= MIN_COPIED and any(text in result for result in self._results):
                raise NotACall

    def _prose(self, end: int) -> Prose:
        """Let go of the window up to `end`; what is left begins at 0."""
        if self._candidate:
            self._candidate.start -= end
            self._candidate.reader.pos -= end
        self._after_call = False
        start = self._base
        self._drop(end)
        return Prose(start, self._base)

    def _take(self, calls: tuple[RawCall, ...], name: str, end: int) -> Found:
        self._candidate = None
        self._calls_left -= len(calls)
        start = self._base
        self._drop(end)
        self._pos = 0
        self._markdown = Markdown()
        self._after_call = True
        return Found(start, self._base, calls, name)

    def _drop(self, end: int) -> None:
        del self._window.data[:end]
        self._base += end
        self._pos = max(0, self._pos - end)
