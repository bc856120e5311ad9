"""Formats with a wrapper of their own: strong evidence (contract C3), committed as soon as the wrapper closes.

A wrapper says by which tags a call is enclosed; what stands inside is told by its first characters, because most
wrappers are shared by several families. A new wrapper is a line in `WRAPPERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..reader import NotACall, Parsing, RawCall, Reader
from .function_tags import OPENER as FUNCTION
from .function_tags import function_tags
from .json_calls import json_calls

Body = Callable[[Reader], Parsing[tuple[RawCall, ...]]]

# What may stand where a call is expected, by its first characters.
BODIES: Mapping[bytes, Body] = {b"{": json_calls, b"[": json_calls, FUNCTION: function_tags}


@dataclass(frozen=True, slots=True)
class Wrapper:
    """An opening and a closing tag around one or more calls."""

    opener: bytes
    closer: bytes


WRAPPERS = (
    Wrapper(b"<tool_call>", b"</tool_call>"),  # Hermes, Qwen2.5, Qwen3, Qwen3-Coder (F2)
    Wrapper(b"<tools>", b"</tools>"),  # Qwen2.5 AWQ (F1)
)


def wrapped(wrapper: Wrapper) -> Body:
    """The parser for everything from the wrapper's opener, which stands here, to its closer."""

    def parse(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
        start = reader.pos
        yield from reader.expect(wrapper.opener)
        reader.wrapped = True
        calls: list[RawCall] = []
        while True:
            yield from reader.blanks()
            found = yield from body(reader, wrapper.closer)
            if found is None:
                break
            calls += found
        reader.wrapped = False
        if not calls:
            raise NotACall
        reader.spans.append((start, reader.pos))
        return tuple(calls)

    return parse


def body(reader: Reader, *closers: bytes) -> Parsing[tuple[RawCall, ...] | None]:
    """Read what stands here: one of the BODIES, whose calls are given, or a closer, for which None is."""
    before = reader.pos
    opener = yield from reader.which((*BODIES, *closers))
    if opener is None:
        raise NotACall
    if opener in closers:
        return None
    reader.pos = before
    return (yield from BODIES[opener](reader))
