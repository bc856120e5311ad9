"""The distance of a value from a tool's schema: validation without evaluating what the client wrote, in bounded steps.

A JSON Schema library says valid or not, and evaluates a client's patterns; here a distance is wanted, by which the
nearest of several readings is chosen, and a bound on the work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from proxy.codec.json_text import Json, JsonObject, VerbatimNumber
from proxy.tools.schema import LIMITS, MAX_APPLIED, MAX_LEVELS, Schema, type_of

MAX_STEPS = 20_000
# Values of an enum that are compared in one step.
_CHEAP = 8


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


def type_fits(value: Json, types: frozenset[str]) -> bool:
    """True if the value is of one of these types; 10.0 is an integer too, and so are digits beyond a float's range."""
    if type_of(value) in types:
        return True
    return "integer" in types and _is_integral(value)


def _is_integral(value: Json) -> bool:
    """True for a float without a fraction: 10.0 is 10."""
    if not isinstance(value, float):
        return False
    if isinstance(value, VerbatimNumber) and value.text.lstrip("-").isdigit():
        return True
    return value.is_integer()


def violations(value: Json, schema: Schema) -> int:
    """The number of violations in a value; 0 if the schema accepts it, as far as it is understood.

    Of alternatives, those of the nearest one count.
    """
    return Validator().violations(value, schema)


# How far a value is from a schema: of the wrong type, violations, keys that are not known. The less the nearer.
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

    def violations(self, value: Json, schema: Schema) -> int:
        """The number of violations in a value."""
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
            found += self.violations(value, part)
        for group in schema.groups:
            found += min([self.violations(value, choice) for choice in group])
        self._known[key] = found, value
        self._depth -= 1
        return found

    def score(self, value: Json, schema: Schema) -> Score:
        """The distance of a value from a schema: the wrong type is worse than any number of violations, and
        these are worse than keys that the schema does not know.
        """
        wrong_type = not type_fits(value, schema.types)  # of `false` there are no types
        return wrong_type, self.violations(value, schema), self.unknown_keys(value, schema)

    def unknown_keys(self, value: Json, schema: Schema) -> int:
        """The number of keys in a value that no schema of their object declares, where one declares some and none says
        that there may be others. They are allowed, but may be misspelled (contract C1).
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
        if not type_fits(value, schema.own_types):
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
                found += self.violations(value, inner)
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
                found += self.violations(value, inner)
        return found


def _beyond(value: Json, name: str, limit: float) -> bool:
    """True if the value is over or under this limit."""
    about, is_outside = LIMITS[name]
    kind, measure = _measure(value)
    return kind == about and is_outside(measure, limit)


def _measure(value: Json) -> tuple[str, float]:
    """The kind and the size that a limit compares: a number, or the length of a text or a list."""
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
    """The number of keys of this very object that no schema declares, where one declares some and none allows others.
    """
    if isinstance(value, list):
        return 0
    parts = schema.all_parts()
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
    """The schemas of the member or the item at a place, out of these."""
    if isinstance(place, str):
        return children(place, schemas)
    found = (_item(schema, place) for schema in schemas)
    return tuple(inner for inner in found if inner is not None)


def _item(schema: Schema, number: int) -> Schema | None:
    """The schema of the item with this number; None if there is none."""
    if number < len(schema.prefix):
        return schema.prefix[number]
    return schema.items


def children(key: str, schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """The schemas of the value of a key, out of these."""
    found = (schema.properties.get(key, schema.others) for schema in schemas)
    return tuple(inner for inner in found if inner is not None)
