"""The exchange of one chat request: when the 200 is sent, heartbeats, and the end of each broken response."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import Inside
from tests.faults.bench import MODELS
from tests.support.dialects import DIALECTS, Dialect
from tests.support.messages_client import INPUT
from tests.support.reply import events, read
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    USAGE,
    WRITE_FILE,
    Script,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    delta,
    finish,
    head,
    stream,
    text,
    whole_reply,
)

CHAT = "/v1/chat/completions"
PING = b": ping\n\n"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'


def text_of(data: bytes) -> str:
    return read("chat", 200, data).choice().text


def test_an_unaffected_stream_is_forwarded_byte_for_byte(inside: Inside) -> None:
    """C1."""
    events = [ROLE, text("Hé"), b": a comment\n\n", text("llo"), finish(), USAGE, DONE]
    with Upstream(stream(*events)) as server:
        request = chat(tools=[WRITE_FILE], stream_options={"include_usage": True})
        response = inside(server.url).post(CHAT, json=request)
        assert response.data == b"".join(events)
        assert server.seen[0].json == request
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    assert response.headers["X-Accel-Buffering"] == "no"


def test_an_unaffected_whole_answer_is_forwarded_byte_for_byte(inside: Inside) -> None:
    """C1."""
    body = json.dumps(completion("Hé", kv_transfer_params=None), indent=1).encode()
    with Upstream([answer(body)]) as server:
        response = inside(server.url).post(CHAT, json=chat(stream=False, tools=[WRITE_FILE]))
    assert response.data == body
    assert response.headers["Content-Type"] == "application/json"


def test_one_write_is_forwarded_in_one_piece(inside: Inside) -> None:
    with Upstream() as server:
        gate = server.gate()
        first, second = ROLE + text("Hi "), text("b") + text("c") + text("d")
        server.play([SSE + chunked(first), gate, b"".join(map(chunked, (text("b"), text("c"), text("d")))), *ending()])
        with inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False) as response:
            parts = response.iter_encoded()
            assert next(parts) == first
            gate.open()
            assert next(parts) == second
            assert b"".join(parts) == finish() + DONE


def ending() -> Script:
    return [chunked(finish()), chunked(DONE), LAST]


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_the_status_waits_for_content(inside: Inside, dialect: Dialect) -> None:
    """U12: until then, an error can still be sent as a status."""
    with Upstream() as server, ThreadPoolExecutor(1) as pool:
        gate = server.gate()
        server.play([SSE + chunked(ROLE) + chunked(b": hello\n\n"), gate, chunked(text("a")), *ending()])
        server.paths["/v1/models"] = [MODELS]
        client = inside(server.url)
        opening = pool.submit(client.post, dialect.path, json=dialect.ask(streamed=True, tools=True))
        gate.wait()
        with pytest.raises(TimeoutError):
            opening.result(0.1)
        gate.open()
        data = opening.result(PATIENCE).data
    assert dialect.stream(data).text == "a"
    assert dialect.name != "chat" or data == ROLE + b": hello\n\n" + text("a") + finish() + DONE


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_heartbeats_are_sent_during_every_silence(inside: Inside, dialect: Dialect) -> None:
    """C2, U3, F75: heartbeats continue while the proxy holds back what the upstream sends."""
    letters = [each for letter in HERMES[:30] for each in (chunked(text(letter)), 0.01)]
    rest = [chunked(text(HERMES[30:])), *ending()]
    pauses = [0.35, SSE + chunked(ROLE) + chunked(text("Hi ")), 0.35, chunked(text("you")), *ending()]
    with Upstream([SSE, *letters, *rest], pauses) as server:
        server.paths["/v1/models"] = [MODELS]
        client = inside(server.url, heartbeat=0.02)
        held, said_ = (client.post(dialect.path, json=dialect.ask(streamed=True, tools=True)).data for _ in range(2))
    before, between = said_.partition(b"Hi ")[0], said_.partition(b"Hi ")[2].partition(b"you")[0]
    assert before.startswith(dialect.first_beat)
    assert min(before.count(dialect.beat), between.count(dialect.beat), held.count(dialect.beat)) >= 2
    told, called = dialect.stream(said_), dialect.stream(held)
    assert (told.text, told.finish) == ("Hi you", "stop")
    assert (called.text.strip(), called.whole_calls, called.finish) == ("", [("write_file", INPUT)], "calls")


def test_text_suppresses_heartbeats(inside: Inside) -> None:
    drops: list[Any] = []
    for _ in range(30):
        drops += [chunked(text("word ")), 0.05]
    with Upstream([SSE, *drops, *ending()]) as server:
        data = inside(server.url, heartbeat=1.0).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert PING not in data


def test_a_client_can_get_heartbeats_as_chunks(inside: Inside) -> None:
    """F64, F76: `heartbeat: chunk`."""
    rules = "clients:\n  deaf: {heartbeat: chunk}\n"
    with Upstream([SSE + chunked(ROLE) + chunked(text("a")), 0.3, *ending()]) as server:
        data = inside(server.url, rules, heartbeat=0.02).post(f"/for/deaf{CHAT}", json=chat()).data
    # Before the first chunk, the fields that a chunk needs are unknown.
    data = data.partition(text("a"))[2]
    beats = [each for each in events(data) if each["choices"][0]["delta"] == {}]
    assert PING not in data and len(beats) >= 2
    for beat in beats:
        assert beat["object"] == "chat.completion.chunk" and beat["id"] == "chatcmpl-1" and beat["model"] == "tiny"
        assert beat["choices"][0]["finish_reason"] is None


@pytest.mark.parametrize("value", ["text/event-stream", "TEXT/EVENT-STREAM; charset=utf-8", "text/event-stream;x"])
def test_the_content_type_of_a_stream_is_case_insensitive(inside: Inside, value: str) -> None:
    with Upstream([head(200, {"Content-Type": value}), ROLE, text("a"), finish(), DONE]) as server:
        assert inside(server.url).post(CHAT, json=chat()).data == ROLE + text("a") + finish() + DONE


def test_text_held_too_long_is_released(inside: Inside) -> None:
    """C2: text is held for a limited time."""
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE, chunked(ROLE), chunked(text("Hi")), chunked(text(HERMES[:30])), gate, *ending()])
        with inside(server.url, hold_timeout=0.1).post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False) as response:
            got = b""
            for part in response.iter_encoded():
                got += part
                if text_of(got) == "Hi" + HERMES[:30]:
                    gate.open()
    assert got.endswith(DONE) and text_of(got) == "Hi" + HERMES[:30]


@pytest.mark.parametrize("transport", ["live", "whole"])
@pytest.mark.parametrize("wanted", ["as_is", "reasoning", "reasoning_content", "both"])
def test_reasoning_is_sent_in_the_fields_of_the_models_profile(inside: Inside, wanted: str, transport: str) -> None:
    """F73."""
    rules = f'models:\n  - {{match: "*", upstream: {transport}, reasoning: {wanted}}}\n'
    names = {"as_is": ["reasoning"], "both": ["reasoning", "reasoning_content"]}.get(wanted, [wanted])
    sent = [ROLE, *(delta({"reasoning": word}) for word in ("so ", "it ", "is")), text("a"), finish(), DONE]
    message = {"role": "assistant", "content": "a", "reasoning": "so it is"}
    with Upstream(stream(*sent) if transport == "live" else whole_reply(message)) as server:
        data = inside(server.url, rules).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    deltas = [choice["delta"] for each in events(data) for choice in each["choices"]]
    for name in ("reasoning", "reasoning_content"):
        assert "".join(each.get(name, "") for each in deltas) == ("so it is" if name in names else "")
    assert text_of(data) == "a"
    if wanted in ("as_is", "reasoning") and transport == "live":
        assert data == b"".join(sent)
