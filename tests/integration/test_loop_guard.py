"""The loop guard of the OpenClaw proxy's users (A1): off by default, and in the client's own mode."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.reply import events, read
from tests.support.scripted import DONE, WRITE_FILE, Upstream, answer, chat, completion

CHAT = "/v1/chat/completions"


def history(results: int) -> list[dict[str, Any]]:
    """A conversation with so many tool results, spread over several user messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
        messages.append({"role": "user", "content": "on"})
    return messages


def test_it_is_off_by_default(inside: Inside) -> None:
    with Upstream([answer(completion("a"))]) as server:
        request = chat(messages=history(600), tools=[WRITE_FILE], stream=False)
        assert inside(server.url).post(CHAT, json=request).status_code == 200
        assert len(server.seen) == 1


@pytest.mark.parametrize("usage", [False, True])
def test_a_client_that_streams_is_answered_as_a_stream_and_the_upstream_is_not_asked(
    inside: Inside, usage: bool
) -> None:
    """A1, defects 1 and 7."""
    with Upstream() as server:
        options = {"stream_options": {"include_usage": usage}}
        request = chat(messages=history(3), tools=[WRITE_FILE], **options)
        response = inside(server.url, max_tool_calls=3).post(CHAT, json=request)
        assert server.seen == []
    assert response.headers["Content-Type"].startswith("text/event-stream")
    data = response.data
    chunks = [*events(data)]
    assert data.endswith(DONE) and all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    said = [choice for chunk in chunks for choice in chunk["choices"]]
    assert said[0]["delta"]["role"] == "assistant"
    seen = read("chat", 200, data).choice()
    assert seen.text.startswith("Tool call safety limit reached (3 ") and seen.finish == "stop"
    assert any("usage" in chunk and not chunk["choices"] for chunk in chunks) is usage


def test_a_client_that_does_not_stream_is_answered_in_json(inside: Inside) -> None:
    with Upstream() as server:
        request = chat(messages=history(3), tools=[WRITE_FILE], stream=False)
        response = inside(server.url, max_tool_calls=3).post(CHAT, json=request)
        assert server.seen == []
    assert response.status_code == 200 and response.headers["Content-Type"] == "application/json"
    assert response.json is not None and response.json["id"] == "chatcmpl-loop-abort"
