"""Access to parsed JSON of unknown shape: a value of the wrong type counts as empty.

`{"usage": null}`, `{"usage": []}` and `{}` are the same to a caller that wants an object. Callers that must reject a
wrong type check it themselves: `dialects/translation.py` for requests, `engine/reading.py` for replies.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject, read_json


def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty list."""
    if isinstance(value, list):
        return value
    return []


def as_object(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    if isinstance(value, dict):
        return value
    return {}


def as_text(value: Json) -> str:
    """Return the value if it is a string, else ""."""
    if isinstance(value, str):
        return value
    return ""


def objects_in(value: Json) -> list[JsonObject]:
    """Return the objects in a list; [] for any other value. `[{"a": 1}, 2]` -> `[{"a": 1}]`."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def may_hold_text(value: Json) -> bool:
    """Return whether a value may hold text: whether it is a string, list or object that is not empty."""
    return isinstance(value, str | list | dict) and bool(value)


def is_object_text(text: str) -> bool:
    """Return whether a text is a JSON object. Numbers of any size are valid, such as 1e999."""
    try:
        return isinstance(read_json(text, dict), dict)
    except ValueError:
        return False
