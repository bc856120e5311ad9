"""What stands inside a wrapper, told by its first characters, and wrappers themselves, which may stand in each other.

A wrapper is strong evidence if it is closed (contract C3). One that is not, at the end of a reply, needs weak
evidence's proof; of one that breaks off, the calls that are closed themselves are kept (F10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from proxy.formats import gemma
from proxy.formats import kimi_k3 as xtml
from proxy.formats.bare_calls import bare_call, begins_bare
from proxy.formats.call_element import call_element
from proxy.formats.json_calls import json_array, json_object
from proxy.formats.markers import (
    FILLERS,
    MARKER_BY_OPENER,
    MARKER_CLOSERS,
    MARKER_OPENERS,
    WEAK_MARKERS,
    WRAPPER_KINDS,
    encoded,
)
from proxy.formats.name_then_arguments import named
from proxy.formats.python_calls import python_list
from proxy.formats.sibling_calls import sibling_calls
from proxy.formats.terminators import CALL_KINDS, closes, ends_here
from proxy.formats.xml_calls import tagged_call
from proxy.formats.xml_tags import SEPARATOR, peek_tag, tag
from proxy.parsing.cursor import Cursor, Enclosure, Literals, NotACall, Parsing, RawCall, Truncated

FormatParser: TypeAlias = Callable[[Cursor], Parsing[tuple[RawCall, ...]]]

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


def read_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read what stands here: one call, or several in a wrapper, an array or a fence."""
    opener = (yield from cursor.peek(MARKER_OPENERS)) or (yield from cursor.peek(_BODY_OPENERS))
    if opener in MARKER_BY_OPENER:
        return (yield from read_wrapper(cursor))
    if opener is not None and opener in BODIES:
        return (yield from BODIES[opener](cursor))
    if opener is not None:
        found = yield from peek_tag(cursor)
        if found is not None and found.kind in CALL_KINDS and not found.closing:
            return (yield from tagged_call(cursor))
        if found is not None and (found.kind in WRAPPER_KINDS or found.marked) and not found.closing:
            return (yield from read_wrapper(cursor))
    if cursor.first and not cursor.wrapped and (yield from begins_bare(cursor)):
        return (yield from bare_call(cursor))
    return (yield from named(cursor, python=cursor.wrapped))


def read_wrapper(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapper that stands here, opening token and all."""
    start = cursor.pos
    marker = yield from cursor.which(MARKER_OPENERS)
    if marker is None:
        found = yield from peek_tag(cursor)
        if found is not None and found.kind in CALL_KINDS and found.marked:
            cursor.weak = True
            calls = yield from tagged_call(cursor)
            cursor.spans.append((start, cursor.pos))
            return calls
        if found is None or found.closing or not (found.kind in WRAPPER_KINDS or found.marked):
            raise cursor.refuse("no wrapper of calls begins here")
        yield from tag(cursor)
        enclosure = Enclosure(found.ends[0].replace(b"</", b"<"), found.ends, cursor.begins_line(start))
    else:
        closers = encoded(*MARKER_BY_OPENER[marker].closers)
        enclosure = Enclosure(marker, closers, cursor.begins_line(start))
    cursor.depth += 1
    outside, cursor.wrapped = cursor.wrapped, True
    passes, cursor.passes = cursor.passes, cursor.passes if outside else cursor.back_to < 0
    left = len(cursor.left)
    if cursor.depth > MAX_NESTED:
        raise NotACall("wrappers are nested too deep")
    ends_itself = marker is not None and not MARKER_BY_OPENER[marker].closers
    bracket = marker is not None and _BRACKET in MARKER_BY_OPENER[marker].closers
    opened = len(cursor.enclosures)
    doubled = bool(cursor.enclosures) and cursor.enclosures[-1].opener == enclosure.opener
    if not ends_itself and not doubled:
        # An opener that stands there twice may be closed once.
        cursor.enclosures.append(enclosure)
    calls = yield from (_single(cursor) if ends_itself else _inside(cursor, bracket))
    del cursor.enclosures[opened:]
    cursor.wrapped, cursor.passes = outside, passes
    cursor.depth -= 1
    if not calls and outside and len(cursor.left) > left:
        # A wrapper of its own around what stays text stays with it.
        cursor.left[left:] = [(start if cursor.before else 0, cursor.pos, cursor.before)]
        return ()
    if not calls:
        raise cursor.rejected("the wrapper holds no call")
    cursor.spans.append((start, cursor.pos))
    return calls


def _single(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read the one body behind a marker without a closer; Llama separates several with semicolons."""
    calls: list[RawCall] = []
    while True:
        yield from _fillers(cursor)
        calls += yield from sibling_calls(cursor, read_call, len(calls))
        if not (yield from cursor.maybe(_another(cursor))) and not (yield from cursor.ahead(_name_follows(cursor))):
            return tuple(calls)


def _another(cursor: Cursor) -> Parsing[bool]:
    """Whether Llama's separator and another object stand here; the separator is read."""
    yield from cursor.blanks()
    yield from cursor.expect(b";")
    yield from cursor.blanks()
    return (yield from cursor.byte()) == b"{"


def _name_follows(cursor: Cursor) -> Parsing[bool]:
    """Whether an offered name and JSON are glued to the call before: the marker between them is missing."""
    name = yield from cursor.which(encoded(*cursor.tools.names))
    return name is not None and (yield from cursor.byte()) == b"{"


def _inside(cursor: Cursor, bracket: bool) -> Parsing[tuple[RawCall, ...]]:
    """Read the bodies of a wrapper, and its closer."""
    calls: list[RawCall] = []
    # How far all was closed by itself; whether by wrappers of its own only; whether something was not.
    closed, wrapped, loose = cursor.pos, True, False
    left = len(cursor.left)
    opened, depth = len(cursor.enclosures), cursor.depth
    while True:
        try:
            yield from _fillers(cursor)
            before = cursor.pos
            # GigaChat's closer begins its opener too, which may stand there twice.
            again = not calls and (yield from cursor.peek(MARKER_OPENERS))
            if (not again and (yield from _closer(cursor))) or (bracket and (yield from cursor.which((b"]",)))):
                return tuple(calls)
            if calls and (yield from ends_here(cursor)):
                cursor.pos = before
                cursor.weak = cursor.weak or not wrapped
                return tuple(calls)
            if cursor.at_end():
                raise NotACall("the wrapper does not end")
            opener = yield from closed_by_itself(cursor)
            # What is no call behind those that are closed must not take them along.
            back_to = cursor.back_to
            if calls and wrapped and not loose and not cursor.void:
                cursor.back_to = closed
            found = yield from sibling_calls(cursor, read_call, len(calls))
            cursor.back_to = back_to
        except NotACall as reason:
            broken_off = isinstance(reason, Truncated)
            if calls:
                cursor.resume(closed)
            del cursor.left[left:]
            if not calls or cursor.void or (loose if broken_off else not wrapped):
                raise
            cursor.cut = not wrapped
            if wrapped:
                # It has a wrapper of its own, and is read once more for itself.
                cursor.pos = closed
            else:
                cursor.go_back(closed)
            del cursor.enclosures[opened:]
            cursor.depth = depth
            return tuple(calls)
        calls += found
        wrapped = wrapped and opener == WRAPPER
        loose = loose or not opener
        closed, left = cursor.pos, len(cursor.left)
        yield from _between(cursor)


def closed_by_itself(cursor: Cursor) -> Parsing[str]:
    """Whether what stands here has an end tag or token of its own: WRAPPER, CALL, or empty if not."""
    marker = yield from cursor.peek(MARKER_OPENERS)
    if marker is not None:
        return CALL if marker in _WEAK else WRAPPER
    if (yield from cursor.peek(_XTML)):
        return CALL
    found = (yield from peek_tag(cursor)) if (yield from cursor.byte()) in (b"<", b"]") else None
    if found is None or found.closing:
        return ""
    return WRAPPER if found.marked or found.kind in WRAPPER_KINDS else CALL


def _fillers(cursor: Cursor) -> Parsing[None]:
    yield from cursor.blanks()
    while (yield from cursor.which(_FILLERS)):
        yield from cursor.blanks()


def _between(cursor: Cursor) -> Parsing[None]:
    """Read what models put behind a body: a comma, a semicolon, a brace too many."""
    yield from cursor.maybe(_separator(cursor))


def _separator(cursor: Cursor) -> Parsing[bytes | None]:
    yield from cursor.blanks()
    return (yield from cursor.which((b",", b";", b"}")))


def _closer(cursor: Cursor) -> Parsing[bool]:
    """Read the closer of a wrapper, whichever; whether one stood here. End tags of calls that stand there twice are
    read on the way.
    """
    while True:
        if (yield from cursor.which(_CLOSERS)):
            return True
        found = (yield from peek_tag(cursor)) if (yield from cursor.byte()) in (b"<", b"]") else None
        if found is None or not closes(found):
            return False
        yield from tag(cursor)
        if found.kind not in CALL_KINDS:
            return True
        yield from cursor.blanks()


def _list(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """An array of JSON calls, or a list of Python's."""
    is_json = yield from cursor.ahead(_is_json(cursor))
    return (yield from (json_array(cursor) if is_json else python_list(cursor)))


def _is_json(cursor: Cursor) -> Parsing[bool]:
    if (yield from cursor.which((b"{",))):
        return True
    yield from cursor.expect(b"[")
    yield from cursor.blanks()
    return (yield from cursor.byte()) in _JSON_ITEM


def fence(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """A fenced block that is itself the call: with or without a language, one call or several inside (F6).

    The end of a fence that begins the reply may be missing where the reply ends.
    """
    lined = cursor.begins_line(cursor.pos)
    yield from cursor.expect(FENCE)
    info = yield from cursor.until(_LINE_END, _MAX_INFO)
    cursor.depth += 1
    cursor.enclosures.append(Enclosure(FENCE, (FENCE,), lined))
    if b"`" in info or cursor.depth > MAX_NESTED:
        raise NotACall("a code span is no fence")
    calls: list[RawCall] = []
    tagged = False
    while True:
        yield from cursor.blanks()
        if calls and (yield from _fence_ends(cursor, tagged)):
            cursor.depth -= 1
            cursor.enclosures.pop()
            return tuple(calls)
        if not (yield from _counts_in_fence(cursor)):
            raise cursor.refuse("what is in a fence is an example")
        tagged = tagged or (yield from cursor.byte()) == b"<"
        calls += yield from read_call(cursor)
        yield from _between(cursor)


def _fence_ends(cursor: Cursor, tagged: bool) -> Parsing[bool]:
    """Read the end of a fence; whether it stands here, or is missing where the reply ends."""
    if (yield from cursor.which((FENCE,))):
        return True
    return cursor.first and not cursor.wrapped and not tagged and (yield from ends_here(cursor))


def _counts_in_fence(cursor: Cursor) -> Parsing[bool]:
    """Whether what stands here may be a call in a fence."""
    if cursor.wrapped:
        return True
    if not cursor.first:
        return bool((yield from cursor.ahead(cursor.maybe(_is_json(cursor)))))
    return (yield from cursor.byte()) in (b"{", b"[", b"<") or (yield from begins_bare(cursor))


BODIES: Mapping[bytes, FormatParser] = {
    b"{": json_object,
    b"[": _list,
    FENCE: fence,
    gemma.OPENER: gemma.gemma_call,
    xtml.OPENER: xtml.kimi_k3_call,
    b"<Function>": call_element,
}
_BODY_OPENERS = Literals((*BODIES, b"<", SEPARATOR.encode()))
