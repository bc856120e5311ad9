"""Whether a string of JSON arguments goes on behind the closers of their call.

    {"path": "a", "content": "X = "\\"}}</tool_call>"", "mode": 1}}
    </tool_call>

Where the quotation marks in strings have no backslash, or lines end in strings, marks and brackets do not tell whether
`"}}</tool_call>` is the end of the call or of a text that shows one. Nor do they where a required key is missing, which
may stand behind it. What follows does: the rest of the line has no quotation mark, and, if a key is missing, no other
closer follows without its opener. All other calls wait for nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.codec.json_text import load_json
from proxy.formats.argument_values import arguments
from proxy.formats.markers import MARKER_BY_OPENER, WRAPPER_KINDS
from proxy.formats.terminators import CALL_KINDS, TURN_ENDS, blanks, leftover
from proxy.formats.xml_tags import tag_or_none
from proxy.parsing.cursor import MAX_KEY, Cursor, Literals, NotACall, Parsing
from proxy.tools.toolset import Tool

TWO_READINGS = "where its last string ends can be read in two ways"
ENDS_IN_STRING = re.compile(rb"[\"'][\s\]}]*\Z")
# A key directly behind a mark, without a comma: `{"path": "tail " "mode": 5}`. The string before it may go on.
_LOST_COMMA = re.compile(rb"""["'][ \t\r\n]*+(["'])[^"'\r\n]{1,128}\1[ \t\r\n]*+:""")
_BRACKETS = Literals((b"}", b"]"))
_FENCE = (b"```",)
_SPACES = (b" ", b"\t")
_LINE_ENDS = (b"\r", b"\n")
_NEXT_CALL = Literals((*MARKER_BY_OPENER, b"<|start|>", b"<|channel|>"))
_KINDS = CALL_KINDS | WRAPPER_KINDS
_MAX_CLOSERS = 8
# What stands behind the last text of a call.
_IN_CALL = frozenset((b'"', b"}", b"]", b","))
_JSON_BEGINS = re.compile(rb"\{")
# Harmony's messages.
_MESSAGE, _MESSAGE_END, _NEXT_MESSAGE = b"<|message|>", b"<|call|>", b"<|start|>"


def goes_on(cursor: Cursor, tool: Tool, value: bytes, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether the text that was read as the arguments, up to here, may be more; nothing is read."""
    if not may_end_elsewhere(value):
        return False
    legal = is_legal(value)
    if legal and not (yield from _may_lack(cursor, tool, value, closers)):
        return False
    return bool((yield from cursor.ahead(cursor.maybe(_goes_on(cursor, legal, closers)))))


def may_end_elsewhere(value: bytes) -> bool:
    """Whether the brackets at the end of a JSON text may be a string's own: the last one's, or one's behind which a
    comma seems to be lost.
    """
    if ENDS_IN_STRING.search(value):
        return True
    return bool(_LOST_COMMA.search(value)) and not is_legal(value)


def is_legal(value: bytes) -> bool:
    """Whether a text is JSON as it stands."""
    try:
        load_json(value.decode("utf-8", "surrogatepass"))
    except ValueError:
        return False
    return True


def _may_lack(cursor: Cursor, tool: Tool, value: bytes, closers: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether something of legal arguments may still come: what closes them stands where none is written, or they lack
    a required key.
    """
    # The end of a fence stands on a line of its own, where the template writes it.
    if closers == _FENCE and (yield from cursor.byte()) not in _LINE_ENDS:
        return True
    return _lacks(value, tool)


def _goes_on(cursor: Cursor, legal: bool, closers: tuple[bytes, ...]) -> Parsing[bool]:
    yield from past_closers(cursor)
    span = span_of(cursor, closers)
    if (yield from call_begins(cursor)):
        if legal:
            return False
        if span is None:
            return not (yield from cursor.maybe(_only_calls(cursor)))
    else:
        start = cursor.pos
        yield from cursor.past(b"\n")
        if '"' in cursor.text(start, cursor.pos):
            return True
    if span is None:
        return False
    if not legal:
        return (yield from past_unmatched_closer(cursor, span))
    _, found = yield from cursor.find(span.opener, *span.closers)
    return found != span.opener


@dataclass(frozen=True, slots=True)
class Span:
    """What opens a call, and what closes it: in a text that shows whole calls, they come in pairs."""

    opener: bytes
    closers: tuple[bytes, ...]


def span_of(cursor: Cursor, closers: tuple[bytes, ...] = ()) -> Span | None:
    """What opens and closes the call that is read, which ends with `closers` if it has any of its own; None if nothing
    does, or nothing that tells one from the other.
    """
    if not cursor.context.wrapped and _MESSAGE_END in closers:
        return Span(_MESSAGE, tuple(closer for closer in closers if closer != _NEXT_MESSAGE))
    if not cursor.context.enclosures:
        return None
    wrapper = cursor.context.enclosures[-1]
    if not closers or closers == _FENCE:
        closers = wrapper.closers
    if not closers or wrapper.opener in closers:
        return None
    return Span(wrapper.opener, closers)


def past_unmatched_closer(cursor: Cursor, span: Span) -> Parsing[bool]:
    """Read on past a closer whose opener stands before this place; NotACall if none follows.

    A closer behind which the text of a call goes on is shown too: `<tool_call>{…}</tool_call>"}}`.
    """
    opened = 0
    while True:
        _, found = yield from cursor.find(span.opener, *span.closers)
        opened += 1 if found == span.opener else -1
        if opened < 0:
            return True
        if opened == 0 and (yield from cursor.ahead(_text_goes_on(cursor))):
            return True


def _text_goes_on(cursor: Cursor) -> Parsing[bool]:
    yield from past_closers(cursor)
    return (yield from cursor.byte()) in _IN_CALL


def _only_calls(cursor: Cursor) -> Parsing[bool]:
    """Whether nothing but calls follows to the end of the reply, each behind its marker: what one of them shows, or a
    text that goes on behind them, is something else.
    """
    while not cursor.at_end():
        if (yield from cursor.peek(TURN_ENDS)):
            return True
        if not (yield from cursor.which(_NEXT_CALL)):
            return False
        yield from cursor.until(_JSON_BEGINS, MAX_KEY)
        yield from cursor.value()
        yield from cursor.blanks()
        yield from cursor.which((b";", b"]"))
        yield from cursor.blanks()
    return True


def past_closers(cursor: Cursor) -> Parsing[None]:
    """Read the brackets and the closers that stand here, and the spaces behind them."""
    yield from past_brackets(cursor)
    for _ in range(_MAX_CLOSERS):
        if not (yield from cursor.maybe(_closer(cursor))):
            break
    while (yield from cursor.which(_SPACES)):
        pass


def past_brackets(cursor: Cursor) -> Parsing[None]:
    """Read the closing brackets that stand here, and the blanks around them."""
    yield from cursor.maybe(blanks(cursor))
    while (yield from cursor.which(_BRACKETS)):
        yield from cursor.maybe(blanks(cursor))


def _closer(cursor: Cursor) -> Parsing[bool]:
    """Read a closer, on this line or another."""
    yield from cursor.blanks()
    if (yield from cursor.which(_FENCE)):
        return True
    return (yield from leftover(cursor))


def call_begins(cursor: Cursor) -> Parsing[bool]:
    """Whether the next call stands here."""
    if (yield from cursor.peek(_NEXT_CALL)):
        return True
    if (yield from cursor.byte()) not in (b"<", b"]"):
        return False
    tag = yield from tag_or_none(cursor)
    if not tag.opening:
        return False
    if tag.marked:
        return True
    return tag.kind in _KINDS


def _lacks(value: bytes, tool: Tool) -> bool:
    """Whether a required key is missing in the arguments, whatever its spelling."""
    try:
        given = load_json(arguments(value, tool))
    except (NotACall, ValueError):
        return False
    if not isinstance(given, dict):
        return False
    return not tool.required <= {tool.meant(key, ()) for key in given}
