"""Unusual upstream responses: the client never receives a false success or an HTML page."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Front, Inside, Start
from tests.faults.bench import MODELS
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Client,
    Script,
    Upstream,
    answer,
    chat,
    completion,
    finish,
    head,
    text,
    whole_reply,
)

CHAT = "/v1/chat/completions"
CALL = {"id": "a", "type": "function", "function": {"name": "write_file", "arguments": '{"path": "a"}'}}


def test_a_late_head_does_not_shorten_the_time_for_the_body(inside: Inside) -> None:
    """U3: `idle_timeout` restarts when the head arrives."""
    late: Script = [2.0, head(200, {"Content-Type": "text/event-stream"}), 2.0, ROLE + text("a") + finish() + DONE]
    with Upstream(late) as up:
        client = inside(up.url, idle_timeout=3.5)
        assert DONE in client.post(CHAT, json=chat(stream=True)).data


@pytest.mark.parametrize(
    "headers", [{"X-Request-Id": "a\x01b"}, {"Content-Type": "application/json\x7f"}, {"X-Request-Id": "a\r\n b"}]
)
def test_a_header_that_cannot_be_forwarded_is_dropped(front: Front, headers: dict[str, str]) -> None:
    """U16: gunicorn would answer with HTML, and the request would never end."""
    front.upstream.play([answer(completion("Hi"), headers=headers)])
    with Client.post(front.proxy.port, chat(stream=False)) as client, client.answer() as response:
        assert response.status == 200
        assert json.loads(response.read())["choices"][0]["message"]["content"] == "Hi"
    assert front.proxy.idle()


def _status_line(line: str, headers: str = "") -> bytes:
    return f"HTTP/1.1 {line}\r\n{headers}\r\n".encode()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (_status_line("200 OK", f"X-A: {'a' * 100_000}\r\n"), "65536 bytes of headers (max_header)"),
        (_status_line("103 Early Hints") * 1000, "there are only interim answers"),
        (_status_line("200 OK", "secret-of-mine X: a\r\n"), "illegal header line"),
        (_status_line("secret-of-mine OK"), "illegal status line"),
    ],
)
def test_the_error_for_an_invalid_head_quotes_nothing(inside: Inside, sent: bytes, words: str) -> None:
    with Upstream([sent]) as up:
        response = inside(up.url).post(CHAT, json=chat(stream=False))
    assert response.status_code == 502
    assert words in response.json["error"]["message"]  # type: ignore[index]
    assert b"bytearray" not in response.data
    assert b"secret-of-mine" not in response.data


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("length", ["7" * 5_000, "0" * 5_000 + "7", "1" * 21], ids=["long", "zeros", "21 digits"])
def test_an_impossible_content_length_is_a_502(inside: Inside, dialect: Dialect, length: str) -> None:
    """Python does not parse integers of more than 4,300 digits."""
    with Upstream([answer(completion("Hi"), headers={"Content-Length": length})]) as up:
        up.paths["/v1/models"] = [MODELS]
        response = inside(up.url).post(dialect.path, json=dialect.ask(streamed=False, tools=True))
    assert response.status_code == 502
    assert "Content-Length" in dialect.error(response.data, 502).words


def test_a_whole_answer_is_streamed_in_the_right_order(inside: Inside) -> None:
    """A1: role, content, one chunk per call, finish, end."""
    rules = 'models:\n  - {match: "*", upstream: whole}\n'
    calls = [CALL, {**CALL, "id": "b"}]
    said = {"role": "assistant", "content": "Let me.", "reasoning_content": "R", "tool_calls": calls}
    with Upstream(whole_reply(said, "tool_calls")) as up:
        given = inside(up.url, rules).post(CHAT, json=chat(stream=True, tools=[WRITE_FILE])).data
    deltas = [json.loads(part)["choices"][0]["delta"] for part in given.decode().split("data: ")[1:-1]]
    keys = [next(key for key in reversed(list(delta)) if key) if delta else "finish" for delta in deltas]
    assert keys == ["content", "reasoning_content", "content", "tool_calls", "tool_calls", "finish"]
    assert deltas[0]["role"] == "assistant"
    assert [delta["tool_calls"][0]["id"] for delta in deltas[3:5]] == ["a", "b"]


def test_an_upstream_error_is_not_logged(proxy: Start) -> None:
    """The log contains no bodies: FastAPI's 422 quotes the client's input."""
    body = {"detail": [{"loc": ["body", "n"], "msg": "wrong", "input": "MY SECRET"}]}
    with Upstream([answer(body, 422)]) as up:
        front = proxy(up.url)
        with Client.post(front.port, chat()) as client, client.answer() as response:
            said = json.loads(response.read())["error"]["message"]
        assert (response.status, said) == (422, "body.n: wrong")
        assert "SECRET" not in front.logged("422")
