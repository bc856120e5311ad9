"""The items of a Responses reply while they are open: text, reasoning, calls."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.responses.open_items import CallItem, TextItem, object_in
from proxy.dialects.responses.tools import Called, Kind


def call(kind: Kind, *deltas: str, namespace: str = "") -> CallItem:
    """A call whose arguments came in these pieces."""
    return CallItem(0, "fc_1", "call_1", Called(kind, "run", namespace), [*deltas])


def test_a_text_is_a_message_and_a_thought_is_reasoning() -> None:
    text, thought = TextItem("text", 0, "msg_1", ["Hel", "lo"]), TextItem("thinking", 0, "rs_1", ["hm"])
    assert text.part == {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    assert thought.part == {"type": "reasoning_text", "text": "hm"}
    message = text.item("completed", [text.part])
    assert (message["type"], message["role"], message["content"]) == ("message", "assistant", [text.part])
    reasoning = thought.item("in_progress", [thought.part])
    assert (reasoning["type"], reasoning["summary"], reasoning["content"]) == ("reasoning", [], [thought.part])
    assert (reasoning["status"], reasoning["encrypted_content"]) == ("in_progress", None)


@pytest.mark.parametrize(
    ("deltas", "blank", "whole"),
    [
        ([], True, False),
        ([" ", "\n"], True, False),
        (['{"a"', ": 1}"], False, True),
        (['{"a"'], False, False),
        (["[1]"], False, False),
    ],
)
def test_arguments_are_whole_if_they_are_an_object(deltas: list[str], blank: bool, whole: bool) -> None:
    item = call(Kind.FUNCTION, *deltas)
    assert (item.arguments, item.is_blank, item.is_whole) == ("".join(deltas), blank, whole)


@pytest.mark.parametrize(
    ("kind", "text", "plain"),
    [
        (Kind.CUSTOM, "*** Begin Patch", True),
        (Kind.CUSTOM, ' {"input": "a"}', False),
        (Kind.FUNCTION, "*** Begin Patch", False),
    ],
)
def test_an_input_that_is_no_json_is_plain(kind: Kind, text: str, plain: bool) -> None:
    assert call(kind, text).is_plain is plain


ITEMS: dict[str, tuple[CallItem, dict[str, Any]]] = {
    "a function": (
        call(Kind.FUNCTION, '{"a": 1}'),
        {"type": "function_call", "name": "run", "arguments": '{"a": 1}'},
    ),
    "a function of a namespace": (
        call(Kind.FUNCTION, "{}", namespace="mcp"),
        {"type": "function_call", "name": "run", "namespace": "mcp", "arguments": "{}"},
    ),
    "half a function": (
        call(Kind.FUNCTION, '{"a'),
        {"type": "function_call", "name": "run", "arguments": '{"a'},
    ),
    "a custom tool": (
        call(Kind.CUSTOM, '{"input": "two\\nlines"}'),
        {"type": "custom_tool_call", "name": "run", "input": "two\nlines"},
    ),
    "half a custom tool": (
        call(Kind.CUSTOM, '{"input": "tw'),
        {"type": "custom_tool_call", "name": "run", "input": ""},
    ),
    "a search": (
        call(Kind.SEARCH, '{"query": "a"}'),
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "a"}},
    ),
    "half a search": (
        call(Kind.SEARCH, '{"query'),
        {"type": "tool_search_call", "execution": "client", "arguments": '{"query'},
    ),
}


@pytest.mark.parametrize(("item", "told"), ITEMS.values(), ids=ITEMS)
def test_a_call_is_an_item_of_its_kind(item: CallItem, told: dict[str, Any]) -> None:
    assert item.as_it_is("incomplete") == {"id": "fc_1", "call_id": "call_1", "status": "incomplete", **told}


@pytest.mark.parametrize(
    ("text", "found"), [('{"a": [1]}', {"a": [1]}), ("{}", {}), ("[]", None), ('"a"', None), ("{", None), ("", None)]
)
def test_only_an_object_is_one(text: str, found: dict[str, Any] | None) -> None:
    assert object_in(text) == found
