"""The Responses front from the client to a scripted model server and back: paths, replies, log and metrics."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from proxy.exchange import attempt
from proxy.upstream.answer_wait import AnswerWait
from tests.conftest import Front, Inside, Start
from tests.support.dialects import DIALECTS, Dialect
from tests.support.messages_client import CHAT, HERMES, INPUT, MODELS, call, cards, reply, serving
from tests.support.reply import events
from tests.support.responses_checker import calls_of, check_error, check_stream, text_of
from tests.support.responses_client import INPUT_TOKENS, RESPONSES, TOOL, ask, response_of
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    Client,
    Script,
    Upstream,
    answer,
    chunked,
    completion,
    finish,
    text,
)
from tests.support.shared import SHARED

MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
NOWHERE = "http://127.0.0.1:1"
MINE = "clients:\n  mine: {}\n"
STORED = [("GET", f"{RESPONSES}/resp_1"), ("DELETE", f"{RESPONSES}/resp_1")]


@pytest.mark.parametrize("prefix", ["", "/for/mine"])
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@MODES
def test_only_chat_completions_is_sent_upstream(inside: Inside, dialect: Dialect, prefix: str, streamed: bool) -> None:
    with serving(reply(streamed, "Hello there")) as server:
        data = (
            inside(server.url, MINE).post(prefix + dialect.path, json=dialect.ask(streamed=streamed, tools=False)).data
        )
        assert [seen.path for seen in server.seen] == [CHAT]
        assert server.seen[0].json["messages"] == [{"role": "user", "content": "Hi"}]
    told = (dialect.stream if streamed else dialect.whole)(data)
    assert (told.text, told.finish) == ("Hello there", "stop")
    assert dialect.name == "chat" or all(
        re.search(rb'"%b_tokens": ?%d' % each, data) for each in ((b"input", 10), (b"output", 7))
    )


@pytest.mark.parametrize(("method", "path"), STORED)
def test_stored_responses_are_rejected_without_a_store(inside: Inside, method: str, path: str) -> None:
    with serving() as server:
        response = inside(server.url).open(path, method=method, json={})
        assert server.seen == []
    assert response.status_code == 400
    assert "configure the client to send the whole conversation" in check_error(response.data, 400)["message"]


@pytest.mark.parametrize("field", ["previous_response_id", "conversation", "prompt"])
@MODES
def test_a_request_that_needs_a_store_is_rejected_with_a_reason(inside: Inside, field: str, streamed: bool) -> None:
    with serving() as server:
        response = inside(server.url).post(RESPONSES, json=ask(stream=streamed, **{field: "x"}))
        assert server.seen == []
    error = check_error(response.data, response.status_code)
    assert response.status_code == 400 and error["message"].startswith(f"{field}: this server keeps no")
    assert response.headers["X-Should-Retry"] == "false"


@pytest.mark.parametrize("path", [RESPONSES, f"/for/mine{RESPONSES}"])
def test_a_websocket_is_rejected_immediately(front: Front, path: str) -> None:
    """Codex then sends an HTTP request. After any other response it would wait."""
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n"
    with (
        Client(front.proxy.port, f"GET {path} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n".encode()) as client,
        client.answer() as response,
    ):
        assert response.status == 426
        assert "POST" in check_error(response.read(), 426)["message"]


@pytest.mark.parametrize("path", [f"{RESPONSES}/a/b", f"{RESPONSES}/", f"/for/mine{RESPONSES}/a/b"])
def test_an_unknown_path_returns_the_error_of_the_api(inside: Inside, path: str) -> None:
    response = inside(NOWHERE, MINE).post(path, json={})
    assert response.status_code == 404
    check_error(response.data, 404)


@MODES
def test_a_function_of_a_namespace_is_called_by_its_joined_name(inside: Inside, streamed: bool) -> None:
    space = {"type": "namespace", "name": "files", "description": "Files.", "tools": [TOOL]}
    script = reply(streamed, "", call("c1", json.dumps(INPUT), "files__write_file"), end="tool_calls")
    with serving(script) as server:
        made = response_of(inside(server.url).post(RESPONSES, json=ask(tools=[space], stream=streamed)))
        assert [each["function"]["name"] for each in server.seen[0].json["tools"]] == ["files__write_file"]
    (item,) = made["output"]
    assert (item["name"], item["namespace"]) == ("write_file", "files")


@MODES
@pytest.mark.parametrize("form", ["structured", "hermes", "another key"])
def test_a_custom_tool_receives_its_text(inside: Inside, form: str, streamed: bool) -> None:
    patch = '*** Begin Patch\n*** Add File: a\n+"hi"\n*** End Patch'
    tool = {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}
    given = {"patch" if form == "another key" else "input": patch}
    script = reply(streamed, "", call("c1", json.dumps(given), "apply_patch"), end="tool_calls")
    if form == "hermes":
        script = reply(streamed, f"<tool_call>{json.dumps({'name': 'apply_patch', 'arguments': given})}</tool_call>")
    with serving(script) as server:
        made = response_of(inside(server.url).post(RESPONSES, json=ask(tools=[tool], stream=streamed)))
    assert calls_of(made) == [("apply_patch", patch)]


@pytest.mark.parametrize("known", [True, False], ids=["the context is known", "not known"])
@MODES
def test_a_full_context_is_an_error_that_makes_clients_compact(inside: Inside, known: bool, streamed: bool) -> None:
    listed = cards("tiny", max_model_len=17) if known else cards("tiny")
    with serving(reply(streamed, "a", end="length"), models=listed) as server:
        response = inside(server.url).post(RESPONSES, json=ask(stream=streamed, max_output_tokens=None))
    if streamed:
        assert response_of(response)["error"]["code"] == "context_length_exceeded"
    else:
        assert response.status_code == 400
        assert check_error(response.data, 400)["code"] == "context_length_exceeded"


def test_a_heartbeat_between_slices_follows_the_events_read(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are numbered when they are read, even if they arrived together."""
    monkeypatch.setattr(attempt, "_slice", lambda: lambda: True)
    monkeypatch.setattr(AnswerWait, "heartbeat_due", property(lambda wait: True))
    script = [SSE + b"".join(map(chunked, (ROLE, text("So "), text("it"), text(" is."), finish(), DONE))) + LAST]
    with Upstream(script) as server:
        server.paths[MODELS] = cards("tiny")
        response = inside(server.url).post(RESPONSES, json=ask(stream=True))
        assert text_of(check_stream(response.data)) == "So it is."


def test_a_second_try_continues_the_sequence_numbers(proxy: Start) -> None:
    """The server's own parser failed: the request is retried, and the client receives one stream."""
    failed: Script = [0.4, answer({"error": {"message": "Failed to parse input at pos 3", "code": 500}}, 500)]
    with ExitStack() as stack:
        server = stack.enter_context(serving(failed, [0.3, *reply(True, HERMES)]))
        front = proxy(server.url, "--heartbeat", "0.1")
        client = stack.enter_context(Client.post(front.port, ask(tools=[TOOL]), RESPONSES))
        with client.answer() as response:
            made = check_stream(response.read())
        assert len(server.seen) == 2
    assert calls_of(made) == [("write_file", INPUT)]


def test_dropped_fields_are_in_the_audit_file(inside: Inside, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    with serving(reply(False, "a")) as server:
        client = inside(server.url, audit_file=str(audit))
        response = client.post(RESPONSES, json=ask(stream=False, store=True, tools=[{"type": "web_search"}]))
        response_of(response)
    records = [json.loads(text_) for text_ in audit.read_text().splitlines()]
    assert {record["before"] for record in records if record["fix"] == "dropped_field"} == {
        "store: 1",
        "tools[] of type 'web_search': 1",
    }


def test_tokens_are_counted_by_vllms_tokenizer_with_the_translated_request(inside: Inside) -> None:
    with Upstream() as server:
        server.paths |= {MODELS: cards("tiny"), "/tokenize": [answer({"count": 42})]}
        body = {"model": "tiny", "input": "Hi", "instructions": "a", "tools": [TOOL]}
        response = inside(server.url).post(INPUT_TOKENS, json=body)
    assert response.json == {"object": "response.input_tokens", "input_tokens": 42}
    assert response.headers["X-Tool-Proxy-Count"] == "tokenize"


CAPTURES = SHARED / "captures"
codex = pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are missing")


@codex
def test_codexs_own_requests_are_translated_and_nothing_is_dropped_silently(inside: Inside, tmp_path: Path) -> None:
    """Two turns of a conversation: dropped fields are audited, and the second request starts with the first."""
    bodies = [json.loads((CAPTURES / f"codex-{turn}.json").read_text())["body"] for turn in (1, 2)]
    audit = tmp_path / "audit.jsonl"
    with serving(reply(True, "a"), reply(True, "b")) as server:
        client = inside(server.url, audit_file=str(audit))
        for body in bodies:
            response_of(client.post(RESPONSES, json=body))
        first, second = (seen.json for seen in server.seen)
    assert first["tools"] == second["tools"]
    assert json.dumps(second["messages"]).startswith(json.dumps(first["messages"])[:-1])
    names = [tool["function"]["name"] for tool in first["tools"]]
    assert len(names) == 12 and "multi_agent_v1__close_agent" in names
    records = map(json.loads, audit.read_text().splitlines())
    kinds = {record["before"].rsplit(":", 1)[0] for record in records}
    assert kinds == {
        *("include", "client_metadata", "tools[] of type 'web_search'", "input[].id", "reasoning.summary"),
        *("input[].status", "input[].content[].annotations"),
    }
    texts = [part["text"] for item in bodies[1]["input"] for part in item.get("content", ())]
    sent = json.dumps(second["messages"], ensure_ascii=False)
    assert all(json.dumps(given, ensure_ascii=False)[1:-1] in sent for given in texts)


def test_compaction_by_an_ordinary_request_needs_no_tools(inside: Inside) -> None:
    """vLLM would reject `tools: []` with a `tool_choice`."""
    body = ask(tools=[], tool_choice="auto", parallel_tool_calls=False)
    with serving(reply(True, "A summary.")) as server:
        assert text_of(response_of(inside(server.url).post(RESPONSES, json=body))) == "A summary."
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & server.seen[0].json.keys()


@pytest.mark.parametrize(
    ("path", "item"),
    [
        (f"{RESPONSES}/compact", {"type": "message", "role": "user", "content": "A long story"}),
        (RESPONSES, {"type": "compaction_trigger"}),
        (RESPONSES, {"type": "compaction", "encrypted_content": "x"}),
    ],
)
def test_compaction_is_rejected_with_a_reason(inside: Inside, path: str, item: dict[str, Any]) -> None:
    with serving() as server:
        response = inside(server.url).post(path, json=ask([item]))
        assert server.seen == []
    words = "send the conversation itself" if item["type"] == "compaction" else "compact by an ordinary request"
    assert words in check_error(response.data, 400)["message"]


def test_tokens_are_estimated_for_other_servers(inside: Inside) -> None:
    with Upstream() as server:
        server.paths |= {MODELS: cards("tiny"), "/tokenize": [answer({}, 404)]}
        response = inside(server.url).post(INPUT_TOKENS, json={"model": "tiny", "input": "x" * 350})
    assert response.headers["X-Tool-Proxy-Count"] == "estimate"
    assert response.json is not None and 90 <= response.json["input_tokens"] <= 130


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_whole_answer_that_fails_after_heartbeats_is_only_an_error(inside: Inside, dialect: Dialect) -> None:
    """C5: what the failed answer would have said takes no sequence number and closes no block."""
    script: Script = [0.2, answer(completion("<think>Hm.</think>So", "abort"))]
    with serving(script) as server:
        client = inside(server.url, "models:\n  - {match: '*', upstream: whole}\n", heartbeat=0.02)
        data = client.post(dialect.path, json=dialect.ask(streamed=True, tools=False)).data
    assert data.startswith(dialect.first_beat)
    told = [event for event in events(data) if event.get("type") not in ("ping", "response.in_progress")]
    if dialect.name == "responses":
        assert [event["type"] for event in told] == ["response.created", "response.failed"]
        assert [event["sequence_number"] for event in events(data)] == [*range(len([*events(data)]))]
    else:
        assert dialect.name == "chat" or [event["type"] for event in told] == ["error"]
