"""Violations of a schema, compared with an independent validator, and hostile schemas (contract C7)."""

from __future__ import annotations

import builtins
import json
import socket
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from proxy.json import Json, JsonObject, read_json
from proxy.notations.schema import Schema, compile_schema
from proxy.notations.validator import same, type_fits, violations
from proxy.repair.schema_fixes import FIXES, apply_fixes
from tests.support.random_schemas import KINDS, TOOLS, VALUES, Kind, validator
from tests.support.rows import rows
from tests.support.work import over_soon


def wrong(value: Json, schema: JsonObject) -> int:
    return violations(value, compile_schema(schema))


@pytest.mark.slow
@settings(max_examples=150, derandomize=True)
@given((KINDS | TOOLS).flatmap(lambda kind: st.tuples(st.just(kind), kind.values | VALUES)))
def test_it_agrees_with_an_independent_validator(given_: tuple[Kind, Any]) -> None:
    """A valid value has no violations. An invalid one has some, except that `oneOf` accepts several matches."""
    kind, value = given_
    if validator(kind.schema).is_valid(value):
        assert wrong(value, kind.schema) == 0
    elif "oneOf" not in json.dumps(kind.schema):
        assert wrong(value, kind.schema) > 0


@rows(__file__, "schema,right,not_right")
def test_each_keyword_is_checked(schema: JsonObject, right: list[Json], not_right: list[Json]) -> None:
    for value in right:
        assert wrong(value, schema) == 0
        assert validator(schema).is_valid(value) or "%20" in json.dumps(schema)
    for value in not_right:
        assert wrong(value, schema) > 0
        assert not validator(schema).is_valid(value)


def test_tuples_in_draft_7_notation_are_checked() -> None:
    schema: JsonObject = {"items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}
    values: tuple[Json, ...] = ([], ["a"], ["a", 1], [1], ["a", "b"], ["a", 1, 1])
    for value in values:
        assert (wrong(value, schema) == 0) is Draft7Validator(schema).is_valid(value)


def test_nullable_types_of_openapi_allow_null() -> None:
    assert wrong(None, {"type": "string", "nullable": True}) == 0
    assert wrong(None, {"type": "string", "nullable": False}) == 1


@rows(__file__, "schema")
def test_an_unknown_keyword_allows_everything(schema: JsonObject) -> None:
    """A value that may be valid has no violations, and nothing raises."""
    values: tuple[Json, ...] = ("a" * 60 + "!", {"a": 1}, {"b": [1]}, [1, "x"], 1, None)
    for value in values:
        if schema.get("type") != "string" or isinstance(value, str):
            assert wrong(value, schema) == 0


def test_values_are_compared_as_in_json() -> None:
    equal: list[tuple[Json, Json]] = [(1, 1.0), ([1], [1.0]), ({"a": [None]}, {"a": [None]}), ("a", "a")]
    other: list[tuple[Json, Json]] = [(True, 1), (False, 0), ([True], [1]), ({"a": 0}, {"a": False}), ("1", 1)]
    assert all(same(*pair) for pair in equal)
    assert not any(same(*pair) for pair in other)


@pytest.mark.parametrize(("text", "fits"), [("1" * 10_000, True), ("-" + "1" * 10_000, True), ("1e400", False)])
def test_numbers_with_any_number_of_digits_are_integers(text: str, fits: bool) -> None:
    assert type_fits(read_json(text), frozenset(("integer",))) is fits
    assert type_fits(read_json(text), frozenset(("integer", "number")))


def references(count: int) -> JsonObject:
    """Return a schema with a chain of references."""
    chain: JsonObject = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(count)}
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, f"d{count}": {"type": "integer"}}}


def bomb(keyword: str) -> JsonObject:
    """Return a schema in which each level refers to the next one three times."""
    levels: JsonObject = {"d0": {"type": "integer"}}
    for at in range(60):
        last: JsonObject = {"$ref": f"#/$defs/d{at}"}
        levels[f"d{at + 1}"] = {keyword: [last, last, {"type": "object", "properties": {"x": last}}]}
    return {"properties": {"a": {"$ref": "#/$defs/d60"}}, "$defs": levels}


def tree(width: int) -> JsonObject:
    """Return a schema of nested alternatives, where each alternative is an object that may contain all of them."""
    alternatives = [
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "required": [f"k{at}"]} for at in range(width)
    ]
    return {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"anyOf": alternatives}}}  # type: ignore[dict-item]


def nested(levels: int, keyword: str) -> JsonObject:
    inner: JsonObject = {"type": "integer"}
    for _ in range(levels):
        inner = {keyword: {"a": inner}} if keyword == "properties" else {keyword: [inner]}
        inner = {"items": inner["items"][0]} if keyword == "items" else inner  # type: ignore[index]
    return {"properties": {"a": inner}}


def deep(levels: int, key: str = "x") -> Json:
    value: Json = "1"
    for _ in range(levels):
        value = {key: value} if key else [value]
    return value


MANY = 10_000
WORDS: list[Json] = [f"value number {at}" for at in range(50_000)]
HOSTILE: dict[str, tuple[JsonObject, JsonObject]] = {
    "5,000 references": (references(5000), {"a": "10"}),
    "itself": ({"$ref": "#"}, {"a": "1"}),
    "two in a circle": (
        {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
        {"a": "1", "b": 2},
    ),
    "a circle through anyOf": (
        {"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "integer"}]}}},
        {"a": "1"},
    ),
    "a circle through allOf": ({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "type": "object"}, {"a": "1"}),
    "200 levels of objects": (nested(200, "properties"), {"a": deep(200, "a")}),
    "200 levels of arrays": (nested(200, "items"), {"a": deep(200, "")}),
    "200 levels of anyOf": (nested(200, "anyOf"), {"a": "1"}),
    "200 levels of allOf": (nested(200, "allOf"), {"a": "1"}),
    "a tree of 180 levels": (tree(3), {"a": deep(180)}),
    "a wide tree": (tree(50), {"a": deep(60)}),
    "a bomb of anyOf": (bomb("anyOf"), {"a": deep(60)}),
    "a bomb of allOf": (bomb("allOf"), {"a": deep(60)}),
    "10,000 properties": (
        {"properties": {f"k{at}": {"type": "integer"} for at in range(MANY)}},
        {f"k{at}": str(at) for at in range(MANY)},
    ),
    "10,000 misspelled keys": (
        {
            "properties": {f"key_{at}": {"type": "integer"} for at in range(MANY)},
            "required": [f"key_{at}" for at in range(MANY)],
            "additionalProperties": False,
        },
        {f"kex{at}": "1" for at in range(MANY)},
    ),
    "an enum of 1 MB": ({"properties": {"a": {"items": {"enum": WORDS}}}}, {"a": ["VALUE number 3"] * 3000}),
    "an enum of objects": (
        {"properties": {"a": {"items": {"enum": [{"a": [at]} for at in range(MANY)]}}}},
        {"a": [{"a": [-at]} for at in range(1, 3000)]},
    ),
    "2 MB of text": ({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 2_000_000}),
    "2 MB of digits": ({"properties": {"a": {"type": "integer"}}}, {"a": "1" * 2_000_000}),
    "2 MB of items": ({"properties": {"a": {"items": {"type": "integer"}}}}, {"a": ["ab"] * 300_000}),
    "3,000 alternatives": (
        {
            "properties": {
                "a": {
                    "items": {"anyOf": [{"properties": {f"p{at}": {}}, "required": [f"p{at}"]} for at in range(3000)]}
                }
            }
        },
        {"a": [{"x": at} for at in range(200)]},
    ),
    "an evil pattern": (
        {
            "properties": {"a": {"type": "integer", "pattern": "^(a+)+$"}},
            "patternProperties": {"^(a+)+$": {}},
            "propertyNames": {"pattern": "^(a|a)*$"},
        },
        {"a": "a" * 60 + "!", "a" * 60: 1},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_schema_takes_long_or_overflows_the_stack(name: str) -> None:
    schema, value = HOSTILE[name]
    with over_soon():
        shape = compile_schema(schema)
        violations(value, shape)
        found, _ = apply_fixes(value, shape, FIXES)
    assert isinstance(found, dict)


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/schema.json", "file:///etc/passwd", "https://example.org/#/a", "/etc/passwd"]
)
def test_no_reference_is_ever_fetched(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """References are resolved only within the schema."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was fetched")

    schema: JsonObject = {
        "$id": "http://127.0.0.1:9/",
        "$schema": reference,
        "properties": {"a": {"$ref": reference}, "b": {"$dynamicRef": reference}, "c": {"type": "integer"}},
        "required": ["a", "b"],
    }
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(builtins, "open", refuse)
    shape = compile_schema(schema)
    assert apply_fixes({"a": "1", "b": 2, "c": "3"}, shape, FIXES)[0] == {"a": "1", "b": 2, "c": 3}


def test_schema_parts_over_the_limit_allow_everything() -> None:
    shape = compile_schema({"properties": {f"k{at}": {"type": "integer"} for at in range(MANY)}})
    assert violations({"k0": "x"}, shape) == 1
    assert violations({f"k{MANY - 1}": "x"}, shape) == 0
    assert isinstance(shape.properties[f"k{MANY - 1}"], Schema)
