"""From the client's socket to a scripted model server and back: startup, forwarded paths, and invalid responses."""

from __future__ import annotations

import http.client
import json
from typing import Any

import openai
import pytest

from proxy.engine.engine import Engine
from proxy.engine.events import Chunk, Event
from proxy.exchange.reply_stream import StreamReply
from tests.conftest import Front, Inside, Start, until
from tests.faults.bench import MODELS
from tests.real.processes import free_port
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Act,
    Client,
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
    text_reply,
)

CHAT = "/v1/chat/completions"
HERMES = 'I will.\n<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "b"}}\n</tool_call>'


@pytest.mark.slow
def test_the_proxy_serves_before_its_model_server_does(proxy: Start) -> None:
    """U1, F75: while the server is down, requests get 502 with Retry-After and /_ready gets 503. Both recover."""
    port = free_port()
    front = proxy(f"http://127.0.0.1:{port}")
    with Client.post(front.port, chat()) as client, client.answer() as response:
        assert (response.status, response.getheader("Retry-After")) == (502, "5")
        assert json.loads(response.read())["error"]["type"] == "upstream_error"
    status, headers, _ = front.get("/_ready")
    assert (status, headers["retry-after"]) == (503, "5")
    assert front.get("/v1/models")[0] == 502
    assert front.get("/health")[0] == 200
    with Upstream(text_reply("a"), port=port) as server:
        server.paths["/health"] = [answer({})]
        with Client.post(front.port, chat()) as client, client.answer() as response:
            assert (response.status, response.read()) == (200, ROLE + text("a") + finish() + DONE)
        until(lambda: front.get("/_ready")[0] == 200)


@pytest.mark.parametrize(
    "script",
    [
        stream(text("a"), 0.05, Act.RST, ended=False),
        [SSE + chunked(text("a"))],
        [answer(text("a"), headers={"Content-Length": "999"})],
        [head(200, {"Content-Type": "text/plain", "Content-Length": "999"}) + text("a"), 0.05, Act.RST],
    ],
    ids=["chunked, RST", "chunked, FIN", "length, FIN", "length, RST"],
)
def test_a_truncated_forwarded_answer_does_not_look_complete(front: Front, script: Script) -> None:
    front.upstream.play(script)
    with (
        Client.post(front.proxy.port, {"stream": True}, "/v1/completions") as client,
        client.answer() as response,
        pytest.raises((http.client.IncompleteRead, ConnectionResetError)),
    ):
        response.read()
    assert front.proxy.idle()


def test_a_broken_stream_ends_in_an_error_event_that_the_sdk_raises(front: Front) -> None:
    """U11: without the event, the end would look like success."""
    front.upstream.play(stream(ROLE, text("a"), 0.05, Act.RST, ended=False))
    got = []
    with (
        openai.OpenAI(base_url=f"{front.proxy.url}/v1", api_key="k", max_retries=0) as sdk,
        pytest.raises(openai.APIError),
    ):
        for chunk in sdk.chat.completions.create(**chat()):
            got.append(chunk.choices[0].delta.content)
    assert "".join(got) == "a"
    assert len(front.upstream.seen) == 1


def break_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make the engine raise at its n-th chunk."""
    feed, count = Engine.feed, iter(range(1, 1000))

    def broken(self: Engine, chunk: Chunk) -> tuple[Event, ...]:
        if next(count) == number:
            raise ZeroDivisionError
        return feed(self, chunk)

    monkeypatch.setattr(Engine, "feed", broken)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("said", ["word", HERMES])
def test_an_engine_defect_is_not_reported_as_success(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture, dialect: Dialect, said: str
) -> None:
    """C6: an unchanged chat reply continues verbatim. Any other reply ends in an error."""
    break_at(monkeypatch, 3)
    events = [ROLE, text(said), text("\nThat is all."), finish(), DONE]
    with Upstream(stream(*events)) as server:
        server.paths["/v1/models"] = [MODELS]
        data = inside(server.url).post(dialect.path, json=dialect.ask(streamed=True, tools=True)).data
    assert "ZeroDivisionError" in logged.text and b"ZeroDivisionError" not in data
    if dialect.name == "chat" and said == "word":
        assert data == b"".join(events)
    else:
        told = dialect.stream(data)
        assert told.failed and b'chat.completion"' not in data and (told.text, told.calls) != ("", [])


def test_a_whole_answer_survives_a_defect(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    """C6."""
    break_at(monkeypatch, 1)
    body = json.dumps(completion("word")).encode()
    with Upstream([answer(body)]) as server:
        response = inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE], stream=False))
    assert "ZeroDivisionError" in logged.text
    assert (response.status_code, response.data) == (200, body)


def test_removed_fields_stay_removed_in_rebuilt_chunks(inside: Inside) -> None:
    """A1: `clean` applies to forwarded chunks and to chunks that the proxy writes."""
    both = delta({"reasoning": "hm", "content": "I will. <tool_call>"})
    with Upstream(stream(ROLE, both, text(HERMES.removeprefix("I will.\n<tool_call>")), finish(), DONE)) as server:
        data = inside(server.url).post(f"/for/openclaw{CHAT}", json=chat(tools=[WRITE_FILE])).data
    assert b"write_file" in data and b'"hm"' not in data


@pytest.mark.parametrize("words", ["So", "So it"])
def test_a_defect_is_a_status_or_an_error_event(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    """C6: only the log contains the cause."""
    receive = StreamReply.receive

    def broken(self: StreamReply, data: bytes, *more: Any) -> bytes:
        if words.rsplit(maxsplit=1)[-1].encode() in data:
            raise ZeroDivisionError("a defect")
        return receive(self, data, *more)

    monkeypatch.setattr(StreamReply, "receive", broken)
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE + chunked(ROLE + text("So")), *([gate] if " " in words else []), chunked(text(" it")), LAST])
        with inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE]), buffered=False) as response:
            data = b""
            for part in response.iter_encoded():
                data += part
                gate.open()
    assert (response.status_code, b'"error"' in data) == (200 if " " in words else 500, True)
    assert (b'"So"' in data) is (" " in words) and DONE not in data and b"a defect" not in data
    assert "a defect" in caplog.text
