"""Values whose parts are elements of their own (MiniMax M3): `<paths><item>a</item></paths>`."""

from __future__ import annotations

import functools
import re

from proxy.codec.json_text import Json, JsonObject
from proxy.notations.literals import typed
from proxy.notations.source import NoCall
from proxy.tools.schema import ALL_TYPES, Schema, or_anything

# Elements in elements.
MAX_NESTED = 64


@functools.lru_cache(maxsize=4)
def _tag(prefix: str) -> re.Pattern[str]:
    """Return the pattern of a tag, before which the notation writes `prefix`."""
    return re.compile(rf"{re.escape(prefix)}<(/?)([A-Za-z_$][\w.-]*)>")


def element_value(text: str, schema: Schema, prefix: str = "", depth: int = 0) -> Json:
    """Return the value that elements say, by the schema; the text's own value where it holds none."""
    if not text.strip() and schema.types & {"array", "object"} and "string" not in schema.types:
        return [] if "object" not in schema.types else {}
    first, value = _tag(prefix).search(text), typed(schema, text)
    if not isinstance(value, str):
        return value  # a literal, whatever its strings show
    if first is None or ("string" in schema.types and (first.start() or schema.types != ALL_TYPES)):
        if prefix and prefix in text and schema.types == ALL_TYPES:
            raise NoCall("an element was expected")
        return value
    if depth > MAX_NESTED:
        raise NoCall("nested too deeply")
    beside, text = text[: first.start()].strip(), text[first.start() :].strip()
    parts = _parts(text, _tag(prefix))
    names = {name for name, _ in parts}
    if not beside and (("array" in schema.types and "object" not in schema.types) or names == {"item"}):
        items = or_anything(schema.items)
        if len(names) > 1 or names & items.properties.keys():
            raise NoCall("elements beside the items, or keys of an item")
        return [element_value(each, items, prefix, depth + 1) for _, each in parts]
    if beside and "object" not in schema.types:
        raise NoCall("an element was expected")
    values: JsonObject = {"$text": beside} if beside else {}
    for name, each in parts:
        inner = element_value(each, or_anything(schema.properties.get(name)), prefix, depth + 1)
        if name not in values:
            values[name] = inner
            continue
        before = values[name]
        values[name] = [*before, inner] if isinstance(before, list) else [before, inner]
    return values


def _parts(text: str, tag: re.Pattern[str]) -> list[tuple[str, str]]:
    """Return the elements that a text consists of, with their contents."""
    parts, name, start, end, depth = list[tuple[str, str]](), "", 0, 0, 0
    for found in tag.finditer(text):
        closing, word = found.groups()
        if not depth:
            if closing or text[end : found.start()].strip():
                raise NoCall("an element was expected")
            name, start, depth = word, found.end(), 1
        elif word == name:
            depth += -1 if closing else 1
            if not depth:
                parts.append((name, text[start : found.start()]))
                end = found.end()
    if depth or text[end:].strip():
        raise NoCall("an element without its end")
    return parts
