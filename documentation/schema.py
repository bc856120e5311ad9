"""The JSON Schema of rules files, generated from the structs that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from documentation.markdown import as_json, code
from proxy.config import rules
from proxy.config.settings import SPECS, Settings

FILE = Path(__file__).parents[1] / "docs" / "rules.schema.json"

Schema = Mapping[str, Any]
_PREFIX = "#/$defs/"
# Values that a table lists; of more it shows the title.
_MOST = 9


def sections(schema: Schema) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Yield a name and rows of key, value and description for the file, then for each definition that has keys."""
    for name, each in {"the file": schema, **schema["$defs"]}.items():
        if properties := each.get("properties"):
            required = each.get("required", ())
            rows = [
                (code(key) + (" (required)" if key in required else ""), _kind(value), value["description"])
                for key, value in properties.items()
            ]
            yield name, rows


def _kind(schema: Schema) -> str:
    """Return the allowed values in a word or two."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_PREFIX)
    if len(schema.get("enum", ())) > _MOST:
        return str(schema.get("title", "a name"))
    if "enum" in schema:
        return ", ".join(code(as_json(each)) for each in schema["enum"])
    if "const" in schema:
        return code(as_json(schema["const"]))
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return " or ".join(map(_kind, schema[word]))
    kinds = schema.get("type", "any value")
    if isinstance(kinds, list):
        # The reader also takes a number or a boolean for a string.
        kinds = kinds[0] if kinds[0] == "string" else " or ".join(kind for kind in kinds if kind != "null")
    if kinds == "array" and "items" in schema:
        kind = _kind(schema["items"])
        return "list of strings" if kind == "string" else f"list: {kind}"
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
            if kind is not Settings:  # an empty value
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
    """Return a struct's description and that of each key, from its docstring."""
    about, _, rest = (kind.__doc__ or "").partition("\n")
    found = re.findall(r"(?ms)^ +(\w+)(?: \S+)?: (.*?)(?=^ +\w+(?: \S+)?: |^ +[\w ]+:$|\Z)", rest)
    return about, {key: f"{' '.join(text.split()).removesuffix('.')}." for key, text in found}


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

