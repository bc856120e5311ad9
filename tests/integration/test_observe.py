"""`--observe`: the request goes up and the answer comes down as the very bytes, and the log says what would be done."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.exchange.capture import read_capture
from tests.conftest import Inside
from tests.support.helpers import RECORDINGS
from tests.support.log_lines import line
from tests.support.scripted import (
    DONE,
    LAST,
    PATIENCE,
    ROLE,
    SSE,
    USAGE,
    WRITE_FILE,
    Act,
    Action,
    Script,
    Upstream,
    answer,
    chat,
    chunked,
    completion,
    event,
    finish,
    head,
    stream,
    text,
)

CHAT = "/v1/chat/completions"
PING = b": ping\n\n"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'
FILES = sorted(RECORDINGS.glob("*/*.txt"))
TYPE = "text/event-stream; charset=utf-8"


def served(path: Path) -> tuple[Script, bool, int]:
    """A recorded answer as a server sends it, in three writes, whether it was asked for as a stream, and its status."""
    data = path.read_bytes()
    streamed = data.startswith((b"data:", b": ")) or "-stream" in path.name
    status = int(path.stem[-3:]) if path.stem[-3:].isdigit() else 200
    kind = TYPE if data.startswith((b"data:", b": ")) else "application/json"
    third = len(data) // 3
    parts: list[Action] = [data[:third], 0.001, data[third : 2 * third], 0.001, data[2 * third :]]
    return [head(status, {"Content-Type": kind, "Content-Length": str(len(data))}), *parts], streamed, status


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_recorded_answer_leaves_as_the_very_bytes(path: Path, inside: Inside) -> None:
    script, streamed, status = served(path)
    with Upstream(script) as server:
        request = chat(stream=streamed, tools=[WRITE_FILE], stream_options={"include_usage": True})
        response = inside(server.url, observe=True).post(CHAT, json=request)
    assert (response.status_code, response.data) == (status, path.read_bytes())


@pytest.mark.parametrize("fault", ["feed", "fast_path", "finish", "release"])
@pytest.mark.parametrize("name", ["hermes-chat-stream-200", "hermes-chat-plain-200"])
def test_an_engine_that_raises_changes_nothing(
    fault: str, name: str, inside: Inside, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(Engine, fault, fail)
    path = RECORDINGS / "llama-server-xllamacpp" / f"{name}.txt"
    script, streamed, _ = served(path)
    with Upstream(script) as server:
        response = inside(server.url, observe=True, hold_timeout=0.001).post(
            CHAT, json=chat(stream=streamed, tools=[WRITE_FILE])
        )
    assert response.data == path.read_bytes()
    if fault in ("feed", "finish"):  # the other two are not always asked
        assert [record.exc_info is not None for record in logged.records if record.levelname == "ERROR"] == [True]


def test_what_would_be_done_is_in_the_log(inside: Inside, logged: pytest.LogCaptureFixture) -> None:
    events = [ROLE, *(text(HERMES[at : at + 9]) for at in range(0, len(HERMES), 9)), finish(), DONE]
    with Upstream(stream(*events)) as server:
        response = inside(server.url, observe=True).post(CHAT, json=chat(tools=[WRITE_FILE]))
    assert response.data == b"".join(events)
    assert "observe=true" in line(logged) and "calls=1" in line(logged) and "fixes=" in line(logged)


def test_without_it_the_log_does_not_say_it(inside: Inside, logged: pytest.LogCaptureFixture) -> None:
    with Upstream(stream(ROLE, text("a"), finish(), DONE)) as server:
        inside(server.url).post(CHAT, json=chat())
    assert "observe" not in line(logged)


def test_a_whole_answer_does_not_claim_repairs(inside: Inside, logged: pytest.LogCaptureFixture) -> None:
    body = json.dumps(completion(HERMES), indent=1).encode()
    with Upstream([answer(body)]) as server:
        response = inside(server.url, observe=True).post(CHAT, json=chat(stream=False, tools=[WRITE_FILE]))
    assert response.data == body
    assert "X-Tool-Proxy-Fixes" not in response.headers
    assert "calls=1" in line(logged)


RULES = 'models:\n  - {match: "*", parse: proxy, upstream: whole, server: vllm, reasoning: both}\n'


def test_the_request_goes_up_as_the_very_bytes(inside: Inside) -> None:
    """Whatever the rules would make of it."""
    raw = json.dumps({**chat(tools=[WRITE_FILE], tool_choice="auto"), "stream_options": {}}, indent=2).encode()
    whole = json.dumps({**chat(stream=False), "stream_options": {"include_usage": True}}).encode()
    events = [ROLE, event({"choices": [{"index": 0, "delta": {"reasoning": "so"}}]}), finish(), USAGE, DONE]
    with Upstream(stream(*events), [answer(completion("a"))]) as server:
        client = inside(server.url, RULES, observe=True)
        for body in (raw, whole):
            response = client.post(CHAT, data=body, content_type="application/json")
            assert response.status_code == 200
            assert server.seen[-1].body == body
        assert len(server.seen) == 2 and server.asked == []


def test_there_is_no_second_try(inside: Inside) -> None:
    error = {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice', "type": "x", "code": 400}}
    with Upstream([answer(error, 400)], stream(ROLE, text("a"), finish(), DONE)) as server:
        server.paths["/v1/models"] = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]
        response = inside(server.url, observe=True).post(CHAT, json=chat(tools=[WRITE_FILE]))
        assert len(server.seen) == 1
    assert (response.status_code, response.json) == (400, error)


def test_the_loop_guard_does_not_answer(inside: Inside) -> None:
    messages = [{"role": "user", "content": "a"}, *({"role": "tool", "content": "b"} for _ in range(3))]
    with Upstream(stream(ROLE, text("a"), finish(), DONE)) as server:
        response = inside(server.url, observe=True, max_tool_calls=2).post(CHAT, json={**chat(), "messages": messages})
    assert response.data == ROLE + text("a") + finish() + DONE


ODD: dict[str, bytes] = {
    "an error event first": event({"error": {"message": "busy", "code": 503}}),
    "an error event later": ROLE + text("a") + event({"error": {"message": "busy", "code": 503}}),
    "neither finish nor end marker": ROLE + text("a"),
    "only a role": ROLE,
    "nothing": b"",
    "comments and blank lines": b": hi\n\n\n\n" + text("a") + b":\r\n\r\n" + finish() + DONE,
    "half an event at the end": text("a") + b'data: {"choi',
    "something after the end marker": text("a") + finish() + DONE + text("late") + DONE,
    "no chunks": b"data: 7\n\ndata: nope\n\n",
    "empty call lists and usage": event({"choices": [{"index": 0, "delta": {"tool_calls": []}}]}) + USAGE + DONE,
    "carriage returns": text("a").replace(b"\n", b"\r\n") + DONE.replace(b"\n", b"\r"),
    "a byte order mark": b"\xef\xbb\xbf" + text("a") + finish() + DONE,
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("tools", [None, [WRITE_FILE]], ids=["no tools", "tools"])
def test_odd_streams_leave_as_the_very_bytes(data: bytes, tools: object, inside: Inside) -> None:
    parts = [chunked(data[at : at + 7]) for at in range(0, len(data), 7)]
    with Upstream([SSE, *parts, LAST]) as server:
        response = inside(server.url, observe=True).post(CHAT, json=chat(tools=tools))
    assert (response.status_code, response.data) == (200, data)


@pytest.mark.parametrize("streamed", [True, False], ids=["as a stream", "whole"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=utf-8", json.dumps(completion(HERMES)).encode()),
        ("application/json", b'{"error": {"message": "no"}}'),
        ("text/plain", b"no JSON"),
        ("text/event-stream", ROLE + text("a") + finish() + DONE),
    ],
)
def test_an_answer_of_another_kind_leaves_with_its_kind(kind: str, body: bytes, streamed: bool, inside: Inside) -> None:
    with Upstream([answer(body, headers={"Content-Type": kind})]) as server:
        response = inside(server.url, observe=True).post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE]))
    assert (response.status_code, response.data, response.headers["Content-Type"]) == (200, body, kind)


def test_text_that_would_be_held_is_not(inside: Inside) -> None:
    """Each event as soon as it is whole."""
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE, chunked(text(HERMES[:30])), gate, chunked(text(HERMES[30:])), chunked(finish() + DONE), LAST])
        client = inside(server.url, observe=True)
        with client.post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False) as response:
            parts = response.iter_encoded()
            assert next(parts) == text(HERMES[:30])
            gate.open()
            assert b"".join(parts) == text(HERMES[30:]) + finish() + DONE


def test_heartbeats_come_while_the_upstream_is_silent_and_between_events_only(inside: Inside) -> None:
    half = text("b")
    begun, rest = SSE + chunked(text("a") + half[:30]), chunked(half[30:])
    script: Script = [0.25, begun, 0.25, rest, chunked(finish() + DONE), LAST]
    with Upstream(script) as server:
        data = inside(server.url, observe=True, heartbeat=0.02).post(CHAT, json=chat()).data
    assert data.replace(PING, b"") == text("a") + half + finish() + DONE
    assert data.startswith(PING * 2) and text("a") + PING in data and half in data


def test_an_event_that_is_too_long_passes_and_no_heartbeat_falls_into_it(inside: Inside) -> None:
    long = text("x" * 3000)
    first, second, third = chunked(text("a") + long[:2500]), chunked(long[2500:2600]), chunked(long[2600:])
    with Upstream([SSE + first, 0.25, second, 0.25, third, chunked(finish() + DONE), LAST]) as server:
        data = inside(server.url, observe=True, heartbeat=0.02, max_event=2000).post(CHAT, json=chat()).data
    assert data.startswith(text("a") + PING)
    assert data.replace(PING, b"") == text("a") + long + finish() + DONE and long in data


def test_a_stream_that_breaks_off_ends_in_the_error_event_without_half_an_event(inside: Inside) -> None:
    with Upstream([SSE, chunked(ROLE + text(HERMES[:30])), chunked(b'data: {"choi'), 0.02, Act.RST]) as server:
        data = inside(server.url, observe=True).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert data.startswith(ROLE + text(HERMES[:30]) + b'data: {"error"') and data.count(b"data: ") == 3
    assert b"[DONE]" not in data


def test_an_upstream_that_is_not_there_is_told_as_ever(inside: Inside) -> None:
    response = inside("http://127.0.0.1:9", observe=True).post(CHAT, json=chat())
    assert response.status_code == 502 and response.json is not None and response.json["error"]["message"]


def test_a_body_that_stays_open_after_the_end_marker_ends_within_about_a_second(inside: Inside) -> None:
    with Upstream([SSE, chunked(text("a") + finish() + DONE), Act.EXPECT_CLOSE]) as server:
        began = time.monotonic()
        data = inside(server.url, observe=True).post(CHAT, json=chat()).data
        assert time.monotonic() - began < PATIENCE
    assert data == text("a") + finish() + DONE


def test_what_is_observed_can_be_captured(inside: Inside, tmp_path: Path) -> None:
    events = [ROLE, text(HERMES), finish(), DONE]
    with Upstream(stream(*events)) as server:
        inside(server.url, RULES, observe=True, capture=str(tmp_path)).post(CHAT, json=chat(tools=[WRITE_FILE]))
    (file,) = tmp_path.iterdir()
    read = read_capture(file.read_bytes(), "a file")
    assert (read.body, read.raw_text, read.complete) == (b"".join(events), False, True)
