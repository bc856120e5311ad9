"""What a tool's JSON Schema says about one value, as far as typing it needs.

The schema is the client's and therefore hostile input: `$ref` resolves only inside it, every walk is bounded, and
`pattern` and `format` are never evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator

from .events import Json, JsonObject, load_json

MAX_WALK = 256
_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))


def allowed_types(schema: Json, root: JsonObject) -> frozenset[str]:
    """The JSON types that `schema` allows; all of them where it does not say.

    `anyOf`, `oneOf` and `allOf` are read as a union: this decides what a text may be taken for, never whether a
    value is valid.
    """
    found: set[str] = set()
    for part in _parts(schema, root):
        kind = part.get("type")
        kinds = kind if isinstance(kind, list) else [kind]
        found.update(name for name in kinds if isinstance(name, str) and name in _TYPES)
        values = part.get("enum")
        found.update(type_of(value) for value in (values if isinstance(values, list) else []))
        if "const" in part:
            found.add(type_of(part["const"]))
    return frozenset(found) or _TYPES


def type_of(value: Json) -> str:
    """The JSON Schema name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def typed(text: str, schema: Json, root: JsonObject) -> Json:
    """The value that a raw text stands for: itself where a string is allowed, else an exact literal of a type that is.

    Formats that write no quotation marks (Qwen XML) need it. What fits no allowed type stays a string: the client's
    error teaches the model.
    """
    types = allowed_types(schema, root)
    if "string" in types:
        return text
    try:
        value = load_json(text.strip())
    except ValueError:
        return text
    kind = type_of(value)
    fits = kind in types or (kind == "integer" and "number" in types)
    return value if fits else text


def _parts(schema: Json, root: JsonObject) -> Iterator[JsonObject]:
    """The schema and the alternatives inside it, each once."""
    todo: list[Json] = [schema]
    seen: set[int] = set()
    while todo and len(seen) < MAX_WALK:
        part = todo.pop()
        if not isinstance(part, dict) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        todo.append(_resolve(part.get("$ref"), root))
        for key in ("anyOf", "oneOf", "allOf"):
            alternatives = part.get(key)
            todo.extend(alternatives if isinstance(alternatives, list) else [])


def _resolve(reference: Json, root: JsonObject) -> Json:
    """The place in `root` that a local JSON pointer (RFC 6901) names, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place: Json = root
    for step in reference[1:].split("/")[1:]:
        if not isinstance(place, dict):
            return None
        place = place.get(step.replace("~1", "/").replace("~0", "~"))
    return place
