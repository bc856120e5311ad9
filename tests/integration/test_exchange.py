"""The way of one chat request's bytes: when the 200 goes out, heartbeats, and how each way to break off ends."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.conftest import Inside
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
    arguments,
    chat,
    chunked,
    completion,
    delta,
    event,
    finish,
    head,
    opened,
    stream,
    text,
)

CHAT = "/v1/chat/completions"
PING = b": ping\n\n"
HERMES = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a.txt", "content": "hi"}}\n</tool_call>'


def bodies(data: bytes) -> list[Any]:
    """The parsed events of a stream without comments and end marker."""
    found = [block[6:] for block in data.split(b"\n\n") if block.startswith(b"data: ")]
    return [json.loads(block) for block in found if block != b"[DONE]"]


def broke_off(data: bytes) -> bool:
    """True if the last event is an error and nothing in the stream means success (U11, reliability 6)."""
    events = bodies(data)
    reasons = [choice["finish_reason"] for each in events for choice in each.get("choices", ())]
    return "error" in events[-1] and DONE not in data and not any(reasons)


def said(data: bytes) -> str:
    """The text of a stream."""
    choices = [choice for each in bodies(data) for choice in each.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_a_stream_that_needs_nothing_leaves_as_the_very_bytes(inside: Inside) -> None:
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


def test_a_whole_answer_that_needs_nothing_leaves_as_the_very_bytes(inside: Inside) -> None:
    """C1."""
    body = json.dumps(completion("Hé", kv_transfer_params=None), indent=1).encode()
    with Upstream([answer(body)]) as server:
        response = inside(server.url).post(CHAT, json=chat(stream=False, tools=[WRITE_FILE]))
    assert response.data == body
    assert response.headers["Content-Type"] == "application/json"


def test_what_arrives_in_one_write_leaves_in_one_piece(inside: Inside) -> None:
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


@pytest.mark.slow
def test_the_first_text_is_not_delayed(inside: Inside) -> None:
    """It is there before the model server says more; how soon is for the benchmarks to say."""
    with Upstream() as server:
        before, behind = server.gate(), server.gate()
        server.play([SSE + chunked(ROLE), before, chunked(text("So")), behind, *ending()])
        # No ping brings the head instead.
        response = Opening(inside(server.url, heartbeat=2 * PATIENCE), chat(tools=[WRITE_FILE]))
        before.wait()
        before.open()
        assert response.first().status_code == 200
        behind.open()
        response.close()


class Opening:
    """A POST in a thread of its own: the test client gives nothing before the first part is there."""

    def __init__(self, client: Any, body: object) -> None:
        self._response: TestResponse | None = None

        def post() -> None:
            self._response = client.post(CHAT, json=body, buffered=False)

        self._thread = threading.Thread(target=post)
        self._thread.start()

    def first(self) -> TestResponse:
        self._thread.join(PATIENCE)
        assert self._response is not None
        return self._response

    def close(self) -> None:
        response = self.first()
        assert response.data
        response.close()

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()


def test_the_200_waits_for_content_and_a_role_waits_with_it(inside: Inside) -> None:
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE + chunked(ROLE) + chunked(b": hello\n\n"), gate, chunked(text("a")), *ending()])
        opening = Opening(inside(server.url), chat(tools=[WRITE_FILE]))
        gate.wait()
        opening._thread.join(0.1)
        assert opening.waits
        gate.open()
        assert opening.first().data == ROLE + b": hello\n\n" + text("a") + finish() + DONE


@pytest.mark.parametrize("before", [b"", ROLE, b": comment\n\n"], ids=["first", "after the role", "after a comment"])
@pytest.mark.parametrize("tools", [None, [WRITE_FILE]])
def test_an_error_event_before_content_becomes_a_real_status(inside: Inside, before: bytes, tools: object) -> None:
    """U12."""
    error = event({"error": {"message": "too long", "type": "BadRequestError", "param": None, "code": 400}})
    with Upstream([SSE, *([chunked(before)] if before else []), chunked(error), chunked(DONE), LAST]) as server:
        response = inside(server.url).post(CHAT, json=chat(tools=tools))
        assert len(server.seen) == 1
    assert response.status_code == 400
    assert response.json is not None and response.json["error"]["message"] == "too long"


@pytest.mark.parametrize("tools", [None, [WRITE_FILE]])
def test_an_error_event_after_text_stays_an_event_without_done(inside: Inside, tools: object) -> None:
    """U12, F65."""
    error = event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}})
    with Upstream(stream(ROLE, text("a"), error, DONE)) as server:
        response = inside(server.url).post(CHAT, json=chat(tools=tools))
    assert response.status_code == 200
    assert response.data.startswith(ROLE + text("a"))
    assert broke_off(response.data)
    assert bodies(response.data)[-1]["error"]["message"] == "engine died"


def test_heartbeats_are_comments_before_the_head_and_the_answer_follows(inside: Inside) -> None:
    """U3: silence before the headers."""
    with Upstream([0.35, *stream(ROLE, text("a"), finish(), DONE)]) as server:
        response = inside(server.url, heartbeat=0.02).post(CHAT, json=chat(tools=[WRITE_FILE]))
        data = response.data
    assert response.status_code == 200
    assert data.startswith(PING * 2) and data.replace(PING, b"") == ROLE + text("a") + finish() + DONE


def test_heartbeats_come_while_text_is_held(inside: Inside) -> None:
    """C2 and design: an upstream that sends what is held back must not silence the heartbeats."""
    drops: list[Any] = []
    for letter in HERMES:
        drops += [chunked(text(letter)), 0.01]
    with Upstream([SSE, *drops, *ending()]) as server:
        data = inside(server.url, heartbeat=0.02).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert data.count(PING) >= 3
    assert said(data).strip() == ""
    assert bodies(data)[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_text_keeps_heartbeats_away(inside: Inside) -> None:
    drops: list[Any] = []
    for _ in range(30):
        drops += [chunked(text("word ")), 0.05]
    with Upstream([SSE, *drops, *ending()]) as server:
        data = inside(server.url, heartbeat=1.0).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert PING not in data


def test_a_client_that_needs_it_gets_heartbeats_as_chunks(inside: Inside) -> None:
    """F64, F76: `heartbeat: chunk`."""
    rules = "clients:\n  deaf: {heartbeat: chunk}\n"
    with Upstream([SSE + chunked(ROLE) + chunked(text("a")), 0.3, *ending()]) as server:
        data = inside(server.url, rules, heartbeat=0.02).post(f"/for/deaf{CHAT}", json=chat()).data
    # Before the first chunk nothing is known that a chunk must say.
    data = data.partition(text("a"))[2]
    beats = [each for each in bodies(data) if each["choices"][0]["delta"] == {}]
    assert PING not in data and len(beats) >= 2
    for beat in beats:
        assert beat["object"] == "chat.completion.chunk" and beat["id"] == "chatcmpl-1" and beat["model"] == "tiny"
        assert beat["choices"][0]["finish_reason"] is None


def test_an_error_after_a_heartbeat_is_an_event(inside: Inside) -> None:
    """The 200 has gone: the status comes as an error event."""
    with Upstream([0.25, answer({"error": {"message": "busy", "type": "x", "code": 503}}, 503)]) as server:
        response = inside(server.url, heartbeat=0.02).post(CHAT, json=chat())
        data = response.data
    assert response.status_code == 200 and data.startswith(PING)
    assert broke_off(data) and bodies(data)[-1]["error"]["message"] == "busy"


def test_a_client_that_asked_for_no_stream_gets_no_heartbeats(inside: Inside) -> None:
    body = answer(completion("a"))
    with Upstream([0.25, body]) as server:
        response = inside(server.url, heartbeat=0.02).post(CHAT, json=chat(stream=False))
    assert response.data == body.partition(b"\r\n\r\n")[2]


WAYS_TO_BREAK: dict[str, Script] = {
    "RST": [0.05, Act.RST],
    "FIN without the last chunk": [],
    "a truncated chunk": [b"30\r\ndata: {"],
    "a bad chunk size": [b"zz\r\n"],
    "no finish and no end marker": [LAST],
}


@pytest.mark.parametrize("way", WAYS_TO_BREAK.values(), ids=WAYS_TO_BREAK.keys())
@pytest.mark.parametrize("tools", [None, [WRITE_FILE]], ids=["no tools", "tools"])
def test_a_stream_that_breaks_off_ends_in_an_error_event(inside: Inside, way: Script, tools: object) -> None:
    """U11, U13, F69."""
    with Upstream([SSE, chunked(ROLE), chunked(text("a")), chunked(text("b")), 0.02, *way]) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=tools)).data
        assert len(server.seen) == 1
    assert data.startswith(ROLE + text("a") + text("b"))
    assert broke_off(data)


def test_a_break_in_the_same_read_as_text_loses_no_text(inside: Inside) -> None:
    """U11."""
    with Upstream([SSE + chunked(ROLE) + chunked(text("a")) + b"zz\r\n"]) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert said(data) == "a" and broke_off(data)


def test_half_an_event_at_the_end_of_a_body_never_reaches_the_client(inside: Inside) -> None:
    """U14, C5: an SDK that is given `data: {"choi` dies of it before it sees the error event."""
    with Upstream(stream(ROLE, text("Hi "), b'data: {"choi')) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert b'{"choi\n' not in data
    assert said(data) == "Hi " and broke_off(data)


def test_a_short_content_length_breaks_off(inside: Inside) -> None:
    """U11."""
    script = [head(200, {"Content-Type": "text/event-stream", "Content-Length": "9999"}), text("a"), finish(), DONE]
    with Upstream(script) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert said(data) == "a" and broke_off(data)


def test_a_close_delimited_stream_with_its_end_marker_is_complete(inside: Inside) -> None:
    with Upstream([head(200, {"Content-Type": "text/event-stream"}), ROLE, text("a"), finish(), DONE]) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert data == ROLE + text("a") + finish() + DONE


@pytest.mark.parametrize("last", [[finish()], [DONE]], ids=["finish only", "end marker only"])
def test_of_finish_and_end_marker_the_one_that_is_missing_is_supplied(inside: Inside, last: list[bytes]) -> None:
    """C4, F57."""
    with Upstream(stream(ROLE, text("a"), *last)) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert data.endswith(DONE) and data.count(DONE) == 1
    assert [each["choices"][0]["finish_reason"] for each in bodies(data)] == [None, None, "stop"]


@pytest.mark.parametrize("last", [[finish()], [DONE]], ids=["finish only", "end marker only"])
def test_without_tools_what_is_missing_is_supplied_too(inside: Inside, last: list[bytes]) -> None:
    """C4, F57."""
    with Upstream(stream(ROLE, text("a"), *last)) as server:
        data = inside(server.url).post(CHAT, json=chat()).data
    assert data.endswith(DONE) and data.count(DONE) == 1
    assert [each["choices"][0]["finish_reason"] for each in bodies(data)] == [None, None, "stop"]


def test_a_call_that_breaks_off_never_looks_whole(inside: Inside) -> None:
    """U10, C4 half calls: an open structured call ends in the error event, without a finish."""
    half = arguments(0, '{"path": "a')
    script: list[Action] = [SSE, chunked(ROLE), chunked(opened(0, "c1", "write_file")), chunked(half), 0.02]
    with Upstream([*script, Act.RST]) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert broke_off(data)


def test_a_held_call_that_breaks_off_goes_as_text_and_then_the_error(inside: Inside) -> None:
    """C4: only a call not yet opened can go back to text."""
    with Upstream([SSE, chunked(ROLE), chunked(text(HERMES[:40])), 0.02, Act.RST]) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert said(data) == HERMES[:40]
    assert broke_off(data)


@pytest.mark.parametrize("before", [[], [chunked(ROLE)]], ids=["no byte", "a role"])
def test_a_stream_that_is_silent_too_long_before_content_is_a_504(inside: Inside, before: list[bytes]) -> None:
    with Upstream([SSE, *before, Act.EXPECT_CLOSE]) as server:
        response = inside(server.url, idle_timeout=0.1).post(CHAT, json=chat())
        assert server.seen[0].gone_after(time.monotonic())
    assert response.status_code == 504


def test_a_stream_that_is_silent_too_long_ends_in_an_error_event(inside: Inside) -> None:
    """U10."""
    with Upstream([SSE, chunked(ROLE), chunked(text("a")), Act.EXPECT_CLOSE]) as server:
        data = inside(server.url, idle_timeout=0.3, heartbeat=0.02).post(CHAT, json=chat(tools=[WRITE_FILE])).data
        assert server.seen[0].gone_after(time.monotonic())
    assert PING in data and broke_off(data) and bodies(data)[-1]["error"]["code"] == 504


@pytest.mark.parametrize("script", [[], [head(200, {"Content-Length": "9"})]], ids=["no head", "no body"])
def test_a_whole_answer_that_does_not_come_in_time_is_a_504(inside: Inside, script: Script) -> None:
    """U3: `idle_timeout` is until the whole answer where that is not streamed."""
    with Upstream([*script, Act.EXPECT_CLOSE]) as server:
        response = inside(server.url, idle_timeout=0.2).post(CHAT, json=chat(stream=False))
    assert response.status_code == 504
    assert response.json is not None and "idle_timeout" in response.json["error"]["message"]


def test_a_body_that_stays_open_after_the_end_marker_ends_within_about_a_second(inside: Inside) -> None:
    with Upstream([SSE, *map(chunked, (ROLE, text("a"), finish(), DONE)), Act.EXPECT_CLOSE]) as server:
        began = time.monotonic()
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
        assert time.monotonic() - began < PATIENCE
        assert server.seen[0].gone_after(time.monotonic())
    assert data == ROLE + text("a") + finish() + DONE


def test_nothing_follows_the_end_marker(inside: Inside) -> None:
    """C5."""
    with Upstream(stream(ROLE, text("a"), finish(), DONE, text("late"), USAGE, DONE)) as server:
        data = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    assert data == ROLE + text("a") + finish() + DONE


@pytest.mark.parametrize("value", ["text/event-stream", "TEXT/EVENT-STREAM; charset=utf-8", "text/event-stream;x"])
def test_a_stream_is_told_by_its_content_type_in_any_case(inside: Inside, value: str) -> None:
    with Upstream([head(200, {"Content-Type": value}), ROLE, text("a"), finish(), DONE]) as server:
        assert inside(server.url).post(CHAT, json=chat()).data == ROLE + text("a") + finish() + DONE


def test_text_held_too_long_is_let_go(inside: Inside) -> None:
    """C2: the bound in time."""
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE, chunked(ROLE), chunked(text("Hi")), chunked(text(HERMES[:30])), gate, *ending()])
        with inside(server.url, hold_timeout=0.1).post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False) as response:
            got = b""
            for part in response.iter_encoded():
                got += part
                if said(got) == "Hi" + HERMES[:30]:
                    gate.open()
    assert got.endswith(DONE) and said(got) == "Hi" + HERMES[:30]


@pytest.mark.parametrize("transport", ["live", "whole"])
@pytest.mark.parametrize("wanted", ["as_is", "reasoning", "reasoning_content", "both"])
def test_a_model_s_reasoning_comes_under_the_names_of_its_profile(inside: Inside, wanted: str, transport: str) -> None:
    """F73."""
    rules = f'models:\n  - {{match: "*", upstream: {transport}, reasoning: {wanted}}}\n'
    names = {"as_is": ["reasoning"], "both": ["reasoning", "reasoning_content"]}.get(wanted, [wanted])
    events = [ROLE, *(delta({"reasoning": word}) for word in ("so ", "it ", "is")), text("a"), finish(), DONE]
    message = {"role": "assistant", "content": "a", "reasoning": "so it is"}
    with Upstream(stream(*events) if transport == "live" else [answer(completion(message))]) as server:
        data = inside(server.url, rules).post(CHAT, json=chat(tools=[WRITE_FILE])).data
    deltas = [choice["delta"] for each in bodies(data) for choice in each["choices"]]
    for name in ("reasoning", "reasoning_content"):
        assert "".join(each.get(name, "") for each in deltas) == ("so it is" if name in names else "")
    assert said(data) == "a"
    if wanted in ("as_is", "reasoning") and transport == "live":
        assert data == b"".join(events)
