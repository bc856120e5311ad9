"""A listing of tools looks like calls of them: where a call has arguments, a definition has a JSON Schema (F88)."""

from __future__ import annotations

from ..events import load_json
from ..reader import RawCall

# Why such a thing is no call.
DEFINITION = "it is the definition of a tool"
# What may stand beside the properties of a schema that does not say that it is an object's.
_UNTYPED = frozenset(("properties", "required", "additionalProperties"))


def is_definition(call: RawCall) -> bool:
    """True if the arguments are the JSON Schema of a tool's parameters, and the tool itself takes no such thing:
    `{"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}`.
    """
    if '"properties"' not in call.arguments or "properties" in call.tool.properties:
        return False
    try:
        schema = load_json(call.arguments)
    except ValueError:
        return False
    if not isinstance(schema, dict):
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not all(isinstance(each, dict) for each in properties.values()):
        return False
    return schema["type"] == "object" if "type" in schema else schema.keys() <= _UNTYPED
