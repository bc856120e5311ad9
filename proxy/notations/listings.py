"""A listing of tools looks like calls of them: where a call has arguments, a definition has a JSON Schema (F88).

    {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    {"name": "read", "parameters": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    {"name": "now", "parameters": {"type": "object"}}

A tool that takes such a thing by its own schema is called with it all the same.
"""

from __future__ import annotations

from collections.abc import Collection

from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject
from proxy.tools.schema import ALL_TYPES
from proxy.tools.toolset import Tool

# What the schema of a tool without parameters consists of.
_BARE = frozenset(("$schema", "type", "required", "additionalProperties", "description", "title"))
# Keywords of an object's schema next to its properties.
_BESIDE = _BARE | {"$id", "$defs", "definitions", "strict", "default", "examples"}
# Types by the names that JSON Schema and programming languages have for them.
_TYPE_NAMES = ALL_TYPES | {"str", "int", "float", "double", "bool", "list", "dict", "map", "any", "none"}
_ALTERNATIVES = ("enum", "anyOf", "oneOf", "allOf")


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """Return whether arguments are the JSON Schema of some, and the tool itself takes no such thing."""
    return _is_schema(arguments, tool.properties.keys()) or _are_schemas(arguments, tool)


def _is_schema(schema: JsonObject, own: Collection[str]) -> bool:
    """Whether this is the schema of an object, rather than arguments of a tool with these keys."""
    keywords = {"type", "properties"} & schema.keys()
    if keywords <= {*own}:
        return False
    if "properties" not in schema:
        return _is_object_type(schema["type"]) and not schema.keys() - _BARE
    properties = schema["properties"]
    if not isinstance(properties, dict):
        return False
    if not all(isinstance(each, dict) for each in properties.values()):
        return False
    if "type" in schema:
        return _is_object_type(schema["type"])
    return schema.keys() - {"properties"} <= _BESIDE


def _are_schemas(arguments: JsonObject, tool: Tool) -> bool:
    """Whether each value describes its parameter, and one of them can be nothing else."""
    about = _BESIDE - tool.properties.keys()
    described = {key: value for key, value in arguments.items() if key not in about}
    if not all(map(_describes, described.values())):
        return False
    return any(_cannot_be(tool, key, value) for key, value in described.items())


def _describes(value: Json) -> bool:
    """Whether a value says what may be given: `{"type": "string"}`, `{"enum": ["a"]}`, `{}`, `"integer"`."""
    if not isinstance(value, dict):
        return _is_type_name(value)
    if not value:
        return True
    return _is_described(value)


def _is_described(value: JsonObject) -> bool:
    """Whether an object is the schema of a value."""
    if _is_type_name(value.get("type")):
        return True
    if isinstance(value.get("$ref"), str):
        return True
    if any(isinstance(value.get(key), list) for key in _ALTERNATIVES):
        return True
    if isinstance(value.get("properties"), dict):
        return True
    if "const" in value:
        return True
    return value.keys() == {"description"}


def _is_type_name(value: Json) -> bool:
    """Whether this names a type, or several."""
    names = value if isinstance(value, list) else [value]
    if not names:
        return False
    return all(isinstance(name, str) and name.casefold() in _TYPE_NAMES for name in names)


def _is_object_type(value: Json) -> bool:
    return isinstance(value, str) and value.casefold() == "object"


def _cannot_be(tool: Tool, key: str, value: Json) -> bool:
    """True if a value that describes parameter `key` cannot be given for it."""
    taken = _taken(tool, key)
    if not isinstance(value, dict):
        return isinstance(value, str) and "string" not in taken
    if not value:
        return False
    if "object" not in taken:
        return True
    return not _may_hold(tool.properties.get(key), value)


def _may_hold(schema: Json, value: JsonObject) -> bool:
    """Whether an object may have one of these keys; one that declares its own and says nothing of others has none."""
    own = as_object(as_object(schema).get("properties"))
    if not own:
        return True
    if own.keys() & value.keys():
        return True
    return as_object(schema).get("additionalProperties") not in (None, False)


def _taken(tool: Tool, key: str) -> frozenset[str]:
    """The types that a tool takes for a parameter. What its schema says nothing of it does not take."""
    if key in tool.properties:
        return tool.parameter(key).types
    if "patternProperties" in tool.schema:
        return ALL_TYPES
    if tool.compiled.others is not None:
        return tool.compiled.others.types
    return ALL_TYPES if tool.schema.get("additionalProperties") is True else frozenset()
