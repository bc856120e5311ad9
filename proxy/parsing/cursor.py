"""Reading a text that is still being written.

Parsers of formats are generators over a `Cursor`: sequential code that yields where it needs text that has not come
yet. One grammar serves streamed and whole replies, and the result cannot depend on the cuts. All positions are byte
offsets into the buffer's UTF-8; every search goes on where the last one stopped, so parsing is linear.

Of `{"name": "read", "arguments": {"pa` a parser has read the key and its string when it asks for a value that has not
come as a whole yet: it yields, and goes on in the middle of `"pa` when the next chunk is there.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from dataclasses import replace
from typing import TypeAlias, TypeVar

from proxy.limits import MAX_DEPTH
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.calls import RawCall
from proxy.parsing.context import Context, Enclosure
from proxy.parsing.evidence import (
    Evidence,
    KeptText,
    NotACall,
    OpenString,
    Rejection,
    StringGoesOn,
    Truncated,
    Unreadable,
    ValueGoesOn,
    Verdict,
    VerdictStep,
    unreadable,
)
from proxy.parsing.literal_table import Literals, any_of, literal_table
from proxy.parsing.nested_values import pass_tokens
from proxy.parsing.strings import DOUBLE_QUOTED, IN_STRICT_STRING, IN_STRING, WITHIN_STRING
from proxy.tools.toolset import Tool

# What a parser of a format needs.
__all__ = [
    "MAX_BLANKS",
    "MAX_KEY",
    "MAX_REREADS",
    "MAX_SCALAR",
    "MAX_VOID",
    "Context",
    "Cursor",
    "Enclosure",
    "Evidence",
    "KeptText",
    "Literals",
    "NotACall",
    "OpenString",
    "Parsing",
    "RawCall",
    "Rejection",
    "StringGoesOn",
    "Truncated",
    "Unreadable",
    "ValueGoesOn",
    "unreadable",
]

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
# Brackets, quotation marks, and all that stands in strings only: blanks, numbers and the three words of JSON, or of
# Python (F30), are passed over.
_IN_NESTED = re.compile(rb"[^ \t\r\n0-9+\-.eE,:truefalsnTFNo]")
_AFTER_SCALAR = re.compile(rb"[^0-9A-Za-z+.-]")
_SCALAR_STARTS = b"-0123456789tfnTFN"
_QUOTES = (b'"', b"'")
# What may stand behind a string in an array or an object; the comma before the next one may be missing.
_BEHIND_STRING = frozenset((b",", b":", b"]", b"}", b"[", b"{", *_QUOTES))
_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_NO_TOOL = Tool("", {})
# Asked for with every chunk: a global name is found faster than a member of an enum.
_OPEN, _SKIPPING = Verdict.OPEN, Verdict.SKIPPING


class Cursor:
    """A position in a text, with the context around it and the evidence that was found so far.

    A parser reads with `expect`, `which`, `until`, `value` and so on, and looks ahead with `peek`, `ahead` and `maybe`.
    It raises `refuse(…)` where the text goes on as no call does, and says `reject(…)` where nothing can come of it
    but its end is still to be found: markup inside a string of it is no call either. Such text is let go as it is read,
    so what a parser gets of it means nothing, names aside.
    """

    def __init__(self, buffer: TextBuffer, pos: int, context: Context) -> None:
        self._buffer = buffer
        self.pos = pos
        self.context = context
        self.evidence = Evidence()
        # The text ended within one of the literals that were looked for: `</tool_ca`.
        self.ends_in_literal = False
        # Reading again. `back_to`: where to go on if nothing comes of it, -1 if nowhere; `furthest`: how far was read
        # what is read again from further back, or stays text behind calls: if nothing comes of that, no call begins up
        # to there.
        self.back_to = -1
        self.furthest = 0
        # What a parser read at a position that others ask for again, and where it ends.
        self.memo: tuple[int, object, int] = (-1, None, -1)
        # Where the outermost look ahead began, -1 if all that is read is read for good.
        self._ahead_of = -1
        # What the text is read on to, while more of it is needed.
        self._awaited: re.Pattern[bytes] | None = None

    @property
    def settled(self) -> int:
        """How far all was read for good: what is only looked at ahead is not, nor is what stands behind a call."""
        if self.passing and self.context.calls_before:
            return 0
        return self.pos if self._ahead_of < 0 else self._ahead_of

    @property
    def in_string(self) -> bool:
        """True while it reads a string in double quotation marks, of any length, of which all that came was read."""
        if self.void or self._ahead_of >= 0:
            return False
        return self._awaited in DOUBLE_QUOTED

    @property
    def stopped(self) -> bool:
        """True if the text ended because the model stopped by itself."""
        return self._buffer.stopped

    @property
    def void(self) -> bool:
        """True once it is known that what is read now is no call."""
        return self.evidence.verdict is not _OPEN

    @property
    def passing(self) -> bool:
        """True within a body that stays text although what stands beside it may be calls."""
        return self.evidence.verdict is _SKIPPING

    def resume(self, start: int) -> bool:
        """Go on behind the body that began at `start`; False if it is not one that stays text."""
        if not self.passing:
            return False
        self.keep_text(start)
        self.evidence.move(VerdictStep.RESUME)
        return True

    def keep_text(self, start: int) -> None:
        """Say that what began at `start` stays text, and is over here."""
        before = self.context.calls_before
        # What stands before the first call was let go as it was read.
        begin = start if before else 0
        self.evidence.keep_text(KeptText(begin, self.pos, before))

    def abandon(self, end: int, rejection: Rejection) -> None:
        """All up to `end` was let go: nothing comes of it, whatever follows."""
        self.back_to = -1
        self.context = replace(self.context, holds_several=False)
        if self.passing:
            self.evidence.move(VerdictStep.ABANDON, self.evidence.since)
        self.reject(rejection)
        self.pos = end

    def reject(self, rejection: Rejection | str = Rejection.BROKEN, detail: str = "") -> None:
        """Take what is read for prose from here on, and read it to its end; words alone are a BROKEN one's detail.

        The first reason is kept. NotACall if there is a place to go back to: then nothing needs to be read on.
        """
        if self.passing:
            return
        refusal = NotACall(rejection, detail)
        if self.back_to >= 0:
            raise refusal
        if not self.void:
            self._turn(VerdictStep.REJECT, refusal)

    def reject_if(self, condition: bool = True, why: Rejection | str = Rejection.BROKEN) -> None:
        """Like `reject`, if the condition holds."""
        if condition:
            self.reject(why)

    def rejected(self, otherwise: str = "") -> NotACall:
        """What to raise where the end of it was read: why it was rejected, or `otherwise` if it was not."""
        return self.evidence.rejected(otherwise)

    def _turn(self, step: VerdictStep, refusal: NotACall) -> None:
        self.evidence.move(step, self.pos)
        self.evidence.explain(refusal)

    def go_back(self, position: int) -> None:
        """Read again from a position. If nothing comes of that, what was read already holds no call either."""
        self.furthest = max(self.furthest, self.pos)
        self.pos = position

    def at_end(self) -> bool:
        """True if all text was read and no more comes."""
        return self._buffer.ended and self.pos >= self._buffer.end

    def text(self, start: int, end: int) -> str:
        """The text between two positions; empty when void."""
        if self.void:
            return ""
        return self._buffer.slice(start, end).decode("utf-8", "surrogatepass")

    def written(self, start: int) -> bytes:
        """The bytes between a position and this one."""
        return self._buffer.slice(start, self.pos)

    def begins_line(self, pos: int) -> bool:
        """True if nothing but a few blanks stands between the start of a line and a position in what was read."""
        return self._buffer.slice(pos - MAX_BLANKS, pos).rstrip(b" \t").endswith(b"\n")

    def breaks_line(self, start: int, end: int) -> bool:
        """True if a line ends between two positions."""
        return b"\n" in self._buffer.slice(start, end)

    def preceding(self, pos: int) -> bytes:
        """The byte before a position in what was read."""
        return self._buffer.slice(pos - 1, pos)

    def may_reread(self) -> bool:
        """Whether what was read up to the end of the reply may be read again, which only a few times it may."""
        if self._buffer.rereads >= MAX_REREADS:
            return False
        self._buffer.rereads += 1
        return True

    def tool(self, name: str) -> Tool:
        """The offered tool of this name; without one this is no call (contract C3)."""
        tool = self.context.tools.resolve(name)
        if tool is not None:
            self.evidence.name_tool(tool.name)
            return tool
        why = f"no tool {name!r} is offered"
        if self.context.holds_several and not self.void:
            self._turn(VerdictStep.SKIP, NotACall(Rejection.NOT_OFFERED, why))
        else:
            self.reject(Rejection.NOT_OFFERED, why)
        return _NO_TOOL

    def ahead(self, parsing: Parsing[T]) -> Parsing[T]:
        """What a parser makes of the text from here on, of which nothing is read."""
        start, outer = self.pos, self._look_ahead()
        try:
            return (yield from parsing)
        finally:
            self.pos, self._ahead_of = start, outer

    def maybe(self, parsing: Parsing[T]) -> Parsing[T | None]:
        """What a parser reads here; None, and nothing is read, if it gives nothing or raises NotACall."""
        start, outer = self.pos, self._look_ahead()
        found = None
        try:
            found = yield from parsing
        except Truncated:
            self.ends_in_literal = True
        except NotACall:
            pass
        finally:
            if not found:
                self.pos = start
            self._ahead_of = outer
        return found or None

    def _look_ahead(self) -> int:
        """From here on text is only looked at; gives what `_ahead_of` is to be afterwards."""
        outer = self._ahead_of
        if outer < 0:
            self._ahead_of = self.pos
        return outer

    def which(self, literals: Literals | tuple[bytes, ...]) -> Parsing[bytes | None]:
        """Read the longest of the literals that stands here and give it; None if none does."""
        found = yield from self.peek(literals)
        if found is not None:
            self.pos += len(found)
        return found

    def peek(self, literals: Literals | tuple[bytes, ...]) -> Parsing[bytes | None]:
        """The longest of the literals that stands here, not read yet; None if none does."""
        table = literals if isinstance(literals, Literals) else literal_table(literals)
        while True:
            here = self._buffer.beginning(table.lengths, self.pos, table.longest)
            if here is None:
                return None
            match = table.match(here, self._buffer.ended)
            if match:
                return match
            if match is not None:
                if table.breaks_off(here):
                    self.ends_in_literal = True
                return None
            yield

    def begins_none(self, table: Literals) -> bool:
        """True if the next byte has come, and none of the literals begins with it."""
        return self._buffer.beginning(table.lengths, self.pos, 1) is None

    def expect(self, literal: bytes) -> Parsing[None]:
        """Read this literal; NotACall if it does not stand here."""
        if (yield from self.which((literal,))) is None:
            raise self.refuse(f"{literal.decode()!r} was expected")

    def refuse(self, why: str, rejection: Rejection = Rejection.BROKEN) -> NotACall:
        """What to raise where the text goes on as no call does; Truncated if it ends here."""
        if self.at_end() or self.ends_in_literal:
            return Truncated(f"the text ends where {why}")
        return NotACall(rejection, why)

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
        start, outer = self.pos, self._ahead_of
        if limit:
            self._look_ahead()
        try:
            while True:
                room = start + limit + 1 - self.pos if limit else 0
                self.pos = self._buffer.search(pattern, self.pos, room)
                if limit and self.pos - start > limit:
                    self.pos = start + limit
                    raise NotACall(f"more than {limit} bytes of it")
                self._check(start, 0)
                if self.pos < self._buffer.end:
                    return self._buffer.slice(start, self.pos)
                if self._buffer.ended:
                    raise Truncated("the text ends in the middle of it")
                self._awaited = pattern
                yield
                self._awaited = None
        finally:
            self._ahead_of = outer

    def find(self, *literals: bytes) -> Parsing[tuple[int, bytes]]:
        """Read on past the next of the literals that occurs; give where it begins, and it. NotACall if none does.

        No literal may end inside another one before that ends.
        """
        start = self.pos
        while True:
            found = self._seek(literals)
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
        while not self.at_end():
            found = self._seek(literals)
            if found:
                return found[1]
            if self._buffer.ended:
                self.pos = self._buffer.end
                return b""
            yield
        return b""

    def _seek(self, literals: tuple[bytes, ...]) -> tuple[int, bytes] | None:
        """Go on past the next literal: where it begins, and it; if none came yet, to where one may have begun."""
        sought = any_of(literals)
        found = self._buffer.first(sought.pattern, self.pos, sought.longest)
        if found is not None:
            self.pos = found[0] + len(found[1])
            return found
        self.pos = max(self.pos, self._buffer.end - sought.longest + 1)
        return None

    def complete_match(self, pattern: re.Pattern[bytes]) -> bytes | None:
        """Read what the pattern matches here, if all of it has come; what is void no further than that is read."""
        most = self.evidence.since + MAX_VOID if self.void else sys.maxsize
        found = self._buffer.complete_match(pattern, self.pos, most)
        self.pos += len(found or b"")
        return found

    def byte(self) -> Parsing[bytes]:
        """The next byte, not read yet; empty at the end of the text."""
        while self.pos >= self._buffer.end and not self._buffer.ended:
            yield
        return self._buffer.slice(self.pos, self.pos + 1)

    def string(self, limit: int = 0, *, or_void: bool = False) -> Parsing[bytes]:
        """Read a string in either quotation marks and give it, marks and all; with a limit of its length, strictly.

        What is longer is NotACall, or void and read on if `or_void`.
        """
        start = self.pos
        quote = yield from self.which(_QUOTES)
        if quote is None:
            raise self.refuse("a string was expected")
        while True:
            stop, room = self._string_bounds(quote, start, limit)
            if not room and not self.void:
                self.pos = self._buffer.skip(WITHIN_STRING[stop], self.pos)
            try:
                yield from self.until(stop, room)
            except NotACall:
                bearable = or_void and not self.void
                if not bearable or self.pos < start + limit:
                    raise
                self.reject("no name is that long")
                continue
            mark = self._buffer.slice(self.pos, self.pos + 1)
            if mark not in (quote, b"\\"):
                raise OpenString("a line ends in the middle of a string")
            self.pos += 1
            if mark == quote:
                return self._buffer.slice(start, self.pos)
            if (yield from self.byte()) == b"":
                raise Truncated("the text ends in the middle of a string")
            self.pos += 1
            self._check(start, limit)

    def _string_bounds(self, quote: bytes, start: int, limit: int) -> tuple[re.Pattern[bytes], int]:
        """The bytes that matter in the rest of a string, and how many bytes of it may follow; 0 if any number may."""
        if self.void:
            limit = 0
        strict = self.context.strict or limit > 0
        stops = IN_STRICT_STRING if strict else IN_STRING
        room = max(1, start + limit - self.pos) if limit else 0
        return stops[quote], room

    def value(self, limit: int = 0) -> Parsing[bytes]:
        """Read one JSON value, as far as its brackets and quotation marks tell where it ends, and give it.

        Python's quotation marks and words count too (F30). `limit` is for strings, numbers and literals. NotACall at a
        byte that stands in strings only.
        """
        first = yield from self.byte()
        if first in _QUOTES:
            return (yield from self.string(limit))
        if first in (b"{", b"["):
            return (yield from self._nested())
        if first and first in _SCALAR_STARTS:
            return (yield from self.until(_AFTER_SCALAR, limit or MAX_SCALAR))
        raise self.refuse("a value was expected")

    def _nested(self) -> Parsing[bytes]:
        """Read an array or an object."""
        start = self.pos
        depth = 0
        while True:
            most = self.evidence.since + MAX_VOID if self.void else sys.maxsize
            self.pos, depth = pass_tokens(self._buffer, self.pos, depth, strict=self.context.strict, most=most)
            yield from self.until(_IN_NESTED)
            here = yield from self.byte()
            if here in _QUOTES:
                yield from self.string()
                yield from self._behind_string()
                continue
            depth += _LEVELS.get(here, MAX_DEPTH + 1)
            if depth > MAX_DEPTH:
                raise NotACall("no JSON value has this")
            self.pos += 1
            if depth == 0:
                return self._buffer.slice(start, self.pos)

    def _behind_string(self) -> Parsing[None]:
        """See to it that a string in an array or an object is over: `"echo "hi"` goes on."""
        yield from self.until(_NOT_BLANK)
        if (yield from self.byte()) not in _BEHIND_STRING:
            raise StringGoesOn("a string goes on behind a quotation mark")

    def _check(self, start: int, limit: int) -> None:
        """NotACall, at a place that does not depend on how much has come already, if more than `limit` was read since
        `start`, or more than MAX_VOID since nothing can come of it.
        """
        if self.void:
            if self.pos - self.evidence.since > MAX_VOID:
                self.pos = self.evidence.since + MAX_VOID
                raise self.rejected()
        elif limit and self.pos - start > limit:
            self.pos = start + limit
            raise NotACall(f"more than {limit} bytes of it")
