"""Reading a text that is still being written.

Parsers of formats are generators over a `Reader`: sequential code that yields where it needs text that has not come
yet. One grammar serves streamed and whole replies, and the result cannot depend on the cuts. All positions are byte
offsets into the window's UTF-8; every search goes on where the last one stopped, so parsing is linear.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from .limits import MAX_DEPTH
from .tools import Tool, Tools

T = TypeVar("T")
Parsing: TypeAlias = Generator[None, None, T]

MAX_BLANKS = 64
MAX_KEY = 128
MAX_SCALAR = 4096
# What is void is read on no further than this: something that never ends must not hide every later call.
MAX_VOID = 64 * 1024
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_IN_STRING = re.compile(rb'["\\]')
# JSON strings hold no control characters (RFC 8259, section 7); models write them all the same, but not in names.
_IN_STRICT_STRING = re.compile(rb'["\\\x00-\x1f]')
# Brackets, quotation marks, and all that JSON has in strings only: its blanks, numbers and three words are passed over.
_IN_NESTED = re.compile(rb"[^ \t\r\n0-9+\-.eE,:truefalsn]")
_AFTER_SCALAR = re.compile(rb"[^0-9A-Za-z+.-]")
_SCALAR_STARTS = b"-0123456789tfn"


_NO_TOOL = Tool("", {})


class NotACall(Exception):
    """The text cannot become a call any more; it is the model's prose after all."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as a format gives it: the offered tool, and its arguments as the text of a JSON object."""

    tool: Tool
    written_name: str
    arguments: str


@dataclass(slots=True)
class Window:
    """The part of the reply's text that is not let go yet.

    `base` is the position of its first byte in the reply, `last` the byte before that.

    `ended` says that no more comes; `stopped` that the model ended by itself, so that what stands there is all it
    wanted to say (contract C4: a call cut off by `length` is never completed).
    """

    data: bytearray = field(default_factory=bytearray)
    base: int = 0
    last: bytes = b""
    ended: bool = False
    stopped: bool = False

    @property
    def end(self) -> int:
        """The position behind the last byte that came."""
        return self.base + len(self.data)

    def part(self, start: int, end: int) -> bytes:
        """The bytes between two positions, as far as they are still here."""
        return bytes(self.data[max(0, start - self.base) : max(0, end - self.base)])

    def search(self, pattern: re.Pattern[bytes], start: int) -> int:
        """Where the pattern first matches from `start` on; the end of the text if it does not."""
        found = pattern.search(self.data, max(0, start - self.base))
        return self.base + found.start() if found else self.end

    def find(self, literal: bytes, start: int) -> int:
        """Where the literal first stands from `start` on; -1 if it does not."""
        at = self.data.find(literal, max(0, start - self.base))
        return at if at < 0 else self.base + at

    def drop(self, end: int) -> None:
        """Forget the bytes before a position."""
        if end > self.base:
            self.last = self.part(end - 1, end)
            del self.data[: end - self.base]
            self.base = end

    def before(self, pos: int) -> bytes:
        """The byte before a position; empty at the start of the reply."""
        return self.part(pos - 1, pos) if pos > self.base else self.last


class Reader:
    """A position in a window.

    `named` is true once an offered name was read, `wrapped` while a format's own wrapper is open; `spans` are the
    positions of what was read that would be a call by itself. Once it is `void` nothing will come of it, but it is
    read on to its end, because markup inside a string of it is no call either (contract C3); what is read then is let
    go, so the texts that a parser gets of it mean nothing.
    """

    def __init__(self, window: Window, pos: int, tools: Tools) -> None:
        self._window = window
        self.pos = pos
        self.tools = tools
        self.named = False
        self.wrapped = False
        self.spans: list[tuple[int, int]] = []
        self._void_from = -1

    @property
    def stopped(self) -> bool:
        """True if the text ended because the model stopped by itself."""
        return self._window.stopped

    @property
    def void(self) -> bool:
        """True once it is known that this is no call."""
        return self._void_from >= 0

    def annul(self, reason: bool = True) -> None:
        """From here on this is no call, if there is a reason."""
        if reason and not self.void:
            self._void_from = self.pos

    def at_end(self) -> bool:
        """True if all text was read and no more comes."""
        return self._window.ended and self.pos >= self._window.end

    def text(self, start: int, end: int) -> str:
        """The text between two positions; empty when void."""
        return "" if self.void else self._window.part(start, end).decode("utf-8", "surrogatepass")

    def tool(self, name: str) -> Tool:
        """The offered tool of this name; without one this is no call (contract C3)."""
        tool = self.tools.resolve(name)
        self.annul(tool is None)
        self.named = self.named or tool is not None
        return tool or _NO_TOOL

    def which(self, literals: Collection[bytes]) -> Parsing[bytes | None]:
        """Read the longest of the literals that stands here and give it; None if none does."""
        longest = max(map(len, literals))
        while True:
            here = self._window.part(self.pos, self.pos + longest)
            undecided = any(len(here) < len(literal) and literal.startswith(here) for literal in literals)
            if not undecided or self._window.ended:
                found = max((item for item in literals if here.startswith(item)), key=len, default=None)
                self.pos += len(found or b"")
                return found
            yield

    def expect(self, literal: bytes) -> Parsing[None]:
        """Read this literal; NotACall if it does not stand here."""
        if (yield from self.which((literal,))) is None:
            raise NotACall

    def blanks(self, limit: int = MAX_BLANKS) -> Parsing[None]:
        """Read spaces and line ends; more than `limit` of them belong to no call."""
        start = self.pos
        while True:
            self.pos = self._window.search(_NOT_BLANK, self.pos)
            self._check(start, limit)
            if self.pos < self._window.end or self._window.ended:
                return
            yield

    def until(self, pattern: re.Pattern[bytes], limit: int = 0) -> Parsing[bytes]:
        """Read on to a byte that the one-byte pattern matches and give what was read, without that byte.

        NotACall if the text ends first, or after `limit` bytes (0: no limit).
        """
        start = self.pos
        while True:
            self.pos = self._window.search(pattern, self.pos)
            self._check(start, limit)
            if self.pos < self._window.end:
                return self._window.part(start, self.pos)
            if self._window.ended:
                raise NotACall
            yield

    def find(self, literal: bytes) -> Parsing[int]:
        """Read on past the next occurrence of the literal and give where it begins; NotACall if there is none."""
        start = self.pos
        while True:
            at = self._window.find(literal, self.pos)
            self.pos = at + len(literal) if at >= 0 else max(self.pos, self._window.end - len(literal) + 1)
            self._check(start, 0)
            if at >= 0:
                return at
            if self._window.ended:
                raise NotACall
            yield

    def past(self, literal: bytes) -> Parsing[None]:
        """Read on past the next occurrence of the literal, or to the end of the reply, however far that is."""
        while not self.at_end():
            at = self._window.find(literal, self.pos)
            self.pos = at + len(literal) if at >= 0 else max(self.pos, self._window.end - len(literal) + 1)
            if at >= 0:
                return
            if self._window.ended:
                self.pos = self._window.end
                return
            yield

    def byte(self) -> Parsing[bytes]:
        """The next byte, not read yet; empty at the end of the text."""
        while self.pos >= self._window.end and not self._window.ended:
            yield
        return self._window.part(self.pos, self.pos + 1)

    def string(self, limit: int = 0) -> Parsing[bytes]:
        """Read a JSON string and give it, quotation marks and all; with a limit of its length, strictly."""
        start = self.pos
        yield from self.expect(b'"')
        while True:
            stops = _IN_STRICT_STRING if limit or self.void else _IN_STRING
            yield from self.until(stops, limit and max(1, start + limit - self.pos))
            mark = self._window.part(self.pos, self.pos + 1)
            if mark not in b'"\\':
                raise NotACall
            self.pos += 1
            if mark == b'"':
                return self._window.part(start, self.pos)
            if (yield from self.byte()) == b"":
                raise NotACall
            self.pos += 1
            self._check(start, limit)

    def value(self, limit: int = 0) -> Parsing[bytes]:
        """Read one JSON value, as far as its brackets and quotation marks tell where it ends, and give it.

        `limit` is for strings, numbers and literals. NotACall at a byte that JSON has in strings only.
        """
        start = self.pos
        first = yield from self.byte()
        if first == b'"':
            return (yield from self.string(limit))
        if first not in (b"{", b"["):
            if first not in _SCALAR_STARTS:
                raise NotACall
            return (yield from self.until(_AFTER_SCALAR, limit or MAX_SCALAR))
        depth = 0
        while True:
            yield from self.until(_IN_NESTED)
            here = yield from self.byte()
            if here == b'"':
                yield from self.string()
                continue
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(here, MAX_DEPTH + 1)
            if depth > MAX_DEPTH:
                raise NotACall
            self.pos += 1
            if depth == 0:
                return self._window.part(start, self.pos)

    def _check(self, start: int, limit: int) -> None:
        """NotACall, at a place that does not depend on how much has come already, if more than `limit` was read since
        `start`, or more than MAX_VOID since nothing can come of it.
        """
        if limit and not self.void and self.pos - start > limit:
            self.pos = start + limit
            raise NotACall
        if self.void and self.pos - self._void_from > MAX_VOID:
            self.pos = self._void_from + MAX_VOID
            raise NotACall
