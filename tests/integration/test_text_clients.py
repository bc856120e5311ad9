"""Clients that parse calls only from the text get each call as `<tool_call>` text (`calls: text`)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Inside
from tests.support.reply import read
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Script,
    Upstream,
    arguments,
    chat,
    finish,
    opened,
    stream,
    text,
    text_reply,
    whole_reply,
)

RULES = "clients: {plain: {calls: text}}"
ARGUMENTS = '{"path": "a", "content": "b"}'
CALL = f'\n<tool_call>\n{{"name": "write_file", "arguments": {ARGUMENTS}}}\n</tool_call>'
TEXT = f'<tool_call>{{"name": "write_file", "arguments": {ARGUMENTS}}}</tool_call>'
STRUCTURED = {"id": "c", "type": "function", "function": {"name": "write_file", "arguments": ARGUMENTS}}


def view(data: bytes) -> tuple[str, str, bool]:
    """Return the text, the finish reason, and whether a structured call was sent."""
    seen = read("chat", 200, data).choice()
    return seen.text, seen.finish, bool(seen.calls)


STREAMS: dict[str, tuple[Script, Script]] = {
    "structured": (
        stream(ROLE, opened(0, "c", "write_file"), arguments(0, ARGUMENTS[:9]), arguments(0, ARGUMENTS[9:]))[:-1],
        whole_reply({"role": "assistant", "content": None, "tool_calls": [STRUCTURED]}, "tool_calls"),
    ),
    "text": (stream(ROLE, text(TEXT[:30]), text(TEXT[30:]))[:-1], whole_reply(TEXT)),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("name", STREAMS)
def test_each_call_is_sent_as_text(inside: Inside, name: str, streamed: bool) -> None:
    begun, whole = STREAMS[name]
    last = stream(finish("tool_calls" if name == "structured" else "stop"), DONE)[1:]
    script = [*begun, *last] if streamed else whole
    with Upstream(script, script) as server:
        client = inside(server.url, rules=RULES)
        body = chat(tools=[WRITE_FILE], stream=streamed)
        assert view(client.post("/for/plain/v1/chat/completions", json=body).data) == (CALL, "stop", False)
        assert view(client.post("/v1/chat/completions", json=body).data)[1:] == ("tool_calls", True), "other clients"


@pytest.mark.parametrize("streamed", [True, False])
def test_surrounding_text_and_several_calls_are_kept(inside: Inside, streamed: bool) -> None:
    said = f"I write.\n{TEXT}\n{TEXT}"
    script: Script = text_reply(said, streamed=streamed)
    with Upstream(script) as server:
        body = chat(tools=[WRITE_FILE], stream=streamed)
        data = inside(server.url, rules=RULES).post("/for/plain/v1/chat/completions", json=body).data
    found, finished, structured = view(data)
    assert found.startswith("I write.") and found.count(CALL) == 2 and finished == "stop" and not structured


@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_without_calls_is_unchanged(inside: Inside, streamed: bool) -> None:
    """C1."""
    script: Script = text_reply("Hi", streamed=streamed)
    with Upstream(script, script) as server:
        client = inside(server.url, rules=RULES)
        body: Any = chat(tools=[WRITE_FILE], stream=streamed)
        paths = ("/for/plain/v1/chat/completions", "/v1/chat/completions")
        one, other = (client.post(path, json=body).data for path in paths)
    assert one == other


def test_a_truncated_call_is_not_sent(inside: Inside) -> None:
    """C4: it would look complete."""
    script = stream(ROLE, opened(0, "c", "write_file"), arguments(0, ARGUMENTS[:9]), finish("length"), DONE)
    with Upstream(script) as server:
        body = chat(tools=[WRITE_FILE])
        data = inside(server.url, rules=RULES).post("/for/plain/v1/chat/completions", json=body).data
    said, finished, structured = view(data)
    assert "</tool_call>" not in said and finished == "length" and not structured
