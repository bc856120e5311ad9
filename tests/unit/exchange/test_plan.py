"""The request on its way up: what is read of it, and that nothing changes that does not have to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.exchange.plan import Plan, proxy_parses, upstream_request
from tests.support.scripted import WRITE_FILE, chat

NAMED = {"type": "function", "function": {"name": "write_file"}}


def request(**more: object) -> ChatRequest:
    """A request with bytes that `json.dumps` would write otherwise."""
    body = chat(**more)
    return read_chat(json.dumps(body, indent=2).encode(), body)


def shaped(plan: Plan, **more: object) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(upstream_request(request(**more), plan).body)
    return body


@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan("server", server_kind="vllm"),
        Plan("proxy", server_kind=""),
        Plan("proxy", server_kind="sglang"),
        Plan(without=("absent",)),
        Plan(max_tokens=5),
    ],
)
def test_a_body_that_needs_nothing_goes_up_as_the_very_bytes(plan: Plan) -> None:
    """C1."""
    wanted = request(tools=[WRITE_FILE], tool_choice="auto", stream_options={"include_usage": True})
    assert upstream_request(wanted, plan).body == wanted.raw


def test_a_limit_that_is_there_already_changes_nothing() -> None:
    """C1."""
    wanted = request(max_tokens=5)
    assert upstream_request(wanted, Plan(max_tokens=5)).body == wanted.raw


@pytest.mark.parametrize("choice", [None, "none"])
def test_without_tools_to_parse_the_profile_proxy_changes_nothing(choice: str | None) -> None:
    """F86, C1."""
    more = {"tools": [WRITE_FILE], "tool_choice": "none"} if choice else {}
    wanted = request(**more)
    assert wanted.tools is None
    assert upstream_request(wanted, Plan("proxy", server_kind="vllm")).body == wanted.raw


@pytest.mark.parametrize("server,special", [("vllm", {"skip_special_tokens": False}), ("llamacpp", {})])
def test_where_the_proxy_parses_the_tools_stay_and_the_choice_is_none(server: str, special: dict[str, object]) -> None:
    was = chat(tools=[WRITE_FILE], tool_choice="auto")
    assert shaped(Plan("proxy", server_kind=server), **was) == {**was, "tool_choice": "none", **special}


@pytest.mark.parametrize("choice", ["required", NAMED])
def test_a_forced_choice_goes_up_as_it_is(choice: object) -> None:
    """F87."""
    wanted = request(tools=[WRITE_FILE], tool_choice=choice)
    assert wanted.forced and not proxy_parses(wanted, Plan("proxy", server_kind="vllm"))
    assert upstream_request(wanted, Plan("proxy", server_kind="vllm")).body == wanted.raw


def test_the_transport_whole_asks_for_no_stream_and_drops_its_options() -> None:
    """F60."""
    was = chat(stream_options={"include_usage": True})
    body = shaped(Plan(transport="whole"), **was)
    del was["stream_options"]
    assert body == {**was, "stream": False}


def test_stream_options_beside_no_stream_are_dropped() -> None:
    """F60."""
    assert "stream_options" not in shaped(Plan(), stream=False, stream_options={"include_usage": True})


def test_a_refused_field_is_left_out_and_tokens_are_what_is_left() -> None:
    body = shaped(Plan(without=("store",), max_tokens=7), store=True, max_tokens=9, user="u")
    assert body == chat(max_tokens=7, user="u")
    assert shaped(Plan(max_tokens=7), max_completion_tokens=9) == chat(max_completion_tokens=7)


def test_the_same_request_goes_up_as_the_same_bytes_and_keeps_its_order() -> None:
    """C8: the prefix cache survives."""
    plan = Plan("proxy", server_kind="vllm")
    asked = [request(tools=[WRITE_FILE], b=1, a="\u00e9\ud83d", n=10**4000) for _ in range(2)]
    first, second = (upstream_request(each, plan).body for each in asked)
    assert first == second
    keys = list(json.loads(first))
    assert keys[: keys.index("tool_choice")] == [*chat(), "tools", "b", "a", "n"]


def test_the_client_s_body_is_not_touched() -> None:
    wanted = request(tools=[WRITE_FILE], stream_options={})
    before = json.dumps(wanted.body)
    upstream_request(wanted, Plan("proxy", "whole", "vllm", ("model",), 5))
    assert json.dumps(wanted.body) == before


@pytest.mark.parametrize(
    "more,facts",
    [
        ({}, {"model": "tiny", "stream": True, "usage": False, "forced": False, "json_reply": False}),
        ({}, {"sources": ("Hi",)}),
        ({"stream": False}, {"stream": False}),
        ({"stream": "true"}, {"stream": True}),
        ({"stream": 1}, {"stream": True}),
        ({"stream": "no"}, {"stream": False}),
        ({"model": None}, {"model": ""}),
        ({"stream_options": {"include_usage": True}}, {"usage": True}),
        ({"stream_options": {"include_usage": 1}}, {"usage": False}),
        ({"stream_options": []}, {"usage": False}),
        ({"response_format": {"type": "json_object"}}, {"json_reply": True}),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, {"json_reply": True}),
        ({"response_format": {"type": "text"}}, {"json_reply": False}),
        ({"response_format": "json"}, {"json_reply": False}),
        ({"tools": "x"}, {"tools": None}),
        ({"tools": [{"type": "function"}, 5, None, {"function": {"name": 5}}]}, {"tools": None}),
        ({"messages": "x"}, {"sources": ()}),
        ({"messages": [5, None, {"role": 5}]}, {"sources": ()}),
    ],
)
def test_what_matters_of_a_request_is_read_whatever_it_holds(more: dict[str, Any], facts: dict[str, object]) -> None:
    wanted = request(**more)
    assert {name: getattr(wanted, name) for name in facts} == facts


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
def test_the_tool_of_a_broken_call_is_forced_whatever_the_client_chose(kind: str) -> None:
    """llama.cpp cannot force a tool by name."""
    other = {"type": "function", "function": {"name": "other", "parameters": {"type": "object"}}}
    body = chat(tools=[WRITE_FILE, other], tool_choice="none")
    forced = {"tool_choice": {"type": "function", "function": {"name": "write_file"}}}
    alone = {"tools": [WRITE_FILE], "tool_choice": "required", "parallel_tool_calls": False}
    sent = shaped(Plan(guided="write_file", server_kind=kind), **body)
    assert sent == {**body, **(alone if kind == "llamacpp" else forced)}
