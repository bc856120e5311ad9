"""What stands inside a wrapper, told by its first characters, and wrappers themselves, which may stand in each other.

A wrapper is strong evidence if it is closed (contract C3). One that is not, at the end of a reply, needs weak
evidence's proof; of one that breaks off, the calls that are closed themselves are kept (F10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..reader import Enclosure, Literals, NotACall, Parsing, RawCall, Reader, Truncated
from . import gemma, xtml
from .bare import bare_call, begins_bare
from .ends import CALL_KINDS, closes, ends_here
from .json_calls import json_array, json_object
from .named import named
from .pythonic import python_list
from .several import one_of_several
from .spelled_out import spelled_out
from .tagged import tagged_call
from .tags import SEPARATOR, peek_tag, tag
from .tokens import FILLERS, MARKER_BY_OPENER, MARKER_CLOSERS, MARKER_OPENERS, WEAK_MARKERS, WRAPPER_KINDS, encoded

Body: TypeAlias = Callable[[Reader], Parsing[tuple[RawCall, ...]]]

FENCE = b"```"
MAX_NESTED = 4
WRAPPER, CALL = "wrapper", "call"
_LINE_END = re.compile(rb"\n")
_MAX_INFO = 32
_CLOSERS = Literals(MARKER_CLOSERS)
_BRACKET = "]"
_XTML = (xtml.OPENER,)
_WEAK = encoded(*WEAK_MARKERS)
_FILLERS = Literals(encoded(*FILLERS))
# JSON may begin so; else it is a list of Python's calls.
_JSON_ITEM = (b"{", b'"', b"[", b"]", *(str(digit).encode() for digit in range(10)), b"-")


def body(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read what stands here: one call, or several in a wrapper, an array or a fence."""
    opener = (yield from reader.peek(MARKER_OPENERS)) or (yield from reader.peek(_BODY_OPENERS))
    if opener in MARKER_BY_OPENER:
        return (yield from element(reader))
    if opener is not None and opener in BODIES:
        return (yield from BODIES[opener](reader))
    if opener is not None:
        found = yield from peek_tag(reader)
        if found is not None and found.kind in CALL_KINDS and not found.closing:
            return (yield from tagged_call(reader))
        if found is not None and (found.kind in WRAPPER_KINDS or found.marked) and not found.closing:
            return (yield from element(reader))
    if reader.first and not reader.wrapped and (yield from begins_bare(reader)):
        return (yield from bare_call(reader))
    return (yield from named(reader, python=reader.wrapped))


def element(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapper that stands here, opening token and all."""
    start = reader.pos
    marker = yield from reader.which(MARKER_OPENERS)
    if marker is None:
        found = yield from peek_tag(reader)
        if found is not None and found.kind in CALL_KINDS and found.marked:
            reader.weak = True
            calls = yield from tagged_call(reader)
            reader.spans.append((start, reader.pos))
            return calls
        if found is None or found.closing or not (found.kind in WRAPPER_KINDS or found.marked):
            raise reader.refuse("no wrapper of calls begins here")
        yield from tag(reader)
        enclosure = Enclosure(found.ends[0].replace(b"</", b"<"), found.ends, reader.begins_line(start))
    else:
        closers = encoded(*MARKER_BY_OPENER[marker].closers)
        enclosure = Enclosure(marker, closers, reader.begins_line(start))
    reader.depth += 1
    outside, reader.wrapped = reader.wrapped, True
    passes, reader.passes = reader.passes, reader.passes if outside else reader.back_to < 0
    left = len(reader.left)
    if reader.depth > MAX_NESTED:
        raise NotACall("wrappers are nested too deep")
    ends_itself = marker is not None and not MARKER_BY_OPENER[marker].closers
    bracket = marker is not None and _BRACKET in MARKER_BY_OPENER[marker].closers
    opened = len(reader.enclosures)
    doubled = bool(reader.enclosures) and reader.enclosures[-1].opener == enclosure.opener
    if not ends_itself and not doubled:
        # An opener that stands there twice may be closed once.
        reader.enclosures.append(enclosure)
    calls = yield from (_single(reader) if ends_itself else _inside(reader, bracket))
    del reader.enclosures[opened:]
    reader.wrapped, reader.passes = outside, passes
    reader.depth -= 1
    if not calls and outside and len(reader.left) > left:
        # A wrapper of its own around what stays text stays with it.
        reader.left[left:] = [(start if reader.before else 0, reader.pos, reader.before)]
        return ()
    if not calls:
        raise NotACall(reader.why or "the wrapper holds no call")
    reader.spans.append((start, reader.pos))
    return calls


def _single(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read the one body behind a marker without a closer; Llama separates several with semicolons."""
    calls: list[RawCall] = []
    while True:
        yield from _fillers(reader)
        calls += yield from one_of_several(reader, body, len(calls))
        if not (yield from reader.maybe(_another(reader))) and not (yield from reader.ahead(_name_follows(reader))):
            return tuple(calls)


def _another(reader: Reader) -> Parsing[bool]:
    """Whether Llama's separator and another object stand here; the separator is read."""
    yield from reader.blanks()
    yield from reader.expect(b";")
    yield from reader.blanks()
    return (yield from reader.byte()) == b"{"


def _name_follows(reader: Reader) -> Parsing[bool]:
    """Whether an offered name and JSON are glued to the call before: the marker between them is missing."""
    name = yield from reader.which(encoded(*reader.tools.names))
    return name is not None and (yield from reader.byte()) == b"{"


def _inside(reader: Reader, bracket: bool) -> Parsing[tuple[RawCall, ...]]:
    """Read the bodies of a wrapper, and its closer."""
    calls: list[RawCall] = []
    # How far all was closed by itself; whether by wrappers of its own only; whether something was not.
    closed, wrapped, loose = reader.pos, True, False
    left = len(reader.left)
    opened, depth = len(reader.enclosures), reader.depth
    while True:
        try:
            yield from _fillers(reader)
            before = reader.pos
            # GigaChat's closer begins its opener too, which may stand there twice.
            again = not calls and (yield from reader.peek(MARKER_OPENERS))
            if (not again and (yield from _closer(reader))) or (bracket and (yield from reader.which((b"]",)))):
                return tuple(calls)
            if calls and (yield from ends_here(reader)):
                reader.pos = before
                reader.weak = reader.weak or not wrapped
                return tuple(calls)
            if reader.at_end():
                raise NotACall("the wrapper does not end")
            opener = yield from closed_by_itself(reader)
            # What is no call behind those that are closed must not take them along.
            back_to = reader.back_to
            if calls and wrapped and not loose and not reader.void:
                reader.back_to = closed
            found = yield from one_of_several(reader, body, len(calls))
            reader.back_to = back_to
        except NotACall as reason:
            broken_off = isinstance(reason, Truncated)
            if calls:
                reader.resume(closed)
            del reader.left[left:]
            if not calls or reader.void or (loose if broken_off else not wrapped):
                raise
            reader.cut = not wrapped
            if wrapped:
                # It has a wrapper of its own, and is read once more for itself.
                reader.pos = closed
            else:
                reader.go_back(closed)
            del reader.enclosures[opened:]
            reader.depth = depth
            return tuple(calls)
        calls += found
        wrapped = wrapped and opener == WRAPPER
        loose = loose or not opener
        closed, left = reader.pos, len(reader.left)
        yield from _between(reader)


def closed_by_itself(reader: Reader) -> Parsing[str]:
    """Whether what stands here has an end tag or token of its own: WRAPPER, CALL, or empty if not."""
    marker = yield from reader.peek(MARKER_OPENERS)
    if marker is not None:
        return CALL if marker in _WEAK else WRAPPER
    if (yield from reader.peek(_XTML)):
        return CALL
    found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
    if found is None or found.closing:
        return ""
    return WRAPPER if found.marked or found.kind in WRAPPER_KINDS else CALL


def _fillers(reader: Reader) -> Parsing[None]:
    yield from reader.blanks()
    while (yield from reader.which(_FILLERS)):
        yield from reader.blanks()


def _between(reader: Reader) -> Parsing[None]:
    """Read what models put behind a body: a comma, a semicolon, a brace too many."""
    yield from reader.maybe(_separator(reader))


def _separator(reader: Reader) -> Parsing[bytes | None]:
    yield from reader.blanks()
    return (yield from reader.which((b",", b";", b"}")))


def _closer(reader: Reader) -> Parsing[bool]:
    """Read the closer of a wrapper, whichever; whether one stood here. End tags of calls that stand there twice are
    read on the way.
    """
    while True:
        if (yield from reader.which(_CLOSERS)):
            return True
        found = (yield from peek_tag(reader)) if (yield from reader.byte()) in (b"<", b"]") else None
        if found is None or not closes(found):
            return False
        yield from tag(reader)
        if found.kind not in CALL_KINDS:
            return True
        yield from reader.blanks()


def _list(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """An array of JSON calls, or a list of Python's."""
    is_json = yield from reader.ahead(_is_json(reader))
    return (yield from (json_array(reader) if is_json else python_list(reader)))


def _is_json(reader: Reader) -> Parsing[bool]:
    if (yield from reader.which((b"{",))):
        return True
    yield from reader.expect(b"[")
    yield from reader.blanks()
    return (yield from reader.byte()) in _JSON_ITEM


def fence(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """A fenced block that is itself the call: with or without a language, one call or several inside (F6).

    The end of a fence that begins the reply may be missing where the reply ends.
    """
    lined = reader.begins_line(reader.pos)
    yield from reader.expect(FENCE)
    info = yield from reader.until(_LINE_END, _MAX_INFO)
    reader.depth += 1
    reader.enclosures.append(Enclosure(FENCE, (FENCE,), lined))
    if b"`" in info or reader.depth > MAX_NESTED:
        raise NotACall("a code span is no fence")
    calls: list[RawCall] = []
    tagged = False
    while True:
        yield from reader.blanks()
        if calls and (yield from _fence_ends(reader, tagged)):
            reader.depth -= 1
            reader.enclosures.pop()
            return tuple(calls)
        if not (yield from _counts_in_fence(reader)):
            raise reader.refuse("what is in a fence is an example")
        tagged = tagged or (yield from reader.byte()) == b"<"
        calls += yield from body(reader)
        yield from _between(reader)


def _fence_ends(reader: Reader, tagged: bool) -> Parsing[bool]:
    """Read the end of a fence; whether it stands here, or is missing where the reply ends."""
    if (yield from reader.which((FENCE,))):
        return True
    return reader.first and not reader.wrapped and not tagged and (yield from ends_here(reader))


def _counts_in_fence(reader: Reader) -> Parsing[bool]:
    """Whether what stands here may be a call in a fence."""
    if reader.wrapped:
        return True
    if not reader.first:
        return bool((yield from reader.ahead(reader.maybe(_is_json(reader)))))
    return (yield from reader.byte()) in (b"{", b"[", b"<") or (yield from begins_bare(reader))


BODIES: Mapping[bytes, Body] = {
    b"{": json_object,
    b"[": _list,
    FENCE: fence,
    gemma.OPENER: gemma.gemma_call,
    xtml.OPENER: xtml.xtml_call,
    b"<Function>": spelled_out,
}
_BODY_OPENERS = Literals((*BODIES, b"<", SEPARATOR.encode()))
