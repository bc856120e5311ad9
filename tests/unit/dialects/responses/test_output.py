"""Response fields that repeat the request, and the input of a custom tool, taken from JSON (C9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.responses.writer import echo, plain_input

PATCH = '*** Begin Patch\n*** Add File: a\n+"é" \\ \t😀\n*** End Patch'
FENCED = f"```\n{PATCH}\n```"
NAMED = f"```diff\n{PATCH}\n```"
# Arguments, and the input that they contain.
CASES: dict[str, tuple[str, str]] = {
    "a patch": (json.dumps({"input": PATCH}), PATCH),
    "not escaped": (json.dumps({"input": PATCH}, ensure_ascii=False), PATCH),
    "with whitespace": (f' {{ "input" : {json.dumps(PATCH)} }} ', PATCH),
    "any text": ('{"input": "a\\/b\\b\\f\\r"}', "a/b\b\f\r"),
    "begins with whitespace": ('{"input": "\\n  a"}', "\n  a"),
    "nothing": ('{"input": ""}', ""),
    "whitespace": ('{"input": " "}', " "),
    "no arguments": ("{}", ""),
    "another key": (json.dumps({"patch": PATCH}), PATCH),
    "wrapped twice": (json.dumps({"input": json.dumps({"patch": PATCH})}), PATCH),
    "in a fence": (json.dumps({"input": FENCED}), PATCH),
    "in a fence with a word": (json.dumps({"input": NAMED}), PATCH),
    "in both": (json.dumps({"input": json.dumps({"input": FENCED})}), PATCH),
    "a string": (json.dumps(PATCH), PATCH),
    "no JSON": (PATCH, PATCH),
    "a fence of code": (json.dumps({"input": "```js\na()\n```"}), "```js\na()\n```"),
    "an object that is the text": (json.dumps({"input": '{"patch": "a"}'}), '{"patch": "a"}'),
    "several keys": ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}'),
    "a number next to it": ('{"input": "a", "timeout": 1e999}', "a"),
    "a number": ('{"input": 7}', '{"input": 7}'),
}


@pytest.mark.parametrize("name", CASES)
def test_the_input_is_the_text_of_the_model(name: str) -> None:
    arguments, wanted = CASES[name]
    assert plain_input(arguments) == wanted


FORMAT = {"format": {"type": "text"}}


@pytest.mark.parametrize(
    ("body", "repeated"),
    [
        *(
            ({name: value}, {name: value})  # also 0, false and empty values
            for name, value in (
                *(("instructions", "rules"), ("tools", [{"type": "function", "name": "run"}]), ("user", "")),
                *(("tool_choice", {"type": "function", "name": "run"}), ("parallel_tool_calls", False)),
                *(("temperature", 0), ("max_output_tokens", 5), ("metadata", {"a": "b"})),
            )
        ),
        ({"temperature": None, "tools": None, "text": None, "reasoning": None, "input": "Hi"}, {}),
        # The proxy chooses these values.
        ({"store": 1, "background": 1, "previous_response_id": 1, "truncation": 1, "service_tier": 1}, {}),
        ({}, {"text": FORMAT}),
        ({"text": {"verbosity": "low", "format": None}}, {"text": {**FORMAT, "verbosity": "low"}}),
        ({"text": {"format": {"type": "json_object"}}}, {"text": {"format": {"type": "json_object"}}}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning": {"effort": "high", "summary": None}}),
        ({"reasoning": "high"}, {"reasoning": {"effort": None, "summary": None}}),
    ],
)
def test_fields_of_the_request_are_repeated(body: dict[str, Any], repeated: dict[str, Any]) -> None:
    assert echo(body) == {**echo({}), **repeated}
