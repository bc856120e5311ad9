"""Responses requests of any values: translated, or refused in words, never a crash, and the same each time (C5, C8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.codec.json_text import JsonObject, dump_request
from proxy.dialects.chat.request import conversation_key, read_chat
from proxy.dialects.responses.output import echo
from proxy.dialects.responses.request import Translation, translate, translate_count
from proxy.dialects.translation import ModelOptions
from proxy.errors import BadRequest
from proxy.web.admission import parse_body
from tests.contract.test_c5_fuzz import MOST, OPTIONS, QUICK, mutated
from tests.support.responses_ask import CUSTOM, PIXEL, SPACE, TOOL, ask, assistant, call, developer, output, text, user
from tests.support.work import over_soon

RESPONSES = ask(
    {"type": "additional_tools", "role": "developer", "tools": [SPACE]},
    developer("be brief"),
    user(text("hi"), {"type": "input_image", "image_url": PIXEL, "detail": "low"}),
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    assistant("so", id="msg_1", phase="commentary"),
    call(namespace="agents"),
    {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "x"},
    {"type": "tool_search_call", "call_id": "c3", "arguments": {"q": "a"}},
    output([text("done"), {"type": "input_image", "image_url": PIXEL}]),
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "done"},
    {"type": "tool_search_output", "call_id": "c3", "tools": [{**TOOL, "name": "found"}]},
    {"type": "local_shell_call", "id": "c4", "action": {"command": ["ls"]}},
    {"type": "agent_message", "author": "a", "recipient": "b", "content": [text("look")]},
    {"type": "web_search_call", "id": "ws_1"},
    developer("note"),
    instructions="rules",
    tools=[TOOL, CUSTOM, {"type": "tool_search", "execution": "client"}, {"type": "web_search"}],
    tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "run"}]},
    reasoning={"effort": "high", "summary": "auto"},
    text={"format": {"type": "json_schema", "name": "out", "schema": {}}, "verbosity": "low"},
    metadata={"a": "b"},
    prompt_cache_key="k",
    parallel_tool_calls=True,
    max_output_tokens=9,
    store=True,
    stream=True,
)
WAYS: tuple[Callable[[JsonObject, ModelOptions], Translation], ...] = (translate, translate_count)


def test_the_request_is_a_good_one() -> None:
    assert translate(RESPONSES, ModelOptions(model="served")).body["messages"]


@pytest.mark.slow
@QUICK
@given(mutated(RESPONSES), OPTIONS, st.sampled_from(WAYS))
def test_a_responses_request_of_any_values(body: dict[str, Any], options: ModelOptions, how: Any) -> None:
    with over_soon(MOST):
        try:
            translation = how(parse_body(dump_request(body)), options)
        except BadRequest as error:
            assert "\n" not in error.message and len(error.message) < 2000
            return
        raw = dump_request(translation.body)
        read_chat(raw, parse_body(raw))
        dump_request(echo(body))
        conversation_key("m", body)
    assert dump_request(how(body, options).body) == raw
