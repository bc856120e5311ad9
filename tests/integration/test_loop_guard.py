"""The loop guard that users of the OpenClaw proxy know (A1): off by default, and in the client's own mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.dialects import DIALECTS, Dialect
from tests.support.messages_client import call, serving
from tests.support.reply import events, read
from tests.support.scripted import DONE, WRITE_FILE, Upstream, chat, whole_reply

CHAT = "/v1/chat/completions"


def history(results: int) -> list[dict[str, Any]]:
    """Return a conversation with this number of tool results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(results):
        messages += [*TURNS["chat"](f"c{number}"), {"role": "user", "content": "on"}]
    return messages


def test_it_is_off_by_default(inside: Inside) -> None:
    with Upstream(whole_reply("a")) as server:
        request = chat(messages=history(600), tools=[WRITE_FILE], stream=False)
        assert inside(server.url).post(CHAT, json=request).status_code == 200
        assert len(server.seen) == 1


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_is_answered_without_the_upstream(inside: Inside, usage: bool) -> None:
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


TURNS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "chat": lambda id_: [
        {"role": "assistant", "content": None, "tool_calls": [call(id_, "{}")]},
        {"role": "tool", "tool_call_id": id_, "content": "ok"},
    ],
    "messages": lambda id_: [
        {"role": "assistant", "content": [{"type": "tool_use", "id": id_, "name": "write_file", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id_, "content": "ok"}]},
    ],
    "responses": lambda id_: [
        {"type": "function_call", "call_id": id_, "name": "write_file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": id_, "output": "ok"},
    ],
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_loop_guard_answers_in_each_dialect(inside: Inside, dialect: Dialect, streamed: bool) -> None:
    """The limit is a number of results. A request with one result less is sent upstream."""
    turns = [{"role": "user", "content": "go"}, *TURNS[dialect.name]("toolu_1"), *TURNS[dialect.name]("toolu_2")]
    body = dialect.ask(streamed=streamed, tools=True) | {"input" if dialect.name == "responses" else "messages": turns}
    read = dialect.stream if streamed else dialect.whole
    with serving(whole_reply("a")) as server:
        told = read(inside(server.url, max_tool_calls=2).post(dialect.path, json=body).data)
        assert server.seen == [] and (told.calls, told.finish) == ([], "stop")
        assert told.text.startswith("Tool call safety limit reached (2 ") and "max_tool_calls" in told.text
        assert read(inside(server.url, max_tool_calls=3).post(dialect.path, json=body).data).text == "a"
