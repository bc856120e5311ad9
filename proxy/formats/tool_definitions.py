"""What a model writes when it shows a tool rather than calls it: the JSON Schema of the arguments where the arguments
of a call would stand.

`{"name": "read", "parameters": {"type": "object", "properties": {…}}}`, and the short form of the same,
`{"name": "read", "parameters": {"path": {"type": "string"}}}`.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject
from proxy.tools.schema_types import allowed_types
from proxy.tools.toolset import Tool

_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """True if the arguments of a call are the JSON Schema of some; keys that the tool has itself say nothing."""
    foreign = {key: value for key, value in arguments.items() if key not in tool.properties}
    if foreign.get("type") == "object" or "$schema" in foreign:
        return True
    if isinstance(foreign.get("properties"), dict):
        return True
    if not arguments:
        return False
    return all(_is_schema(value) and _takes_none(tool, key) for key, value in arguments.items())


def _is_schema(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return isinstance(kind, str) and kind in _TYPES


def _takes_none(tool: Tool, key: str) -> bool:
    """True if parameter `key` takes no object, so that a schema cannot be its value."""
    if key not in tool.properties:
        return True
    return "object" not in allowed_types(tool.properties[key], tool.schema)
