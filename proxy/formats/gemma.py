"""Gemma's calls: `call:NAME{key:<|"|>text<|"|>,other:3}`, and FunctionGemma's with `<escape>` around values (F15).

    <|tool_call>call:edit{path:<|"|>a.py<|"|>,text:<|"|>say "hi"<|"|>,count:3}<tool_call|>
    <start_function_call>call:edit{path:<escape>a.py<escape>}<end_function_call>

Nothing is escaped in these strings, so that a mark may stand in one. That of an argument ends at the first mark behind
which the next key follows, or the object's end and all that closes the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from proxy.codec.json_text import dump
from proxy.codec.literals import read_literal
from proxy.formats.markers import MARKER_CLOSERS, MARKER_OPENERS, encoded
from proxy.formats.terminators import TURN_ENDS, blanks
from proxy.limits import MAX_DEPTH
from proxy.parsing.cursor import MAX_BLANKS, MAX_KEY, Cursor, Literals, NotACall, Parsing, RawCall, Truncated
from proxy.tools.toolset import Tool

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


def gemma_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    yield from cursor.expect(OPENER)
    name = (yield from cursor.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
    tool = cursor.tool(name)
    yield from cursor.blanks()
    written = yield from _Object(cursor, tool).read()
    if cursor.void:
        raise cursor.rejected()
    try:
        values = read_literal(written, marks=MARKS)
    except ValueError as error:
        raise NotACall(f"the arguments cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise NotACall("the arguments are no object")
    return (RawCall(tool, name, dump(tool.coerce_strings(values))),)


class _Behind(Enum):
    """What stands behind a mark."""

    # `,count:3`
    KEY = auto()
    # `}<tool_call|>`, and what may follow a call
    CALL_END = auto()
    # `}` of the arguments, or of an object that the string shows
    OBJECT_END = auto()
    OTHER = auto()


@dataclass(slots=True)
class _Text:
    """What was seen of the marked string of an argument so far.

    `calls` counts the calls that it shows and that are open; `shows_string` says that it shows the first mark of a
    string, whose last one is to come. `other` is where the key of another argument stands, if that mark may be the
    first of its string (else -1); `last` is the last mark that could be the end, with where to read on.
    """

    start: int
    calls: int = 0
    shows_string: bool = False
    other: int = -1
    last: tuple[int, int] | None = None

    def passes(self, token: bytes) -> None:
        """Pass what begins or ends a call that the string shows."""
        if token in _SHOWN:
            self.calls += 1
        elif self.calls:
            self.calls -= 1


class _Object:
    """Reads the arguments, as far as the brackets and the marks of the strings tell where they end."""

    def __init__(self, cursor: Cursor, tool: Tool) -> None:
        self._cursor = cursor
        self._tool = tool
        # What was read, with the arguments' marked strings as JSON, and how far.
        self._written: list[str] = []
        self._done = cursor.pos
        self._given: set[str] = set()
        self._splits = 0

    def read(self) -> Parsing[str]:
        """Read the object; give its text, which holds no mark inside a string of an argument any more."""
        cursor = self._cursor
        if (yield from cursor.byte()) != b"{":
            raise cursor.refuse("the arguments were expected")
        # Prose has no key there.
        yield from cursor.ahead(cursor.until(_AFTER_KEY, MAX_KEY))
        depth, since = 0, cursor.pos
        while True:
            yield from cursor.until(_STOPS)
            start = cursor.pos
            mark = yield from cursor.which(_MARK_BYTES)
            if mark is not None:
                yield from self._marked(mark, cursor.text(since, start), start, depth)
            elif (yield from cursor.byte()) == b'"':
                yield from cursor.string()
            else:
                depth += yield from self._step()
                if depth > MAX_DEPTH:
                    raise NotACall("nested too deep")
                if depth <= 0:
                    return "".join(self._written) + cursor.text(self._done, cursor.pos)
            since = cursor.pos

    def _step(self) -> Parsing[int]:
        """Read one byte that is no quotation mark; by how much it is nested deeper behind it."""
        here = yield from self._cursor.byte()
        self._cursor.pos += 1
        return {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(here, 0)

    def _marked(self, mark: bytes, before: str, start: int, depth: int) -> Parsing[None]:
        """Read a marked string behind its first mark: an argument's, or one that is nested, which shows no mark."""
        if depth == 1 and before.rstrip().endswith(":"):
            yield from self._argument(mark, before, start)
        else:
            yield from self._cursor.find(mark)

    def _argument(self, mark: bytes, before: str, start: int) -> Parsing[None]:
        """Read the marked string of an argument behind its first mark."""
        cursor = self._cursor
        key = before.rpartition(",")[2].strip().strip(":{").strip()
        self._given.add(key)
        text_start = cursor.pos
        end, resume = yield from self._end(mark)
        self._written += cursor.text(self._done, start), dump(cursor.text(text_start, end))
        self._done = cursor.pos = resume

    def _end(self, mark: bytes) -> Parsing[tuple[int, int]]:
        """Where the string ends, and where to read on."""
        cursor = self._cursor
        text = _Text(cursor.pos)
        while True:
            try:
                at, found = yield from cursor.find(mark, *_SHOWN, *_SHOWN_ENDS)
            except Truncated:
                if not self._may_end_at_last(text):
                    raise
                assert text.last is not None
                cursor.go_back(text.last[1])
                return text.last
            if found != mark:
                text.passes(found)
                continue
            if cursor.void:
                return at, cursor.pos
            behind = yield from cursor.ahead(self._behind(mark))
            end = self._judge(text, behind, at)
            if end is not None:
                return end

    def _may_end_at_last(self, text: _Text) -> bool:
        """Whether the reply ended by itself, and the string ends at the last mark before the end of an object."""
        cursor = self._cursor
        if text.last is None:
            return False
        if cursor.void or not cursor.stopped:
            return False
        return cursor.may_reread()

    def _judge(self, text: _Text, behind: _Behind, at: int) -> tuple[int, int] | None:
        """Where the string ends, and where to read on, if it ends at the mark that was just read; None if it shows the
        mark.
        """
        cursor = self._cursor
        if text.calls:
            return None
        if behind is _Behind.CALL_END:
            return self._end_of_call(text, at)
        if text.shows_string:
            text.shows_string = False
            return None
        if behind is _Behind.KEY:
            return at, cursor.pos
        if behind is _Behind.OBJECT_END:
            text.last = (at, cursor.pos)
        elif cursor.preceding(at) == b":":
            text.shows_string = True
            if text.other < 0:
                text.other = self._begins_another(text.start, at)
        return None

    def _end_of_call(self, text: _Text, at: int) -> tuple[int, int]:
        """The same for a mark behind which the call ends. It is another argument's if that one's first mark seemed to
        be shown: `path:<|"|>a.py,text:<|"|>b<|"|>}<tool_call|>`, where the last mark of `path` is missing.
        """
        if not text.shows_string or text.other < 0:
            return at, self._cursor.pos
        self._splits += 1
        if self._splits > _MAX_SPLITS:
            raise NotACall("too many marks are missing")
        return text.other, text.other

    def _begins_another(self, start: int, at: int) -> int:
        """Where the key stands if the mark at a position begins the string of another argument; else -1."""
        near = self._cursor.text(max(start, at - _LOOK_BACK), at)
        match = _OPENS_ANOTHER.search(near)
        others = self._tool.properties.keys() - self._given
        if match is None or match.group(1) not in others:
            return -1
        return at - len(near[match.start() :].encode("utf-8", "surrogatepass"))

    def _behind(self, mark: bytes) -> Parsing[_Behind]:
        """What stands here, behind a mark."""
        cursor = self._cursor
        if (yield from cursor.maybe(blanks(cursor))) is None:
            return _Behind.OTHER
        here = yield from cursor.byte()
        if here == b",":
            cursor.pos += 1
            return _Behind.KEY if (yield from cursor.maybe(self._key(mark))) else _Behind.OTHER
        if here != b"}":
            return _Behind.OTHER
        cursor.pos += 1
        closers = 0
        while (yield from cursor.maybe(_closer(cursor, closers >= len(cursor.context.enclosures) > 0))):
            closers += 1
        if closers >= len(cursor.context.enclosures):
            return _Behind.CALL_END if (yield from _over(cursor)) else _Behind.OBJECT_END
        return _Behind.CALL_END if (yield from _ends_turn(cursor)) else _Behind.OTHER

    def _key(self, mark: bytes) -> Parsing[bool]:
        """Whether a key and its value stand here, or the object ends behind a comma too many."""
        cursor = self._cursor
        yield from cursor.blanks()
        if (yield from cursor.byte()) == b"}":
            return True
        quoted = yield from cursor.which((mark, b'"'))
        key = yield from cursor.until(_NOT_IN_KEY, MAX_KEY)
        if not key:
            return False
        if quoted:
            yield from cursor.expect(quoted)
        yield from cursor.blanks()
        yield from cursor.expect(b":")
        yield from cursor.blanks()
        return (yield from cursor.byte()) in _VALUE_STARTS


def _closer(cursor: Cursor, same_line: bool) -> Parsing[bool]:
    """Read a closer, on this line or another."""
    if same_line:
        yield from cursor.until(_NOT_SPACE, MAX_BLANKS)
    else:
        yield from cursor.blanks()
    return bool((yield from cursor.which(_CLOSERS)))


def _ends_turn(cursor: Cursor) -> Parsing[bool]:
    """Whether the reply ends here, or its turn."""
    yield from cursor.maybe(blanks(cursor))
    if cursor.at_end():
        return True
    return (yield from cursor.peek(TURN_ENDS)) is not None


def _over(cursor: Cursor) -> Parsing[bool]:
    """Whether what may follow a call stands here."""
    try:
        yield from cursor.until(_NOT_SPACE, MAX_BLANKS)
    except NotACall:
        return cursor.at_end()
    if (yield from cursor.byte()) in (b"\r", b"\n"):
        return True
    if (yield from cursor.peek(TURN_ENDS)):
        return True
    return (yield from cursor.peek(MARKER_OPENERS)) is not None
