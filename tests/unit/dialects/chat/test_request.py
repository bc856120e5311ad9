"""A chat-completions request, read once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.request import (
    ChatRequest,
    call_ids,
    copy_sources,
    count_tool_results,
    is_true,
    made_calls,
    read_chat,
)
from proxy.json import Json, JsonObject

RUN: dict[str, Any] = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
READ: dict[str, Any] = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
CALL: JsonObject = {"id": "call_1", "type": "function", "function": {"name": "now", "arguments": "{}"}}
BODY: JsonObject = {
    "model": "tiny",
    "response_format": {"type": "json_object"},
    "messages": [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "noon"},
    ],
}
FORCED = {"type": "function", "function": {"name": "run"}}


def read(**fields: Any) -> ChatRequest:
    body = {"model": "m", "messages": [], **fields}
    return read_chat(json.dumps(body).encode(), body)


def result(text: object, role: str = "tool") -> dict[str, Any]:
    return {"role": role, "tool_call_id": "c", "content": text}


def test_a_body_that_says_nothing_is_a_request_for_a_whole_answer_without_tools() -> None:
    made = read_chat(b"{}", {})
    assert (made.model, made.stream, made.usage, made.tools, made.forced) == ("", False, False, None, False)
    assert (made.json_reply, made.sources, made.made, made.ids) == (False, (), (), frozenset())
    assert not made.one_call


@pytest.mark.parametrize("tools", [None, [], "read", [7], [{"type": "function"}]])
def test_where_no_tool_is_offered_no_call_is_looked_for(tools: Any) -> None:
    """F86."""
    assert read(tools=tools).tools is None


def test_the_same_tools_are_the_very_same_in_every_request() -> None:
    one, other = read(tools=[READ]), read(tools=[json.loads(json.dumps(READ))])
    assert one.tools is not None and one.tools is other.tools
    assert one.body["tools"] is other.body["tools"]


@pytest.mark.parametrize(
    ("fields", "usage"),
    [
        ({"stream_options": {"include_usage": True}}, True),
        ({"stream_options": {"include_usage": 1}}, False),
        ({"stream_options": {}}, False),
        ({"stream_options": None}, False),
    ],
)
def test_the_usage_is_for_who_asks_for_it(fields: dict[str, Any], usage: bool) -> None:
    assert read(**fields).usage is usage


@pytest.mark.parametrize(
    ("choice", "forced"), [("required", True), (FORCED, True), ("auto", False), ("none", False), (None, False)]
)
def test_a_choice_that_leaves_none_is_forced(choice: Any, forced: bool) -> None:
    assert read(tools=[RUN, READ], tool_choice=choice).forced is forced


@pytest.mark.parametrize("kind,json_reply", [("json_object", True), ("json_schema", True), ("text", False), (7, False)])
def test_a_reply_may_have_to_be_json(kind: Any, json_reply: bool) -> None:
    assert read(response_format={"type": kind}).json_reply is json_reply


@pytest.mark.parametrize(("parallel", "one"), [(False, True), (True, False), (None, False), (0, False)])
def test_only_who_says_so_wants_one_call(parallel: Any, one: bool) -> None:
    """F52."""
    assert read(parallel_tool_calls=parallel).one_call is one


@pytest.mark.parametrize("value", [True, 1, 1.0, "true", "True", "t", "YES", "y", "on", "1"])
def test_what_servers_take_for_true_is_true(value: Json) -> None:
    assert is_true(value) and read(stream=value).stream


@pytest.mark.parametrize("value", [False, 0, 2, None, "false", "off", "", "2", " true", [], [True], {}])
def test_all_else_is_false(value: Json) -> None:
    assert not is_true(value) and not read(stream=value).stream


def test_the_ids_of_the_history_are_known() -> None:
    calls: list[Json] = [{"id": "a"}, {"id": 7}, {}, "odd", {"id": "b"}]
    messages: list[Json] = [{"role": "assistant", "tool_calls": calls}, "odd", {"tool_calls": None}]
    assert call_ids(messages) == {"a", "b"}
    assert call_ids(None) == frozenset()


def test_the_texts_of_tool_results_and_user_messages_are_sources_of_copies() -> None:
    """C3, F89: of the whole conversation, but neither the system prompt nor the assistant."""
    parts = [{"type": "text", "text": "b"}, {"type": "image_url"}, 5, {"type": "text", "text": "c"}]
    messages: list[Any] = [
        {"role": "system", "content": "rules"},
        result("old"),
        {"role": "user", "content": "do"},
        {"role": "assistant", "content": "x"},
        result("a"),
        result(parts),
        result(None),
        result("d", "function"),
    ]
    assert copy_sources(messages) == ("old", "do", "a", "b\nc", "", "d")
    assert copy_sources(None) == ()


def test_the_calls_that_the_assistant_made_are_known() -> None:
    """C3: they may be made again."""
    assert made_calls(BODY["messages"]) == (("now", "{}"),)
    assert made_calls(None) == ()


def test_the_loop_guard_counts_by_role_or_by_call_id_in_the_whole_history() -> None:
    """A1: as the OpenClaw proxy counted."""
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


@pytest.mark.parametrize(
    "tools,choice,name",
    [
        ([RUN, READ], FORCED, "run"),
        ([RUN, READ], "required", ""),
        ([RUN], "required", "run"),
        ([RUN], "auto", ""),
        ([RUN], None, ""),
        ([READ], FORCED, ""),
        ([], FORCED, ""),
    ],
)
def test_which_tool_is_forced(tools: list[Any], choice: Any, name: str) -> None:
    body = {"model": "m", "messages": [], "tools": tools, "tool_choice": choice}
    assert read_chat(json.dumps(body).encode(), body).forced_tool == name
