"""Values whose parts are elements of their own (MiniMax M3): `<paths><item>a</item></paths>`."""

from __future__ import annotations

import re

from proxy.notations.source import NoCall

_TAG = re.compile(r"<(/?)([A-Za-z_$][\w.-]*)>")


def element_value(text: str, schema):
    """The value of elements by the schema; the text itself where it is a plain one."""
    parts, pos = [], 0
    stripped = text.strip()
    if not stripped.startswith("<"):
        return schema.typed(text)
    while pos < len(stripped):
        found = _TAG.match(stripped, pos)
        if not found or found.group(1):
            raise NoCall("an element was expected")
        end = _end_of(stripped, found)
        parts.append((found.group(2), stripped[found.end() : end]))
        pos = re.compile(r"\s*").match(stripped, end + len(found.group(2)) + 3).end()
    if "array" in schema.types and len({name for name, _ in parts}) == 1:
        inner = schema.items
        return [element_value(each, inner) if inner else each for _, each in parts]
    out: dict = {}
    for name, each in parts:
        inner = schema.properties.get(name)
        value = element_value(each, inner) if inner else each
        if name in out:
            out[name] = [*(out[name] if isinstance(out[name], list) else [out[name]]), value]
        else:
            out[name] = value
    return out


def _end_of(text: str, opened) -> int:
    depth, pos = 0, opened.end()
    for found in _TAG.finditer(text, pos):
        if found.group(2) != opened.group(2):
            continue
        if not found.group(1):
            depth += 1
        elif depth:
            depth -= 1
        else:
            return found.start()
    raise NoCall("an element without its end")
