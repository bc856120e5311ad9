"""Calls written as tags of their own: `<function=NAME><parameter=KEY>VALUE</parameter>…</function>` (F3).

The values are raw text, typed by the tool's schema. Exactly one line end after the opening tag and one before the
closing one belong to the markup. A closing tag counts only if a legal next tag follows, so that a value may hold it.
"""

from __future__ import annotations

import json
import re

from ..events import Json
from ..reader import MAX_KEY, NotACall, Parsing, RawCall, Reader

OPENER = b"<function="
_PARAMETER = b"<parameter="
_PARAMETER_END = b"</parameter>"
_END = b"</function>"
_AFTER_NAME = re.compile(rb"[<>\s{]")


def function_tags(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one function that stands here, opening tag and all."""
    yield from reader.expect(OPENER)
    name = yield from _name(reader)
    tool = reader.tool(name)
    values: dict[str, Json] = {}
    while True:
        yield from reader.blanks()
        tag = yield from reader.which((_PARAMETER, _END))
        if tag is None:
            raise NotACall
        if tag == _END:
            # Escaped where a value holds a lone surrogate, so that the text can be sent at all.
            return (RawCall(tool, name, _dump(values)),)
        key = yield from _name(reader)
        reader.annul(key in values)
        values[key] = tool.typed(key, (yield from _value(reader)))


def _name(reader: Reader) -> Parsing[str]:
    name = yield from reader.until(_AFTER_NAME, MAX_KEY)
    yield from reader.expect(b">")
    if not name and not reader.void:
        raise NotACall
    return name.decode("utf-8", "replace")


def _value(reader: Reader) -> Parsing[str]:
    start = reader.pos
    while True:
        end = yield from reader.find(_PARAMETER_END)
        after = reader.pos
        if (yield from _tag_follows(reader)):
            reader.pos = after
            return reader.text(start, end).removeprefix("\n").removesuffix("\n")
        reader.pos = after


def _tag_follows(reader: Reader) -> Parsing[bool]:
    try:
        yield from reader.blanks()
    except NotACall:
        return False
    return (yield from reader.which((_PARAMETER, _END))) is not None


def _dump(values: dict[str, Json]) -> str:
    text = json.dumps(values, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(values)
    return text
