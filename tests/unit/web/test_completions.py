"""The views: what each path does with a request that was read and checked, before a model server without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from proxy.errors import UpstreamBroken
from proxy.web import passed
from tests.conftest import Inside
from tests.support.answered_exchange import JSON, Answer, answering
from tests.support.helpers import OFFERED, ends, received, says
from tests.support.scripted import chat
from tests.unit.exchange.test_reply_stream import DONE, ROLE, STRONG, wire

URL = "http://127.0.0.1:9"
CHAT = "/v1/chat/completions"
TOOLS = [*OFFERED]
FIXES = "X-Tool-Proxy-Fixes"
TEXT = [ROLE, says("Just "), says("text."), ends()]
SECRET = "sk-secret-0123456789"


@pytest.fixture(name="client")
def _client(inside: Inside) -> FlaskClient:
    return inside(URL)


def whole(content: str) -> bytes:
    entry = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return json.dumps({"id": "w", "object": "chat.completion", "model": "tiny", "choices": [entry]}).encode()


def ask(client: FlaskClient, *, path: str = CHAT, **more: Any) -> TestResponse:
    return client.post(path, json=chat(**{"stream": False, "tools": TOOLS, **more}))


def test_a_clean_answer_leaves_as_it_came_and_tells_of_no_repairs(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1."""
    server = answering(monkeypatch, Answer([whole("Just text.")], JSON))
    response = ask(client)
    assert (response.status_code, response.data, response.content_type) == (200, whole("Just text."), JSON)
    assert FIXES not in response.headers
    assert json.loads(server.asked[0]) == chat(stream=False, tools=TOOLS)
    assert server.seen[0][:2] == ("POST", CHAT)


def test_what_was_repaired_in_an_answer_is_told_by_its_header(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, Answer([whole(STRONG)], JSON))
    response = ask(client)
    assert response.json is not None
    (call,) = response.json["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "bash", "arguments": '{"command": "ls"}'}
    assert "text_call" in response.headers[FIXES]


def test_a_stream_leaves_as_one_that_nobody_keeps(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Answer([*(each.raw for each in TEXT), DONE]))
    response = ask(client, stream=True)
    assert (response.status_code, response.data) == (200, wire(TEXT))
    assert response.content_type == "text/event-stream; charset=utf-8"
    assert (response.headers["Cache-Control"], response.headers["X-Accel-Buffering"]) == ("no-cache", "no")


def test_what_breaks_off_is_a_status_before_and_an_event_after_something_has_left(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = UpstreamBroken("it broke off")
    answering(monkeypatch, Answer([broken]), Answer([wire(TEXT[:2], done=False), broken]))
    assert ask(client, stream=True).status_code == 502
    response = ask(client, stream=True)
    got = received(response.data)
    assert (response.status_code, got[0].text) == (200, "Just ")
    assert got.error and got.error["message"] == "it broke off"


def test_a_conversation_of_too_many_calls_is_ended_without_the_model(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = answering(monkeypatch)
    made = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    turn = [{"role": "assistant", "content": "", "tool_calls": [made]}, {"role": "tool", "tool_call_id": "a"}]
    messages = [{"role": "user", "content": "go"}, *turn * 3]
    client = inside(URL, max_tool_calls=3)
    response = ask(client, messages=messages)
    assert response.json is not None and response.json["id"] == "chatcmpl-loop-abort"
    assert received(ask(client, stream=True, messages=messages).data)[0].finish == "stop"
    assert server.asked == []


@pytest.mark.parametrize(
    ("parse", "kind", "choice"), [("server", "vllm", None), ("proxy", "vllm", "none"), ("proxy", "sglang", None)]
)
def test_the_rules_say_who_looks_for_calls(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, parse: str, kind: str, choice: str | None
) -> None:
    server = answering(monkeypatch, Answer([whole(STRONG)], JSON))
    ask(inside(URL, f'models: [{{match: "*", parse: {parse}, server: {kind}}}]'))
    assert json.loads(server.asked[0]).get("tool_choice") == choice


def test_an_empty_reply_is_asked_for_again_once(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    server = answering(monkeypatch, Answer([wire([ROLE, ends()])]), Answer([wire([ROLE, ends()])]))
    ask(inside(URL), stream=True)
    assert len(server.asked) == 2


def test_a_path_that_passes_leaves_as_it_came_with_its_query(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Answer([b"not ", b"json"], "text/x-odd", 207, {"Content-Length": "8", "Set-Cookie": "a=b"})
    server = answering(monkeypatch, answer)
    response = client.post("/v1/completions?a=b&c", data=b'{"model": "tiny"}', content_type=JSON)
    assert (response.status_code, response.data, response.content_type) == (207, b"not json", "text/x-odd")
    assert "Set-Cookie" not in response.headers
    assert (server.seen[0][:2], server.asked) == (("POST", "/v1/completions?a=b&c"), [b'{"model": "tiny"}'])
    assert answer.closed


@pytest.mark.parametrize("query", ["a=%00\x01", "a\u00fc", "x" * 5000], ids=["a control", "no ASCII", "too long"])
def test_a_query_that_is_none_does_not_go_up(client: FlaskClient, monkeypatch: pytest.MonkeyPatch, query: str) -> None:
    server = answering(monkeypatch)
    response = client.post(
        "/v1/completions", json={}, environ_overrides={"QUERY_STRING": query.encode().decode("latin-1")}
    )
    assert (response.status_code, server.asked) == (400, [])


@pytest.mark.parametrize("size", [0, 70_000], ids=["short", "long"])
def test_an_error_that_passes_quotes_no_key(client: FlaskClient, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    body = b'{"error": "the key ' + SECRET.encode() + b' is wrong"}' + b" " * size
    cut = len(body) // 2 if size else 25
    answering(monkeypatch, Answer([body[:cut], body[cut:]], JSON, 401))
    response = client.post("/v1/completions", json={}, headers={"Authorization": f"Bearer {SECRET}"})
    assert (response.status_code, len(response.data)) == (401, len(body))
    assert SECRET.encode() not in response.data
    assert b"the key " in response.data


def test_a_passed_error_over_the_limit_is_an_error_of_the_upstream(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passed, "MAX_ANSWER", 100)
    answering(monkeypatch, Answer([b"x" * 60, b"x" * 60], JSON, 401))
    response = client.post("/v1/completions", json={})
    assert response.status_code == 502 and b"the size of an error is 100" in response.data


def test_an_error_in_a_coding_that_nobody_can_read_is_its_status_alone(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, Answer([SECRET.encode()], JSON, 418, coding="br"))
    response = client.post("/v1/completions", json={}, headers={"Authorization": f"Bearer {SECRET}"})
    assert (response.status_code, SECRET.encode() in response.data) == (418, False)


def test_what_is_counted_is_what_goes_up(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    server = answering(monkeypatch, Answer([b'{"count": 1}'], JSON))
    late = [{"role": "user", "content": None}]
    assert client.post("/tokenize", json={"model": "tiny", "messages": late}).status_code == 200
    assert json.loads(server.asked[0])["messages"] == [{"role": "user", "content": ""}]


def test_what_is_answered_here_asks_no_model_server(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    server = answering(monkeypatch)
    about = client.get("/").json
    assert about is not None and about["service"] == "vllm-tool-proxy" and CHAT in about["paths"]
    health = client.get("/health").json
    assert health is not None and health["status"] == "healthy"
    assert server.asked == []


def test_metrics_are_shown_although_no_model_server_says_its_models(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, *[UpstreamBroken("nobody there")] * 3)
    local = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "127.0.0.1:8003"}
    response = client.get("/metrics", environ_overrides=local)
    assert (response.status_code, b"tool_proxy_requests" in response.data) == (200, True)


def test_it_is_ready_if_a_model_server_answers(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, Answer([b'{"object": "list", "data": []}'], JSON))
    assert inside(URL).get("/_ready").status_code == 200
    answering(monkeypatch, *[UpstreamBroken("nobody there")] * 3)
    response = inside(URL).get("/_ready")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
