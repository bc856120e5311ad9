"""Calls as `<Call><Function>NAME</Function><Parameters><KEY>VALUE</KEY>…</Parameters></Call>` (F13)."""

from __future__ import annotations

import re

from proxy.codec.json_text import dump
from proxy.formats.argument_values import arguments
from proxy.formats.xml_calls import CallTag, parameters
from proxy.formats.xml_tags import tag, tag_or_none
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing, RawCall

_BEFORE_TAG = re.compile(rb"<")


def call_element(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read what stands between `<Call>` and its end tag."""
    yield from cursor.expect(b"<Function>")
    name = (yield from cursor.until(_BEFORE_TAG, MAX_KEY)).decode("utf-8", "replace").strip()
    yield from cursor.expect(b"</Function>")
    tool = cursor.tool(name)
    yield from cursor.blanks()
    found = yield from tag_or_none(cursor)
    if found.kind != "Parameters":
        return (RawCall(tool, name, "{}"),)
    yield from tag(cursor)
    yield from cursor.blanks()
    if (yield from cursor.byte()) == b"{":
        value = yield from cursor.value()
        text = "" if cursor.void else arguments(value, tool)
    else:
        text = dump((yield from parameters(cursor, tool, CallTag((b"</Parameters>",)))))
    yield from cursor.blanks()
    end = yield from tag(cursor)
    if not end.closes(("Parameters",)):
        raise NotACall("the end of the parameters was expected")
    return (RawCall(tool, name, text),)
