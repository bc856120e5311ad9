"""Calls written as pairs of tags: GLM's `NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`, and those of Ling,
Hunyuan and K2 Horizon, which differ in blanks, suffixes and namespaces (F7).

Models leave tags out: which one is missing is told by those that are there.
"""

from __future__ import annotations

import re

from ..events import Json
from ..reader import MAX_KEY, Parsing, Reader
from ..tools import Tool
from .ends import closes, enclosed, ends_here
from .tags import peek_tag, tag

KEY, VALUE, TYPE = "arg_key", "arg_value", "arg_type"
_BEFORE_TAG = re.compile(rb"<")
_VALUE_ENDS = (b"</arg_value>",)
# A pair that begins in a value whose end tag is missing.
_UNCLOSED = re.compile(r"<arg_key>([^<>]{1,160})</arg_key>\s{0,8}<arg_value>")


def pairs(reader: Reader, tool: Tool, first: str | None = None) -> Parsing[dict[str, Json]]:
    """Read pairs up to the end of their call, which is not read. `first` is a key whose opening tag is missing."""
    values: dict[str, Json] = {}
    while True:
        yield from reader.blanks()
        while values and (yield from reader.which(_VALUE_ENDS)):
            yield from reader.blanks()
        if first is None and (yield from _over(reader)):
            return values
        key = first if first is not None else (yield from _key(reader))
        first = None
        reader.annul(key in values or not key, f"the key {key!r} stands there twice")
        said = yield from _type(reader)
        text = yield from _value(reader)
        values.update(_split(tool, key, text, said, values))


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


def _value(reader: Reader) -> Parsing[str]:
    """Read a value and its end tag; either tag may be missing."""
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    ends: tuple[bytes, ...] = _VALUE_ENDS
    if found is not None and found.kind == VALUE and not found.closing:
        yield from tag(reader)
        ends = found.ends
    # The end tag of the call, spelled as those of its values.
    call_ends = tuple(end.replace(VALUE.encode(), b"tool_call") for end in ends)
    begins = tuple(end.replace(b"</", b"<") for end in ends)
    return (
        yield from enclosed(
            reader,
            ends,
            begins,
            call_ends,
            follows=lambda: _legal(reader, ends),
            call_follows=lambda: _wrapper_over(reader),
        )
    )


def _wrapper_over(reader: Reader) -> Parsing[bool]:
    """Whether behind a wrapper's end tag stands what may follow it."""
    yield from reader.blanks()
    found = yield from peek_tag(reader)
    return (yield from ends_here(reader)) or (found is not None and not found.closing and found.kind == "tool_call")


def _legal(reader: Reader, ends: tuple[bytes, ...]) -> Parsing[bool]:
    """Whether another pair or the end of the call follows."""
    yield from reader.blanks()
    if (yield from reader.which(ends)):
        yield from reader.blanks()  # it stands there twice
    found = yield from peek_tag(reader)
    if found is not None:
        return (found.kind == KEY and not found.closing) or closes(found)
    return (yield from ends_here(reader)) or (yield from bare_key(reader))


def _split(tool: Tool, key: str, text: str, said: str, known: dict[str, Json]) -> dict[str, Json]:
    """The value, and that of a pair that begins in it because its end tag is missing: it must be of the key's type."""
    for found in list(_UNCLOSED.finditer(text))[-1:] if "<arg_key>" in text else ():
        inner = found.group(1).strip()
        if inner in tool.properties and inner != key and inner not in known:
            second = tool.typed(inner, text[found.end() :], said)
            if not isinstance(second, str):
                return {key: tool.typed(key, text[: found.start()].rstrip("\r\n"), said), inner: second}
    return {key: tool.typed(key, text, said)}
