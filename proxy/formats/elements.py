"""MiniMax M3's values: elements named by the key, nested, an array as repeated `<item>` (F12).

What an element is, the schema decides; a string keeps the markup in it as it was written.
"""

from __future__ import annotations

import re

from ..events import Json, JsonObject
from ..limits import MAX_DEPTH
from ..schema import allowed_types, parts, typed
from ..tools import Tool

_OPENING = re.compile(r"\s*(?:\]<\]minimax\[>\[)?<([A-Za-z_][\w.-]*)>")
_REST = re.compile(r"\s*\Z")
_ITEM = "item"


def element_value(text: str, tool: Tool, key: str) -> Json:
    """The value of parameter `key`, of which `text` is all between its tags."""
    return _value(text, tool.properties.get(key), tool.schema, 0)


def _value(text: str, schema: Json, root: JsonObject, depth: int) -> Json:
    types = allowed_types(schema, root)
    children = None if "string" in types or depth > MAX_DEPTH else _children(text)
    if not children:
        empty = not text.strip() and not {"string", "null"} & types
        if empty and "array" in types:
            return []
        return {} if empty and "object" in types else typed(text, schema, root)
    if all(name == _ITEM for name, _ in children) and "array" in types:
        items = _inner(schema, root, "items")
        return [_value(inner, items, root, depth + 1) for _, inner in children]
    values: JsonObject = {}
    for name, inner in children:
        values[name] = _value(inner, _property(schema, root, name), root, depth + 1)
    return values


def _children(text: str) -> list[tuple[str, str]] | None:
    """The elements that the text consists of, by name; None if there is anything else in it."""
    found: list[tuple[str, str]] = []
    at = 0
    while not _REST.match(text, at):
        opening = _OPENING.match(text, at)
        end = _end(text, opening.end(), opening.group(1)) if opening else None
        if opening is None or end is None:
            return None
        inner_end, at = end
        found.append((opening.group(1), text[opening.end() : inner_end]))
    return found


def _end(text: str, start: int, name: str) -> tuple[int, int] | None:
    """Where the element that was opened ends: its inside, and its end tag."""
    tags = re.compile(rf"(?:\]<\]minimax\[>\[)?<(/?){re.escape(name)}>")
    level = 1
    for found in tags.finditer(text, start):
        level += -1 if found.group(1) else 1
        if not level:
            return found.start(), found.end()
    return None


def _inner(schema: Json, root: JsonObject, key: str) -> Json:
    return next((part[key] for part in parts(schema, root) if key in part), None)


def _property(schema: Json, root: JsonObject, name: str) -> Json:
    for part in parts(schema, root):
        declared = part.get("properties")
        if isinstance(declared, dict) and name in declared:
            return declared[name]
    return None
