"""JSON Schemas of tools, compiled once. `validator` checks values against them.

Schemas come from the client and are untrusted. `$ref` resolves only inside the schema; its parts, its depth and every
walk are bounded; `pattern`, `patternProperties`, `propertyNames` and `format` are never evaluated. Anything not
understood allows every value, so a valid value is never called wrong.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import unquote

from proxy.json import Json, JsonObject, VerbatimNumber, as_list, as_object

MAX_SCHEMAS = 4096
MAX_LEVELS = 100
# Maximum number of parts and alternatives of one schema that apply to a value.
MAX_APPLIED = 64
# The types that a schema without any restriction allows.
ALL_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
# A reference to the whole schema or to a place in it: `#`, `#/$defs/path`.
_LOCAL = re.compile(r"#(?:/|\Z)")
# The type that each limit applies to, and the comparison that violates it.
LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("number", operator.lt),
    "maximum": ("number", operator.gt),
    "exclusiveMinimum": ("number", operator.le),
    "exclusiveMaximum": ("number", operator.ge),
    "minLength": ("string", operator.lt),
    "maxLength": ("string", operator.gt),
    "minItems": ("array", operator.lt),
    "maxItems": ("array", operator.gt),
}


@dataclass(slots=True, eq=False)
class Schema:
    """One schema. All `parts` must hold too (`allOf`, `$ref`), and one of each of `groups` (`anyOf`, `oneOf`).

    `own_types` are the types that this schema allows, without its parts. `others` is the schema of the values of
    undeclared keys, None for anything. `extensible`: the schema allows other keys explicitly; `closed`: it forbids
    them, except for those that patterns allow. `words` are the strings among `values`, by their case-folded form.
    """

    own_types: frozenset[str] = ALL_TYPES
    values: tuple[Json, ...] | None = None
    words: dict[str, list[str]] = field(default_factory=dict)
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    others: Schema | None = None
    extensible: bool = False
    closed: bool = False
    prefix: tuple[Schema, ...] = ()
    items: Schema | None = None
    parts: tuple[Schema, ...] = ()
    groups: tuple[tuple[Schema, ...], ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    _types: frozenset[str] | None = None

    @property
    def types(self) -> frozenset[str]:
        """The JSON types that the schema and all its parts allow: all by default, none for `false`.

        Use this to choose a reading of a text, never to validate a value.
        """
        return self.walked() or (frozenset() if self is NOTHING else ALL_TYPES)

    def walked(self, level: int = 0) -> frozenset[str]:
        """Return the types that the schema and all its parts allow; none if they contradict each other.

        A schema in a cycle may keep fewer types than it allows. At the maximum `level` every type is allowed.
        """
        if level > MAX_LEVELS:
            return ALL_TYPES
        if self._types is None:
            self._types = frozenset()  # a cycle adds no type
            allowed = self.own_types
            for group in self.groups:
                allowed &= frozenset().union(*(choice.walked(level + 1) for choice in group))
            for part in self.parts:
                allowed &= part.walked(level + 1)
            self._types = allowed
        return self._types

    def all_parts(self, chosen: Callable[[Group], Iterable[Schema]] = iter) -> tuple[Schema, ...]:
        """Return the schema, its parts, and the `chosen` alternatives of each group: all by default."""
        found: dict[Schema, None] = {}
        waiting = deque([self])
        while waiting and len(found) < MAX_APPLIED:
            part = waiting.popleft()
            if part not in found:
                found[part] = None
                for group in part.groups:
                    waiting += chosen(group)
                waiting += part.parts
        return tuple(found)

    def all_keys(self) -> frozenset[str]:
        """Return the keys that the schema, its alternatives or its parts declare."""
        return frozenset(key for part in self.all_parts() for key in part.properties)


Group: TypeAlias = tuple[Schema, ...]
# The schemas that allow every value, and no value.
ANYTHING, NOTHING = Schema(), Schema(own_types=frozenset())


def or_anything(schema: Schema | None) -> Schema:
    """Return the schema of an existing value: ANYTHING if there is none, or if it forbids every value."""
    return schema if schema and schema.types else ANYTHING


def compile_schema(schema: JsonObject) -> Schema:
    """Compile a whole schema. Beyond MAX_SCHEMAS parts, everything is allowed."""
    return _Compiler(schema).compile(schema)


# Keywords about undeclared keys.
_FOR_OTHER_KEYS = ("additionalProperties", "patternProperties", "unevaluatedProperties")


class _Compiler:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[int, Schema] = {}
        self._depth = 0

    def compile(self, schema: Json) -> Schema:
        """Compile a schema. A schema met again, as in a cycle of references, returns the same object."""
        if schema is False:
            return NOTHING
        known = self._known.get(id(schema))
        if known is not None:
            return known
        if not isinstance(schema, dict) or len(self._known) >= MAX_SCHEMAS or self._depth >= MAX_LEVELS:
            return ANYTHING
        found = self._known[id(schema)] = Schema()
        self._depth += 1
        self._fill(found, schema)
        self._depth -= 1
        return found

    def _fill(self, compiled: Schema, schema: JsonObject) -> None:
        listed = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
        compiled.values = tuple(listed) or None
        for word in listed:
            if isinstance(word, str):
                compiled.words.setdefault(word.casefold(), []).append(word)
        compiled.own_types = _own_types(schema, compiled.values)
        limits = ((name, schema.get(name)) for name in LIMITS)
        compiled.limits = tuple((name, limit) for name, limit in limits if type(limit) in (int, float))  # type: ignore[misc]
        self._fill_members(compiled, schema)
        # Schemas that must hold as well, and alternatives.
        parts = [*as_list(schema.get("allOf"))]
        if "$ref" in schema:
            parts.append(resolve(schema["$ref"], self._root))
        compiled.parts = tuple(map(self.compile, parts))
        groups = (as_list(schema.get(key)) for key in ("anyOf", "oneOf"))
        compiled.groups = tuple(tuple(map(self.compile, group)) for group in groups if group)

    def _fill_members(self, compiled: Schema, schema: JsonObject) -> None:
        """Compile the keywords about the keys of an object and the items of a list."""
        declared = as_object(schema.get("properties"))
        compiled.properties = {key: self.compile(inner) for key, inner in declared.items()}
        compiled.required = frozenset(name for name in as_list(schema.get("required")) if isinstance(name, str))
        if "patternProperties" not in schema:
            rest = schema.get("additionalProperties")
            if rest is False or isinstance(rest, dict):
                compiled.others = self.compile(rest)
        compiled.extensible = any(schema.get(key, False) is not False for key in _FOR_OTHER_KEYS)
        compiled.closed = any(schema.get(key) is False for key in _FOR_OTHER_KEYS)
        # Before 2020-12, `items` and `additionalItems` were the names of `prefixItems` and `items`.
        rest = items = schema.get("items")
        if isinstance(items, list):
            rest = schema.get("additionalItems")
        compiled.prefix = tuple(map(self.compile, as_list(items) or as_list(schema.get("prefixItems"))))
        if rest is False or isinstance(rest, dict):
            compiled.items = self.compile(rest)


def _own_types(schema: JsonObject, values: tuple[Json, ...] | None) -> frozenset[str]:
    """Return the types that `type` and the listed values allow; all if they are missing or name an unknown type."""
    declared, allowed = schema.get("type"), ALL_TYPES
    names = {name for name in [declared, *as_list(declared)] if isinstance(name, str)}
    if names and names <= ALL_TYPES:
        names |= {"integer"} if "number" in names else set()
        names |= {"null"} if schema.get("nullable") is True else set()  # OpenAPI 3.0
        allowed = frozenset(names)
    return allowed if values is None else allowed & {name for value in values for name in types_of(value)}


def types_of(value: Json) -> tuple[str, ...]:
    """Return the types of a value. 10.0 is an integer, and so are digits beyond a float's range."""
    if not isinstance(value, float):
        return (type_of(value),)
    huge = isinstance(value, VerbatimNumber) and value.text.lstrip("-").isdigit()
    return ("number", "integer") if huge or value.is_integer() else ("number",)


def type_of(value: Json) -> str:
    """Return the JSON Schema name of a value's type."""
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


def resolve(reference: Json, root: JsonObject) -> Json:
    """Return the value in `root` that a local JSON pointer (RFC 6901) names, or None."""
    if not isinstance(reference, str) or not _LOCAL.match(reference):
        return None
    place: Json = root
    for step in unquote(reference[1:]).split("/")[1:]:
        if not isinstance(place, dict):
            return None
        place = place.get(step.replace("~1", "/").replace("~0", "~"))
    return place
