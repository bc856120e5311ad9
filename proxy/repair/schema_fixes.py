"""Fixes for the values of a call, guided by the tool's schema (F22 to F24, F33 to F35).

FIXES is an ordered tuple of pure functions. Each takes a value and its schema, and returns the intended value, or the
same object if it has nothing to fix. Fixes run only on values that violate the schema or have undeclared keys. A result
is used only if it fits the schema better (contract C3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

from proxy.json import Json, JsonObject, dump
from proxy.notations.literals import literal
from proxy.notations.schema import Schema
from proxy.notations.tables import ARGUMENT_WORDS
from proxy.notations.toolset import fold, is_torn, without_markup
from proxy.notations.validator import Validator, children, members, type_fits

MAX_DEPTH = 64
# Maximum number of values checked in one call.
MAX_VALUES = 2_000
# Maximum number of validation steps in one call.
MAX_VALIDATED = 100_000
_TEXT = frozenset(("string",))

Apply = Callable[[Json, Schema, Validator], Json]


@dataclass(frozen=True, slots=True)
class Fix:
    """One fix. `apply` is pure and idempotent, and returns the same object if it has nothing to fix.

    `complete`: the result is used only if it has no violations left.
    """

    id: str
    why: str
    apply: Apply
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An applied fix: its place, and the value before and after."""

    fix: Fix
    path: str
    before: Json
    after: Json


def apply_fixes(value: Json, schema: Schema, fixes: tuple[Fix, ...]) -> tuple[Json, tuple[Step, ...]]:
    """Return the value after the fixes, as close to the schema as they bring it, and the applied steps.

    The same object is returned if nothing changes.
    """
    return _SchemaFixer(fixes).apply(value, schema, "", 0)


class _SchemaFixer:
    def __init__(self, fixes: tuple[Fix, ...]) -> None:
        self._fixes = fixes
        self._remaining = MAX_VALUES
        self._validator = Validator(MAX_VALIDATED)

    def apply(self, value: Json, schema: Schema, path: str, depth: int) -> tuple[Json, tuple[Step, ...]]:
        """Fix the members of a value, then the value itself, until no fix brings it closer to the schema."""
        self._remaining -= 1
        odd = self._validator.violations(value, schema) or self._validator.unknown_keys(value, schema)
        if depth > MAX_DEPTH or self._remaining < 0 or not odd:
            return value, ()
        now, steps = self._inside(value, schema, path, depth)
        best = self._validator.score(now, schema)
        for fix in self._fixes:
            if self._validator.spent or not any(best):
                break
            changed = fix.apply(now, schema, self._validator)
            if changed is now:
                continue
            result, inner = self._inside(changed, schema, path, depth)
            reached = self._validator.score(result, schema)
            # The best score so far.
            if not self._validator.spent and reached < best and not (fix.complete and reached[1]):
                steps += (Step(fix, path, now, changed), *inner)
                now, best = result, reached
        return now, steps

    def _inside(self, value: Json, schema: Schema, path: str, depth: int) -> tuple[Json, tuple[Step, ...]]:
        """Fix the members or items of a value by their schemas."""
        schemas, steps, fixed = self._validator.applied(value, schema), list[Step](), list[Json]()
        for key, member in members(value):
            fixed.append(member)
            for each in children(key, schemas) if self._remaining >= 0 else ():
                fixed[-1], done = self.apply(fixed[-1], each, f"{path}.{key}" if path else str(key), depth + 1)
                steps += done
        if not steps:
            return value, ()
        return (dict(zip(value, fixed, strict=True)) if isinstance(value, dict) else fixed), tuple(steps)


def _known_keys(value: JsonObject, schema: Schema, validator: Validator) -> frozenset[str]:
    return frozenset(key for part in validator.applied(value, schema) for key in part.properties)


def _respelled(values: Json, schema: Schema, validator: Validator, spell: Callable[[str], str]) -> Json:
    """Rename each undeclared key to the one missing known key that `spell` maps to the same text."""
    if not isinstance(values, dict):
        return values
    alike: dict[str, list[str]] = {}
    for name in _known_keys(values, schema, validator) - values.keys():
        alike.setdefault(spell(name), []).append(name)
    strange = values.keys() - schema.all_keys()
    meant = {key: alike.get(spell(key), []) for key in strange if not is_torn(key, values[key])}
    times = Counter(chain(*meant.values()))
    new = {key: names[0] for key, names in meant.items() if len(names) == 1 == times[names[0]]}
    return {new.get(key, key): value for key, value in values.items()} if new else values


def unwrap(values: Json, schema: Schema, validator: Validator) -> Json:
    """Unwrap arguments from a key that the schema does not declare: `{"arguments": {…}}`, `{"input": "{…}"}`."""
    if not isinstance(values, dict) or len(values) != 1:
        return values
    key, inner = next(iter(values.items()))
    known = _known_keys(values, schema, validator)
    if key in known or not known:
        return values
    if isinstance(inner, str):
        inner = literal(inner)
    if isinstance(inner, dict) and key in ARGUMENT_WORDS and fold(key) not in map(fold, known):
        return inner
    return values


def drop_optional(values: Json, schema: Schema, validator: Validator) -> Json:
    """Remove optional members that are empty or null where the schema forbids it (F35)."""
    if not isinstance(values, dict):
        return values
    schemas = validator.applied(values, schema)
    kept = {
        key: value
        for key, value in values.items()
        if value not in (None, "")
        or any(key in part.required for part in schemas)
        or not any(validator.violations(value, each) for each in children(key, schemas))
    }
    return kept if len(kept) < len(values) else values


def read_value(value: Json, schema: Schema, _: Validator) -> Json:
    """Replace a string by the value of which it is an exact literal, if the schema allows its type (F22, F24)."""
    if not isinstance(value, str):
        return value
    meant = literal(value)
    return meant if type_fits(meant, schema.types - _TEXT) else value


def write_text(value: Json, schema: Schema, _: Validator) -> Json:
    """Replace an object or a number by its JSON text where the schema requires a string (F23)."""
    if isinstance(value, bool) or not isinstance(value, dict | int | float):
        return value
    return dump(value) if "string" in schema.types and not type_fits(value, schema.types) else value


def wrap_item(value: Json, schema: Schema, _: Validator) -> Json:
    """Wrap a single value in the array that the schema requires."""
    wanted = value not in (None, "") and "array" in schema.types and not type_fits(value, schema.types)
    return [value] if wanted else value


def match_enum(value: Json, schema: Schema, _: Validator) -> Json:
    """Replace a string by the one allowed value that differs only in letter case or surrounding blanks."""
    if not isinstance(value, str):
        return value
    folded = value.strip().casefold()
    alike = {choice for part in schema.all_parts() for choice in part.words.get(folded, ())}
    if len(alike) != 1 or value in alike:
        return value
    return alike.pop()


FIXES = (
    Fix("key_markup", "a key contained markup", partial(_respelled, spell=without_markup)),  # F7, F15
    Fix("unwrapped", "a wrapper held all arguments", unwrap),
    Fix("key_spelling", "a key was spelled differently", partial(_respelled, spell=fold)),  # F34
    Fix("literal", "a string held the required value", read_value),
    Fix("text", "the schema requires a string", write_text),
    Fix("enum_case", "the value differs in case or blanks", match_enum),
    Fix("item", "the schema requires an array", wrap_item, complete=True),
    Fix("dropped", "the schema forbids the value of an optional key", drop_optional),
)
