"""Fixes of the values of a call, by the tool's own schema (F22 to F24, F33 to F35).

One ordered tuple of pure functions. Each gets a value and what the schema says of its place, and gives the value that
must have been meant, or the very same one. None is even asked where the schema accepts the value as it stands, all its
keys among those that it declares, and what it gives is taken only if the schema accepts that better (contract C3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject, dump
from proxy.notations.literals import literal
from proxy.notations.tables import ARGUMENT_WORDS
from proxy.tools.key_spelling import fold, is_torn, without_markup
from proxy.tools.schema import Schema
from proxy.tools.validator import Score, Validator, children, inner_schemas, members, type_fits

MAX_DEPTH = 64
# Values that are looked at in one call.
MAX_VALUES = 2_000
# Steps of judging in one call.
MAX_VALIDATED = 100_000
_TEXT = frozenset(("string",))

Apply = Callable[[Json, Schema, Validator], Json]


@dataclass(frozen=True, slots=True)
class Fix:
    """One fix: `apply` is pure, idempotent, and gives the very same value where it has nothing to do.

    `example` is a schema, a value that it refuses, and what the fix makes of it. `complete`: the result is taken only
    if nothing is wrong with it any more.
    """

    id: str
    why: str
    example: tuple[JsonObject, Json, Json]
    apply: Apply
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A fix that was applied: where, and the value before and after."""

    fix: Fix
    path: str
    before: Json
    after: Json


def apply_fixes(value: Json, schema: Schema, fixes: Iterable[Fix]) -> tuple[Json, tuple[Step, ...]]:
    """The value as near to the schema as the fixes bring it, and what they did; the very same value if nothing."""
    return _SchemaFixer(tuple(fixes)).apply(value, schema, "", 0)


class _SchemaFixer:
    def __init__(self, fixes: tuple[Fix, ...]) -> None:
        self._fixes = fixes
        self._remaining = MAX_VALUES
        self._validator = Validator(MAX_VALIDATED)

    def apply(self, value: Json, schema: Schema, path: str, depth: int) -> tuple[Json, tuple[Step, ...]]:
        """Fix what is in the value, then the value, until no fix brings it nearer."""
        self._remaining -= 1
        if depth > MAX_DEPTH or self._remaining < 0:
            return value, ()
        if not self._is_odd(value, schema):
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
            if self._is_taken(fix, reached, best):
                steps += (Step(fix, path, now, changed), *inner)
                now, best = result, reached
        return now, steps

    def _is_taken(self, fix: Fix, reached: Score, best: Score) -> bool:
        """True if what a fix gives is nearer to the schema than the best so far."""
        if self._validator.spent:
            return False
        if reached >= best:
            return False
        _, wrong, _ = reached
        if fix.complete:
            return not wrong
        return True

    def _is_odd(self, value: Json, schema: Schema) -> bool:
        """True if the schema refuses the value, or does not know a key of it."""
        if self._validator.violations(value, schema):
            return True
        return self._validator.unknown_keys(value, schema) > 0

    def _inside(self, value: Json, schema: Schema, path: str, depth: int) -> tuple[Json, tuple[Step, ...]]:
        """Fix the members or items of a value by what the schemas that apply to it say of them."""
        if not isinstance(value, dict | list):
            return value, ()
        if not self._is_odd(value, schema):
            return value, ()
        schemas = self._validator.applied(value, schema)
        steps: list[Step] = []
        fixed: list[Json] = []
        for key, member in members(value):
            inner, done = self._member(member, inner_schemas(key, schemas), _path_to(path, key), depth + 1)
            fixed.append(inner)
            steps += done
        if not steps:
            return value, ()
        if isinstance(value, dict):
            return dict(zip(value, fixed, strict=True)), tuple(steps)
        return fixed, tuple(steps)

    def _member(
        self, value: Json, schemas: tuple[Schema, ...], path: str, depth: int
    ) -> tuple[Json, tuple[Step, ...]]:
        """Fix one member or item by all that is said of it."""
        steps: tuple[Step, ...] = ()
        if self._remaining < 0:
            return value, steps
        for schema in schemas:
            value, done = self.apply(value, schema, path, depth)
            steps += done
        return value, steps


def _path_to(outer: str, key: str | int) -> str:
    """The path to a place as records name it: `todos.0.content`."""
    if outer:
        return f"{outer}.{key}"
    return str(key)


def _known_keys(value: JsonObject, schema: Schema, validator: Validator) -> frozenset[str]:
    return frozenset(key for part in validator.applied(value, schema) for key in part.properties)


def _renamed(values: JsonObject, schema: Schema, new_key: Callable[[str], str | None]) -> JsonObject:
    """The object with unknown keys renamed to known ones that are not there; only where one key can be meant."""
    declared = frozenset(key for part in schema.all_parts() for key in part.properties)
    resolved: dict[str, str] = {}
    for key in values:
        if key in declared:
            continue
        name = new_key(key)
        if name:
            resolved[key] = name
    times = Counter(resolved.values())
    new = {key: name for key, name in resolved.items() if times[name] == 1}
    if not new:
        return values
    return {new.get(key, key): value for key, value in values.items()}


def _only(candidates: Sequence[str]) -> str | None:
    if len(candidates) == 1:
        return candidates[0]
    return None


def clean_keys(values: Json, schema: Schema, validator: Validator) -> Json:
    """Keys without the markup and the quotation marks that stuck to them (F7, F15)."""
    if not isinstance(values, dict):
        return values
    known = _known_keys(values, schema, validator)
    free = known - values.keys()

    def new_key(key: str) -> str | None:
        bare = without_markup(key)
        if bare in free and not is_torn(key, values[key]):
            return bare
        return None

    return _renamed(values, schema, new_key)


def spell_keys(values: Json, schema: Schema, validator: Validator) -> Json:
    """Keys in the letter case and with the separators of the schema (F34): `filePath` for `file_path`."""
    if not isinstance(values, dict):
        return values
    known = _known_keys(values, schema, validator)
    alike: dict[str, list[str]] = {}
    for name in known - values.keys():
        alike.setdefault(fold(name), []).append(name)
    return _renamed(values, schema, lambda key: _only(alike.get(fold(key), ())))


def unwrap(values: Json, schema: Schema, validator: Validator) -> Json:
    """The arguments out of a wrapper that no schema declares: `{"arguments": {…}}`, `{"input": "{…}"}`."""
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
    """The object without those optional members that are empty or null where the schema forbids it (F35)."""
    if not isinstance(values, dict):
        return values
    schemas = validator.applied(values, schema)
    required = frozenset(name for part in schemas for name in part.required)

    def goes(key: str, value: Json) -> bool:
        if key in required:
            return False
        if value not in (None, ""):
            return False
        return any(validator.violations(value, subschema) for subschema in children(key, schemas))

    kept = {key: value for key, value in values.items() if not goes(key, value)}
    if len(kept) == len(values):
        return values
    return kept


def read_value(value: Json, schema: Schema, _: Validator) -> Json:
    """The value of which a string is an exact literal, if it is of a type that the schema allows (F22, F24)."""
    if not isinstance(value, str):
        return value
    meant = literal(value)
    if type_fits(meant, schema.types - _TEXT):
        return meant
    return value


def write_text(value: Json, schema: Schema, _: Validator) -> Json:
    """The JSON text of an object or a number where the schema wants a string (F23)."""
    if isinstance(value, bool) or not isinstance(value, dict | int | float):
        return value
    if _wants(schema, "string", value):
        return dump(value)
    return value


def wrap_item(value: Json, schema: Schema, _: Validator) -> Json:
    """A lone value as the only item of the array that the schema wants."""
    if value in (None, ""):
        return value
    if _wants(schema, "array", value):
        return [value]
    return value


def _wants(schema: Schema, kind: str, value: Json) -> bool:
    """True if the schema allows this kind, and not what the value is."""
    if kind not in schema.types:
        return False
    return not type_fits(value, schema.types)


def match_enum(value: Json, schema: Schema, _: Validator) -> Json:
    """The one allowed value that differs by letter case, or by blanks around it, only."""
    if not isinstance(value, str):
        return value
    folded = value.strip().casefold()
    alike = {choice for part in schema.all_parts() for choice in part.words.get(folded, ())}
    if len(alike) != 1 or value in alike:
        return value
    return alike.pop()


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


_PATH: JsonObject = _object({"file_path": {"type": "string"}}, "file_path")
_COUNT: JsonObject = _object({"count": {"type": "integer"}})

FIXES = (
    Fix(
        "key_markup",
        "markup had stuck to a key",
        (_PATH, {"file_path</arg_key>": "a"}, {"file_path": "a"}),
        clean_keys,
    ),
    Fix("unwrapped", "one key held them all", (_PATH, {"args": {"file_path": "a"}}, {"file_path": "a"}), unwrap),
    Fix("key_spelling", "a key was spelled in another way", (_PATH, {"filePath": "a"}, {"file_path": "a"}), spell_keys),
    Fix("literal", "a string held the value that the schema wants", ({"type": "integer"}, "10", 10), read_value),
    Fix("text", "the schema wants a string", ({"type": "string"}, {"a": 1}, '{"a": 1}'), write_text),
    Fix("enum_case", "an allowed value in other letters", ({"enum": ["Yes", "No"]}, "yes", "Yes"), match_enum),
    Fix("item", "the schema wants an array", ({"type": "array"}, "a", ["a"]), wrap_item, complete=True),
    Fix("dropped", "the schema forbids it, and it may be left out", (_COUNT, {"count": ""}, {}), drop_optional),
)
