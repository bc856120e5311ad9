"""Values whose parts are elements of their own (MiniMax M3): `<paths><item>a</item></paths>`."""

from __future__ import annotations

import re

from proxy.codec.json_text import Json, JsonObject
from proxy.notations.source import NoCall
from proxy.tools.schema import ALL_TYPES, Schema, or_anything

_TAG = re.compile(r"<(/?)([A-Za-z_$][\w.-]*)>")
_BLANKS = re.compile(r"\s*")
# Elements in elements.
MAX_NESTED = 64


def element_value(text: str, schema: Schema, depth: int = 0) -> Json:
    """Return the value that elements say, by the schema; the text's own value where it holds none."""
    if not text.lstrip().startswith("<"):
        if _TAG.search(text) and "string" not in schema.types:
            raise NoCall("an element was expected")
        return schema.typed(text)
    if "string" in schema.types and schema.types != ALL_TYPES:
        return schema.typed(text)
    text = text.strip()
    if depth > MAX_NESTED:
        raise NoCall("nested too deeply")
    parts = _parts(text)
    if ("array" in schema.types and "object" not in schema.types) or {name for name, _ in parts} == {"item"}:
        return [element_value(each, or_anything(schema.items), depth + 1) for _, each in parts]
    values: JsonObject = {}
    for name, each in parts:
        value = element_value(each, or_anything(schema.properties.get(name)), depth + 1)
        if name not in values:
            values[name] = value
            continue
        before = values[name]
        values[name] = [*before, value] if isinstance(before, list) else [before, value]
    return values


def _parts(text: str) -> list[tuple[str, str]]:
    """Return the elements that a text consists of, with their contents."""
    parts, pos = [], 0
    while pos < len(text):
        found = _TAG.match(text, pos)
        if not found or found.group(1):
            raise NoCall("an element was expected")
        end = _end_of(text, found)
        parts.append((found.group(2), text[found.end() : end]))
        blanks = _BLANKS.match(text, end + len(found.group(2)) + 3)
        assert blanks is not None
        pos = blanks.end()
    return parts


def _end_of(text: str, opened: re.Match[str]) -> int:
    """Return where the end tag of an element is."""
    depth = 0
    for found in _TAG.finditer(text, opened.end()):
        if found.group(2) != opened.group(2):
            continue
        if not found.group(1):
            depth += 1
        elif depth:
            depth -= 1
        else:
            return found.start()
    raise NoCall("an element without its end")
