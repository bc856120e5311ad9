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
from .chains import Level, Mark, Markup
from .raw_value import RawValues
from .tags import MAX_TAG

OPENER = b"<|open|>"
_CLOSER = b"<|close|>"
_SEPARATOR = b"<|sep|>"
_AFTER_HEAD = re.compile(rb"[<\r\n]")
_LEVELS = {"argument": Level.VALUE, "call": Level.CALL, "tools": Level.WRAPPER}
_ATTRIBUTE = re.compile(r'([A-Za-z_]\w*)\s*=\s*"([^"]*)"')


def xtml_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    word, attributes = yield from _head(reader, OPENER)
    name = attributes.get("tool", "")
    if word != "call" or not name:
        raise NotACall("a call was expected")
    tool = reader.tool(name)
    values: dict[str, Json] = {}
    raw = RawValues(reader, tool)
    while True:
        yield from reader.blanks()
        if (yield from reader.peek((OPENER, _CLOSER))) == _CLOSER:
            word, _ = yield from _head(reader, _CLOSER)
            if word != "call":
                raise NotACall("the end of the call was expected")
            while (yield from reader.maybe(_call_ends(reader))):
                pass  # an end tag that stands there twice is one
            raw.finish(values)
            return (RawCall(tool, name, dump(values)),)
        raw.begins(reader.pos)
        word, attributes = yield from _head(reader, OPENER)
        key = attributes.get("key", "")
        reader.annul(word != "argument" or not key or key in values, "an argument was expected")
        value = yield from raw.read(_MARKUP, key, values)
        meant = tool.meant(key, values)
        values[key] = tool.typed(meant, value.text, attributes.get("type", ""))
        raw.check(meant, values[key], value)


def _call_ends(reader: Reader) -> Parsing[bool]:
    """Read the end tag of a call; whether it stood here."""
    word, _ = yield from _head(reader, _CLOSER)
    return word == "call"


def _head(reader: Reader, opener: bytes) -> Parsing[tuple[str, dict[str, str]]]:
    """Read a marker and what stands up to its end: a word and attributes."""
    yield from reader.expect(opener)
    inside = (yield from reader.until(_AFTER_HEAD, MAX_TAG)).decode("utf-8", "replace")
    yield from reader.expect(_SEPARATOR)
    word, _, rest = inside.strip().partition(" ")
    return word, {key: html.unescape(value) for key, value in _ATTRIBUTE.findall(rest)}


def _mark(reader: Reader) -> Parsing[Mark | None]:
    """Read one of them."""
    opener = yield from reader.peek((OPENER, _CLOSER))
    if opener is None:
        return None
    word, attributes = yield from _head(reader, opener)
    level = _LEVELS.get(word)
    if level is None:
        return None
    return Mark(level, opener == _CLOSER, word, attributes.get("key", ""))


def _another(reader: Reader) -> Parsing[bool]:
    """Whether another argument begins here."""
    if (yield from reader.peek((OPENER,))) is None:
        return False
    word, _ = yield from _head(reader, OPENER)
    return word == "argument"


_MARKUP = Markup((OPENER, _CLOSER), _mark, _another, anywhere=True)
