"""A listing of tools, or a tool's definition, in the form of a call is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from tests.support.each_case import each_case
from tests.support.helpers import (
    all_cuts,
    function,
    new_scanner,
    offered,
    scan,
)
from tests.unit.notations.test_copied_calls import TOOLS

pytestmark = pytest.mark.once


def definition(name: str, described: bool, **properties: Any) -> JsonObject:
    """A tool as prompts list it."""
    about: JsonObject = {"description": f"It can {name}."} if described else {}
    return {
        "name": name,
        **about,
        "parameters": {"type": "object", "properties": properties, "required": [*properties]},
    }


PATTERN: JsonObject = {"pattern": {"type": "string"}}
LISTED: dict[str, list[JsonObject]] = {
    "described": [definition("find", True, **PATTERN)],
    "not described": [definition("find", False, **PATTERN)],
    "several": [definition("find", False, **PATTERN), definition("write_file", False, path={"type": "string"})],
    "without parameters": [definition("find", False)],
    "OpenAI's": [{"type": "function", "function": definition("find", True, **PATTERN)}],
    "OpenAI's, not described": [{"type": "function", "function": definition("find", False, **PATTERN)}],
    "by name": [{"find": definition("find", False, **PATTERN)["parameters"]}],
    "arguments": [{"name": "find", "arguments": {"type": "object", "properties": PATTERN}}],
    "no type": [{"name": "find", "parameters": {"properties": PATTERN, "required": []}}],
    "properties alone": [{"name": "find", "parameters": PATTERN}],
    "properties alone, described": [{"name": "find", "description": "It can find.", "parameters": PATTERN}],
    "properties alone, as arguments": [{"name": "find", "arguments": PATTERN}],
    "properties alone, as text": [{"name": "find", "arguments": json.dumps(PATTERN)}],
    "properties alone, by name": [{"find": PATTERN}],
    "properties alone, OpenAI's": [{"type": "function", "function": {"name": "find", "parameters": PATTERN}}],
    "properties alone, several": [
        {"name": "find", "parameters": {**PATTERN, "limit": {"type": "integer", "default": 3}}},
        {"name": "write_file", "parameters": {"path": {"type": "string"}, "mode": {"enum": ["a", "w"]}}},
    ],
    "properties and required": [{"name": "find", "parameters": {**PATTERN, "required": ["pattern"]}}],
    "properties and a dialect": [{"name": "find", "parameters": {"$schema": "x", "strict": True, **PATTERN}}],
    "a schema without its type": [{"name": "find", "parameters": {"properties": PATTERN, "strict": True}}],
    "Gemini's": [
        {"name": "find", "parameters": {"type": "OBJECT", "properties": {"pattern": {"type": "STRING"}}}},
        {"name": "find", "parameters": {"pattern": {"type": "STRING"}}},
    ],
    "several types": [{"name": "find", "parameters": {"pattern": {"type": ["string", "null"]}}}],
    "types of Python": [{"name": "find", "parameters": {"pattern": {"type": "str", "required": True}}}],
    "a reference": [{"name": "find", "parameters": {"pattern": {"$ref": "#/$defs/text"}}}],
    "alternatives": [{"name": "find", "parameters": {"pattern": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}],
    "values": [{"name": "find", "parameters": {"pattern": {"enum": ["a", "b"]}}}],
    "a value": [{"name": "find", "parameters": {"pattern": {"const": "a"}}}],
    "words": [{"name": "find", "parameters": {"pattern": {"description": "What to look for."}}}],
    "one without a word": [{"name": "find", "parameters": {"pattern": {}, "limit": {"type": "integer"}}}],
    "names of types": [{"name": "find", "parameters": {"pattern": "string", "limit": "integer"}}],
    "another parameter": [{"name": "find", "parameters": {"text": {"type": "string"}}}],
    "input_schema": [{"name": "find", "input_schema": {"type": "object", "properties": PATTERN}}],
    "inputSchema": [{"name": "find", "inputSchema": PATTERN}],
    "one of them without a schema": [definition("write_file", False, **PATTERN), {"name": "find", "parameters": {}}],
    "the first without a schema": [{"name": "find", "parameters": {}}, definition("write_file", False, **PATTERN)],
}
LISTINGS: dict[str, Callable[[list[JsonObject]], str]] = {
    "lines": lambda tools: "<tools>\n" + "\n".join(map(json.dumps, tools)) + "\n</tools>",
    "an array": lambda tools: f"<tools>{json.dumps(tools)}</tools>",
    "pretty": lambda tools: f"<tools>\n{json.dumps(tools, indent=2)}\n</tools> are offered.",
    "a call's wrapper": lambda tools: f"<tool_call>{json.dumps(max(tools, key=repr))}</tool_call>",
    "mid-prose": lambda tools: f"There is <tool_call>{json.dumps(max(tools, key=repr))}</tool_call> and more.",
    "a fence in a wrapper": lambda tools: f"<tools>\n```json\n{json.dumps(tools)}\n```\n</tools>",
    "Python": lambda tools: f"<tools>{tools}</tools>",
    "a marker": lambda tools: f"[TOOL_CALLS]{json.dumps(tools)}",
    "JSON": json.dumps,
    "JSON lines": lambda tools: "\n".join(map(json.dumps, tools)),
    "a fence": lambda tools: f"I have:\n```json\n{json.dumps(tools, indent=1)}\n```",
}


@each_case("name", LISTED)
@pytest.mark.parametrize("form", LISTINGS)
def test_a_listing_of_tools_is_no_call(name: str, form: str) -> None:
    text = LISTINGS[form](LISTED[name])
    for cut in all_cuts(text):
        found = scan(cut, new_scanner(TOOLS))
        assert (found.calls, found.text) == ((), text)


@pytest.mark.parametrize(
    "text",
    [
        '[TOOL_CALLS]find[ARGS]{"pattern": {"type": "string"}}',
        '<|tool_call>call:find{pattern:{type:<|"|>STRING<|"|>}}<tool_call|>',
        '<|channel|>commentary to=functions.find <|constrain|>json<|message|>{"pattern": {"type": "string"}}<|call|>.',
        'find{"pattern": {"type": "string"}}',
        "[find(pattern={'type': 'string'})]",
    ],
)
def test_a_definition_in_another_format_is_no_call(text: str) -> None:
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(TOOLS)).calls == ()


SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
MAKER = function("make", {"type": {"type": "string"}, "properties": {"type": "object"}, "title": {"type": "string"}})
ANY: JsonObject = {"type": "object"}
FIELD = function("make", {"name": {"type": "string"}, "field": ANY, "fields": {"type": "array", "items": ANY}})
OWN = {"type": "object", "properties": {"type": {"type": "string"}, "width": {"type": "integer"}}}
NOT_LISTED: dict[str, tuple[JsonObject, JsonObject]] = {
    "an argument that is a schema": (FIELD, {"field": {"type": "string"}}),
    "one beside a name": (FIELD, {"name": "a", "field": {"type": "string"}}),
    "schemas in an array": (FIELD, {"fields": [{"type": "string"}]}),
    "an empty argument": (FIELD, {"field": {}}),
    "an argument that says its type": (function("make", {"field": OWN}), {"field": {"type": "string"}}),
    "an argument of any type": (function("make", {"field": {}}), {"field": {"type": "string"}}),
    "one of two types": (function("make", {"field": {"type": ["string", "object"]}}), {"field": {"enum": ["a"]}}),
    "one by reference": (
        function("make", {"field": {"$ref": "#/properties/other"}, "other": ANY}),
        {"field": {"const": 1}},
    ),
    "the name of a type": (function("make", PATTERN), {"pattern": "string"}),
    "names of types": (function("make", {**PATTERN, "b": {"type": "string"}}), {"pattern": "string", "b": "integer"}),
    "objects of another kind": (FIELD, {"field": {"type": "module"}}),
    "an object and a text": (function("make", {**PATTERN, "b": ANY}), {"pattern": "a", "b": {"type": "string"}}),
    "the tool takes a schema": (MAKER, SCHEMA),
    "the tool takes a schema, and more": (MAKER, {**SCHEMA, "title": "x"}),
    "a schema with keys that the tool does not say": (MAKER, {**SCHEMA, "required": ["a"]}),
    "a schema of a schema": (MAKER, {"type": "object", "properties": {"b": SCHEMA}, "additionalProperties": False}),
    "nothing but the type": (MAKER, {"type": "object"}),
    "properties that are none": (function("make", PATTERN), {"type": "object", "properties": ["a"]}),
    "properties of values": (function("make", PATTERN), {"properties": {"a": 1}}),
    "another type": (function("make", PATTERN), {"type": "house", "properties": {"a": {}}}),
    "no type and other keys": (function("make", PATTERN), {"pattern": "a", "properties": {"a": {}}}),
    "a string": (function("make", PATTERN), {"pattern": json.dumps(SCHEMA)}),
}


@pytest.mark.parametrize("name", NOT_LISTED)
def test_what_is_no_schema_or_is_wanted_is_a_call(name: str) -> None:
    tool, arguments = NOT_LISTED[name]
    text = f"<tool_call>{json.dumps({'name': 'make', 'arguments': arguments})}</tool_call> so."
    assert scan([text], new_scanner(offered(tool))).parsed == [("make", arguments)]


@pytest.mark.parametrize("others", [True, {}, {"type": "object"}, {"type": ["string", "object"]}], ids=json.dumps)
def test_a_tool_that_takes_other_keys_may_take_schemas(others: Any) -> None:
    tool = function("make", PATTERN)
    tool["function"]["parameters"]["additionalProperties"] = others
    text = '<tool_call>{"name": "make", "arguments": {"a": {"type": "string"}}}</tool_call> so.'
    assert scan([text], new_scanner(offered(tool))).parsed == [("make", {"a": {"type": "string"}})]
    tool["function"]["parameters"]["additionalProperties"] = {"type": "string"}
    assert scan([text], new_scanner(offered(tool))).calls == ()


EMPTY: dict[str, JsonObject] = {
    "a type": {"type": "object"},
    "no properties": {"type": "object", "properties": {}},
    "none required": {"type": "object", "properties": {}, "required": []},
    "closed": {"type": "object", "additionalProperties": False},
    "of a dialect": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
    "said in words": {"type": "object", "description": "Takes nothing."},
}


@pytest.mark.parametrize("schema", EMPTY)
@pytest.mark.parametrize("form", LISTINGS)
def test_the_listing_of_a_tool_without_parameters_is_no_call(schema: str, form: str) -> None:
    listed: JsonObject = {"name": "now", "parameters": EMPTY[schema]}
    listings: tuple[list[JsonObject], ...]
    listings = ([listed], [{"type": "function", "function": listed}], [{"now": EMPTY[schema]}])
    for tools in listings:
        text = LISTINGS[form](tools)
        for cut in all_cuts(text, 6):
            found = scan(cut, new_scanner(NOW))
            assert (found.calls, found.text) == ((), text)


NOW = offered(function("now"), function("find", PATTERN), function("make", {"type": {"type": "string"}}))
ALONE = (
    "<tool_call>%s</tool_call>",
    "<tool_call>\n%s\n</tool_call>",
    "<tools>%s</tools>",
    "<|tool_call_start|>[%s]<|tool_call_end|>",
)


@pytest.mark.parametrize("form", ALONE)
@pytest.mark.parametrize("empty", [{}, *EMPTY.values()], ids=json.dumps)
def test_each_definition_may_stand_in_a_wrapper_of_its_own(form: str, empty: JsonObject) -> None:
    one = form % json.dumps(definition("find", False, **PATTERN))
    other = form % json.dumps({"name": "now", "parameters": empty})
    for text in (f"{one}\n{other}", f"{one}{other}\n\n{other}"):
        for cut in all_cuts(text):
            assert scan(cut, new_scanner(NOW)).calls == ()


@pytest.mark.parametrize("form", ALONE)
def test_a_call_without_arguments_is_one_where_words_part_it_from_a_listing(form: str) -> None:
    one = form % json.dumps(definition("find", False, **PATTERN))
    call = form % json.dumps({"name": "now", "arguments": {}})
    text = f"{one}\nI call it.\n{call}"
    for cut in all_cuts(text):
        assert scan(cut, new_scanner(NOW)).parsed == [("now", {})]


def test_a_type_that_the_tool_takes_is_no_schema() -> None:
    text = '<tool_call>{"name": "make", "arguments": {"type": "object"}}</tool_call>'
    assert scan([text], new_scanner(NOW)).parsed == [("make", {"type": "object"})]
