"""When a conversation has made too many calls in a row, and the answer that ends it."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.exchange.loop_guard import limit_answer
from tests.support.scripted import WRITE_FILE, chat


def history(results: int) -> list[dict[str, Any]]:
    """A conversation with so many tool results, spread over several user messages."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "write_file", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "ok"})
        messages.append({"role": "user", "content": "on"})
    return messages


def wanted(results: int, **more: object) -> ChatRequest:
    body = chat(messages=history(results), tools=[WRITE_FILE], **more)
    return read_chat(b"", body)


@pytest.mark.parametrize("results,limit,ends", [(500, 0, False), (2, 3, False), (3, 3, True), (9, 3, True)])
def test_the_whole_history_counts_from_the_limit_on(results: int, limit: int, ends: bool) -> None:
    assert (limit_answer(wanted(results), limit) is not None) is ends


def test_a_request_without_tools_is_never_ended() -> None:
    body = chat(messages=history(9))
    assert limit_answer(read_chat(b"", body), 3) is None
    assert limit_answer(read_chat(b"", {**body, "tools": []}), 3) is None


def test_the_answer_is_a_whole_completion_that_says_why() -> None:
    body: Any = limit_answer(wanted(3), 3)
    assert body["id"] == "chatcmpl-loop-abort" and body["object"] == "chat.completion" and body["model"] == "tiny"
    choice = body["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["message"]["role"] == "assistant"
    assert choice["message"]["content"].startswith("Tool call safety limit reached (3 ")
    assert set(body["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
