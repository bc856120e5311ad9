"""A listing of tools looks like calls of them: where a call has arguments, a definition has a JSON Schema (F88)."""

from __future__ import annotations

from collections.abc import Collection

from proxy.codec.json_text import JsonObject, load_json
from proxy.parsing.cursor import RawCall

# What may stand beside the properties of a schema that does not say that it is an object's.
_UNTYPED = frozenset(("properties", "required", "additionalProperties"))
# What the schema of a tool without parameters consists of, besides its type.
_BARE = frozenset(("$schema", "type", "required", "additionalProperties", "description", "title"))


def is_definition(call: RawCall) -> bool:
    """True if the arguments are the JSON Schema of a tool's parameters, and the tool itself takes no such thing:
    `{"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}`, and
    `{"name": "now", "parameters": {"type": "object"}}` of one without parameters.
    """
    if not any(word in call.arguments for word in ('"properties"', '"object"')):
        return False
    try:
        schema = load_json(call.arguments)
    except ValueError:
        return False
    return isinstance(schema, dict) and _is_schema(schema, call.tool.properties.keys())


def _is_schema(schema: JsonObject, own: Collection[str]) -> bool:
    """Whether this is the schema of an object, rather than arguments of a tool with these keys."""
    said = {"type", "properties"} & schema.keys()
    if said <= {*own}:
        return False
    if "properties" not in schema:
        return schema["type"] == "object" and not schema.keys() - _BARE
    properties = schema["properties"]
    if not isinstance(properties, dict):
        return False
    if not all(isinstance(each, dict) for each in properties.values()):
        return False
    if "type" in schema:
        return schema["type"] == "object"
    return schema.keys() <= _UNTYPED
