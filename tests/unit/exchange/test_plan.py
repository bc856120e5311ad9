"""The request on its way up: what is read of it, and that nothing changes that does not have to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.exchange.plan import Plan, upstream_request
from tests.support.scripted import WRITE_FILE, chat


def request(**more: object) -> ChatRequest:
    """A request with bytes that `json.dumps` would write otherwise."""
    body = chat(**more)
    return read_chat(json.dumps(body, indent=2).encode(), body)


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


def test_the_same_request_goes_up_as_the_same_bytes_and_keeps_its_order() -> None:
    """C8: the prefix cache survives."""
    plan = Plan("proxy", server_kind="vllm")
    asked = [request(tools=[WRITE_FILE], b=1, a="\u00e9\ud83d", n=10**4000) for _ in range(2)]
    first, second = (upstream_request(each, plan).body for each in asked)
    assert first == second
    keys = list(json.loads(first))
    assert keys[: keys.index("tool_choice")] == [*chat(), "tools", "b", "a", "n"]


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
