"""Calls written as pairs of tags: GLM's `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`, and those of Ling,
Hunyuan and K2 Horizon, which differ in blanks, suffixes and namespaces (F7).

Models leave tags out: which one is missing is told by those that are there.
"""

from __future__ import annotations

import re

from ..events import Json
from ..reader import MAX_KEY, NotACall, Parsing, Reader
from ..tools import Tool
from .chains import Level, Mark, Markup, WrapperTags
from .ends import ends_here
from .raw_value import RawText, RawValues
from .tags import peek_tag, tag

KEY, VALUE, TYPE = "arg_key", "arg_value", "arg_type"
_BEFORE_TAG = re.compile(rb"<")
_VALUE_ENDS = (b"</arg_value>",)


def pairs(reader: Reader, tool: Tool, first: str | None = None) -> Parsing[dict[str, Json]]:
    """Read pairs up to the end of their call, which is not read. `first` is a key whose opening tag is missing."""
    values: dict[str, Json] = {}
    raw = RawValues(reader, tool)
    while True:
        yield from reader.blanks()
        while values and (yield from reader.which(_VALUE_ENDS)):
            yield from reader.blanks()
        if first is None and (yield from _over(reader)):
            raw.finish(values)
            return values
        raw.begins(reader.pos)
        key = first if first is not None else (yield from _key(reader))
        first = None
        reader.annul(key in values or not key, f"the key {key!r} stands there twice")
        said = yield from _type(reader)
        value = yield from _value(reader, raw, key, values)
        meant = tool.meant(key, values)
        values[key] = tool.typed(meant, value.text, said)
        raw.check(meant, values[key], value)


def bare_key(reader: Reader) -> Parsing[bool]:
    """Whether a key whose opening tag is missing stands here; nothing is read."""
    return bool((yield from reader.ahead(reader.maybe(_bare_key(reader)))))


def _bare_key(reader: Reader) -> Parsing[bool]:
    key = yield from reader.until(_BEFORE_TAG, MAX_KEY)
    found = yield from peek_tag(reader)
    return bool(key) and found is not None and found.kind == KEY and found.closing


def _over(reader: Reader) -> Parsing[bool]:
    """Whether the call is over."""
    if (yield from ends_here(reader)):
        return True
    found = yield from peek_tag(reader)
    return found is not None and found.kind not in (KEY, VALUE) and not found.closing


def _key(reader: Reader) -> Parsing[str]:
    """Read a key with its tags, as far as they are there."""
    found = yield from peek_tag(reader)
    if found is not None and found.kind == KEY and not found.closing:
        yield from tag(reader)
    key = (yield from reader.until(_BEFORE_TAG, MAX_KEY)).decode("utf-8", "replace").strip()
    end = yield from peek_tag(reader)
    if end is None or end.kind not in (KEY, VALUE) or (end.kind == VALUE and end.closing):
        raise reader.refuse("the end of a key was expected")
    while end is not None and end.kind == KEY and end.closing:
        yield from tag(reader)
        yield from reader.blanks()
        end = yield from peek_tag(reader)
    return key


def _type(reader: Reader) -> Parsing[str]:
    """Read the type that K2 Horizon may write between key and value; empty if there is none."""
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    if found is None or found.kind != TYPE or found.closing:
        return ""
    yield from tag(reader)
    said = yield from reader.until(_BEFORE_TAG, MAX_KEY)
    yield from tag(reader)
    return said.decode("utf-8", "replace").strip()


def _value(reader: Reader, raw: RawValues, key: str, given: dict[str, Json]) -> Parsing[RawText]:
    """Read a value and its end tag; either tag may be missing."""
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    ends: tuple[bytes, ...] = _VALUE_ENDS
    if found is not None and found.kind == VALUE and not found.closing:
        yield from tag(reader)
        ends = found.ends
    return (yield from raw.read(_markup(reader, ends), key, given))


def _markup(reader: Reader, ends: tuple[bytes, ...]) -> Markup:
    """The tags of pairs in the spelling of a value's end tag. The wrapper around them is the call."""
    begins = tuple(end.replace(b"</", b"<") for end in ends)
    keys = tuple(begin.replace(VALUE.encode(), KEY.encode()) for begin in begins)
    wrappers = WrapperTags(reader, tuple(end.replace(VALUE.encode(), b"tool_call") for end in ends))

    def read(reader: Reader) -> Parsing[Mark | None]:
        if (yield from reader.which(ends)):
            return Mark(Level.VALUE, True)
        if (yield from reader.which(begins)):
            return Mark(Level.VALUE, False)
        if (yield from reader.peek(keys)):
            key = yield from _head(reader)
            return Mark(Level.VALUE, False, key=key)
        return (yield from wrappers.read(reader))

    literals = dict.fromkeys((*ends, *begins, *keys, *wrappers.literals))
    return Markup(tuple(literals), read, _another, called=False, anywhere=True)


def _head(reader: Reader) -> Parsing[str]:
    """Read a key, its type if there is one, and the opening tag of its value."""
    key = yield from _key(reader)
    yield from _type(reader)
    yield from reader.blanks()
    found = yield from tag(reader)
    if found.kind != VALUE or found.closing:
        raise NotACall("the opening tag of a value was expected")
    return key


def _another(reader: Reader) -> Parsing[bool]:
    """Whether another pair begins here."""
    found = yield from peek_tag(reader)
    if found is not None:
        return found.kind == KEY and not found.closing
    return (yield from bare_key(reader))
