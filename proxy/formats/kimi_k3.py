"""Kimi K3's calls: `<|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="KEY" type="string"<|sep|>…`.

    <|open|>call tool="edit" index="1"<|sep|>
    <|open|>argument key="path" type="string"<|sep|>a.py<|close|>argument<|sep|><|close|>call<|sep|>

Every argument says its own type; `&` and quotation marks in attributes are escaped as in XML. Some detokenisers put
blanks around the markers.
"""

from __future__ import annotations

import html
import re

from proxy.codec.json_text import Json, dump
from proxy.formats.end_tag_chains import Level, Mark, Markup
from proxy.formats.raw_values import RawValues
from proxy.formats.xml_tags import MAX_TAG
from proxy.parsing.cursor import Cursor, NotACall, Parsing, RawCall
from proxy.tools.toolset import Tool

OPENER = b"<|open|>"
_CLOSER = b"<|close|>"
_SEPARATOR = b"<|sep|>"
_AFTER_HEAD = re.compile(rb"[<\r\n]")
_LEVELS = {"argument": Level.VALUE, "call": Level.CALL, "tools": Level.WRAPPER}
_ATTRIBUTE = re.compile(r'([A-Za-z_]\w*)\s*=\s*"([^"]*)"')


def kimi_k3_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    word, attributes = yield from _head(cursor, OPENER)
    name = attributes.get("tool", "")
    if word != "call" or not name:
        raise NotACall("a call was expected")
    tool = cursor.tool(name)
    values: dict[str, Json] = {}
    raw = RawValues(cursor, tool)
    while True:
        yield from cursor.blanks()
        if (yield from cursor.peek((OPENER, _CLOSER))) == _CLOSER:
            yield from _end(cursor)
            raw.finish(values)
            return (RawCall(tool, name, dump(values)),)
        yield from _argument(cursor, tool, raw, values)


def _argument(cursor: Cursor, tool: Tool, raw: RawValues, values: dict[str, Json]) -> Parsing[None]:
    """Read one argument into the values."""
    start = cursor.pos
    raw.begins(start)
    word, attributes = yield from _head(cursor, OPENER)
    key = attributes.get("key", "")
    fresh = bool(key) and key not in values
    cursor.reject_if(word != "argument" or not fresh, "an argument was expected")
    value = yield from raw.read(_MARKUP, key, values, opener=cursor.text(start, cursor.pos))
    meant = tool.meant(key, values)
    type_name = attributes.get("type", "")
    values[key] = tool.typed(meant, value.text, type_name)
    if type_name != "string" and isinstance(values[key], str):
        # `type="null"<|sep|>null<|open|>argument key="note" type="string"<|sep|>x` is no null.
        cursor.reject_if(value.begins_value and bool(type_name), "an end tag is missing, and no value fits")
    raw.check(meant, values[key], value)


def _end(cursor: Cursor) -> Parsing[None]:
    """Read the end tag of the call; one that stands there twice is one."""
    if not (yield from _call_ends(cursor)):
        raise NotACall("the end of the call was expected")
    while (yield from cursor.maybe(_call_ends(cursor))):
        pass


def _call_ends(cursor: Cursor) -> Parsing[bool]:
    """Read the end tag of a call; whether it stood here."""
    word, _ = yield from _head(cursor, _CLOSER)
    return word == "call"


def _head(cursor: Cursor, opener: bytes) -> Parsing[tuple[str, dict[str, str]]]:
    """Read a marker and what stands up to its end: a word and attributes."""
    yield from cursor.expect(opener)
    inside = (yield from cursor.until(_AFTER_HEAD, MAX_TAG)).decode("utf-8", "replace")
    yield from cursor.expect(_SEPARATOR)
    word, _, rest = inside.strip().partition(" ")
    return word, {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(rest)}


def _mark(cursor: Cursor) -> Parsing[Mark | None]:
    """Read one of them."""
    opener = yield from cursor.peek((OPENER, _CLOSER))
    if opener is None:
        return None
    word, attributes = yield from _head(cursor, opener)
    level = _LEVELS.get(word)
    if level is None:
        return None
    return Mark(level, opener == _CLOSER, word, attributes.get("key", ""))


def _another(cursor: Cursor) -> Parsing[bool]:
    """Whether another argument begins here."""
    if (yield from cursor.peek((OPENER,))) is None:
        return False
    word, _ = yield from _head(cursor, OPENER)
    return word == "argument"


_MARKUP = Markup((OPENER, _CLOSER), _mark, _another, anywhere=True)
