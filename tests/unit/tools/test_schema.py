"""What a tool's schema allows, and which value a raw text stands for (contract C3)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from proxy.tools.schema import MAX_APPLIED, MAX_WALK, Schema, compile_schema, literal, or_anything, type_of

ALL = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
ROOT: dict[str, Any] = {
    "$defs": {
        "count": {"type": "integer"},
        "a/b~c": {"type": "boolean"},
        "loop": {"anyOf": [{"$ref": "#/$defs/loop"}, {"type": "null"}]},
        "list": [{"type": "integer"}],
    }
}



def compiled(schema: Any, root: dict[str, Any]) -> Schema:
    """A parameter's schema in a tool's, whose definitions it may refer to."""
    return or_anything(compile_schema({**root, "properties": {"value": schema}}).properties["value"])


ALLOWED: list[tuple[Any, set[str] | frozenset[str]]] = [
    ({"type": "string"}, {"string"}),
    ({"type": ["integer", "null"]}, {"integer", "null"}),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"integer", "string"}),
    ({"oneOf": [{"type": "integer"}, {"type": "array"}]}, {"integer", "array"}),
    ({"allOf": [{"type": "object"}]}, {"object"}),
    ({"enum": ["a", 1, None, True, 1.5, [], {}]}, ALL),
    ({"enum": [1, 2]}, {"integer"}),
    ({"const": False}, {"boolean"}),
    ({"const": None}, {"null"}),
    ({"$ref": "#/$defs/count"}, {"integer"}),
    ({"$ref": "#/$defs/a~1b~0c"}, {"boolean"}),
    ({"$ref": "#/$defs/loop"}, {"null"}),
    ({"anyOf": [{"$ref": "#/$defs/count"}, {"type": "null"}]}, {"integer", "null"}),
    ({}, ALL),
    (None, ALL),
    (True, ALL),
    ({"type": "integre"}, ALL),
    ({"type": 7}, ALL),
    ({"type": [["string"]]}, ALL),
    ({"enum": "abc"}, ALL),
    ({"anyOf": {"type": "integer"}}, ALL),
    ({"$ref": "#/$defs/missing"}, ALL),
    ({"$ref": "#/$defs/list/0"}, ALL),
    ({"$ref": "https://example.com/schema"}, ALL),
    ({"$ref": 7}, ALL),
]


@pytest.mark.parametrize(("schema", "types"), ALLOWED, ids=lambda each: repr(each if isinstance(each, dict) else ""))
def test_a_schema_allows_the_types_that_it_names(schema: Any, types: set[str]) -> None:
    assert compiled(schema, ROOT).types == types


def test_a_reference_to_the_root_ends() -> None:
    root: dict[str, Any] = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert compile_schema(root).properties["child"].types == {"object"}


def test_a_hostile_schema_is_walked_only_so_far() -> None:
    """C7: a schema of many parts costs no more than the limit."""
    wide: dict[str, Any] = {"anyOf": [{"type": "integer"} for _ in range(MAX_WALK)] + [{"type": "string"}]}
    assert "string" in compiled(wide, {}).types
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100_000):
        deep = {"anyOf": [deep]}
    assert compiled(deep, {}).types == ALL


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "boolean"),
        (0, "integer"),
        (0.5, "number"),
        ("", "string"),
        ([], "array"),
        ({}, "object"),
    ],
)
def test_each_value_has_the_name_of_its_type(value: Any, name: str) -> None:
    assert type_of(value) == name


TYPED: list[tuple[Any, str, Any]] = [
    ({"type": "integer"}, "10", 10),
    ({"type": "integer"}, " 10\n", 10),
    ({"type": "integer"}, "-3", -3),
    ({"type": "integer"}, "10.5", "10.5"),
    ({"type": "integer"}, "ten", "ten"),
    ({"type": "integer"}, "", ""),
    ({"type": "integer"}, "1_000", "1_000"),
    ({"type": "integer"}, "0x10", "0x10"),
    ({"type": "integer"}, "true", "true"),
    ({"type": "number"}, "10", 10),
    ({"type": "number"}, "1.5", 1.5),
    ({"type": "number"}, "NaN", "NaN"),
    ({"type": "number"}, "Infinity", "Infinity"),
    ({"type": "boolean"}, "true", True),
    ({"type": "boolean"}, "false", False),
    ({"type": "boolean"}, "True", True),
    ({"type": "boolean"}, "1", "1"),
    ({"type": "array"}, '["a", 1]', ["a", 1]),
    ({"type": "array"}, "[1", "[1"),
    ({"type": "array"}, "a", "a"),
    ({"type": "object"}, '{"a": {"b": []}}', {"a": {"b": []}}),
    ({"type": "object"}, "[1]", "[1]"),
    ({"type": ["integer", "null"]}, "null", None),
    ({"type": ["integer", "null"]}, "5", 5),
    ({"type": "string"}, "10", "10"),
    ({"type": "string"}, "true", "true"),
    ({"type": "string"}, ' {"a": 1} ', ' {"a": 1} '),
    ({"type": ["string", "null"]}, "null", None),
    ({"type": ["string", "null"]}, "text", "text"),
    ({"type": ["string", "object"]}, '{"a": 1}', {"a": 1}),
    ({"type": ["string", "object"]}, "5", "5"),
    ({"type": "string", "nullable": True}, "null", None),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "10", 10),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "10", 10),
    ({"enum": [1, 2]}, "2", 2),
    ({}, "10", "10"),
    (None, "10", "10"),
    ({"$ref": "#/$defs/count"}, "10", 10),
]


@pytest.mark.parametrize(("schema", "text", "value"), TYPED)
def test_a_raw_text_becomes_a_value_only_by_an_exact_literal_of_an_allowed_type(
    schema: Any, text: str, value: Any
) -> None:
    """F24, C3: by the schema, string-safe."""
    found = compiled(schema, ROOT).typed(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("open_part", [{}, True, {"pattern": "^1"}, {"$ref": "https://example.com/schema"}])
def test_an_alternative_that_allows_anything_allows_the_text_as_it_stands(open_part: Any) -> None:
    """C3: never repaired where the schema allows the value as it stands."""
    assert compiled({"anyOf": [open_part, {"type": "integer"}]}, {}).typed("10") == "10"


@pytest.mark.parametrize("text", ["1e999", "-1e999"])
def test_a_typed_number_can_be_written_as_json(text: str) -> None:
    """No client reads `Infinity`."""
    value = compiled({"type": "number"}, {}).typed(text)
    assert isinstance(value, str) or math.isfinite(float(str(value)))


@pytest.mark.parametrize("kind", ["integer", "number"])
def test_the_digits_of_a_huge_number_are_kept(kind: str) -> None:
    """C3: only exact literals; a float in the place of thirty digits is another number."""
    text = "123456789012345678901234567890"
    assert json.dumps(compiled({"type": kind}, {}).typed(text)).strip('"') == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), (" true\n", True), ("None", None), ("{'a': 1}", {"a": 1}), ("'a'", "a"), ("a", "a"), ("", "")],
)
def test_a_literal_is_what_a_text_says_or_the_text(text: str, value: Any) -> None:
    assert literal(text) == value


def test_the_parts_of_a_schema_are_it_and_its_alternatives() -> None:
    root: Any = {"$defs": {"a": {"type": "array"}, "b": {"anyOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/a"}]}}}
    found = [part.source for part in compiled({"$ref": "#/$defs/b"}, root).all_parts() if "$ref" not in part.source]
    assert found == [root["$defs"]["b"], root["$defs"]["a"]]
    first, *others = compiled({"allOf": [{"type": "null"}, 1], "oneOf": {}}, {}).all_parts()
    assert "allOf" in first.source and [part.source for part in others] == [{"type": "null"}, {}]
    many = {"anyOf": [{"title": str(number)} for number in range(1000)]}
    assert len(compiled(many, {}).all_parts()) <= MAX_APPLIED


def test_of_two_parts_that_declare_the_same_the_alternative_comes_first() -> None:
    schema = compiled({"allOf": [{"title": "part"}], "anyOf": [{"title": "alternative"}]}, {})
    assert [part.source.get("title") for part in schema.all_parts()] == [None, "alternative", "part"]


def test_a_value_is_unlisted_where_the_schema_or_what_it_refers_to_lists_others() -> None:
    listed: Any = {"enum": ["a", "b"]}
    assert compiled(listed, {}).is_unlisted("c") and not compiled(listed, {}).is_unlisted("a")
    assert compiled({"$ref": "#/$defs/x"}, {"$defs": {"x": listed}}).is_unlisted("c")
    assert not compiled({"anyOf": [listed]}, {}).is_unlisted("c") and not compiled({}, {}).is_unlisted("c")
