"""What a tool's schema allows, and which value a raw text stands for (contract C3)."""

from __future__ import annotations

from typing import Any

from proxy.notations.schema import Schema, compile_schema, or_anything
from tests.support.rows import rows

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


@rows(__file__, "schema,types")
def test_a_schema_allows_the_types_that_it_names(schema: Any, types: list[str]) -> None:
    assert compiled(schema, ROOT).types == {*types}


def test_a_reference_to_the_root_ends() -> None:
    root: dict[str, Any] = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert compile_schema(root).properties["child"].types == {"object"}


def test_a_hostile_schema_is_walked_only_so_far() -> None:
    """C7: a schema of many parts costs no more than the limit."""
    wide: dict[str, Any] = {"anyOf": [{"type": "integer"} for _ in range(100_000)] + [{"type": "string"}]}
    assert "string" in compiled(wide, {}).types
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100_000):
        deep = {"anyOf": [deep]}
    assert compiled(deep, {}).types == ALL
