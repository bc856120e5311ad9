"""Where a call must be over: at what closes it or its wrapper, at an end-of-turn token, at the end of the reply.

    {"name": "now", "arguments": {}</tool_call>
    {"name": "now", "arguments": {}<|im_end|>

lack a bracket, and both are calls all the same.
"""

from __future__ import annotations

from proxy.codec.literals import missing_closers
from proxy.formats.markers import AFTER_CALL, END_OF_TURN, MARKER_CLOSERS, WRAPPER_KINDS, encoded
from proxy.formats.xml_tags import Tag, tag, tag_ahead
from proxy.parsing.cursor import Cursor, Literals, NotACall, Parsing

# The kinds of tags that hold one call; their end tags close it.
CALL_KINDS = frozenset(("function", "invoke"))
VALUE_KINDS = frozenset(("parameter", "param"))
_CLOSING = WRAPPER_KINDS | CALL_KINDS | {"Parameters"}
_CLOSERS = Literals(MARKER_CLOSERS)
TURN_ENDS = Literals(encoded(*END_OF_TURN, *AFTER_CALL))
_NEXT_MESSAGE = (b"<|start|>",)
# Directly behind a call these are no text, whoever closed what; a fence's end is for those who opened one.
LEFTOVERS = (*MARKER_CLOSERS, *encoded(*END_OF_TURN, *AFTER_CALL))
_LEFTOVERS = Literals(LEFTOVERS)
_FENCE = (b"```",)
_SPACES = (b" ", b"\t")
# Behind these something of a JSON value must follow.
_BEFORE_MORE = ("{", "[", ",", ":")
_QUOTES = ('"', "'")


def closes(found: Tag) -> bool:
    """True for an end tag of a call or a wrapper."""
    if not found.closing:
        return False
    if found.marked:
        return True
    return found.kind in _CLOSING


def ends_here(cursor: Cursor) -> Parsing[bool]:
    """Whether a call that stood before must be over here; nothing is read. What the model cut off itself counts only
    if it stopped by itself (contract C4).
    """
    return (yield from cursor.ahead(_ends(cursor)))


def _ends(cursor: Cursor) -> Parsing[bool]:
    if (yield from cursor.maybe(blanks(cursor))) is None:
        return False
    if cursor.at_end():
        return cursor.stopped
    if (yield from cursor.peek(_CLOSERS)):
        return True
    if (yield from cursor.peek(_FENCE)):
        return True
    if (yield from cursor.peek(TURN_ENDS)):
        return bool((yield from cursor.maybe(turn_ends(cursor))))
    return closes((yield from tag_ahead(cursor)))


def blanks(cursor: Cursor) -> Parsing[bool]:
    """Read blanks, for `maybe`: always true."""
    yield from cursor.blanks()
    return True


def completed_value(cursor: Cursor) -> Parsing[bytes]:
    """Read a JSON value, as `Cursor.value` does, and give its text; where the call must be over, the brackets that the
    value lacks are put behind it.
    """
    start = cursor.pos
    try:
        return (yield from cursor.value())
    except NotACall:
        text = cursor.text(start, cursor.pos)
        closers = missing_closers(text)
        if not closers or text.rstrip().endswith(_BEFORE_MORE):
            raise
        in_string = text.rstrip("}] \t\r\n").endswith(_QUOTES)
        if not (yield from cursor.ahead(_is_over(cursor, last=in_string))):
            raise
        return f"{text}{closers}".encode("utf-8", "surrogatepass")


def _is_over(cursor: Cursor, *, last: bool) -> Parsing[bool]:
    """Whether a call must be over here, and behind all that closes it the reply ends or another call begins: in
    `{"text": "say "</tool_call>" and more"}` neither does. `last`: only the reply's end counts.
    """
    if not (yield from _ends(cursor)):
        return False
    yield from cursor.maybe(blanks(cursor))
    while not cursor.at_end():
        closer = yield from cursor.which(_FENCE)
        if closer is None and not (yield from leftover(cursor)):
            break
        while (yield from cursor.which(_SPACES)):
            pass
    # Brackets are supplied only where the reply ends, or the next call begins (contract C4).
    yield from cursor.maybe(blanks(cursor))
    if last:
        return cursor.at_end()
    if cursor.at_end():
        return True
    return (yield from cursor.byte()) in (b"<", b"[", b"{")


def turn_ends(cursor: Cursor) -> Parsing[bool]:
    """Whether nothing but such tokens is left of the reply, or of the message."""
    while (yield from cursor.which(TURN_ENDS)):
        yield from cursor.blanks()
    if cursor.at_end():
        return True
    return (yield from cursor.peek(_NEXT_MESSAGE)) is not None


def leftover(cursor: Cursor) -> Parsing[bool]:
    """Read one closer or end-of-turn token, if one stands here; whether it did."""
    if (yield from cursor.which(_LEFTOVERS)):
        return True
    if (yield from cursor.byte()) not in (b"<", b"]"):
        return False
    return bool((yield from cursor.maybe(_end_tag(cursor))))


def _end_tag(cursor: Cursor) -> Parsing[bool]:
    return closes((yield from tag(cursor)))
