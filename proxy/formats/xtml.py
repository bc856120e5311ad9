"""Kimi K3's calls: `<|open|>call tool="NAME" index="1"<|sep|><|open|>argument key="KEY" type="string"<|sep|>…`.

Every argument says its own type; `&` and quotation marks in attributes are escaped as in XML. Some detokenisers put
blanks around the markers.
"""

from __future__ import annotations

import html
import re

from ..events import Json
from ..literals import dump
from ..reader import NotACall, Parsing, RawCall, Reader
from .tags import MAX_TAG

OPENER = b"<|open|>"
_CLOSER = b"<|close|>"
_SEPARATOR = b"<|sep|>"
_AFTER_HEAD = re.compile(rb"[<\r\n]")
_ATTRIBUTE = re.compile(r'([A-Za-z_]\w*)\s*=\s*"([^"]*)"')


def xtml_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    word, attributes = yield from _head(reader, OPENER)
    name = attributes.get("tool", "")
    if word != "call" or not name:
        raise NotACall("a call was expected")
    tool = reader.tool(name)
    values: dict[str, Json] = {}
    while True:
        yield from reader.blanks()
        if (yield from reader.peek((OPENER, _CLOSER))) == _CLOSER:
            word, _ = yield from _head(reader, _CLOSER)
            if word != "call":
                raise NotACall("the end of the call was expected")
            return (RawCall(tool, name, dump(values)),)
        word, attributes = yield from _head(reader, OPENER)
        key = attributes.get("key", "")
        reader.annul(word != "argument" or not key or key in values, "an argument was expected")
        values[key] = tool.typed(key, (yield from _value(reader)), attributes.get("type", ""))


def _head(reader: Reader, opener: bytes) -> Parsing[tuple[str, dict[str, str]]]:
    """Read a marker and what stands up to its end: a word and attributes."""
    yield from reader.expect(opener)
    inside = (yield from reader.until(_AFTER_HEAD, MAX_TAG)).decode("utf-8", "replace")
    yield from reader.expect(_SEPARATOR)
    word, _, rest = inside.strip().partition(" ")
    return word, {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(rest)}


def _value(reader: Reader) -> Parsing[str]:
    start = reader.pos
    while True:
        end, _ = yield from reader.find(_CLOSER)
        reader.pos = end
        if (yield from reader.ahead(reader.maybe(_legal(reader)))):
            yield from _head(reader, _CLOSER)
            return reader.text(start, end)
        reader.pos = end + len(_CLOSER)


def _legal(reader: Reader) -> Parsing[bool]:
    """Whether an argument's end stands here, and another argument or the end of the call behind it."""
    word: bytes | str | None
    word, _ = yield from _head(reader, _CLOSER)
    if word != "argument":
        return False
    yield from reader.blanks()
    opener = yield from reader.which((OPENER, _CLOSER))
    yield from reader.blanks()
    word = yield from reader.which((b"argument", b"call"))
    return (opener, word) in ((OPENER, b"argument"), (_CLOSER, b"call"))


