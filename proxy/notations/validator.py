"""Bounded validation of values against a tool's schema, with a distance.

JSON Schema libraries only answer valid or not, and they evaluate a client's patterns. This validator returns a
distance, so that the closest of several readings can be chosen, and bounds the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from proxy.json import Json
from proxy.notations.schema import LIMITS, MAX_LEVELS, Schema, type_of, types_of

MAX_STEPS = 20_000
# Enum values compared in one step.
_CHEAP = 8


def same(one: Json, other: Json) -> bool:
    """Return whether two values are equal as JSON: `true` is not 1, but 1.0 is."""
    match one, other:
        case (bool(), _) | (_, bool()):
            return one is other
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return one == other


def type_fits(value: Json, types: frozenset[str]) -> bool:
    """Return whether a value has one of these types."""
    return not types.isdisjoint(types_of(value))


def violations(value: Json, schema: Schema) -> int:
    """Return the number of violations in a value; 0 if it satisfies what is understood of the schema.

    Of alternatives, the closest one counts.
    """
    return Validator().violations(value, schema)


# Distance of a value from a schema: wrong type, number of violations, number of unknown keys. Smaller is closer.
Score: TypeAlias = tuple[bool, int, int]
# Results by the identities of value and schema; the value is kept with them.
Judged: TypeAlias = dict[tuple[int, int], tuple[int, Json]]


class Validator:
    """Bounded validation of values. Each pair of value and schema is judged once, so alternatives do not multiply.

    When the `steps` are used up, the validator is `spent`, and pairs not yet judged count as valid.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._depth = 0
        # Values are kept so that no other object reuses the identity of a judged one.
        self._known: Judged = {}
        self._unknown: Judged = {}

    @property
    def spent(self) -> bool:
        """Whether the step limit was reached, so results cannot be trusted."""
        return self._left < 0

    def violations(self, value: Json, schema: Schema) -> int:
        """Return the number of violations in a value."""
        return self._judge(self._known, self._violations, value, schema)

    def _judge(self, known: Judged, count: Callable[[Json, Schema], int], value: Json, schema: Schema) -> int:
        """Return the result of `count` for a pair, computed once; 0 beyond the limits."""
        self._left -= 1
        key = (id(value), id(schema))
        if key in known:
            return known[key][0]
        if self._left < 0 or self._depth >= MAX_LEVELS:
            return 0
        self._depth += 1
        known[key] = 0, value  # a cycle adds no violation
        known[key] = count(value, schema), value
        self._depth -= 1
        return known[key][0]

    def score(self, value: Json, schema: Schema) -> Score:
        """Return the distance of a value from a schema.

        The wrong type outweighs any number of violations, and violations outweigh unknown keys.
        """
        wrong_type = not type_fits(value, schema.types)  # `false` has no types
        return wrong_type, self.violations(value, schema), self.unknown_keys(value, schema)

    def unknown_keys(self, value: Json, schema: Schema) -> int:
        """Return the number of keys in a value that its schemas do not declare.

        An object counts only if its schemas declare some keys and none allows others explicitly. Unknown keys are
        allowed, but may be misspelled (contract C1).
        """
        return self._judge(self._unknown, self._unknown_keys, value, schema) if isinstance(value, dict | list) else 0

    def _unknown_keys(self, value: Json, schema: Schema) -> int:
        found = 0
        if isinstance(value, dict) and not any(part.extensible for part in schema.all_parts()):
            declared = schema.all_keys()
            found = len(value.keys() - declared) if declared else 0
        applied = self.applied(value, schema)
        for place, inner in members(value):
            found += sum(self.unknown_keys(inner, part) for part in children(place, applied))
        return found

    def applied(self, value: Json, schema: Schema) -> tuple[Schema, ...]:
        """Return the schemas that apply to a value: the schema, its parts, and each group's closest alternative."""
        return schema.all_parts(lambda group: [min(group, key=lambda choice: self.score(value, choice))])

    def _violations(self, value: Json, schema: Schema) -> int:
        found = self._own_violations(value, schema) + sum(self.violations(value, part) for part in schema.parts)
        return found + sum(min([self.violations(value, choice) for choice in group]) for group in schema.groups)

    def _own_violations(self, value: Json, schema: Schema) -> int:
        """Return the number of violations of the schema itself, without its parts and groups."""
        if not type_fits(value, schema.own_types) or not self.is_listed(value, schema):
            return 1
        found = sum(_is_beyond(value, name, limit) for name, limit in schema.limits)
        if isinstance(value, dict):
            found += len(schema.required - value.keys())
        for place, inside in members(value):
            if self.spent:
                break
            inner = _inner(schema, place)
            if inner is not None:
                found += self.violations(inside, inner)
        return found

    def is_listed(self, value: Json, schema: Schema) -> bool:
        """Return whether a value is one that the schema lists; True if it lists none."""
        if schema.values is None:
            return True
        if isinstance(value, str):
            return value in schema.words.get(value.casefold(), ())
        self._left -= len(schema.values) // _CHEAP
        return any(same(value, allowed) for allowed in schema.values)


def _is_beyond(value: Json, name: str, limit: float) -> bool:
    """Return whether a number, or the length of a text or list, violates this limit."""
    about, is_outside = LIMITS[name]
    size = len(value) if isinstance(value, str | list) else value
    applies = about == type_of(value).replace("integer", "number")
    return applies and is_outside(size, limit)  # type: ignore[arg-type]


def members(value: Json) -> Iterator[tuple[str | int, Json]]:
    """Yield the members of an object or the items of a list, with key or index; nothing for other values."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _inner(schema: Schema, place: str | int) -> Schema | None:
    """Return the schema of the member or item at a place; None if it is not restricted."""
    if isinstance(place, str):
        return schema.properties.get(place, schema.others)
    return schema.prefix[place] if place < len(schema.prefix) else schema.items


def children(place: str | int, schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """Return the schemas of the member or item at a place, from those of the value that declare or restrict it."""
    found = ((_inner(schema, place), place in schema.properties) for schema in schemas)
    return tuple(inner for inner, declared in found if inner and (declared or inner.types))
