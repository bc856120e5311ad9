"""The JSON Schema of rules files, made of the structs that read them, and as a reference.

`python -m documentation.schema` writes docs/rules.schema.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from documentation.markdown import as_json, code, table
from proxy.config import rules
from proxy.config.settings import SPECS, Settings

FILE = Path(__file__).parents[1] / "docs" / "rules.schema.json"

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


def rules_schema() -> dict[str, Any]:
    """Return the JSON Schema of a rules file (draft 2020-12)."""
    made = msgspec.json.schema(rules.RulesFile)
    definitions: dict[str, Any] = made["$defs"]
    for name, definition in definitions.items():
        kind = Settings if name == "Settings" else getattr(rules, name)
        about, keys = _docstring(kind)
        definition |= {"description": about, "additionalProperties": False}
        for key, each in definition["properties"].items():
            each["description"] = keys[key]
            if kind is not Settings:  # an empty value, or none
                each.pop("default", None)
        _allow_what_the_reader_allows(definition)
    fix = definitions["Fix"]
    needs = {**rules.NEEDED_KEYS, **rules.OPTIONAL_KEYS}
    by_key = {key: [word for word in needs if needs[word] == key] for key in needs.values()}
    words = {key: {"anyOf": [_has_word(fix, word) for word in by_key[key]]} for key in by_key}
    fix["allOf"] = [{"if": {"required": [key]}, "then": condition} for key, condition in words.items()] + [
        {"if": _has_word(fix, word), "then": {"required": [key]}} for word, key in rules.NEEDED_KEYS.items()
    ]
    properties = definitions["Settings"]["properties"]
    definitions["Settings"]["properties"] = {key: properties[spec.name] for spec in SPECS for key in spec.keys}
    file = definitions.pop("RulesFile")
    title = "rules.yaml of vllm-tool-proxy"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **file, "title": title, "$defs": definitions}


def _docstring(kind: type) -> tuple[str, dict[str, str]]:
    """Return what a struct's docstring says of it, and of each key."""
    about, *lines = (kind.__doc__ or "").splitlines()
    found = (re.match(r"\s*(\w+)(?: \S+)?: (.*)", line) for line in lines)
    return about, {each[1]: f"{each[2].removesuffix('.')}." for each in found if each}


def _has_word(fix: Schema, word: str) -> dict[str, Any]:
    key = "condition" if word in fix["properties"]["condition"]["enum"] else "action"
    return {"properties": {key: {"const": word}}}


def _allow_what_the_reader_allows(schema: Any) -> None:
    """Allow numbers and booleans where a text is wanted, and null for an empty object or list."""
    if isinstance(schema, list):
        for each in schema:
            _allow_what_the_reader_allows(each)
    if not isinstance(schema, dict):
        return
    for each in schema.values():
        _allow_what_the_reader_allows(each)
    if schema.get("type") == "string":
        schema["type"] = ["string", "number", "boolean"]
    elif schema.get("type") in ("object", "array") and not schema.get("required") and "minItems" not in schema:
        schema["type"] = [schema["type"], "null"]
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        # None means that the key is absent, not that it may be null.
        kinds = [each for each in schema.pop("anyOf") if each != {"type": "null"}]
        schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


if __name__ == "__main__":
    FILE.write_text(json.dumps(rules_schema(), indent=2) + "\n")
