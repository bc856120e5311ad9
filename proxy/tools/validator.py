"""The distance of a value from a tool's schema: validation without evaluating what the client wrote, in bounded steps.

A JSON Schema library says valid or not, and evaluates a client's patterns; here a distance is wanted, by which the
nearest of several readings is chosen, and a bound on the work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from proxy.codec.json_text import Json, VerbatimNumber
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
    if "integer" not in types or not isinstance(value, float):
        return False
    return value.is_integer() or (isinstance(value, VerbatimNumber) and value.text.lstrip("-").isdigit())


def violations(value: Json, schema: Schema) -> int:
    """The number of violations in a value; 0 if the schema accepts it, as far as it is understood.

    Of alternatives, those of the nearest one count.
    """
    return Validator().violations(value, schema)


# How far a value is from a schema: of the wrong type, violations, keys that are not known. The less the nearer.
Score: TypeAlias = tuple[bool, int, int]
# What was counted for a value and a schema, by their identities, and the value.
Judged: TypeAlias = dict[tuple[int, int], tuple[int, Json]]


class Validator:
    """Bounded walks through values and a schema. Each pair is judged once, so alternatives do not multiply.

    Once `steps` are `spent`, what was not yet judged counts as right.
    """

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps
        self._depth = 0
        # The values are kept, so that no other one gets the identity of a judged one.
        self._known: Judged = {}
        self._unknown: Judged = {}

    @property
    def spent(self) -> bool:
        """True if its answers are not to be trusted any more."""
        return self._left < 0

    def violations(self, value: Json, schema: Schema) -> int:
        """The number of violations in a value."""
        return 1 if schema.never else self._judge(self._known, self._violations, value, schema)

    def _judge(self, known: Judged, count: Callable[[Json, Schema], int], value: Json, schema: Schema) -> int:
        """What `count` gives for a pair, counted once; 0 over the limits."""
        self._left -= 1
        key = (id(value), id(schema))
        if key in known:
            return known[key][0]
        if self._left < 0 or self._depth >= MAX_LEVELS:
            return 0
        self._depth += 1
        known[key] = 0, value  # a circle adds nothing to itself
        known[key] = count(value, schema), value
        self._depth -= 1
        return known[key][0]

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

    def _violations(self, value: Json, schema: Schema) -> int:
        found = self._own_violations(value, schema) + sum(self.violations(value, part) for part in schema.parts)
        return found + sum(min([self.violations(value, choice) for choice in group]) for group in schema.groups)

    def _own_violations(self, value: Json, schema: Schema) -> int:
        """The number of violations of the schema itself, without its parts and groups."""
        if not type_fits(value, schema.own_types) or not self._is_listed(value, schema):
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
            elif schema.closed and isinstance(place, str):
                found += 1
        return found

    def _is_listed(self, value: Json, schema: Schema) -> bool:
        """True for one of the values that the schema lists, and where it lists none."""
        if schema.values is None:
            return True
        if isinstance(value, str):
            return value in schema.words.get(value.casefold(), ())
        self._left -= len(schema.values) // _CHEAP
        return any(same(value, allowed) for allowed in schema.values)


def _is_beyond(value: Json, name: str, limit: float) -> bool:
    """True if a number, or the length of a text or a list, is over or under this limit."""
    about, is_outside = LIMITS[name]
    if isinstance(value, str | list):
        return type_of(value) == about and is_outside(len(value), limit)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return about == "number" and number and is_outside(value, limit)  # type: ignore[arg-type]


def members(value: Json) -> Iterator[tuple[str | int, Json]]:
    """The members of an object or the items of a list, each with its key or its number; none of anything else."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _inner(schema: Schema, place: str | int) -> Schema | None:
    """The schema of the member or the item at a place; None if nothing is said of it."""
    if isinstance(place, str):
        return schema.properties.get(place, schema.others)
    return schema.prefix[place] if place < len(schema.prefix) else schema.items


def children(place: str | int, schemas: Sequence[Schema]) -> tuple[Schema, ...]:
    """The schemas of the member or the item at a place, out of these."""
    found = (_inner(schema, place) for schema in schemas)
    return tuple(inner for inner in found if inner is not None)
