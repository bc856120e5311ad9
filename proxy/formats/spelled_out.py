"""Calls as `<Call><Function>NAME</Function><Parameters><KEY>VALUE</KEY>…</Parameters></Call>` (F13)."""

from __future__ import annotations

import re

from ..literals import dump
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader
from .tagged import CallTag, parameters
from .tags import peek_tag, tag
from .values import arguments

_BEFORE_TAG = re.compile(rb"<")


def spelled_out(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read what stands between `<Call>` and its end tag."""
    yield from reader.expect(b"<Function>")
    name = (yield from reader.until(_BEFORE_TAG, MAX_KEY)).decode("utf-8", "replace").strip()
    yield from reader.expect(b"</Function>")
    tool = reader.tool(name)
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    if found is None or found.kind != "Parameters":
        return (RawCall(tool, name, "{}"),)
    yield from tag(reader)
    yield from reader.blanks()
    if (yield from reader.byte()) == b"{":
        value = yield from reader.value()
        text = "" if reader.void else arguments(value, tool)
    else:
        text = dump((yield from parameters(reader, tool, CallTag((b"</Parameters>",)))))
    yield from reader.blanks()
    end = yield from tag(reader)
    if not end.closing or end.kind != "Parameters":
        raise NotACall("the end of the parameters was expected")
    return (RawCall(tool, name, text),)
