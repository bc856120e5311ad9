"""The text of a call's arguments becomes an object (F19 to F21, F26 to F31)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documentation.tables import REPAIRS
from proxy.json import JsonObject
from proxy.limits import MAX_DEPTH
from proxy.notations.schema import compile_schema
from proxy.repair.arguments import FORMS, Form, objects_in, read_arguments, read_call
from tests.support.helpers import function, offered
from tests.support.random_schemas import KEYS, VALUES


def first(text: str, *, stopped: bool = True, lists: tuple[str, ...] = ()) -> tuple[JsonObject, list[str]] | None:
    """Return the object of a text and the ids of its repaired forms, or None if it is not an object."""
    schema = compile_schema({"properties": {key: {"type": "array"} for key in lists}}) if lists else None
    found = read_arguments(text, schema, stopped=stopped)
    return (found.values, [form.id for form in found.forms]) if found else None


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.id)
def test_each_form_has_an_example(form: Form) -> None:
    example = REPAIRS["forms"][form.id]
    with pytest.raises(ValueError):
        _strict(example)
    (_, found) = read_call("f", example, offered(function("f", {"a": {}})))
    assert found is not None
    assert found.forms == (form,)
    assert isinstance(_strict(found.text), dict)


def unchanged(text: str) -> bool:
    """Return whether a text is read without repairs."""
    found = read_arguments(text)
    return found is not None and (found.text, found.forms) == (text, ())


def _strict(text: str) -> Any:
    """Parse strictly. Raises ValueError for duplicate keys and for anything but an object."""

    def no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("doubled")
        return dict(pairs)

    value = json.loads(text, object_pairs_hook=no_doubles, parse_constant=lambda word: json.loads("!" + word))
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


@settings(max_examples=150, derandomize=True)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), st.sampled_from((None, 2)))
def test_any_strict_object_is_unchanged(values: JsonObject, indent: int | None) -> None:
    text = json.dumps(values, indent=indent)
    assert unchanged(text)


@settings(max_examples=150, derandomize=True)
@given(st.text(alphabet="{}[]\"':,\\ ab1\n<>/|“”jsontrue.-eN", max_size=40), st.booleans())
def test_the_result_is_strict_json_for_any_text(text: str, stopped: bool) -> None:
    found = read_arguments(text, stopped=stopped)
    if found is not None:
        assert _strict(found.text) == found.values
        assert unchanged(found.text)


def test_infinity_is_never_written() -> None:
    """JSON cannot represent a number out of range."""
    found = read_arguments('{"a": 1e400, "b": "c" d",}', compile_schema({"properties": {"a": {}, "b": {}}}))
    assert found is None or "nfinity" not in found.text


@pytest.mark.parametrize("levels", [MAX_DEPTH + 10, 400, 900, 5000])
def test_deeply_nested_values_are_not_arguments(levels: int) -> None:
    """C7."""
    for opener, closer in (("[", "]"), ('{"a":', "}")):
        assert first('{"a": ' + opener * levels + "1" + closer * levels + "}") is None
    assert first('{"a": ' + "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2) + "}") is not None


def test_consecutive_objects_are_separated() -> None:
    assert objects_in('{"a": "}{"}\n{"b": 1}{"c') == ['{"a": "}{"}', '{"b": 1}', '{"c']
    assert objects_in('{"a": 1} and') == ['{"a": 1} and']
    assert objects_in("x") == ["x"]
