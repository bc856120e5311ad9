"""No text of a model takes long to read (C7)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.json import JsonObject
from proxy.notations.schema import compile_schema
from proxy.repair.arguments import read_arguments
from tests.failures.test_failures_damage import TOOLS
from tests.support.helpers import new_scanner, offered, scan
from tests.support.json_wrappers import WRAPPERS
from tests.support.work import over_soon

pytestmark = pytest.mark.once

TEXT: JsonObject = {"type": "string"}
WRITE: dict[str, Any] = {
    "type": "object",
    "properties": {"path": TEXT, "content": TEXT, "mode": TEXT},
    "required": ["path", "content"],
}
EDIT: JsonObject = {"type": "object", "properties": {"old": TEXT, "new": TEXT, "all": {"type": "boolean"}}}
EDITS: JsonObject = {
    "type": "object",
    "properties": {"path": TEXT, "edits": {"type": "array", "items": {**EDIT, "required": ["old", "new"]}}},
    "required": ["path", "edits"],
}
UNITS = ('"', '", ', '", "path": ', '", "x": ', '"}', '"}]', '"}, {"old": ', '"   ', "\\", '"""', "{", '{"a":', "'")


@pytest.mark.slow
@pytest.mark.parametrize("unit", UNITS)
def test_strings_with_unescaped_quotation_marks_are_read_quickly(unit: str) -> None:
    for head in ('{"path": "p", "content": "', '{"path": "p", "edits": [{"old": "', '{"path": '):
        for tail in ('"}', '"}]}', ""):
            with over_soon():
                read_arguments(
                    head + unit * (60_000 // len(unit)) + tail, compile_schema(EDITS if "edits" in head else WRITE)
                )


@pytest.mark.parametrize("unit", ['" /*', '" //', 'printf("a" /* b); ', 'glob "src/" /**.js '])
def test_unclosed_comments_are_read_quickly(unit: str) -> None:
    text = '<tool_call>{"name": "bash", "arguments": {"command": "' + unit * (100_000 // len(unit)) + '"}}</tool_call>'
    with over_soon():
        scan([text], new_scanner(offered()))


@pytest.mark.parametrize("name", [name for name in WRAPPERS if name not in ("Mistral", "Mistral, before", "Llama")])
def test_many_unclosed_calls_are_read_in_linear_time(name: str) -> None:
    """Text of a reply is read again only a few times."""
    text = WRAPPERS[name]("write", '{"path": "a", "content": "say "hi" ')
    one = text[: text.index('"hi" ') + 5]
    assert not scan([one * 2000], new_scanner(TOOLS)).calls


SCHEMA = compile_schema({"type": "object", "properties": {"a": {"type": "string"}, "d": {"type": "string"}}})
HOSTILE = {
    "tokens": '{"a": 1}' + "<|a|>" * 2000 + "!",
    "tags": '{"a": 1}' + " <a>" * 50_000 + "!",
    "whitespace": '{"a": 1}' + " " * 500_000 + "!",
    "repetitions": "{}" * 300_000,
    "nearly repetitions": '{"a": 1}' * 100_000 + '{"b"',
    "openers": '{"a":' * 100_000,
    "arrays": '{"a": ' + "[" * 500_000,
    "escapes": '"' + "\\\\" * 300_000,
    "quotation marks": "{'" * 300_000,
    "marks of both kinds": '{"a": "' + "'\"[{" * 50_000 + "}",
    "marks": '{"a": "' + '"' * 200_000 + "}",
    "marks and commas": '{"a": "' + '", ' * 100_000 + '"}',
    "marks and brackets": '{"a": "' + '"}]' * 100_000,
    "marks and keys": '{"a": "' + '", "b": "' * 50_000 + '"}',
    "marks and whitespace": '{"a": "' + ('"' + " " * 1000) * 1000 + '"}',
    "three marks": '{"a": """' + '""' * 100_000 + '"}',
    "encoded again and again": json.dumps(json.dumps(json.dumps(json.dumps('{"a": 1}')))),
    "2 MB": '{"a": "' + "x\n" * 1_000_000 + '"}</tool_call>',
    "escaped marks that end within an escape": '"\\' * 150_001,
    "the same in Python's marks": "'\\" * 150_001,
    "a number": '{"a": ' + "1" * 1_000_000 + "}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str) -> None:
    """C7: for any text of a model."""
    with over_soon():
        found = read_arguments(HOSTILE[name], SCHEMA)
    assert found is None or isinstance(found.values, dict)


@pytest.mark.parametrize("unit", ['{\\"]`', '{0//"', '.."', '\\"x\\", ', "/*"])
def test_a_hostile_text_of_64_000_characters_is_refused_quickly(unit: str) -> None:
    """C7."""
    with over_soon():
        assert read_arguments("{" + unit * (64_000 // len(unit)) + "}", SCHEMA) is None
