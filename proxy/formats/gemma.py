"""Gemma's calls: `call:NAME{key:<|"|>text<|"|>,other:3}`, and FunctionGemma's with `<escape>` around values (F15).

Nothing is escaped in these strings, so that a mark may stand in one. That of an argument ends at the first mark behind
which the next key follows, or the object's end and all that closes the call.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from ..limits import MAX_DEPTH
from ..literals import dump, read_literal
from ..reader import MAX_BLANKS, MAX_KEY, Literals, NotACall, Parsing, RawCall, Reader, Truncated
from ..tools import Tool
from .ends import TURN_ENDS, blanks
from .tokens import MARKER_CLOSERS, MARKER_OPENERS, encoded

OPENER = b"call:"
MARKS = ('<|"|>', "<escape>")
_MARK_BYTES = tuple(mark.encode() for mark in MARKS)
_AFTER_NAME = re.compile(rb"[\s{<>]")
_AFTER_KEY = re.compile(rb"[:}]")
# A string of another argument that begins in this one.
_OPENS_ANOTHER = re.compile(r",\s{0,8}([\w.-]{1,128})\s{0,8}:\s{0,8}\Z")
_LOOK_BACK = 160
_NOT_IN_KEY = re.compile(rb"[^A-Za-z0-9_.-]")
_VALUE_STARTS = (*(bytes([byte]) for byte in b'-0123456789tfnTFN{["'), b"<")
_CLOSERS = Literals(MARKER_CLOSERS)
# What begins a call that a string shows; the token alone may be spoken of.
_SHOWN = tuple(opener + OPENER for opener in encoded("<|tool_call>", "<start_function_call>"))
_SHOWN_ENDS = encoded("<tool_call|>", "<end_function_call>")
_NOT_SPACE = re.compile(rb"[^ \t]")
_MAX_SPLITS = 16
_STOPS = re.compile(rb"[{}\[\]<\"]")


def gemma_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    yield from reader.expect(OPENER)
    name = (yield from reader.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
    tool = reader.tool(name)
    yield from reader.blanks()
    written = yield from _Object(reader, tool).read()
    if reader.void:
        raise NotACall(reader.why)
    try:
        values = read_literal(written, marks=MARKS)
    except ValueError as error:
        raise NotACall(f"the arguments cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise NotACall("the arguments are no object")
    return (RawCall(tool, name, dump(tool.fit(values))),)


class _Behind(Enum):
    """What stands behind a mark."""

    KEY = auto()
    CALL_END = auto()
    OBJECT_END = auto()
    OTHER = auto()


class _Object:
    """Reads the arguments, as far as the brackets and the marks of the strings tell where they end."""

    def __init__(self, reader: Reader, tool: Tool) -> None:
        self._reader = reader
        self._tool = tool
        # What was read, with the arguments' marked strings as JSON, and how far.
        self._written: list[str] = []
        self._done = reader.pos
        self._given: set[str] = set()
        self._splits = 0

    def read(self) -> Parsing[str]:
        """Read the object; give its text, which holds no mark inside a string of an argument any more."""
        reader = self._reader
        if (yield from reader.byte()) != b"{":
            raise reader.refuse("the arguments were expected")
        # Prose has no key there.
        yield from reader.ahead(reader.until(_AFTER_KEY, MAX_KEY))
        depth, since = 0, reader.pos
        while True:
            yield from reader.until(_STOPS)
            start = reader.pos
            mark = yield from reader.which(_MARK_BYTES)
            here = yield from reader.byte()
            if mark is not None:
                before = reader.text(since, start)
                argument = depth == 1 and before.rstrip().endswith(":")
                yield from self._argument(mark, before, start) if argument else reader.find(mark)
            elif here == b'"':
                yield from reader.string()
            else:
                depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(here, 0)
                reader.pos += 1
                if depth > MAX_DEPTH:
                    raise NotACall("nested too deep")
                if depth <= 0:
                    return "".join(self._written) + reader.text(self._done, reader.pos)
            since = reader.pos

    def _argument(self, mark: bytes, before: str, start: int) -> Parsing[None]:
        """Read the marked string of an argument behind its first mark."""
        reader = self._reader
        key = before.rpartition(",")[2].strip().strip(":{").strip()
        self._given.add(key)
        text_start = reader.pos
        end, resume = yield from self._end(mark)
        self._written += reader.text(self._done, start), dump(reader.text(text_start, end))
        self._done = reader.pos = resume

    def _end(self, mark: bytes) -> Parsing[tuple[int, int]]:
        """Where the string ends, and where to read on."""
        reader, start = self._reader, self._reader.pos
        # Calls that the string shows; whether it shows a string; where that is one of another argument; the last mark
        # that could be its end.
        calls, shown, other, last = 0, False, -1, (-1, -1)
        while True:
            try:
                at, found = yield from reader.find(mark, *_SHOWN, *_SHOWN_ENDS)
            except Truncated:
                if last[0] < 0 or reader.void or not reader.stopped or not reader.may_reread():
                    raise
                reader.go_back(last[1])
                return last
            if found != mark:
                calls = calls + 1 if found in _SHOWN else max(0, calls - 1)
                continue
            if reader.void:
                return at, reader.pos
            behind = yield from reader.ahead(self._behind(mark))
            if calls:
                continue
            if behind is _Behind.CALL_END and shown and other >= 0:
                self._splits += 1
                if self._splits > _MAX_SPLITS:
                    raise NotACall("too many marks are missing")
                return other, other
            if behind is _Behind.CALL_END:
                return at, reader.pos
            if shown:
                shown = False
                continue
            if behind is _Behind.OTHER and reader.preceding(at) == b":":
                shown = True
                other = self._begins_another(start, at) if other < 0 else other
                continue
            if behind is _Behind.KEY:
                return at, reader.pos
            if behind is _Behind.OBJECT_END:
                last = (at, reader.pos)

    def _begins_another(self, start: int, at: int) -> int:
        """Where the key stands if the mark at a position begins the string of another argument; else -1."""
        near = self._reader.text(max(start, at - _LOOK_BACK), at)
        found = _OPENS_ANOTHER.search(near)
        others = self._tool.properties.keys() - self._given
        if found is None or found.group(1) not in others:
            return -1
        return at - len(near[found.start() :].encode("utf-8", "surrogatepass"))

    def _behind(self, mark: bytes) -> Parsing[_Behind]:
        """What stands here, behind a mark."""
        reader = self._reader
        if (yield from reader.maybe(blanks(reader))) is None:
            return _Behind.OTHER
        here = yield from reader.byte()
        if here == b",":
            reader.pos += 1
            return _Behind.KEY if (yield from reader.maybe(self._key(mark))) else _Behind.OTHER
        if here != b"}":
            return _Behind.OTHER
        reader.pos += 1
        closers = 0
        while (yield from reader.maybe(_closer(reader, closers >= len(reader.enclosures) > 0))):
            closers += 1
        if closers < len(reader.enclosures):
            yield from reader.maybe(blanks(reader))
            over = reader.at_end() or bool((yield from reader.peek(TURN_ENDS)))
            return _Behind.CALL_END if over else _Behind.OTHER
        return _Behind.CALL_END if (yield from _over(reader)) else _Behind.OBJECT_END

    def _key(self, mark: bytes) -> Parsing[bool]:
        """Whether a key and its value stand here, or the object ends behind a comma too many."""
        reader = self._reader
        yield from reader.blanks()
        if (yield from reader.byte()) == b"}":
            return True
        quoted = yield from reader.which((mark, b'"'))
        key = yield from reader.until(_NOT_IN_KEY, MAX_KEY)
        if not key:
            return False
        if quoted:
            yield from reader.expect(quoted)
        yield from reader.blanks()
        yield from reader.expect(b":")
        yield from reader.blanks()
        return (yield from reader.byte()) in _VALUE_STARTS


def _closer(reader: Reader, same_line: bool) -> Parsing[bool]:
    """Read a closer, on this line or another."""
    if same_line:
        yield from reader.until(_NOT_SPACE, MAX_BLANKS)
    else:
        yield from reader.blanks()
    return bool((yield from reader.which(_CLOSERS)))


def _over(reader: Reader) -> Parsing[bool]:
    """Whether what may follow a call stands here."""
    try:
        yield from reader.until(_NOT_SPACE, MAX_BLANKS)
    except NotACall:
        return reader.at_end()
    if (yield from reader.byte()) in (b"\r", b"\n"):
        return True
    return bool((yield from reader.peek(TURN_ENDS)) or (yield from reader.peek(MARKER_OPENERS)))
