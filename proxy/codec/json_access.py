"""Access to parsed JSON of unknown shape: a value of another type than the one asked for counts as empty.

`{"usage": null}`, `{"usage": []}` and `{}` are the same to a reader that wants an object. Where another type is an
error, the reader checks it itself: of requests `dialects/translation.py`, of replies `engine/reading.py`.
"""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject, read_json


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, else an empty one."""
    if isinstance(value, list):
        return value
    return []


def as_object(value: Json) -> JsonObject:
    """The value if it is an object, else an empty one."""
    if isinstance(value, dict):
        return value
    return {}


def as_text(value: Json) -> str:
    """The value if it is a string, else an empty one."""
    if isinstance(value, str):
        return value
    return ""


def objects_in(value: Json) -> list[JsonObject]:
    """The objects of a list; none if it is no list. `[{"a": 1}, 2]` -> `[{"a": 1}]`."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def may_hold_text(value: Json) -> bool:
    """Return whether a value of the wrong type may hold text: a string, a list or an object that is not empty."""
    return isinstance(value, str | list | dict) and bool(value)


def is_object_text(text: str) -> bool:
    """True if a text is the JSON of an object, with numbers of any size: 1e999 is one of JSON's."""
    try:
        return isinstance(read_json(text, dict), dict)
    except ValueError:
        return False
