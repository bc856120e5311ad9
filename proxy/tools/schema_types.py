"""What a tool's JSON Schema says about one value, as far as typing it needs.

The schema is the client's and therefore hostile input: `$ref` resolves only inside it, every walk is bounded, and
`pattern` and `format` are never evaluated.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from proxy.codec.json_access import as_list
from proxy.codec.json_text import Json, JsonObject
from proxy.codec.literals import read_literal

MAX_WALK = 256
MAX_DEEP = 16
_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
# What is allowed where a schema says nothing.
ALL_TYPES = _TYPES
_STRING = frozenset(("string",))
# The whole schema, or a place in it: `#`, `#/$defs/path`.
_LOCAL = re.compile(r"#(?:/|\Z)")


def allowed_types(schema: Json, root: JsonObject) -> frozenset[str]:
    """The JSON types that `schema` allows; all of them where it does not say.

    This decides what a text may be taken for, never whether a value is valid.
    """
    return _Walk(root).types(schema, 0) or _TYPES


class _Walk:
    """One bounded walk through a schema: a hostile one ends at the limits, and allows all types there."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_WALK
        self._path: set[int] = set()

    def types(self, schema: Json, depth: int) -> frozenset[str]:
        """The types of a schema, of which all that stands in it must hold."""
        self._left -= 1
        if not isinstance(schema, dict):
            return _TYPES
        if depth > MAX_DEEP or self._left < 0:
            return _TYPES
        if id(schema) in self._path:
            return frozenset()  # a circle adds nothing to itself
        self._path.add(id(schema))
        allowed = self._all_of(schema, depth)
        self._path.discard(id(schema))
        return allowed

    def _all_of(self, schema: JsonObject, depth: int) -> frozenset[str]:
        allowed = own_types(schema)
        for key in ("anyOf", "oneOf"):
            alternatives = as_list(schema.get(key))
            if alternatives:
                allowed &= frozenset().union(*(self.types(part, depth + 1) for part in alternatives))
        for part in as_list(schema.get("allOf")):
            allowed &= self.types(part, depth + 1)
        if "$ref" in schema:
            allowed &= self.types(resolve(schema["$ref"], self._root), depth + 1)
        return allowed


def own_types(schema: JsonObject) -> frozenset[str]:
    """What `type`, `enum` and `const` say."""
    allowed = _named_types(schema)
    values = as_list(schema.get("enum"))
    if values:
        allowed &= frozenset().union(*map(_types_of, values))
    if "const" in schema:
        allowed &= _types_of(schema["const"])
    return allowed


def _named_types(schema: JsonObject) -> frozenset[str]:
    """What `type` says, a word or a list of them; all types if it says nothing, or a word that is none."""
    said = schema.get("type")
    names = {name for name in as_list(said) if isinstance(name, str)}
    if isinstance(said, str):
        names = {said}
    if not names or names - _TYPES:
        return _TYPES
    if "number" in names:
        names.add("integer")
    if schema.get("nullable") is True:  # OpenAPI 3.0
        names.add("null")
    return frozenset(names)


def _types_of(value: Json) -> frozenset[str]:
    """The types of values that are equal to this one: 1 is 1.0."""
    types = {type_of(value)}
    if isinstance(value, float) and value.is_integer():
        types.add("integer")
    return frozenset(types)


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
    """The value that a raw text stands for, in formats that write no quotation marks (Qwen XML).

    The text itself where the schema says nothing or allows strings only; else what it is a literal of, in JSON or in
    Python, if that is of an allowed type. What fits none stays a string: the client's error teaches the model.
    """
    types = allowed_types(schema, root)
    if types in (_TYPES, _STRING):
        return text
    value = literal(text)
    if type_of(value) in types - _STRING:
        return value
    return text


def literal(text: str) -> Json:
    """What a text is a literal of, in JSON or in Python; the text itself if of nothing."""
    try:
        return read_literal(text.strip())
    except ValueError:
        return text


def is_unlisted(value: Json, schema: Json, root: JsonObject) -> bool:
    """Whether the schema itself, or what it refers to, lists what a value may be, and this is nothing of it."""
    if isinstance(schema, dict) and "$ref" in schema:
        schema = resolve(schema["$ref"], root)
    if not isinstance(schema, dict):
        return False
    listed = as_list(schema.get("enum"))
    return bool(listed) and value not in listed


def parts(schema: Json, root: JsonObject) -> tuple[JsonObject, ...]:
    """The schema and its alternatives, references resolved, as far as a bounded walk comes."""
    found: list[JsonObject] = []
    waiting = [schema]
    while waiting and len(found) < MAX_DEEP:
        part = waiting.pop(0)
        if not isinstance(part, dict):
            continue
        if any(part is known for known in found):
            continue
        found.append(part)
        for key in ("anyOf", "oneOf", "allOf"):
            waiting += as_list(part.get(key))
        if "$ref" in part:
            waiting.append(resolve(part["$ref"], root))
    return tuple(found)


def resolve(reference: Json, root: JsonObject) -> Json:
    """The place in `root` that a local JSON pointer (RFC 6901) names, or None."""
    if not isinstance(reference, str) or not _LOCAL.match(reference):
        return None
    place: Json = root
    for step in unquote(reference[1:]).split("/")[1:]:
        if not isinstance(place, dict):
            return None
        place = place.get(step.replace("~1", "/").replace("~0", "~"))
    return place
