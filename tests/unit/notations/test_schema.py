"""The types that a tool's schema allows (contract C3)."""

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
    """Return the schema of one parameter, which may refer to the definitions of `root`."""
    return or_anything(compile_schema({**root, "properties": {"value": schema}}).properties["value"])


@rows(__file__, "schema,types")
def test_a_schema_allows_the_types_that_it_names(schema: Any, types: list[str]) -> None:
    assert compiled(schema, ROOT).types == {*types}


def test_a_recursive_reference_is_compiled() -> None:
    root: dict[str, Any] = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert compile_schema(root).properties["child"].types == {"object"}


def test_the_number_of_schema_parts_read_is_limited() -> None:
    """C7: a larger schema costs no more than the limit."""
    wide: dict[str, Any] = {"anyOf": [{"type": "integer"} for _ in range(100_000)] + [{"type": "string"}]}
    assert "string" in compiled(wide, {}).types
    deep: dict[str, Any] = {"type": "integer"}
    for _ in range(100_000):
        deep = {"anyOf": [deep]}
    assert compiled(deep, {}).types == ALL
