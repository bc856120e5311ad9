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
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_IN_STRING = re.compile(rb'["\\]')
# JSON strings hold no control characters (RFC 8259, section 7); models write them all the same, but not in names.
_IN_STRICT_STRING = re.compile(rb'["\\\x00-\x1f]')
_IN_NESTED = re.compile(rb'["{}\[\]]')
_AFTER_SCALAR = re.compile(rb"[,}\]\s]")


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

    `ended` says that no more comes; `stopped` that the model ended by itself, so that what stands there is all it
    wanted to say (contract C4: a call cut off by `length` is never completed).
    """

    data: bytearray = field(default_factory=bytearray)
    ended: bool = False
    stopped: bool = False


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
        self.void = False
        self.spans: list[tuple[int, int]] = []

    @property
    def stopped(self) -> bool:
        """True if the text ended because the model stopped by itself."""
        return self._window.stopped

    def at_end(self) -> bool:
        """True if all text was read and no more comes."""
        return self._window.ended and self.pos >= len(self._window.data)

    def text(self, start: int, end: int) -> str:
        """The text between two positions; empty when void."""
        if self.void:
            return ""
        return self._window.data[start:end].decode("utf-8", "surrogatepass")

    def tool(self, name: str) -> Tool:
        """The offered tool of this name; without one this is no call (contract C3)."""
        tool = self.tools.resolve(name)
        self.void = self.void or tool is None
        self.named = self.named or tool is not None
        return tool or _NO_TOOL

    def which(self, literals: Collection[bytes]) -> Parsing[bytes | None]:
        """Read the longest of the literals that stands here and give it; None if none does."""
        longest = max(map(len, literals))
        while True:
            here = bytes(self._window.data[self.pos : self.pos + longest])
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
            found = _NOT_BLANK.search(self._window.data, self.pos)
            self.pos = found.start() if found else len(self._window.data)
            self._check(start, limit)
            if found or self._window.ended:
                return
            yield

    def until(self, pattern: re.Pattern[bytes], limit: int = 0) -> Parsing[bytes]:
        """Read on to a byte that the one-byte pattern matches and give what was read, without that byte.

        NotACall if the text ends first, or after `limit` bytes (0: no limit).
        """
        start = self.pos
        while True:
            found = pattern.search(self._window.data, self.pos)
            self.pos = found.start() if found else len(self._window.data)
            if limit:
                self._check(start, limit)
            if found:
                return bytes(self._window.data[start : self.pos])
            if self._window.ended:
                raise NotACall
            yield

    def _check(self, start: int, limit: int) -> None:
        """NotACall, at a place that does not depend on how much has come already, if more than `limit` was read."""
        if self.pos - start > limit:
            self.pos = start + limit
            raise NotACall

    def find(self, literal: bytes) -> Parsing[int]:
        """Read on past the next occurrence of the literal and give where it begins; NotACall if there is none."""
        while True:
            at = self._window.data.find(literal, self.pos)
            if at >= 0:
                self.pos = at + len(literal)
                return at
            if self._window.ended:
                raise NotACall
            # All but a literal that may just be beginning is done with.
            self.pos = max(self.pos, len(self._window.data) - len(literal) + 1)
            yield

    def byte(self) -> Parsing[bytes]:
        """The next byte, not read yet; empty at the end of the text."""
        while self.pos >= len(self._window.data) and not self._window.ended:
            yield
        return bytes(self._window.data[self.pos : self.pos + 1])

    def string(self, limit: int = 0) -> Parsing[bytes]:
        """Read a JSON string and give it, quotation marks and all; with a limit of its length, strictly."""
        start = self.pos
        yield from self.expect(b'"')
        while True:
            stops = _IN_STRICT_STRING if limit or self.void else _IN_STRING
            yield from self.until(stops, limit and max(1, start + limit - self.pos))
            mark = bytes(self._window.data[self.pos : self.pos + 1])
            if mark not in b'"\\':
                raise NotACall
            self.pos += 1
            if mark == b'"':
                return bytes(self._window.data[start : self.pos])
            if (yield from self.byte()) == b"":
                raise NotACall
            self.pos += 1

    def value(self, limit: int = 0) -> Parsing[bytes]:
        """Read one JSON value, as far as its brackets and quotation marks tell where it ends, and give it.

        `limit` is for strings, numbers and literals.
        """
        start = self.pos
        first = yield from self.byte()
        if first == b'"':
            return (yield from self.string(limit))
        if first not in (b"{", b"["):
            return (yield from self.until(_AFTER_SCALAR, limit))
        depth = 0
        while True:
            yield from self.until(_IN_NESTED)
            here = yield from self.byte()
            if here == b'"':
                yield from self.string()
                continue
            self.pos += 1
            depth += 1 if here in b"{[" else -1
            if depth > MAX_DEPTH:
                raise NotACall
            if depth == 0:
                return bytes(self._window.data[start : self.pos])
