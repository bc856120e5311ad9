"""Reading a text that is still being written.

Parsers of formats are generators over a `Cursor`: sequential code that yields where it needs text that has not come
yet. One grammar serves streamed and whole replies, and the result cannot depend on the cuts. All positions are byte
offsets into the window's UTF-8; every search goes on where the last one stopped, so parsing is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

from proxy.limits import MAX_DEPTH
from proxy.parsing.buffer import TextBuffer
from proxy.tools.toolset import Tool, ToolSet

T = TypeVar("T")
Parsing: TypeAlias = Generator[None, None, T]

MAX_BLANKS = 64
MAX_KEY = 128
MAX_SCALAR = 4096
# How often in a reply what was read up to its end is read again.
MAX_REREADS = 16
# What is void is read on no further than this: something that never ends must not hide every later call.
MAX_VOID = 64 * 1024
_NOT_BLANK = re.compile(rb"[^ \t\r\n]")
_IN_STRING = {b'"': re.compile(rb'["\\]'), b"'": re.compile(rb"['\\]")}
# JSON strings hold no control characters (RFC 8259, section 7); models write them all the same, but not in names.
_IN_STRICT_STRING = {b'"': re.compile(rb'["\\\x00-\x1f]'), b"'": re.compile(rb"['\\\x00-\x1f]")}
# Brackets, quotation marks, and all that stands in strings only: blanks, numbers and the three words of JSON, or of
# Python (F30), are passed over.
_IN_NESTED = re.compile(rb"[^ \t\r\n0-9+\-.eE,:truefalsnTFNo]")
_AFTER_SCALAR = re.compile(rb"[^0-9A-Za-z+.-]")
_SCALAR_STARTS = b"-0123456789tfnTFN"


_NO_TOOL = Tool("", {})


class NotACall(Exception):
    """The text cannot become a call any more; it is the model's prose after all. Its text says why."""


class Truncated(NotACall):
    """The text ended in the middle of what was read."""


@dataclass(frozen=True, slots=True)
class RawCall:
    """A call as a format gives it: the offered tool, its arguments as the text of a JSON object, and the id that the
    model gave it, empty if none; `explicit` if it is an object that says its name and its arguments.
    """

    tool: Tool
    written_name: str
    arguments: str
    id: str = ""
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A wrapper, or a fence, that is open: its opener as it was written, what closes it, and whether it began on a line
    of its own.
    """

    opener: bytes
    closers: tuple[bytes, ...]
    lined: bool


class Literals:
    """Texts of which the longest that stands somewhere is looked for, by their first byte."""

    def __init__(self, literals: Collection[bytes]) -> None:
        self._by_first: dict[bytes, list[bytes]] = {}
        for literal in sorted(literals, key=len, reverse=True):
            for prefix in {literal[:1], literal[:2]}:
                self._by_first.setdefault(prefix, []).append(literal)
        self._single = {literal: literal for literal in literals if len(literal) == 1}
        self.longest = max(map(len, literals), default=0)

    def match(self, here: bytes, ended: bool) -> bytes | None:
        """The longest literal that `here` begins with; empty if none; None while more text could tell otherwise."""
        near = self._by_first.get(here[:2])
        if near is None:
            return self._single.get(here[:1]) or (b"" if here or ended else None)
        for literal in near:
            if here.startswith(literal):
                return literal
            if not ended and len(here) < len(literal) and literal.startswith(here):
                return None
        return self._single.get(here[:1], b"")

    def breaks_off(self, here: bytes) -> bool:
        """True if the text ends in the middle of a literal: `here` is all of it."""
        near = self._by_first.get(here[:2], []) if 0 < len(here) < self.longest else []
        return any(literal.startswith(here) for literal in near)


@lru_cache(maxsize=256)
def _literals(literals: tuple[bytes, ...]) -> Literals:
    return Literals(literals)


@lru_cache(maxsize=256)
def _any_of(literals: tuple[bytes, ...]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, literals)))


def _never() -> bool:
    return False


class Cursor:
    """A position in a window.

    `named` is true once an offered name was read, `wrapped` while a format's own wrapper is open (`depth` of them),
    `weak` once what was read needs weak evidence's proof, `cut` if it broke off behind calls that are closed, `first`
    at the beginning of a reply, `strict` if no line ends in a string, `broken_off` if the text ended within a tag;
    `enclosures` are the wrappers and fences that are open and must be closed, the outermost first; `spans` are the
    positions of what was read that would be a call by itself, `format` says what it is if only the
    parser can tell. Once it is `void`, for the reason `why`, nothing will come of it, but it is read on to its end,
    because markup inside a string of it is no call either (contract C3); what is read then is let go, so the texts
    that a parser gets of it mean nothing, names aside.

    In a wrapper that may hold other calls (`passes`, behind `before` of them) a body of which no tool was offered is
    void only up to its own end, and stays text: `left` are such spans, each with the number of calls before it.
    `in_quotation` says whether a quotation is open before what is read.
    """

    def __init__(self, buffer: TextBuffer, pos: int, tools: ToolSet) -> None:
        self._buffer = buffer
        self.pos = pos
        self.tools = tools
        self.named = False
        self.wrapped = False
        self.weak = False
        self.cut = False
        self.broken_off = False
        self.first = False
        self.depth = 0
        self.strict = False
        self.spans: list[tuple[int, int]] = []
        self.enclosures: list[Enclosure] = []
        self.why = ""
        self.format = ""
        # What a parser read at a position that others ask for again, and where it ends.
        self.known: tuple[int, object, int] = (-1, None, -1)
        # Where to go on if nothing comes of what is read, and whether that is still allowed.
        self.back_to = -1
        self.may_go_back = True
        # How far was read what is read again from further back, or stays text behind calls: if nothing comes of that,
        # no call begins up to there.
        self.furthest = 0
        self.passes = False
        self.before = 0
        self.left: list[tuple[int, int, int]] = []
        self.in_quotation: Callable[[], bool] = _never
        self._void_from = -1
        self._ahead_of = -1
        self._passing = False

    @property
    def settled(self) -> int:
        """How far all was read for good: what is only looked at ahead is not, nor is what stands behind a call."""
        if self._passing and self.before:
            return 0
        return self.pos if self._ahead_of < 0 else self._ahead_of

    @property
    def stopped(self) -> bool:
        """True if the text ended because the model stopped by itself."""
        return self._buffer.stopped

    @property
    def void(self) -> bool:
        """True once it is known that this is no call."""
        return self._void_from >= 0

    @property
    def passing(self) -> bool:
        """True within a body that stays text although what stands beside it may be calls."""
        return self._passing

    def resume(self, start: int) -> bool:
        """Go on behind the body that began at `start`; False if it is not one that stays text."""
        if not self._passing:
            return False
        # What stands before the first call was let go as it was read.
        self.left.append((start if self.before else 0, self.pos, self.before))
        self._passing, self._void_from = False, -1
        return True

    def abandon(self, end: int, why: str) -> None:
        """All up to `end` was let go: nothing comes of it, whatever follows."""
        self.back_to = -1
        self.passes = self._passing = False
        self.reject_if(why=why)
        self.pos = end

    def reject_if(self, reason: bool = True, why: str = "it is of another kind") -> None:
        """From here on this is no call, if there is a reason."""
        if self._passing:
            return
        if reason and self.back_to >= 0:
            raise NotACall(why)
        if reason and not self.void:
            self._void_from = self.pos
            self.why = why

    def go_back(self, position: int) -> None:
        """Read again from a position. If nothing comes of that, what was read already holds no call either."""
        self.furthest = max(self.furthest, self.pos)
        self.pos = position

    def at_end(self) -> bool:
        """True if all text was read and no more comes."""
        return self._buffer.ended and self.pos >= self._buffer.end

    def text(self, start: int, end: int) -> str:
        """The text between two positions; empty when void."""
        return "" if self.void else self._buffer.part(start, end).decode("utf-8", "surrogatepass")

    def begins_line(self, pos: int) -> bool:
        """True if nothing but a few blanks stands between the start of a line and a position in what was read."""
        return self._buffer.part(pos - MAX_BLANKS, pos).rstrip(b" \t").endswith(b"\n")

    def breaks_line(self, start: int, end: int) -> bool:
        """True if a line ends between two positions."""
        return b"\n" in self._buffer.part(start, end)

    def preceding(self, pos: int) -> bytes:
        """The byte before a position in what was read."""
        return self._buffer.part(pos - 1, pos)

    def may_reread(self) -> bool:
        """Whether what was read up to the end of the reply may be read again, which only a few times it may."""
        self._buffer.rereads += 1
        return self._buffer.rereads <= MAX_REREADS

    def tool(self, name: str) -> Tool:
        """The offered tool of this name; without one this is no call (contract C3)."""
        tool = self.tools.resolve(name)
        if tool is None and self.passes and not self.void:
            self._passing, self._void_from, self.why = True, self.pos, f"no tool {name!r} is offered"
        self.reject_if(tool is None, f"no tool {name!r} is offered")
        self.named = self.named or tool is not None
        return tool or _NO_TOOL

    def ahead(self, parsing: Parsing[T]) -> Parsing[T]:
        """What a parser makes of the text from here on, of which nothing is read."""
        start, before = self.pos, self._ahead_of
        self._ahead_of = start if before < 0 else before
        try:
            return (yield from parsing)
        finally:
            self.pos, self._ahead_of = start, before

    def maybe(self, parsing: Parsing[T]) -> Parsing[T | None]:
        """What a parser reads here; None, and nothing is read, if it gives nothing or raises NotACall."""
        start, before = self.pos, self._ahead_of
        self._ahead_of = start if before < 0 else before
        found = None
        try:
            found = yield from parsing
        except NotACall as reason:
            self.broken_off = self.broken_off or isinstance(reason, Truncated)
        finally:
            self.pos, self._ahead_of = self.pos if found else start, before
        return found or None

    def which(self, literals: Literals | tuple[bytes, ...]) -> Parsing[bytes | None]:
        """Read the longest of the literals that stands here and give it; None if none does."""
        found = yield from self.peek(literals)
        self.pos += len(found or b"")
        return found

    def peek(self, literals: Literals | tuple[bytes, ...]) -> Parsing[bytes | None]:
        """The longest of the literals that stands here, not read yet; None if none does."""
        table = literals if isinstance(literals, Literals) else _literals(literals)
        while True:
            here = self._buffer.part(self.pos, self.pos + table.longest)
            found = table.match(here, self._buffer.ended)
            if found is not None:
                self.broken_off = self.broken_off or (not found and table.breaks_off(here))
                return found or None
            yield

    def expect(self, literal: bytes) -> Parsing[None]:
        """Read this literal; NotACall if it does not stand here."""
        if (yield from self.which((literal,))) is None:
            raise self.refuse(f"{literal.decode()!r} was expected")

    def refuse(self, why: str) -> NotACall:
        """The reason for which this is no call; Truncated if the text ends here."""
        return Truncated(f"the text ends where {why}") if self.at_end() or self.broken_off else NotACall(why)

    def blanks(self, limit: int = MAX_BLANKS) -> Parsing[None]:
        """Read spaces and line ends; more than `limit` of them belong to no call."""
        start = self.pos
        while True:
            self.pos = self._buffer.search(_NOT_BLANK, self.pos)
            self._check(start, limit)
            if self.pos < self._buffer.end or self._buffer.ended:
                return
            yield

    def until(self, pattern: re.Pattern[bytes], limit: int = 0) -> Parsing[bytes]:
        """Read on to a byte that the one-byte pattern matches and give what was read, without that byte.

        NotACall if the text ends first, or after `limit` bytes (0: no limit, and void text is not given).
        """
        start, before = self.pos, self._ahead_of
        self._ahead_of = start if limit and before < 0 else before
        try:
            while True:
                self.pos = self._buffer.search(pattern, self.pos, limit and limit + 1 - (self.pos - start))
                if limit and self.pos - start > limit:
                    self.pos = start + limit
                    raise NotACall(f"more than {limit} bytes of it")
                self._check(start, 0)
                if self.pos < self._buffer.end:
                    return self._buffer.part(start, self.pos)
                if self._buffer.ended:
                    raise Truncated("the text ends in the middle of it")
                yield
        finally:
            self._ahead_of = before

    def find(self, *literals: bytes) -> Parsing[tuple[int, bytes]]:
        """Read on past the next of the literals that occurs; give where it begins, and it. NotACall if none does.

        No literal may end inside another one before that ends.
        """
        start, longest = self.pos, max(map(len, literals))
        pattern = _any_of(literals)
        while True:
            found = self._buffer.first(pattern, self.pos)
            self.pos = found[0] + len(found[1]) if found else max(self.pos, self._buffer.end - longest + 1)
            self._check(start, 0)
            if found:
                return found
            if self._buffer.ended:
                raise Truncated("the text ends in the middle of a value")
            yield

    def past(self, *literals: bytes) -> Parsing[bytes]:
        """Read on past the next occurrence of one of the literals and give it; empty at the end of the reply, however
        far that is.
        """
        longest, pattern = max(map(len, literals)), _any_of(literals)
        while not self.at_end():
            found = self._buffer.first(pattern, self.pos)
            self.pos = found[0] + len(found[1]) if found else max(self.pos, self._buffer.end - longest + 1)
            if found:
                return found[1]
            if self._buffer.ended:
                self.pos = self._buffer.end
                return b""
            yield
        return b""

    def byte(self) -> Parsing[bytes]:
        """The next byte, not read yet; empty at the end of the text."""
        while self.pos >= self._buffer.end and not self._buffer.ended:
            yield
        return self._buffer.part(self.pos, self.pos + 1)

    def string(self, limit: int = 0, *, or_void: bool = False) -> Parsing[bytes]:
        """Read a string in either quotation marks and give it, marks and all; with a limit of its length, strictly.

        What is longer is NotACall, or void and read on if `or_void`.
        """
        start = self.pos
        quote = yield from self.which((b'"', b"'"))
        if quote is None:
            raise self.refuse("a string was expected")
        while True:
            strict = self.strict or (limit and not self.void)
            stops = _IN_STRICT_STRING if strict else _IN_STRING
            try:
                yield from self.until(stops[quote], max(1, start + limit - self.pos) if limit and not self.void else 0)
            except NotACall:
                if not or_void or self.void or self.pos < start + limit:
                    raise
                self.reject_if(why="no name is that long")
                continue
            mark = self._buffer.part(self.pos, self.pos + 1)
            if mark not in (quote, b"\\"):
                raise NotACall("a line ends in the middle of a string")
            self.pos += 1
            if mark == quote:
                return self._buffer.part(start, self.pos)
            if (yield from self.byte()) == b"":
                raise Truncated("the text ends in the middle of a string")
            self.pos += 1
            self._check(start, limit)

    def value(self, limit: int = 0) -> Parsing[bytes]:
        """Read one JSON value, as far as its brackets and quotation marks tell where it ends, and give it.

        Python's quotation marks and words count too (F30). `limit` is for strings, numbers and literals. NotACall at a
        byte that stands in strings only.
        """
        start = self.pos
        first = yield from self.byte()
        if first in (b'"', b"'") and first:
            return (yield from self.string(limit))
        if first not in (b"{", b"["):
            if first not in _SCALAR_STARTS or not first:
                raise self.refuse("a value was expected")
            return (yield from self.until(_AFTER_SCALAR, limit or MAX_SCALAR))
        depth = 0
        while True:
            yield from self.until(_IN_NESTED)
            here = yield from self.byte()
            if here in (b'"', b"'"):
                yield from self.string()
                continue
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(here, MAX_DEPTH + 1)
            if depth > MAX_DEPTH:
                raise NotACall("no JSON value has this")
            self.pos += 1
            if depth == 0:
                return self._buffer.part(start, self.pos)

    def _check(self, start: int, limit: int) -> None:
        """NotACall, at a place that does not depend on how much has come already, if more than `limit` was read since
        `start`, or more than MAX_VOID since nothing can come of it.
        """
        if limit and not self.void and self.pos - start > limit:
            self.pos = start + limit
            raise NotACall(f"more than {limit} bytes of it")
        if self.void and self.pos - self._void_from > MAX_VOID:
            self.pos = self._void_from + MAX_VOID
            raise NotACall(self.why)
