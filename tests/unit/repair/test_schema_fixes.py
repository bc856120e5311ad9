"""Fixes of a call's values by the tool's schema (F7, F15, F22 to F24, F33 to F35)."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documentation.tables import REPAIRS
from proxy.json import Json, JsonObject
from proxy.notations.schema import compile_schema
from proxy.notations.validator import Validator, violations
from proxy.repair.schema_fixes import FIXES, Fix, apply_fixes
from tests.support.random_schemas import KINDS, TEXTS, VALUES, Kind


def fixed(schema: JsonObject, value: Json, fixes: tuple[Fix, ...] = FIXES) -> tuple[Json, list[str]]:
    """Return the value after all fixes, and the ids of the fixes that changed it."""
    found, steps = apply_fixes(value, compile_schema(schema), fixes)
    return found, [step.fix.id for step in steps]


def members(**properties: Json) -> JsonObject:
    """Return the schema of an object with only these members."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT: JsonObject = {"type": "string"}
INTEGER: JsonObject = {"type": "integer"}


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
def test_a_fix_does_what_its_example_says(fix: Fix) -> None:
    schema, before, after = REPAIRS["fixes"][fix.id]
    shape = compile_schema(schema)
    assert violations(before, shape) > 0
    assert fix.apply(before, shape, Validator()) == after
    assert fixed(schema, before, (fix,)) == (after, [fix.id])
    assert violations(after, shape) == 0
    assert fixed(schema, before, tuple(other for other in FIXES if other is not fix))[0] != after


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.id)
@settings(max_examples=30, derandomize=True)
@given(kind=KINDS, value=VALUES)
def test_each_fix_is_pure_and_idempotent(fix: Fix, kind: Kind, value: Json) -> None:
    shape, before = compile_schema(kind.schema), deepcopy(value)
    once, _ = apply_fixes(value, shape, (fix,))
    assert value == before
    twice, steps = apply_fixes(once, shape, (fix,))
    assert twice is once
    assert steps == ()


@settings(max_examples=100, derandomize=True)
@given(KINDS.flatmap(lambda kind: st.tuples(st.just(kind), kind.values)))
def test_a_value_that_the_schema_accepts_is_the_same_object(given_: tuple[Kind, Any]) -> None:
    """C1, C3: no fix is tried."""
    kind, value = given_
    shape = compile_schema(kind.schema)
    if not violations(value, shape):
        assert apply_fixes(value, shape, FIXES)[0] is value


@settings(max_examples=100, derandomize=True)
@given(KINDS, VALUES)
def test_all_fixes_together_never_add_violations_and_are_idempotent(kind: Kind, value: Json) -> None:
    shape, before = compile_schema(kind.schema), deepcopy(value)
    once, steps = apply_fixes(value, shape, FIXES)
    assert value == before
    judge = Validator()
    assert judge.score(once, shape) <= judge.score(before, shape)
    assert bool(steps) is (once is not value)
    assert apply_fixes(once, shape, FIXES) == (once, ())


def test_a_step_has_the_path_of_its_value() -> None:
    schema = members(a={"type": "array", "items": members(b=INTEGER)})
    _, (step,) = apply_fixes({"a": [{"b": 1}, {"b": "2"}]}, compile_schema(schema), FIXES)
    assert (step.path, step.before, step.after) == ("a.1.b", "2", 2)


DAMAGES = ("number", "boolean", "list", "object", "key", "enum", "wrapped", "item")
PLAIN: JsonObject = {
    **members(
        max_count=INTEGER,
        ratio={"type": "number"},
        is_deep={"type": "boolean"},
        names={"type": "array", "items": {"type": "string", "minLength": 1}},
        options=members(size=INTEGER, word=TEXT),
        mode={"enum": ["Fast", "Slow", "off"]},
        note=TEXT,
    ),
    "required": ["max_count", "mode"],
}


def damaged(values: dict[str, Any], damage: str) -> dict[str, Any]:
    """Return the values with one error that models make."""
    new = dict(values)
    match damage:
        case "number":
            new["max_count"] = str(new["max_count"])
        case "boolean":
            new["is_deep"] = str(new["is_deep"])
        case "list":
            new["names"] = json.dumps(new["names"])
        case "object":
            new["options"] = json.dumps(new["options"])
        case "key":
            new["maxCount"] = new.pop("max_count")
        case "enum":
            new["mode"] = new["mode"].upper() if new["mode"] != new["mode"].upper() else new["mode"].lower()
        case "wrapped":
            return {"arguments": new}
        case _:
            new["names"] = new["names"][0]
    return new


@settings(max_examples=80, derandomize=True)
@given(
    st.fixed_dictionaries(
        {
            "max_count": st.integers(),
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "is_deep": st.booleans(),
            "names": st.lists(st.text("abc {}", min_size=1).map(lambda text: f"n{text}"), min_size=1, max_size=1),
            "options": st.fixed_dictionaries({"size": st.integers(), "word": TEXTS}),
            "mode": st.sampled_from(("Fast", "Slow", "off")),
            "note": TEXTS,
        }
    ),
    st.sampled_from(DAMAGES),
)
def test_every_damage_is_undone(values: dict[str, Any], damage: str) -> None:
    broken = damaged(values, damage)
    assert violations(broken, compile_schema(PLAIN)) > 0
    assert fixed(PLAIN, broken)[0] == values
