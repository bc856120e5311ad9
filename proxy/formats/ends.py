"""Where a call must be over: at what closes it or its wrapper, at an end-of-turn token, at the end of the reply."""

from __future__ import annotations

from ..literals import missing_closers
from ..reader import Literals, NotACall, Parsing, Reader
from .tags import Tag, peek_tag, tag
from .tokens import AFTER_CALL, END_OF_TURN, MARKER_CLOSERS, WRAPPER_KINDS, encoded

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


def closes(found: Tag) -> bool:
    """True for an end tag of a call or a wrapper."""
    return found.closing and (found.kind in _CLOSING or found.marked)


def ends_here(reader: Reader) -> Parsing[bool]:
    """Whether a call that stood before must be over here; nothing is read. What the model cut off itself counts only
    if it stopped by itself (contract C4).
    """
    return (yield from reader.ahead(_ends(reader)))


def _ends(reader: Reader) -> Parsing[bool]:
    if (yield from reader.maybe(blanks(reader))) is None:
        return False
    if reader.at_end():
        return reader.stopped
    if (yield from reader.peek(_CLOSERS)) or (yield from reader.peek(_FENCE)):
        return True
    if (yield from reader.peek(TURN_ENDS)):
        return bool((yield from reader.maybe(turn_ends(reader))))
    if (yield from reader.byte()) not in (b"<", b"]"):
        return False
    found = yield from peek_tag(reader)
    return found is not None and closes(found)


def blanks(reader: Reader) -> Parsing[bool]:
    """Read blanks, for `maybe`: always true."""
    yield from reader.blanks()
    return True


def whole_value(reader: Reader) -> Parsing[bytes]:
    """Read a JSON value like `Reader.value`; brackets that are missing where the call must be over are supplied."""
    start = reader.pos
    try:
        return (yield from reader.value())
    except NotACall:
        text = reader.text(start, reader.pos)
        closers = missing_closers(text)
        whole = bool(closers) and text.rstrip()[-1:] not in ("{", "[", ",", ":")
        in_string = text.rstrip("}] \t\r\n")[-1:] in ('"', "'")
        if not whole or not (yield from reader.ahead(_is_over(reader, last=in_string))):
            raise
        return f"{text}{closers}".encode("utf-8", "surrogatepass")


def _is_over(reader: Reader, *, last: bool) -> Parsing[bool]:
    """Whether a call must be over here, and behind all that closes it the reply ends or another call begins: in
    `{"text": "say "</tool_call>" and more"}` neither does. `last`: only the reply's end counts.
    """
    if not (yield from _ends(reader)):
        return False
    yield from reader.maybe(blanks(reader))
    while not reader.at_end():
        if not (yield from reader.which(_FENCE)) and not (yield from leftover(reader)):
            break
        while (yield from reader.which(_SPACES)):
            pass
    # Brackets are supplied only where the reply ends, or the next call begins (contract C4).
    yield from reader.maybe(blanks(reader))
    if reader.at_end() or last:
        return reader.at_end()
    return (yield from reader.byte()) in (b"<", b"[", b"{")


def turn_ends(reader: Reader) -> Parsing[bool]:
    """Whether nothing but such tokens is left of the reply, or of the message."""
    while (yield from reader.which(TURN_ENDS)):
        yield from reader.blanks()
    return reader.at_end() or bool((yield from reader.peek(_NEXT_MESSAGE)))


def leftover(reader: Reader) -> Parsing[bool]:
    """Read one closer or end-of-turn token, if one stands here; whether it did."""
    if (yield from reader.which(_LEFTOVERS)):
        return True
    if (yield from reader.byte()) not in (b"<", b"]"):
        return False
    return bool((yield from reader.maybe(_end_tag(reader))))


def _end_tag(reader: Reader) -> Parsing[bool]:
    return closes((yield from tag(reader)))
