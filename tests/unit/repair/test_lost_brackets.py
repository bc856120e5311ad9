"""Brackets that an object lacks within, not at its end: nothing tells where they were meant to stand (contract C9)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.client_view import argued, mended, whole
from tests.support.helpers import function, offered

TEXT = {"type": "string"}
COUNT = {"type": "integer"}
INNER = {"type": "object", "properties": {"a": TEXT, "b": COUNT}}
TOOLS = offered(
    function("find", {"options": INNER, "limit": COUNT, "note": TEXT, "rows": {"type": "array", "items": INNER}}),
    function("free", {"options": {"type": "object"}, "limit": COUNT, "a": TEXT}),
)
# Each lacks a bracket in front of a key of the outer object.
LOST = {
    "a number behind": ("find", '{"options": {"a": "x", "limit": 2}'),
    "a text behind": ("find", '{"options": {"a": "x", "b": 1, "note": "}"}'),
    "several behind": ("find", '{"options": {"b": 1, "limit": 2, "note": "y", "rows": []}'),
    "in an item": ("find", '{"rows": [{"a": "x"}, {"a": "y", "note": "z"}'),
    "in an item, one bracket more": ("find", '{"rows": [{"a": "x", "limit": 2}]'),
    "behind an outer key": ("find", '{"note": "n", "options": {"a": "x", "limit": 2}'),
    "an object of any keys": ("free", '{"options": {"x": 1, "limit": 2}'),
}
# Here all that is missing stands at the end.
AT_THE_END = {
    "an inner key": ("find", '{"limit": 2, "options": {"a": "x", "b": 1'),
    "a key of both": ("free", '{"a": "x", "options": {"a": "y", "limit2": 1'),
    "a key that is given": ("find", '{"limit": 2, "options": {"b": 1, "limit": 3}'),
    "an item": ("find", '{"limit": 2, "rows": [{"a": "x"}, {"b": 1'),
    "nothing inside": ("find", '{"options": {}, "limit": 2'),
}
WRAPPED = '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>'


def in_text(name: str, arguments: str) -> list[tuple[str, Any]]:
    return whole({"content": WRAPPED.format(name, arguments)}, tools=TOOLS).values


@pytest.mark.parametrize("case", LOST)
def test_where_a_bracket_is_lost_within_there_is_no_call(case: str) -> None:
    name, arguments = LOST[case]
    got = argued(name, arguments, tools=TOOLS)
    assert got.error or got.values == []
    assert in_text(name, arguments) == []


@pytest.mark.parametrize("case", AT_THE_END)
def test_brackets_that_are_missing_at_the_end_are_supplied(case: str) -> None:
    name, arguments = AT_THE_END[case]
    missing = {"{": "}", "[": "]"}
    closers = ""
    for each in arguments:
        if each in missing:
            closers = missing[each] + closers
        elif each in "}]":
            closers = closers[1:]
    meant = json.loads(arguments + closers)
    assert mended(name, arguments, tools=TOOLS) == (meant, {"closers"})
    assert in_text(name, arguments) == [(name, meant)]


@pytest.mark.parametrize("start", ['"{note": "x"', '"{ note": "x"', '"[note": "x"'])
@pytest.mark.parametrize("rest", ["}", ', "limit": 2}', ', "options": {"a": "}"}}'])
def test_a_key_with_a_bracket_in_front_lacks_none(start: str, rest: str) -> None:
    got = argued("find", start + rest, tools=TOOLS)
    assert got.error or got.values == []


def test_an_opening_brace_that_is_missing_is_supplied() -> None:
    assert mended("find", '"note": "x", "limit": 2}', tools=TOOLS) == ({"note": "x", "limit": 2}, {"opening_brace"})
