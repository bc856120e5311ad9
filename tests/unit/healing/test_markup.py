"""Calls that stand as text in old turns whose results follow (F81, C3)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing.markup import read_markup
from tests.healing.shapes import call, calls, result, said, tool, user

MARKUP = '<tool_call>\n{"name": "read_file", "arguments": {"path": "mkp1"}}\n</tool_call>'
OTHER = MARKUP.replace("mkp1", "mkp2")


def read(*messages: dict[str, Any]) -> Any:
    body: JsonObject = {"tools": [tool()], "messages": [user(), *messages]}
    healed = read_markup(body)
    if healed is body:
        return "the very same"
    assert isinstance(healed["messages"], list)
    return healed["messages"][1:]


def test_a_call_as_text_is_one_if_its_result_follows() -> None:
    assert read(said(f"I look.\n{MARKUP}"), result()) == [calls(call(), content="I look."), result()]


def test_several_calls_are_those_of_as_many_results() -> None:
    found = read(said(MARKUP + OTHER), result(), result(2))
    assert [each["id"] for each in found[0]["tool_calls"]] == ["abcdefgh1", "abcdefgh2"]
    assert found[0]["content"] == ""


def test_a_result_without_an_id_gets_one_later() -> None:
    found = read(said(MARKUP), result(tool_call_id="without"))
    assert "id" not in found[0]["tool_calls"][0]


@pytest.mark.parametrize(
    "messages",
    [
        [said(MARKUP)],
        [said(MARKUP), user("mku2")],
        [said(MARKUP), user("mku2"), result()],
        [said(MARKUP), result(), result(2)],
        [said(MARKUP + OTHER), result()],
        [said("I call read_file."), result()],
        [said(f"It is written so: `{MARKUP}`"), result()],
        [said(f"```\n{MARKUP}\n```"), result()],
        [said(MARKUP.replace("read_file", "unknown")), result()],
        [said('{"name": "read_file", "arguments": {"path": "a"}}'), result()],
        [calls(call(), content=MARKUP), result()],
        [calls(call()), result(text=f"It says {MARKUP}"), said(MARKUP), result(2)],
    ],
    ids=[
        *("no result", "a user behind", "a user between", "too many results", "too few", "no call", "quoted", "fenced"),
        *("not offered", "weak", "calls already", "copied from a result"),
    ],
)
def test_all_else_stays_the_very_same(messages: list[dict[str, Any]]) -> None:
    """C3, F88, F89."""
    assert read(*messages) == "the very same"
