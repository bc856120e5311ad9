"""The offered tools as templates and grammars can read them (F84)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing.tools import complete_descriptions, complete_parameters, plain_schemas, shorten_names

EVERY = pytest.mark.parametrize("change", [complete_parameters, complete_descriptions, plain_schemas, shorten_names])
Change = Callable[[JsonObject], JsonObject]
STRING: JsonObject = {"type": "string"}


def changed(change: Change, **function: Any) -> Any:
    """What becomes of a tool with such a function."""
    body: Any = change({"tools": [{"type": "function", "function": {"name": "read", **function}}]})
    (entry,) = body["tools"]
    return entry["function"]


def plain(schema: Any, **parameters: Any) -> Any:
    """What becomes of the schema of one parameter."""
    given = {"type": "object", "properties": {"a": schema}, **parameters}
    return changed(plain_schemas, parameters=given)["parameters"]["properties"]["a"]


@EVERY
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": None},
        {"tools": [7, "read", None]},
        {"tools": [{"type": "web_search"}, {"type": "function", "function": "read"}]},
    ],
    ids=["no tools", "null", "no objects", "no functions"],
)
def test_what_is_no_function_is_the_very_same(change: Change, body: JsonObject) -> None:
    """C1."""
    assert change(body) is body


@EVERY
def test_a_tool_that_needs_nothing_is_the_very_same(change: Change) -> None:
    """C1."""
    parameters: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "description": "A."}}}
    function: JsonObject = {"name": "read", "description": "Reads.", "parameters": parameters}
    body: JsonObject = {"tools": [{"type": "function", "function": function}], "messages": []}
    assert change(body) is body


@EVERY
def test_a_tool_without_a_type_is_a_function(change: Change) -> None:
    body = change({"tools": [{"function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}]})
    assert body["tools"][0]["type"] == "function"  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"properties": {"a": STRING}}, {"type": "object", "properties": {"a": STRING}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"type": "object", "required": []}, {"type": "object", "required": [], "properties": {}}),
        ("none", "none"),
    ],
)
def test_parameters_that_are_missing_are_none(given: Any, whole: Any) -> None:
    assert changed(complete_parameters, parameters=given)["parameters"] == whole


def test_a_description_that_is_missing_is_empty_also_of_a_parameter() -> None:
    properties = {"a": {"type": "string"}, "b": {"description": "B."}, "c": {"description": None}, "d": True}
    made = changed(complete_descriptions, parameters={"type": "object", "properties": properties})
    assert made["description"] == ""
    assert made["parameters"]["properties"] == {
        **{"a": {"type": "string", "description": ""}, "b": {"description": "B."}},
        **{"c": {"description": ""}, "d": True},
    }


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        (True, {}),
        ({"type": ["null", "integer", "string"]}, {"type": "integer"}),
        ({"type": ["null"]}, {"type": "null"}),
        ({"anyOf": [STRING, {"type": "null"}], "title": "T"}, {"type": "string", "title": "T"}),
        ({"oneOf": [{"type": "null"}, STRING]}, STRING),
        ({"anyOf": [STRING, {"type": "integer"}]}, {"anyOf": [STRING, {"type": "integer"}]}),
        ({"anyOf": [True, STRING, {"type": "null"}]}, {"anyOf": [{}, STRING, {"type": "null"}]}),
        ({"type": "array", "items": True}, {"type": "array", "items": {}}),
        ({"additionalProperties": False}, {"additionalProperties": False}),
        ({"additionalProperties": {"type": ["string"]}}, {"additionalProperties": STRING}),
        ({"enum": [["string", "null"]]}, {"enum": [["string", "null"]]}),
        ({"default": {"type": ["string", "null"]}}, {"default": {"type": ["string", "null"]}}),
    ],
)
def test_each_place_has_one_type(schema: Any, made: Any) -> None:
    """What is a value, and no schema, stays as it is."""
    assert plain(schema) == made


def test_a_parameter_may_have_the_name_of_a_key_word() -> None:
    schema = {"type": "object", "properties": {"type": {"type": ["string", "null"]}, "$ref": STRING}}
    assert plain(schema)["properties"] == {"type": STRING, "$ref": STRING}


@pytest.mark.parametrize(
    ("reference", "made"),
    [
        ("#/$defs/place", {"type": "string", "title": "T"}),
        ("#/$defs/a~1b~0c", {"type": "integer", "title": "T"}),
        ("#/$defs/none", {"title": "T"}),
        ("https://example.com/schema", {"title": "T"}),
    ],
)
def test_a_reference_is_what_it_means_with_what_stands_beside_it(reference: str, made: Any) -> None:
    definitions = {"place": STRING, "a/b~c": {"type": "integer"}}
    assert plain({"$ref": reference, "title": "T"}, **{"$defs": definitions}) == made


def test_definitions_are_left_out_once_nothing_refers_to_them() -> None:
    parameters = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": STRING}}
    made = changed(plain_schemas, parameters=parameters)["parameters"]
    assert made == {"type": "object", "properties": {"a": STRING}}


def test_a_schema_that_holds_itself_ends_where_it_comes_again() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "value": STRING}}
    once = {"type": "object", "properties": {"next": {}, "value": STRING}}
    assert plain({"$ref": "#/$defs/node"}, **{"$defs": {"node": node}}) == once


def test_references_that_multiply_have_an_end() -> None:
    """Each refers twice to the next: 2 ** 60 schemas, were they all written out."""
    definitions: dict[str, Any] = {"60": STRING}
    for number in range(60):
        twice = {"$ref": f"#/$defs/{number + 1}"}
        definitions[str(number)] = {"type": "object", "properties": {"a": twice, "b": twice}}
    assert len(str(plain({"$ref": "#/$defs/0"}, **{"$defs": definitions}))) < 200_000


def test_a_name_is_short_wherever_it_stands() -> None:
    long = "mcp__server.example__" + "x" * 80
    call: JsonObject = {"id": "c", "type": "function", "function": {"name": long, "arguments": "{}"}}
    body: JsonObject = {
        "tools": [{"type": "function", "function": {"name": long}}, {"type": "function", "function": {"name": "read"}}],
        "messages": [{"role": "assistant", "tool_calls": [call]}],
        "tool_choice": {"type": "function", "function": {"name": long}},
    }
    made: Any = shorten_names(body)
    short = made["tools"][0]["function"]["name"]
    assert len(short) == 64 and made["tools"][1]["function"]["name"] == "read"
    assert made["messages"][0]["tool_calls"][0]["function"] == {"name": short, "arguments": "{}"}
    assert made["tool_choice"] == {"type": "function", "function": {"name": short}}


@pytest.mark.parametrize("choice", ["auto", None, {"type": "function"}, {"function": {"name": "read"}}])
def test_a_choice_that_needs_no_other_name_stays(choice: Any) -> None:
    body: JsonObject = {"tools": [], "tool_choice": choice}
    assert shorten_names(body) is body
