"""MiniMax M3's values: elements named by the key, nested, an array as repeated `<item>` (F12).

    ]<]minimax[>[<to>]<]minimax[>[<item>a@b.no]<]minimax[>[</item>]<]minimax[>[</to>

is `"to": ["a@b.no"]`. What an element is, the schema decides; a string keeps the markup in it as it was written. An
element that stands there several times is a list. Text beside elements is `$text`, as in MiniMax's own parser, where
the object may have such a key: `<shipping>by air<city>Oslo</city></shipping>` is
`{"$text": "by air", "city": "Oslo"}`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject
from proxy.limits import MAX_DEPTH
from proxy.parsing.cursor import NotACall
from proxy.tools.schema import ALL_TYPES, Schema, or_anything
from proxy.tools.toolset import Tool

_OPENING = re.compile(r"\s*(?:\]<\]minimax\[>\[)?<([A-Za-z_][\w.-]*)>")
# The same without what may stand before it: a search from each blank on would read all of them again.
_OPENING_TAG = re.compile(r"<[A-Za-z_][\w.-]*>")
_REST = re.compile(r"\s*\Z")
# Where the schema says nothing, MiniMax's own separator tells an element from a text that shows one.
_MARKED = re.compile(r"\s*\]<\]minimax\[>\[<[A-Za-z_]")
_BLANKS = re.compile(r"\s*")
# Its separator may stand before a tag, where text ends.
_TAG_AHEAD = re.compile(r"\]<\]minimax\[>\[<|<[A-Za-z_/]")
# JSON has no such integer; a text of digits alone is one all the same where nothing else is allowed.
_ZEROS = re.compile(r"\A\s*(-?)0+([0-9]+)\s*\Z")
_ITEM, _TEXT = "item", "$text"
_HOLDERS = frozenset(("array", "object"))


def element_value(text: str, tool: Tool, key: str) -> Json:
    """The value of parameter `key`, of which `text` is all between its tags; NotACall if an element does not end."""
    return _value(text, tool.parameter(key), 0)


def inner_keys(tool: Tool, key: str) -> frozenset[str]:
    """The keys that the objects of a parameter declare, also those in an array."""
    schema = tool.parameter(key)
    parts = (*schema.all_parts(), *_items(schema).all_parts())
    return frozenset(name for part in parts for name in part.properties)


def shows_element(text: str) -> bool:
    """Whether the opening tag of an element stands in a text."""
    return _OPENING_TAG.search(text) is not None


def _value(text: str, schema: Schema, depth: int) -> Json:
    types = schema.types
    if depth > MAX_DEPTH or _is_string(text, types):
        return schema.typed(text)
    found = _children(text)
    if found is _UNENDED:
        return _without_end(text, schema)
    if found is None or not found.children:
        return _scalar(text, schema)
    if "array" in types and found.items_only:
        items = _items(schema)
        return [_value(inner, items, depth + 1) for _, inner in found.children]
    if not _are_members(found, schema):
        return text
    if found.has_items and "object" not in types:
        # `<tags>]<]minimax[>[<item>a</item><note>b</note>` lacks the end tag of the tags.
        raise NotACall("items stand beside other elements")
    return _object(found, schema, depth)


def _are_members(found: _Children, schema: Schema) -> bool:
    """Whether elements are the members of an object: no text stands beside them, or the object has a key for it."""
    if not found.text:
        return True
    if "object" not in schema.types:
        return False
    return _may_have_text(schema)


def _without_end(text: str, schema: Schema) -> Json:
    """The value of a text in which the end tag of an element may be missing, if it is JSON; else it has none: in
    `<city>Oslo<zip>0150</zip>` the city may go on behind the other element.
    """
    value = _scalar(text, schema)
    if isinstance(value, str):
        raise NotACall("its elements do not end")
    return value


def _is_string(text: str, types: Collection[str]) -> bool:
    """Whether a text is a string, whatever markup is in it."""
    if "string" not in types:
        return False
    if types != ALL_TYPES:
        return True
    # Where anything is allowed, MiniMax's separator says that these are elements.
    return not _MARKED.match(text)


def _scalar(text: str, schema: Schema) -> Json:
    """The value of a text without elements, which may not be a string."""
    types = schema.types
    if not text.strip() and "null" not in types:
        if "array" in types:
            return []
        if "object" in types:
            return {}
    if "integer" in types and _HOLDERS.isdisjoint(types):
        text = _ZEROS.sub(r"\1\2", text)
    return schema.typed(text)


def _object(found: _Children, schema: Schema, depth: int) -> JsonObject:
    """The object of these elements; those of one name are a list."""
    by_name: dict[str, list[str]] = {}
    for name, inner in found.children:
        by_name.setdefault(name, []).append(inner)
    values: JsonObject = {_TEXT: found.text} if found.text else {}
    for name, inners in by_name.items():
        inside = _property(schema, name)
        if len(inners) == 1:
            values[name] = _value(inners[0], inside, depth + 1)
            continue
        items = _items(inside) if "array" in inside.types else inside
        values[name] = [_value(inner, items, depth + 1) for inner in inners]
    return values


def _may_have_text(schema: Schema) -> bool:
    """Whether an object may have a key for text: it declares it, or declares none and forbids none."""
    if _declared(schema, _TEXT) is not None:
        return True
    parts = schema.all_parts()
    return not any(part.properties or part.source.get("additionalProperties") is False for part in parts)


@dataclass(frozen=True, slots=True)
class _Children:
    """The elements that a text consists of, by name, and the one text beside them, without blanks around it."""

    children: tuple[tuple[str, str], ...]
    text: str

    @property
    def items_only(self) -> bool:
        """Whether nothing but `<item>` elements stands there."""
        if self.text:
            return False
        return all(name == _ITEM for name, _ in self.children)

    @property
    def has_items(self) -> bool:
        """Whether one of them is an `<item>`."""
        return any(name == _ITEM for name, _ in self.children)


# What a text consists of in which an element does not end.
_UNENDED = _Children((), "")


def _children(text: str) -> _Children | None:
    """What a text consists of; _UNENDED if an element in it does not end, None if text stands in several places of
    it.
    """
    found: list[tuple[str, str]] = []
    beside = ""
    at = 0
    while not _REST.match(text, at):
        opening = _OPENING.match(text, at)
        if opening is not None:
            end = _end(text, opening.end(), opening.group(1))
            if end is None:
                return _UNENDED
            inner_end, at = end
            found.append((opening.group(1), text[opening.end() : inner_end]))
            continue
        start, at = _beside(text, at)
        if beside or at == start:
            return None
        beside = text[start:at].rstrip()
    return _Children(tuple(found), beside)


def _beside(text: str, at: int) -> tuple[int, int]:
    """Where the text begins that stands here beside elements, without blanks before it, and where it ends."""
    blanks = _BLANKS.match(text, at)
    start = blanks.end() if blanks else at
    tag = _TAG_AHEAD.search(text, start)
    return start, tag.start() if tag else len(text)


def _end(text: str, start: int, name: str) -> tuple[int, int] | None:
    """Where the element that was opened ends: its inside, and its end tag."""
    tags = re.compile(rf"(?:\]<\]minimax\[>\[)?<(/?){re.escape(name)}>")
    level = 1
    for match in tags.finditer(text, start):
        level += -1 if match.group(1) else 1
        if not level:
            return match.start(), match.end()
    return None


def _items(schema: Schema) -> Schema:
    """The schema of an array's items."""
    found = (part.items for part in schema.all_parts() if "items" in part.source)
    return or_anything(next(found, None))


def _property(schema: Schema, name: str) -> Schema:
    """The schema of a key: its own, or that of all keys that are not declared."""
    own = _declared(schema, name)
    if own is not None:
        return or_anything(own)
    found = (part.others for part in schema.all_parts() if "additionalProperties" in part.source)
    return or_anything(next(found, None))


def _declared(schema: Schema, name: str) -> Schema | None:
    found = (part.properties[name] for part in schema.all_parts() if name in part.properties)
    return next(found, None)
