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
from ..reader import MAX_BLANKS, NotACall, Parsing, RawCall, Reader, Window
from ..tools import Tools
from . import Format, Grammar
from .markdown import Markdown

# A call of this length that stands verbatim in a tool result was copied from there (contract C3, F89).
MIN_COPIED = 24
# A reply that goes on copying means none of it.
MAX_COPIED = 32
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_QUOTES = (b'"', b"'")


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
    """A parser at work on a span that may become calls.

    `start` is where it begins, `seen` up to where the Markdown around it was followed.
    """

    def __init__(self, item: Format, window: Window, start: int, tools: Tools) -> None:
        self.format = item.name
        self.start = self.seen = start
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
        self._pos = 0
        self._markdown = Markdown()
        self._candidate: _Candidate | None = None
        self._after_call = False
        self._copied = 0

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
            return (Prose(self._window.base - len(data), self._window.base),)
        self._window.data += data
        pieces = tuple(self._scan())
        if len(self._window.data) > self._max_held:
            pieces += self.release()
        return pieces

    def glide(self, data: bytes) -> bool:
        """Take the next text, in UTF-8, if all of it is prose because nothing waits and no call can begin in it."""
        waits = self._window.data or self._candidate or self._after_call
        if waits or self._grammar.first_byte.search(data):
            return False
        self._markdown.feed(data)
        self._window.base += len(data)
        self._window.last = data[-1:] or self._window.last
        self._pos = self._window.base
        return True

    def release(self) -> tuple[Piece, ...]:
        """Let go of all that waits, as prose: it took too long, or something else has come."""
        window, candidate = self._window, self._candidate
        if not window.data:
            return ()
        self._follow(window.end)
        self._pos = window.end
        if candidate is not None:
            # It is read on to its end: what is inside a string of it is still no call.
            candidate.reader.annul()
            candidate.reader.pos = window.end
        return (self._prose(window.end),)

    def finish(self, *, stopped: bool) -> tuple[Piece, ...]:
        """Say that no more text comes; `stopped` if the model ended by itself."""
        self._window.ended = True
        self._window.stopped = stopped
        pieces = tuple(self._scan())
        if not self._window.data:
            return pieces
        if self._after_call and stopped:
            return (*pieces, self._take((), "blanks", self._window.end))
        return (*pieces, self._prose(self._window.end))

    def _scan(self) -> Iterator[Piece]:
        while self._candidate or self._find_candidate():
            candidate = self._candidate
            assert candidate is not None
            if candidate.start > self._window.base and not self._after_call:
                yield self._prose(candidate.start)
            try:
                calls = candidate.go_on()
                if calls is None:
                    yield from self._let_go_void(candidate)
                    return
                self._check(candidate, calls)
            except NotACall:
                # What was let go already is not looked at again.
                self._pos = max(candidate.reader.pos, self._window.base)
                self._follow(self._pos)
                self._candidate = None
                self._after_call = False
                continue
            yield self._take(calls, candidate.format, candidate.reader.pos)
        if not self._after_call and self._pos > self._window.base:
            yield self._prose(self._pos)

    def _follow(self, end: int) -> None:
        """Follow the Markdown up to a position."""
        seen = self._candidate.seen if self._candidate else self._pos
        self._markdown.feed(self._window.part(seen, end))
        if self._candidate:
            self._candidate.seen = end

    def _let_go_void(self, candidate: _Candidate) -> Iterator[Piece]:
        """Nothing will come of it: what was read of it need not wait for its end."""
        end = candidate.reader.pos
        while end > self._window.base and self._window.part(end, end + 1)[:1] > b"\x7f":
            end -= 1  # never in the middle of a character
        if candidate.reader.void and end > self._window.base:
            self._follow(end)
            self._pos = end
            yield self._prose(end)

    def _find_candidate(self) -> bool:
        """Go on to the next place where a call may begin; False if all text was seen or the rest is undecided."""
        window, markdown = self._window, self._markdown
        while self._pos < window.end:
            if self._after_call:
                self._pos = window.search(_NOT_BLANK, self._pos)
                if self._pos == window.end:
                    return False
            # Code may hold anything; only what can end it is of interest there.
            at = window.search(self._grammar.in_code if markdown.in_code else self._grammar.first_byte, self._pos)
            if at > self._pos:
                self._after_call = False
                markdown.feed(window.part(self._pos, at))
                self._pos = at
            if at < window.end and self._opens(at):
                return self._candidate is not None
        return False

    def _opens(self, at: int) -> bool:
        """Whether something begins here: then there is a candidate now, or more text is needed to tell."""
        window, markdown = self._window, self._markdown
        first = window.part(at, at + 1)
        in_code = markdown.in_code
        for item in self._grammar.by_first_byte.get(first[0], ()):
            if (in_code and not item.in_code) or (item.line_start and not markdown.line_start):
                continue
            here = window.part(at, at + len(item.opener))
            if here == item.opener and not (follows := self._follows(item, at + len(here))):
                if follows is None:
                    return True
                continue
            if here == item.opener:
                self._candidate = _Candidate(item, window, at, self._tools)
                # Directly behind a quotation mark it is quoted, and so is all up to its end.
                self._candidate.reader.annul(window.before(at) in _QUOTES)
                return True
            if item.opener.startswith(here) and not window.ended:
                return True
        self._after_call = False
        markdown.feed(first)
        self._pos = at + 1
        return False

    def _follows(self, item: Format, end: int) -> bool | None:
        """Whether what stands behind the opener can follow it; None while nothing but blanks does."""
        if not item.then:
            return True
        at = self._window.search(_NOT_BLANK, end)
        if at - end > MAX_BLANKS:
            return False
        if at == self._window.end:
            return False if self._window.ended else None
        return self._window.part(at, at + 1) in item.then

    def _check(self, candidate: _Candidate, calls: tuple[RawCall, ...]) -> None:
        """Refuse what was copied from a tool result (F89), and calls over the limits."""
        reader = candidate.reader
        if reader.void or reader.pos - candidate.start > self._max_held or len(calls) > self._calls_left:
            raise NotACall
        if self._copied >= MAX_COPIED:
            raise NotACall
        for start, end in reader.spans:
            text = reader.text(start, end)
            if len(text) >= MIN_COPIED and any(text in result for result in self._results):
                self._copied += 1
                raise NotACall

    def _prose(self, end: int) -> Prose:
        """Let go of the text up to `end`."""
        self._after_call = False
        start = self._window.base
        self._window.drop(end)
        return Prose(start, end)

    def _take(self, calls: tuple[RawCall, ...], name: str, end: int) -> Found:
        self._candidate = None
        self._calls_left -= len(calls)
        start = self._window.base
        self._window.drop(end)
        self._pos = end
        self._markdown = Markdown()
        self._after_call = True
        return Found(start, end, calls, name)
