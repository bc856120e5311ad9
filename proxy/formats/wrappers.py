"""What stands inside a wrapper, told by its first characters, and wrappers themselves, which may stand in each other.

    <tool_call>{"name": "now", "arguments": {}}</tool_call>
    <|tool_calls_section_begin|><|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{}<|tool_call_end|>…

A wrapper is strong evidence if it is closed (contract C3). One that is not, at the end of a reply, needs weak
evidence's proof; of one that breaks off, the calls that are closed themselves are kept (F10).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
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
from proxy.formats.xml_tags import SEPARATOR, Tag, tag, tag_ahead, tag_or_none
from proxy.parsing.cursor import Cursor, Enclosure, Literals, NotACall, Parsing, RawCall, Truncated, ValueGoesOn

FormatParser: TypeAlias = Callable[[Cursor], Parsing[tuple[RawCall, ...]]]

FENCE = b"```"
MAX_NESTED = 4
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
    opener = yield from cursor.peek(MARKER_OPENERS)
    if opener is not None:
        return (yield from read_wrapper(cursor))
    opener = yield from cursor.peek(_BODY_OPENERS)
    if opener is None:
        return (yield from _read_name(cursor))
    if opener in BODIES:
        return (yield from BODIES[opener](cursor))
    tag = yield from tag_or_none(cursor)
    if tag.opens(CALL_KINDS):
        return (yield from tagged_call(cursor))
    if opens_wrapper(tag):
        return (yield from read_wrapper(cursor))
    return (yield from _read_name(cursor))


def _read_name(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a call that begins with its name."""
    if (yield from _is_bare(cursor)):
        return (yield from bare_call(cursor))
    return (yield from named(cursor, python=cursor.context.wrapped))


def _is_bare(cursor: Cursor) -> Parsing[bool]:
    """Whether the reply begins with a name and its arguments, and nothing around them."""
    if not cursor.context.first:
        return False
    if cursor.context.wrapped:
        return False
    return (yield from begins_bare(cursor))


def opens_wrapper(found: Tag) -> bool:
    """Whether a tag begins a wrapper."""
    if found.closing:
        return False
    if found.marked:
        return True
    return found.kind in WRAPPER_KINDS


@dataclass(frozen=True, slots=True)
class _Opened:
    """The opener of a wrapper that was read, and what ends it."""

    enclosure: Enclosure
    # It ends with the call behind it: `[TOOL_CALLS]`.
    ends_itself: bool = False
    # A bracket closes it: `[Tool call: …]`.
    bracket: bool = False


def read_wrapper(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a wrapper that stands here, opening token and all."""
    start = cursor.pos
    opened = yield from _open(cursor)
    if opened is None:
        return (yield from _call_without_wrapper(cursor))
    outside, evidence = cursor.context, cursor.evidence
    holds_several = outside.holds_several if outside.wrapped else cursor.back_to < 0
    cursor.context = outside.within_wrapper(holds_several=holds_several)
    if cursor.context.depth > MAX_NESTED:
        raise NotACall("wrappers are nested too deep")
    kept = len(evidence.kept_text)
    if opened.ends_itself:
        calls = yield from _single(cursor)
    else:
        cursor.context = cursor.context.enclosed(opened.enclosure)
        calls = yield from _Inside(cursor, opened.bracket).read()
    cursor.context = outside
    if calls:
        evidence.add_span(start, cursor.pos)
        return calls
    if not outside.wrapped or len(evidence.kept_text) == kept:
        raise cursor.rejected("the wrapper holds no call")
    # A wrapper of its own around what stays text stays with it.
    del evidence.kept_text[kept:]
    cursor.keep_text(start)
    return ()


def _open(cursor: Cursor) -> Parsing[_Opened | None]:
    """Read the opener of a wrapper; None, and nothing is read, if the tag of a call stands there without one.

    `<｜DSML｜invoke name="now">` is as good as its wrapper `<｜DSML｜tool_calls>`, as if that had been left out.
    """
    start = cursor.pos
    marker = yield from cursor.which(MARKER_OPENERS)
    if marker is not None:
        closers = MARKER_BY_OPENER[marker].closers
        enclosure = Enclosure(marker, encoded(*closers), cursor.begins_line(start))
        return _Opened(enclosure, ends_itself=not closers, bracket=_BRACKET in closers)
    found = yield from tag_or_none(cursor)
    if found.marked and found.kind in CALL_KINDS:
        return None
    if not opens_wrapper(found):
        raise cursor.refuse("no wrapper of calls begins here")
    yield from tag(cursor)
    return _Opened(Enclosure(found.ends[0].replace(b"</", b"<"), found.ends, cursor.begins_line(start)))


def _call_without_wrapper(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read a call whose opening tag is evidence enough, with the proof that a wrapper without an end needs."""
    start = cursor.pos
    cursor.evidence.weaken()
    calls = yield from tagged_call(cursor)
    cursor.evidence.add_span(start, cursor.pos)
    return calls


def _single(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read the one body behind a marker without a closer; Llama separates several with semicolons.

    `<|python_tag|>{"name": "now", "parameters": {}}; {"name": "now", "parameters": {}}`
    """
    calls: list[RawCall] = []
    while True:
        yield from _fillers(cursor)
        calls += yield from sibling_calls(cursor, read_call, len(calls))
        yield from cursor.maybe(_surplus(cursor))
        if (yield from cursor.maybe(_another(cursor))):
            continue
        if not (yield from cursor.ahead(_name_follows(cursor))):
            return tuple(calls)


def _surplus(cursor: Cursor) -> Parsing[bool]:
    """Read braces too many (F31), if the reply ends behind them, or its turn; whether it does."""
    yield from cursor.blanks()
    yield from cursor.expect(b"}")
    while (yield from cursor.which((b"}",))):
        pass
    return (yield from ends_here(cursor))


def _another(cursor: Cursor) -> Parsing[bool]:
    """Whether Llama's separator and another object stand here; the separator is read."""
    yield from cursor.blanks()
    yield from cursor.expect(b";")
    yield from cursor.blanks()
    return (yield from cursor.byte()) == b"{"


def _name_follows(cursor: Cursor) -> Parsing[bool]:
    """Whether an offered name and JSON are glued to the call before: the marker between them is missing.

    `[TOOL_CALLS]now{}read{"path": "a.py"}` of Mistral.
    """
    if (yield from cursor.which(encoded(*cursor.context.tools.names))) is None:
        return False
    return (yield from cursor.byte()) == b"{"


class Closed(Enum):
    """By what a body is closed that stands in a wrapper."""

    # It is a wrapper itself: `<tool_call>…</tool_call>` in `<tool_calls>`.
    WRAPPER = auto()
    # It has an end tag or token of its own: `<invoke name="now">…</invoke>`.
    CALL = auto()
    # Nothing but its brackets: `{"name": "now"}`.
    NOTHING = auto()


WRAPPER = Closed.WRAPPER


class _Inside:
    """Reads the bodies of a wrapper, and its closer."""

    def __init__(self, cursor: Cursor, bracket: bool) -> None:
        self._cursor = cursor
        self._bracket = bracket
        self._calls: list[RawCall] = []
        # By what the bodies so far are closed.
        self._closed: set[Closed] = set()
        # How far all was closed by itself, and how much of it had been kept as text.
        self._closed_at = cursor.pos
        self._kept = len(cursor.evidence.kept_text)
        self._context = cursor.context

    def read(self) -> Parsing[tuple[RawCall, ...]]:
        """Read all bodies, and the closer; the calls."""
        while True:
            try:
                over = yield from self._read_next()
            except NotACall as reason:
                if not self._give_up(reason):
                    raise
                over = True
            if over:
                return tuple(self._calls)
            yield from _between(self._cursor)

    def _read_next(self) -> Parsing[bool]:
        """Read a body, or the closer; whether the wrapper is over."""
        cursor = self._cursor
        yield from _fillers(cursor)
        before = cursor.pos
        if (yield from self._read_closer()):
            return True
        if self._calls and (yield from ends_here(cursor)):
            cursor.pos = before
            if not self._only_wrappers:
                cursor.evidence.weaken()
            return True
        if cursor.at_end():
            raise NotACall("the wrapper does not end")
        closed = yield from closed_by_itself(cursor)
        found = yield from self._read_body()
        self._calls += found
        self._closed.add(closed)
        self._closed_at, self._kept = cursor.pos, len(cursor.evidence.kept_text)
        return False

    def _read_closer(self) -> Parsing[bool]:
        """Read what closes the wrapper; whether it stood here.

        GigaChat's closer begins its opener too, which may stand there twice: `<|message_sep|>` and
        `<|message_sep|>⏎⏎function call<|role_sep|>`.
        """
        cursor = self._cursor
        again = None if self._calls else (yield from cursor.peek(MARKER_OPENERS))
        if again is None and (yield from _closer(cursor)):
            return True
        if not self._bracket:
            return False
        return (yield from cursor.which((b"]",))) is not None

    def _read_body(self) -> Parsing[tuple[RawCall, ...]]:
        """Read a body. What is no call behind those that are closed must not take them along."""
        cursor = self._cursor
        back_to = cursor.back_to
        if self._in_wrappers and not cursor.void:
            cursor.back_to = self._closed_at
        found = yield from sibling_calls(cursor, read_call, len(self._calls))
        cursor.back_to = back_to
        return found

    @property
    def _in_wrappers(self) -> bool:
        """Whether there are calls, all of them in wrappers of their own."""
        if not self._calls:
            return False
        return self._only_wrappers

    @property
    def _only_wrappers(self) -> bool:
        """Whether all bodies so far have wrappers of their own."""
        return self._closed <= {Closed.WRAPPER}

    def _give_up(self, reason: NotACall) -> bool:
        """Keep the calls that are closed themselves where a body is none; whether they count. Raises ValueGoesOn.

        `<tool_calls><tool_call>{…}</tool_call><tool_call>{"na` broke off behind a call that is whole.
        """
        cursor = self._cursor
        cut = self._may_have_cut_a_value(reason)
        if self._calls:
            cursor.resume(self._closed_at)
        del cursor.evidence.kept_text[self._kept :]
        kept = self._may_keep(reason)
        if cut and not (kept and self._only_wrappers):
            raise ValueGoesOn(reason.rejection, str(reason)) from None
        if not kept:
            return False
        behind_calls = not self._only_wrappers
        cursor.evidence.break_off(behind_calls=behind_calls)
        if behind_calls:
            cursor.go_back(self._closed_at)
        else:
            # What follows has a wrapper of its own, and is read once more for itself.
            cursor.pos = self._closed_at
        cursor.context = self._context
        return True

    def _may_have_cut_a_value(self, reason: NotACall) -> bool:
        """Whether a raw value of the calls before may go on in what is none, and did not only break off."""
        cursor = self._cursor
        if not self._calls or not cursor.evidence.raw_values:
            return False
        if isinstance(reason, Truncated):
            return cursor.passing and cursor.stopped
        return cursor.passing or not cursor.void

    def _may_keep(self, reason: NotACall) -> bool:
        """Whether there are calls, and they count without what comes behind them."""
        if self._cursor.void:
            return False
        if not self._calls:
            return False
        if isinstance(reason, Truncated):
            return Closed.NOTHING not in self._closed
        return self._only_wrappers


def closed_by_itself(cursor: Cursor) -> Parsing[Closed]:
    """Whether what stands here has an end tag or token of its own."""
    marker = yield from cursor.peek(MARKER_OPENERS)
    if marker is not None:
        return Closed.CALL if marker in _WEAK else Closed.WRAPPER
    if (yield from cursor.peek(_XTML)):
        return Closed.CALL
    tag = yield from tag_ahead(cursor)
    if not tag.opening:
        return Closed.NOTHING
    return Closed.WRAPPER if opens_wrapper(tag) else Closed.CALL


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
        found = yield from tag_ahead(cursor)
        if not closes(found):
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
    outside = cursor.context
    fences = (*outside.enclosures, Enclosure(FENCE, (FENCE,), lined))
    cursor.context = replace(outside, depth=outside.depth + 1, enclosures=fences)
    if b"`" in info or cursor.context.depth > MAX_NESTED:
        raise NotACall("a code span is no fence")
    calls: list[RawCall] = []
    tagged = False
    while True:
        yield from cursor.blanks()
        if calls and (yield from _fence_ends(cursor, tagged)):
            cursor.context = outside
            return tuple(calls)
        if not (yield from _counts_in_fence(cursor)):
            raise cursor.refuse("what is in a fence is an example")
        tagged |= (yield from cursor.byte()) == b"<"
        calls += yield from read_call(cursor)
        yield from _between(cursor)


def _fence_ends(cursor: Cursor, tagged: bool) -> Parsing[bool]:
    """Read the end of a fence; whether it stands here, or is missing where the reply ends."""
    if (yield from cursor.which((FENCE,))):
        return True
    if tagged:
        return False
    if cursor.context.wrapped:
        return False
    if not cursor.context.first:
        return False
    return (yield from ends_here(cursor))


def _counts_in_fence(cursor: Cursor) -> Parsing[bool]:
    """Whether what stands here may be a call in a fence."""
    if cursor.context.wrapped:
        return True
    if not cursor.context.first:
        return bool((yield from cursor.ahead(cursor.maybe(_is_json(cursor)))))
    if (yield from cursor.byte()) in (b"{", b"[", b"<"):
        return True
    return (yield from begins_bare(cursor))


BODIES: Mapping[bytes, FormatParser] = {
    b"{": json_object,
    b"[": _list,
    FENCE: fence,
    gemma.OPENER: gemma.gemma_call,
    xtml.OPENER: xtml.kimi_k3_call,
    b"<Function>": call_element,
}
_BODY_OPENERS = Literals((*BODIES, b"<", SEPARATOR.encode()))
