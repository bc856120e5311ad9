"""Calls without a wrapper: weak evidence (contract C3), committed only where the reply ends with them.

A row is what may end a reply: bare JSON objects or arrays, fenced blocks of them, functions in tags, one or several
behind each other, with nothing but blanks, orphan closers (F3) and end-of-turn tokens (F18) between and after them.
All else makes the whole row prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..events import load_json
from ..reader import NotACall, Parsing, RawCall, Reader
from .function_tags import OPENER as FUNCTION
from .wrappers import BODIES, WRAPPERS, Body, body

FENCE = b"```"
# What models write when their turn is over; servers that keep special tokens let it through.
END_OF_TURN = (
    b"<|im_end|>",
    b"<|eot_id|>",
    b"<|eom_id|>",
    b"<|endoftext|>",
    b"<|end_of_text|>",
    b"<|end|>",
    b"<|return|>",
    b"<|call|>",
    b"<end_of_turn>",
    b"<|eot|>",
    b"<eos>",
    b"</s>",
    "<｜end▁of▁sentence｜>".encode(),
)
_CLOSERS = (*(wrapper.closer for wrapper in WRAPPERS), b"</function>")
_SKIPPED = (*_CLOSERS, *END_OF_TURN)
_LINE_END = re.compile(rb"\n")
_MAX_INFO = 32
# UTF-8 has no such byte.
_NEVER = b"\xff"


def row(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read a row from its first call, which stands here, to the end of the reply."""
    calls: list[RawCall] = []
    while True:
        yield from reader.blanks()
        if reader.at_end():
            break
        before = reader.pos
        item = yield from reader.which((*_ITEMS, *_SKIPPED))
        if item is None:
            raise NotACall
        if item in _ITEMS:
            reader.pos = before
            found = yield from _ITEMS[item](reader)
            _check(found)
            reader.spans.append((before, reader.pos))
            calls += found
    if not reader.stopped:
        raise NotACall
    return tuple(calls)


def end_of_turn(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read nothing but end-of-turn tokens and blanks to the end of the reply: they are no text, and no call."""
    while not reader.at_end():
        if (yield from reader.which(END_OF_TURN)) is None:
            raise NotACall
        yield from reader.blanks()
    return ()


def until_thought(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read the model's reasoning, `<think>` to `</think>`: nothing in it is a call."""
    reader.annul()
    yield from reader.past(b"</think>")
    raise NotACall


def to_the_end(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read the JSON that the client asked for: all the rest of the reply, in which nothing is a call."""
    reader.annul()
    while not reader.at_end():
        yield from reader.past(_NEVER)
    raise NotACall


def _fence(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """A fenced block that is itself the call: with or without a language, one call or several inside (F6)."""
    yield from reader.expect(FENCE)
    info = yield from reader.until(_LINE_END, _MAX_INFO)
    if b"`" in info:
        raise NotACall
    calls: list[RawCall] = []
    while True:
        yield from reader.blanks()
        found = yield from body(reader, FENCE)
        if found is None and not calls:
            raise NotACall
        if found is None:
            return tuple(calls)
        calls += found


def _check(calls: Iterable[RawCall]) -> None:
    """Weak evidence needs every key to be a property and every required one to be there."""
    for call in calls:
        arguments = load_json(call.arguments)
        if not isinstance(arguments, dict) or not call.tool.accepts(arguments):
            raise NotACall


_ITEMS: dict[bytes, Body] = {
    **BODIES,
    FENCE: _fence,
}


@dataclass(frozen=True, slots=True)
class Start:
    """What may begin a row: only as the first thing of a line if so, and with what must follow it, blanks aside."""

    opener: bytes
    line_start: bool
    then: bytes = b""


STARTS = (Start(b"{", True, b'"'), Start(b"[", True, b'{["'), Start(FENCE, True), Start(FUNCTION, False))
