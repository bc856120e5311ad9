"""Calls written as pairs of tags: GLM's `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`, and those of Ling,
Hunyuan and K2 Horizon, which differ in blanks, suffixes and namespaces (F7).

    <tool_call>edit
    <arg_key>path</arg_key>
    <arg_value>a.py</arg_value>
    </tool_call>

Models leave tags out: which one is missing is told by those that are there.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from proxy.codec.json_text import Json
from proxy.formats.end_tag_chains import KnownTags, Level, Mark, Markup, wrapper_marks
from proxy.formats.raw_values import RawText, RawValues
from proxy.formats.terminators import ends_here
from proxy.formats.xml_tags import NO_TAG, tag, tag_or_none
from proxy.parsing.cursor import MAX_KEY, Cursor, NotACall, Parsing
from proxy.tools.toolset import Tool

KEY, VALUE, TYPE = "arg_key", "arg_value", "arg_type"
_KEY, _VALUE, _TYPE = (KEY,), (VALUE,), (TYPE,)
_PAIR = (KEY, VALUE)
_BEFORE_TAG = re.compile(rb"<")
_VALUE_ENDS = (b"</arg_value>",)


def glm_pairs(cursor: Cursor, tool: Tool, first: str | None = None) -> Parsing[dict[str, Json]]:
    """Read pairs up to the end of their call, which is not read. `first` is a key whose opening tag is missing."""
    values: dict[str, Json] = {}
    raw = RawValues(cursor, tool)
    key = first
    while True:
        yield from cursor.blanks()
        while values and (yield from cursor.which(_VALUE_ENDS)):
            yield from cursor.blanks()
        if key is None and (yield from _over(cursor)):
            raw.finish(values)
            return values
        raw.begins(cursor.pos)
        if key is None:
            key = yield from _key(cursor)
            while (yield from cursor.maybe(_key_again(cursor, key))):
                pass  # a key that stands there twice is one
        cursor.reject_if(key in values or not key, f"the key {key!r} stands there twice")
        type_name = yield from _type(cursor)
        value = yield from _value(cursor, raw, key, values)
        meant = tool.meant(key, values)
        values[key] = tool.typed(meant, value.text, type_name)
        raw.check(meant, values[key], value)
        key = None


def bare_key(cursor: Cursor) -> Parsing[bool]:
    """Whether a key whose opening tag is missing stands here; nothing is read."""
    return bool((yield from cursor.ahead(cursor.maybe(_bare_key(cursor)))))


def _bare_key(cursor: Cursor) -> Parsing[bool]:
    key = yield from cursor.until(_BEFORE_TAG, MAX_KEY)
    tag = yield from tag_or_none(cursor)
    if not key:
        return False
    return tag.closes(_KEY)


def _over(cursor: Cursor) -> Parsing[bool]:
    """Whether the call is over."""
    if (yield from ends_here(cursor)):
        return True
    tag = yield from tag_or_none(cursor)
    if not tag.opening:
        return False
    return tag.kind not in _PAIR


def _key(cursor: Cursor) -> Parsing[str]:
    """Read a key with its tags, as far as they are there."""
    while (yield from tag_or_none(cursor)).opens(_KEY):
        yield from tag(cursor)
        yield from cursor.blanks()
    key = (yield from cursor.until(_BEFORE_TAG, MAX_KEY)).decode("utf-8", "replace").strip()
    end = yield from tag_or_none(cursor)
    # `<arg_key>path<arg_value>a.py` lacks the end tag.
    if end.kind not in _PAIR or end.closes(_VALUE):
        raise cursor.refuse("the end of a key was expected")
    while end.closes(_KEY):
        yield from tag(cursor)
        yield from cursor.blanks()
        end = yield from tag_or_none(cursor)
    return key


def _key_again(cursor: Cursor, key: str) -> Parsing[bool]:
    """Read the same key with its tags once more; whether it stood here."""
    yield from cursor.blanks()
    if not (yield from tag_or_none(cursor)).opens(_KEY):
        return False
    return (yield from _key(cursor)) == key


def _type(cursor: Cursor) -> Parsing[str]:
    """Read the type that K2 Horizon may write between key and value; empty if there is none."""
    yield from cursor.blanks()
    if not (yield from tag_or_none(cursor)).opens(_TYPE):
        return ""
    yield from tag(cursor)
    name = yield from cursor.until(_BEFORE_TAG, MAX_KEY)
    yield from tag(cursor)
    return name.decode("utf-8", "replace").strip()


def _value(cursor: Cursor, raw: RawValues, key: str, given: dict[str, Json]) -> Parsing[RawText]:
    """Read a value and its end tag; either tag may be missing."""
    yield from cursor.blanks()
    found = yield from tag_or_none(cursor)
    ends: tuple[bytes, ...] = _VALUE_ENDS
    start = cursor.pos
    if found.opens(_VALUE):
        yield from tag(cursor)
        ends = found.ends
    opener = cursor.text(start, cursor.pos)
    return (yield from raw.read(_markup(cursor, raw, ends, {*given, key}), key, given, opener=opener))


def _markup(cursor: Cursor, raw: RawValues, ends: tuple[bytes, ...], given: Collection[str]) -> Markup:
    """The tags of pairs in the spelling of a value's end tag, with these keys given. The wrapper around them is the
    call.
    """
    begins = tuple(end.replace(b"</", b"<") for end in ends)
    keys = tuple(begin.replace(VALUE.encode(), KEY.encode()) for begin in begins)
    wrappers = wrapper_marks(cursor, tuple(end.replace(VALUE.encode(), b"tool_call") for end in ends))
    values = {**dict.fromkeys(begins, Mark(Level.VALUE, False)), **dict.fromkeys(ends, Mark(Level.VALUE, True))}
    known = KnownTags({**wrappers, **values})

    def read(cursor: Cursor) -> Parsing[Mark | None]:
        mark = yield from known.read(cursor)
        if mark is not None:
            return mark
        if (yield from cursor.peek(keys)):
            key = yield from _head(cursor)
            return Mark(Level.VALUE, False, key=key)
        return None

    def another(cursor: Cursor) -> Parsing[bool]:
        if (yield from tag_or_none(cursor)) is NO_TAG:
            return (yield from bare_key(cursor))
        return raw.may_begin((yield from _next_key(cursor)), given)

    literals = dict.fromkeys((*ends, *begins, *keys, *wrappers))
    return Markup(tuple(literals), read, another, called=False, anywhere=True)


def _head(cursor: Cursor) -> Parsing[str]:
    """Read a key, its type if there is one, and the opening tag of its value."""
    key = yield from _key(cursor)
    yield from _type(cursor)
    yield from cursor.blanks()
    if not (yield from tag(cursor)).opens(_VALUE):
        raise NotACall("the opening tag of a value was expected")
    return key


def _next_key(cursor: Cursor) -> Parsing[str | None]:
    """The key of the pair that begins here; None, and nothing is read, if none does."""
    if not (yield from tag_or_none(cursor)).opens(_KEY):
        return None
    return (yield from cursor.ahead(cursor.maybe(_key(cursor))))
