"""A listing of tools looks like calls of them: where a call has arguments, a definition has a JSON Schema (F88).

    {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    {"name": "read", "parameters": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    {"name": "now", "parameters": {"type": "object"}}

A tool that takes such a thing by its own schema is called with it all the same.
"""

from __future__ import annotations

from collections.abc import Collection

from proxy.codec.json_text import Json, JsonObject
from proxy.tools.schema import ALL_TYPES
from proxy.tools.toolset import Tool
from proxy.tools.validator import Validator, children

# What the schema of a tool without parameters consists of.
_BARE = frozenset(("$schema", "type", "required", "additionalProperties", "description", "title"))
# Keywords of an object's schema next to its properties.
_BESIDE = _BARE | {"$id", "$defs", "definitions", "strict", "default", "examples"}
# Types by the names that JSON Schema and programming languages have for them.
_TYPE_NAMES = ALL_TYPES | {"str", "int", "float", "double", "bool", "list", "dict", "map", "any", "none"}
# Keywords that describe a value, with the type of what they say.
_DESCRIBING = {"$ref": str, "enum": list, "anyOf": list, "oneOf": list, "allOf": list, "properties": dict}


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """Return whether arguments are the JSON Schema of some, and the tool itself takes no such thing."""
    return _is_schema(arguments, tool.properties.keys()) or _are_schemas(arguments, tool)


def _is_schema(schema: JsonObject, own: Collection[str]) -> bool:
    """Return whether this is the schema of an object, rather than arguments of a tool with these keys."""
    if {"type", "properties"} & schema.keys() <= {*own}:
        return False
    if "type" in schema and str(schema["type"]).casefold() != "object":
        return False
    if "properties" not in schema:
        return not schema.keys() - _BARE
    properties = schema["properties"]
    if not isinstance(properties, dict) or not all(isinstance(each, dict) for each in properties.values()):
        return False
    return "type" in schema or schema.keys() - {"properties"} <= _BESIDE


def _are_schemas(arguments: JsonObject, tool: Tool) -> bool:
    """Return whether each value describes its parameter, and one of them can be nothing else."""
    about = _BESIDE - tool.properties.keys()
    described = {key: value for key, value in arguments.items() if key not in about}
    if not all(map(_describes, described.values())):
        return False
    return any(_cannot_be(tool, key, value) for key, value in described.items())


def _describes(value: Json) -> bool:
    """Return whether a value says what may be given: `{"type": "string"}`, `{"enum": ["a"]}`, `{}`, `"integer"`."""
    if not isinstance(value, dict):
        return _is_type_name(value)
    return (
        value.keys() <= {"description"}
        or "const" in value
        or _is_type_name(value.get("type"))
        or any(isinstance(value.get(key), kind) for key, kind in _DESCRIBING.items())
    )


def _is_type_name(value: Json) -> bool:
    """Return whether this names a type, or several."""
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name.casefold() in _TYPE_NAMES for name in names)


def _cannot_be(tool: Tool, key: str, value: Json) -> bool:
    """Return whether a value that describes parameter `key` cannot be given for it."""
    if not value or not isinstance(value, str | dict):
        return False
    schema = next(iter(children(key, [tool.compiled])), None)
    if schema is None:
        return not tool.compiled.extensible
    wrong_type, _, unknown = Validator().score(value, schema)
    return wrong_type or (isinstance(value, dict) and unknown >= len(value))
