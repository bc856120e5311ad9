"""A tool's JSON Schema, compiled once: what it says of each place of a value, and how far a value is from it.

The schema is the client's and therefore hostile input: `$ref` resolves only inside it, its parts, its depth and every
walk are bounded, and `pattern`, `patternProperties`, `propertyNames` and `format` are never evaluated. What is not
understood allows everything, so that no value is called wrong that may be right.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import Json, JsonObject, VerbatimNumber
from proxy.tools.schema_types import allowed_types, own_types, resolve, type_of

MAX_SCHEMAS = 4096
MAX_LEVELS = 100
MAX_STEPS = 20_000
MAX_APPLIED = 64
# Values of an enum that are compared in one step.
_CHEAP = 8


@dataclass(slots=True, eq=False)
class Schema:
    """One schema. `parts` must hold too (`allOf`, `$ref`), and one of each of `groups` (`anyOf`, `oneOf`).

    `kinds` are the types that a value may have, all parts considered. `closed`: no key but those of `properties`;
    `others` is what the remaining keys' values must be, None for anything; `extensible`: the schema says itself that
    other keys may be there. `never`: nothing is allowed (`false`). `words` are the strings among `values`, by what
    they are without letter case.
    """

    kinds: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    values: tuple[Json, ...] | None = None
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    properties: Mapping[str, Schema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    closed: bool = False
    others: Schema | None = None
    extensible: bool = False
    prefix: tuple[Schema, ...] = ()
    items: Schema | None = None
    parts: tuple[Schema, ...] = ()
    groups: tuple[tuple[Schema, ...], ...] = ()
    limits: tuple[tuple[str, float], ...] = ()
    never: bool = False


def compile_schema(schema: JsonObject) -> Schema:
    """A whole schema, compiled; what is over MAX_SCHEMAS parts allows everything."""
    return _Compiler(schema).compile(schema)


# What a schema may say of keys that it does not name.
_FOR_OTHER_KEYS = ("additionalProperties", "patternProperties", "unevaluatedProperties")


class _Compiler:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._known: dict[int, Schema] = {}
        self._depth = 0
        self._open = Schema(kinds=allowed_types({}, root), own=allowed_types({}, root))

    def compile(self, schema: Json) -> Schema:
        """A schema, compiled; one that is met again, as in a circle of references, gives the same one."""
        if schema is False:
            return Schema(never=True)
        known = self._known.get(id(schema))
        if known is not None:
            return known
        if not isinstance(schema, dict):
            return self._open
        if len(self._known) >= MAX_SCHEMAS or self._depth >= MAX_LEVELS:
            return self._open
        found = self._known[id(schema)] = Schema()
        self._depth += 1
        self._fill(found, schema)
        self._depth -= 1
        return found

    def _fill(self, compiled: Schema, schema: JsonObject) -> None:
        compiled.kinds = allowed_types(schema, self._root)
        compiled.own = own_types(schema)
        compiled.values = _values(schema)
        compiled.words = _words(compiled.values or ())
        compiled.limits = _limits(schema)
        self._fill_members(compiled, schema)
        self._fill_items(compiled, schema)
        self._fill_parts(compiled, schema)

    def _fill_members(self, compiled: Schema, schema: JsonObject) -> None:
        """Read what is said of an object's keys."""
        declared = as_object(schema.get("properties"))
        compiled.properties = {key: self.compile(inner) for key, inner in declared.items()}
        compiled.required = frozenset(name for name in as_list(schema.get("required")) if isinstance(name, str))
        if "patternProperties" not in schema:
            rest = schema.get("additionalProperties")
            compiled.closed = rest is False
            if isinstance(rest, dict):
                compiled.others = self.compile(rest)
        compiled.extensible = any(schema.get(key, False) is not False for key in _FOR_OTHER_KEYS)

    def _fill_parts(self, compiled: Schema, schema: JsonObject) -> None:
        """Read `allOf` and `$ref`, `anyOf` and `oneOf`."""
        parts = [*as_list(schema.get("allOf"))]
        if "$ref" in schema:
            parts.append(resolve(schema["$ref"], self._root))
        compiled.parts = tuple(map(self.compile, parts))
        groups = (as_list(schema.get(key)) for key in ("anyOf", "oneOf"))
        compiled.groups = tuple(tuple(map(self.compile, group)) for group in groups if group)

    def _fill_items(self, compiled: Schema, schema: JsonObject) -> None:
        """Read `prefixItems` and `items`, or what they were called before 2020-12."""
        items = schema.get("items")
        listed = as_list(items) or as_list(schema.get("prefixItems"))
        compiled.prefix = tuple(map(self.compile, listed))
        rest = items
        if isinstance(items, list):
            rest = schema.get("additionalItems")
        if rest is False or isinstance(rest, dict):
            compiled.items = self.compile(rest)


def _values(schema: JsonObject) -> tuple[Json, ...] | None:
    """The values of `enum` or `const`; None where there is neither."""
    if "const" in schema:
        return (schema["const"],)
    return tuple(as_list(schema.get("enum"))) or None


def _words(values: tuple[Json, ...]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for value in dict.fromkeys(value for value in values if isinstance(value, str)):
        found.setdefault(value.casefold(), []).append(value)
    return {folded: tuple(alike) for folded, alike in found.items()}


# What each limit is about, and how that is wrong by it.
_LIMITS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "minimum": ("number", operator.lt),
    "maximum": ("number", operator.gt),
    "exclusiveMinimum": ("number", operator.le),
    "exclusiveMaximum": ("number", operator.ge),
    "minLength": ("string", operator.lt),
    "maxLength": ("string", operator.gt),
    "minItems": ("array", operator.lt),
    "maxItems": ("array", operator.gt),
}


def _limits(schema: JsonObject) -> tuple[tuple[str, float], ...]:
    found = ((name, schema.get(name)) for name in _LIMITS)
    return tuple((name, limit) for name, limit in found if type(limit) in (int, float))  # type: ignore[misc]


def same(one: Json, other: Json) -> bool:
    """True if two values are equal as JSON: `true` is not 1, but 1.0 is."""
    return one == other and _strictly(one, other)


def _strictly(one: Json, other: Json) -> bool:
    """The same for what Python says is equal: it takes `true` for 1."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case list() as items, list() as other_items:
            return all(map(_strictly, items, other_items))
        case dict() as inside, dict() as other_inside:
            return all(_strictly(value, other_inside[key]) for key, value in inside.items())
    return one == other


def type_fits(value: Json, kinds: frozenset[str]) -> bool:
    """True if the value is of one of these types; 10.0 is an integer too, and so are digits beyond a float's range."""
    if type_of(value) in kinds:
        return True
    return "integer" in kinds and _is_whole(value)


def _is_whole(value: Json) -> bool:
    """True for a float without a fraction: 10.0 is 10."""
    if not isinstance(value, float):
        return False
    if isinstance(value, VerbatimNumber) and value.text.lstrip("-").isdigit():
        return True
    return value.is_integer()


def violations(value: Json, schema: Schema) -> int:
    """How many things are wrong with a value; 0 if the schema accepts it, as far as it is understood.

    Of alternatives, those of the nearest one count.
    """
    return Validator().faults(value, schema)


# How far a value is from a schema: of the wrong type, faults, keys that are not known. The less the nearer.
Score: TypeAlias = tuple[bool, int, int]


class Validator:
    """Bounded walks through values and a schema. Each pair is judged once, so alternatives do not multiply.

    Once `steps` are `spent`, what was not yet judged counts as right.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._depth = 0
        # The values are kept, so that no other one gets the identity of a judged one.
        self._known: dict[tuple[int, int], tuple[int, Json]] = {}
        self._unknown: dict[tuple[int, int], tuple[int, Json]] = {}

    @property
    def spent(self) -> bool:
        """True if its answers are not to be trusted any more."""
        return self._left < 0

    @property
    def _is_over(self) -> bool:
        return self._left < 0 or self._depth >= MAX_LEVELS

    def faults(self, value: Json, schema: Schema) -> int:
        """How many things are wrong with a value."""
        if schema.never:
            return 1
        self._left -= 1
        key = (id(value), id(schema))
        known = self._known.get(key)
        if known is not None:
            return known[0]
        if self._is_over:
            return 0
        self._depth += 1
        self._known[key] = 0, value  # a circle adds nothing to itself
        found = self._of(value, schema)
        for part in schema.parts:
            found += self.faults(value, part)
        for group in schema.groups:
            found += min([self.faults(value, choice) for choice in group])
        self._known[key] = found, value
        self._depth -= 1
        return found

    def score(self, value: Json, schema: Schema) -> Score:
        """How far a value is from what a schema says: the wrong type is worse than any number of faults inside, and
        these are worse than keys that the schema does not know.
        """
        wrong_type = not type_fits(value, schema.kinds)  # of `false` there are no kinds
        return wrong_type, self.faults(value, schema), self.unknown_keys(value, schema)

    def unknown_keys(self, value: Json, schema: Schema) -> int:
        """How many keys in a value no schema of their object declares, where one declares some and none says that
        there may be others. They are allowed, but may be misspelled (contract C1).
        """
        if not isinstance(value, dict | list):
            return 0
        self._left -= 1
        key = (id(value), id(schema))
        known = self._unknown.get(key)
        if known is not None:
            return known[0]
        if self._is_over:
            return 0
        self._depth += 1
        self._unknown[key] = 0, value  # a circle adds nothing to itself
        found = _undeclared(value, schema)
        applied = self.applied(value, schema)
        for place, inner in members(value):
            found += sum(self.unknown_keys(inner, part) for part in inner_schemas(place, applied))
        self._unknown[key] = found, value
        self._depth -= 1
        return found

    def applied(self, value: Json, schema: Schema) -> tuple[Schema, ...]:
        """The schemas that say something of a value: the schema, its parts, the nearest alternative of each group."""
        found: dict[int, Schema] = {}
        waiting = deque([schema])
        while waiting and len(found) < MAX_APPLIED:
            current = waiting.popleft()
            if id(current) in found:
                continue
            found[id(current)] = current
            waiting += current.parts
            waiting += [min(group, key=lambda choice: self.score(value, choice)) for group in current.groups]
        return tuple(found.values())

    def _of(self, value: Json, schema: Schema) -> int:
        if not type_fits(value, schema.own):
            return 1
        if not self._is_listed(value, schema):
            return 1
        found = sum(_beyond(value, name, limit) for name, limit in schema.limits)
        if isinstance(value, dict):
            found += self._of_object(value, schema)
        elif isinstance(value, list):
            found += self._of_list(value, schema)
        return found

    def _is_listed(self, value: Json, schema: Schema) -> bool:
        """True for one of the values that the schema lists, and where it lists none."""
        if schema.values is None:
            return True
        if isinstance(value, str):
            return value in schema.words.get(value.casefold(), ())
        self._left -= len(schema.values) // _CHEAP
        return any(same(value, allowed) for allowed in schema.values)

    def _of_object(self, values: JsonObject, schema: Schema) -> int:
        found = len(schema.required - values.keys())
        for key, value in values.items():
            inner = schema.properties.get(key, schema.others)
            if self.spent:
                break
            if inner is not None:
                found += self.faults(value, inner)
            elif schema.closed:
                found += 1
        return found

    def _of_list(self, values: list[Json], schema: Schema) -> int:
        found = 0
        for number, value in enumerate(values):
            if self.spent:
                break
            inner = _item(schema, number)
            if inner is not None:
                found += self.faults(value, inner)
        return found


def _beyond(value: Json, name: str, limit: float) -> bool:
    """True if the value is over or under this limit."""
    about, is_outside = _LIMITS[name]
    kind, measure = _measure(value)
    return kind == about and is_outside(measure, limit)


def _measure(value: Json) -> tuple[str, float]:
    """What a limit compares: a number, or how long a text or a list is."""
    match value:
        case bool():
            return "boolean", 0
        case int() | float():
            return "number", value
        case str():
            return "string", len(value)
        case list():
            return "array", len(value)
    return "other", 0


def _undeclared(value: list[Json] | JsonObject, schema: Schema) -> int:
    """How many keys of this very object no schema declares, where one declares some and none allows others."""
    if isinstance(value, list):
        return 0
    parts = all_parts(schema)
    if any(part.extensible for part in parts):
        return 0
    declared = {key for part in parts for key in part.properties}
    if not declared:
        return 0
    return len(value.keys() - declared)


def members(value: Json) -> Iterator[tuple[str | int, Json]]:
    """The members of an object or the items of a list, each with its key or its number; none of anything else."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def inner_schemas(place: str | int, schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """What these schemas say of the member or the item at a place."""
    if isinstance(place, str):
        return children(place, schemas)
    found = (_item(schema, place) for schema in schemas)
    return tuple(inner for inner in found if inner is not None)


def _item(schema: Schema, number: int) -> Schema | None:
    """What a schema says of the item with this number; None for nothing."""
    if number < len(schema.prefix):
        return schema.prefix[number]
    return schema.items


def children(key: str, schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """What these schemas say of the value of a key."""
    found = (schema.properties.get(key, schema.others) for schema in schemas)
    return tuple(inner for inner in found if inner is not None)


def all_parts(schema: Schema) -> tuple[Schema, ...]:
    """The schema, its parts and all of its alternatives, as far as a bounded walk comes."""
    found: dict[int, Schema] = {}
    waiting = deque([schema])
    while waiting and len(found) < MAX_APPLIED:
        part = waiting.popleft()
        if id(part) not in found:
            found[id(part)] = part
            waiting += part.parts
            waiting += {id(choice): choice for group in part.groups for choice in group}.values()
    return tuple(found.values())
