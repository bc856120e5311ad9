"""The rules file's schema as a reference: a section for each kind of object, a row for each of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from documentation.markdown import as_json, code, table

Schema = Mapping[str, Any]
_PREFIX = "#/$defs/"


def reference(schema: Schema) -> Iterator[str]:
    """The sections: the file itself, then each definition that has keys."""
    yield from _section("the file", schema)
    for name, definition in schema["$defs"].items():
        if definition.get("properties"):
            yield from _section(name, definition)


def _section(name: str, schema: Schema) -> Iterator[str]:
    yield f"\n## {name}\n"
    if "description" in schema:
        yield f"{schema['description']}\n"
    required = schema.get("required", ())
    yield from table(
        ("key", "value", "default", ""),
        (
            (code(key) + (" (required)" if key in required else ""), _kind(each), _default(each), _about(each))
            for key, each in schema["properties"].items()
        ),
    )


def _default(schema: Schema) -> str:
    return code(as_json(schema["default"])) if "default" in schema else ""


def _about(schema: Schema) -> str:
    inner = schema.get("properties")
    text = str(schema.get("description", ""))
    if not inner:
        return text
    told = (f"{code(key)}: {_kind(each)} {each.get('description', '')}".rstrip() for key, each in inner.items())
    keys = "; ".join(told)
    return f"{text} {keys}".strip()


def _kind(schema: Schema) -> str:
    """What a value may be, in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_PREFIX)
    if "enum" in schema:
        return ", ".join(code(as_json(each)) for each in schema["enum"])
    if "const" in schema:
        return code(as_json(schema["const"]))
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return " or ".join(map(_kind, schema[word]))
    kinds = schema.get("type", "any value")
    if isinstance(kinds, list):
        kinds = " or ".join(kind for kind in kinds if kind != "null")
    if kinds == "array" and "items" in schema:
        return f"list of {_kind(schema['items'])}"
    return str(kinds)
