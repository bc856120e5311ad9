"""Gemma's calls: `call:NAME{key:<|"|>text<|"|>,other:3}`, and FunctionGemma's with `<escape>` around values (F15)."""

from __future__ import annotations

import re

from ..limits import MAX_DEPTH
from ..literals import dump, read_literal
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader

OPENER = b"call:"
MARKS = ('<|"|>', "<escape>")
_MARK_BYTES = tuple(mark.encode() for mark in MARKS)
_AFTER_NAME = re.compile(rb"[\s{<>]")
_AFTER_KEY = re.compile(rb"[:}]")
_STOPS = re.compile(rb"[{}\[\]<\"]")


def gemma_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    yield from reader.expect(OPENER)
    name = (yield from reader.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")
    tool = reader.tool(name)
    yield from reader.blanks()
    start = reader.pos
    yield from _object(reader)
    if reader.void:
        raise NotACall(reader.why)
    try:
        values = read_literal(reader.text(start, reader.pos), marks=MARKS)
    except ValueError as error:
        raise NotACall(f"the arguments cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise NotACall("the arguments are no object")
    return (RawCall(tool, name, dump(tool.fit(values))),)


def _object(reader: Reader) -> Parsing[None]:
    """Read an object, as far as its brackets and the marks of its strings tell where it ends."""
    if (yield from reader.byte()) != b"{":
        raise reader.refuse("the arguments were expected")
    # Prose has no key there.
    yield from reader.ahead(reader.until(_AFTER_KEY, MAX_KEY))
    depth = 0
    while True:
        yield from reader.until(_STOPS)
        mark = yield from reader.which(_MARK_BYTES)
        here = yield from reader.byte()
        if mark is not None:
            yield from reader.find(mark)
        elif here == b'"':
            yield from reader.string()
        else:
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(here, 0)
            reader.pos += 1
            if depth > MAX_DEPTH:
                raise NotACall("nested too deep")
            if depth <= 0:
                return
