"""Parsing of Chat Completions requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.request import (
    ChatRequest,
    call_ids,
    count_tool_results,
    is_true,
    read_chat,
)
from proxy.json import Json

RUN: dict[str, Any] = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
READ: dict[str, Any] = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
FORCED = {"type": "function", "function": {"name": "run"}}


def read(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [], **fields}
    return read_chat(json.dumps(body).encode(), body)


def result(text: object, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "tool_call_id": "c", "content": text}


def test_an_empty_body_asks_for_a_whole_answer_without_tools() -> None:
    made = read_chat(b"{}", {})
    assert (made.model, made.stream, made.usage, made.tools, made.forced) == ("", False, False, None, False)
    assert (made.json_reply, made.sources, made.made, made.ids) == (False, (), (), frozenset())
    assert not made.one_call


NOTHING = (False, False, False, False, False, "")


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        *(({"tools": tools}, NOTHING) for tools in (None, [], "read", [7], [{"type": "function"}])),
        ({"tools": [RUN]}, (True, False, False, False, False, "")),
        ({"tools": [RUN, READ], "tool_choice": FORCED}, (True, True, False, False, False, "run")),
        ({"tools": [RUN, READ], "tool_choice": "required"}, (True, True, False, False, False, "")),
        ({"tools": [RUN], "tool_choice": "required"}, (True, True, False, False, False, "run")),
        ({"tools": [RUN], "tool_choice": "auto"}, (True, False, False, False, False, "")),
        ({"tools": [RUN], "tool_choice": "none"}, NOTHING),
        ({"tools": [READ], "tool_choice": FORCED}, (True, True, False, False, False, "")),
        ({"stream_options": {"include_usage": True}}, (False, False, True, False, False, "")),
        *(({"stream_options": each}, NOTHING) for each in ({"include_usage": 1}, {}, None)),
        ({"response_format": {"type": "json_object"}}, (*NOTHING[:3], True, False, "")),
        ({"response_format": {"type": "json_schema"}}, (*NOTHING[:3], True, False, "")),
        *(({"response_format": {"type": kind}}, NOTHING) for kind in ("text", 7)),
        ({"parallel_tool_calls": False}, (*NOTHING[:4], True, "")),
        *(({"parallel_tool_calls": each}, NOTHING) for each in (True, None, 0)),
    ],
)
def test_the_request_is_parsed(fields: dict[str, Any], facts: tuple[Any, ...]) -> None:
    """F52, F86."""
    made = read(**fields)
    assert (made.tools is not None, made.forced, made.usage, made.json_reply, made.one_call, made.forced_tool) == facts


def test_equal_tools_of_two_requests_are_the_same_object() -> None:
    one, other = read(tools=[READ]), read(tools=[json.loads(json.dumps(READ))])
    assert one.tools is not None and one.tools is other.tools
    assert one.body["tools"] is other.body["tools"]


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "True", "t", "YES", "y", "on", "1"])
def test_values_that_servers_read_as_true_are_true(value: Json) -> None:
    assert is_true(value) and read(stream=value).stream


@pytest.mark.parametrize("value", [False, 0, 2, None, "false", "off", "", "2", " true", [], [True], {}])
def test_all_other_values_are_false(value: Json) -> None:
    assert not is_true(value) and not read(stream=value).stream


def test_the_ids_of_the_history_are_collected() -> None:
    calls: list[Json] = [{"id": "a"}, {"id": 7}, {}, "odd", {"id": "b"}]
    messages: list[Json] = [{"role": "assistant", "tool_calls": calls}, "odd", {"tool_calls": None}]
    assert call_ids(messages) == {"a", "b"}
    assert call_ids(None) == frozenset()


def test_the_loop_guard_counts_results_by_role_or_call_id_in_the_whole_history() -> None:
    """A1: it counts as the OpenClaw proxy did."""
    messages: list[Any] = [
        {"role": "user", "content": "a"},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": "b", "tool_call_id": "c1"},
        {"role": "assistant", "tool_call_id": ""},
        result("z"),
        5,
    ]
    assert count_tool_results(messages) == 3
    assert count_tool_results(None) == 0
