"""The JSON arguments of a wrapped call, also where no reader of JSON can tell how far they go (F30, contract C9).

    <tool_call>
    {"name": "bash", "arguments": {"command": "echo "hi""}}
    </tool_call>

Quotation marks and brackets say where JSON ends. Where the marks of strings have no backslash, or keys no marks, they
say nothing, or something wrong: then the end tag of the wrapper tells how far the object goes, and the tool's schema
what it says (`proxy.unescaped`).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ..events import load_json
from ..fixes import USUAL, ends_in_text
from ..reader import MAX_KEY, Enclosure, Literals, NotACall, Parsing, Reader
from ..tools import Tool
from .ends import ends_here, leftover, whole_value
from .going_on import TWO_READINGS, goes_on
from .tokens import END_OF_TURN, MARKER_BY_OPENER, MARKER_OPENERS, MARKERS, encoded
from .values import arguments

# The end tags of a wrapper that are tried: a string may show one.
MAX_TRIES = 8
# Brackets behind the arguments: those of the object that names the tool, and of the array and the object around that.
JSON_TAILS = ("}", "}]", "}}", "}}]", "}]}", "}}]}")
NO_TAIL = ("",)
_MAX_BRACKETS = 8
MARKER_OPENED = tuple(MARKER_BY_OPENER)
_MAX_SURPLUS = 3
_BRACKETS = Literals((b"}", b"]"))
_ENDS_IN_STRING = re.compile(rb"[\"'][\s\]}]*\Z")
END_TOKENS = encoded(*END_OF_TURN)
OPEN_TEXT = "a bracket is missing, and where a text ends is not known"
# Behind a marker without a closer a call ends where the next one begins, or the turn does.
_OPEN_ENDS = encoded(*(marker.opener for marker in MARKERS if not marker.closers), *END_OF_TURN)


def arguments_value(
    reader: Reader, tool: Tool, *, closers: tuple[bytes, ...] = (), tails: Collection[str] = NO_TAIL
) -> Parsing[bytes]:
    """Read the JSON of a call's arguments, which stands here, and give it.

    `closers` are the texts that end the call, where it has any of its own; else the wrapper's are. `tails` are the
    brackets that may stand between the arguments and those.
    """
    value = yield from _value(reader, tool, closers, tails)
    ends = closers or _ends_of(reader)
    known = not ends or reader.void or not tool.name
    if known or not (yield from goes_on(reader, tool, value, ends)):
        return value
    reader.annul(why=TWO_READINGS)
    try:
        # Past the closers that may be shown, and then past the call's own.
        yield from _past_the_call(reader, ends)
        yield from _past_the_call(reader, ends)
    except NotACall:
        pass
    return value


def _value(reader: Reader, tool: Tool, closers: tuple[bytes, ...], tails: Collection[str]) -> Parsing[bytes]:
    start = reader.pos
    ends = closers or _ends_of(reader)
    if not ends or reader.void or not tool.name:
        return (yield from _whole(reader, tool))
    refusal: NotACall | None = None
    value = b""
    try:
        value = yield from _whole(reader, tool)
        follows = yield from reader.ahead(reader.maybe(_may_follow(reader, closers)))
        if follows:
            if tails is NO_TAIL:
                yield from reader.maybe(_surplus(reader, closers))
            return value
    except NotACall as reason:
        refusal = reason
    end = reader.pos
    if not reader.may_reread():
        if refusal is not None:
            raise refusal
        return value
    reader.pos = start
    loose = yield from reader.maybe(_up_to_closer(reader, tool, ends, tails))
    if loose:
        return loose
    if refusal is not None:
        # What its strings show is no call either.
        yield from reader.maybe(_past_the_call(reader, ends))
        raise refusal
    reader.pos = end
    enclosed = closers or reader.enclosures
    if enclosed or not _ENDS_IN_STRING.search(value):
        return value
    # Nothing encloses it: prose may follow, but not the rest of what may be its last string.
    if b'"' in (yield from reader.ahead(_rest_of_line(reader))):
        raise NotACall("where its last string ends can be read in two ways")
    return value


def _whole(reader: Reader, tool: Tool) -> Parsing[bytes]:
    """Read a JSON value whose last brackets may be missing, unless it would end in a text then."""
    start = reader.pos
    value = yield from whole_value(reader)
    completed = len(value) > reader.pos - start
    if completed and not reader.void and may_end_in_text(value, tool):
        raise NotACall(OPEN_TEXT)
    return value


def may_end_in_text(value: bytes, tool: Tool) -> bool:
    """True if arguments whose end was supplied may end in a text: where that was meant to end is not known."""
    try:
        values = load_json(arguments(value, tool))
    except (NotACall, ValueError):
        return False
    return isinstance(values, dict) and ends_in_text(values, tool.shape, USUAL)


def _past_the_call(reader: Reader, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Read on to the end of the wrapper, past those that are shown in it; to the end of the reply where it has none."""
    if not reader.enclosures or closers is _OPEN_ENDS:
        found = yield from reader.past(*END_TOKENS)
        reader.pos -= len(found)
        return True
    opener = reader.enclosures[-1].opener
    depth = 1
    while depth:
        _, found = yield from reader.find(opener, *closers)
        depth += 1 if found == opener else -1
    return True


def _rest_of_line(reader: Reader) -> Parsing[bytes]:
    start = reader.pos
    yield from reader.past(b"\n")
    return reader.text(start, reader.pos).encode("utf-8", "surrogatepass")


def _ends_of(reader: Reader) -> tuple[bytes, ...]:
    """What ends the innermost wrapper that is open; nothing where there is none."""
    if not reader.wrapped:
        return ()
    enclosure: Enclosure | None = reader.enclosures[-1] if reader.enclosures else None
    return enclosure.closers if enclosure is not None and enclosure.closers else _OPEN_ENDS


def _surplus(reader: Reader, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Read braces too many (F31), if what ends the call follows them."""
    yield from reader.blanks()
    for _ in range(_MAX_SURPLUS):
        if not (yield from reader.which((b"}",))):
            break
        yield from reader.blanks()
    if closers and (yield from reader.peek(closers)):
        return True
    return bool((yield from ends_here(reader)) or (yield from reader.peek(MARKER_OPENERS)))


def _may_follow(reader: Reader, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether what may follow arguments stands here: brackets, and then the end of the call, or another member."""
    yield from reader.blanks()
    for _ in range(_MAX_BRACKETS):
        if closers and (yield from reader.peek(closers)):
            return True
        if (yield from ends_here(reader)) or (yield from reader.peek(MARKER_OPENERS)):
            return True
        if not (yield from reader.which(_BRACKETS)):
            break
        yield from reader.blanks()
    if (yield from reader.which((b",", b";"))):
        yield from reader.blanks()
    if (yield from reader.byte()) == b"<":
        return True
    # Another member, or another object.
    yield from reader.which((b"{", b"[{"))
    yield from reader.blanks()
    yield from reader.string(MAX_KEY)
    yield from reader.blanks()
    return (yield from reader.byte()) == b":"


def _up_to_closer(reader: Reader, tool: Tool, closers: tuple[bytes, ...], tails: Collection[str]) -> Parsing[bytes]:
    """Read the arguments as far as the first closer before which they can be read."""
    start = reader.pos
    for _ in range(MAX_TRIES):
        at, last = yield from _closer(reader, closers)
        text = reader.text(start, at).rstrip()
        for tail in tails:
            found = _without(text, tail)
            if found is not None and _is_readable(found, tool):
                value = found.encode("utf-8", "surrogatepass")
                reader.pos = start + len(value)
                return value
        # A string may show the end of its wrapper; but what stands behind that must not be the next call.
        if last or not reader.enclosures or (yield from reader.ahead(reader.maybe(_next_call(reader)))):
            break
    raise NotACall("the arguments cannot be read")


def _next_call(reader: Reader) -> Parsing[bool]:
    """Whether another wrapper like the innermost one that is open begins here."""
    yield from reader.blanks()
    while (yield from reader.maybe(leftover(reader))):
        yield from reader.blanks()
    return (yield from reader.peek((reader.enclosures[-1].opener, *MARKER_OPENED))) is not None


def _closer(reader: Reader, closers: tuple[bytes, ...]) -> Parsing[tuple[int, bool]]:
    """Read on past the next closer; where it begins, and whether it is the end of the reply instead."""
    try:
        at, _ = yield from reader.find(*closers)
    except NotACall:
        if not reader.stopped:
            raise
        yield from reader.past(*closers)
        return reader.pos, True
    return at, False


def _without(text: str, tail: str) -> str | None:
    """The text without these brackets at its end, between which blanks may stand; None if others stand there."""
    for bracket in reversed(tail):
        if not text.endswith(bracket):
            return None
        text = text[:-1].rstrip()
    return text if text.endswith("}") else None


def _is_readable(text: str, tool: Tool) -> bool:
    try:
        arguments(text.encode("utf-8", "surrogatepass"), tool)
    except NotACall:
        return False
    return True
