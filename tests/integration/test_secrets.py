"""Keys are masked in everything that the proxy writes and in errors. A model's text reaches the client unchanged."""

from __future__ import annotations

import json
import logging
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from proxy.config.api_keys import Keys
from proxy.server.logging_setup import JsonLines, TextLines
from tests.conftest import Inside, Start
from tests.support.messages_ask import ask
from tests.support.scripted import (
    DONE,
    LAST,
    ROLE,
    SSE,
    WRITE_FILE,
    Upstream,
    answer,
    arguments,
    chat,
    chunked,
    event,
    finish,
    head,
    opened,
    stream,
    text,
    text_reply,
    whole_reply,
)

# Any eight consecutive characters contain a non-hexadecimal digit, so no random id contains them.
KEY = "Key-01234x56789-abcdefghijklmnopqrstuvwxyz"
PART = 8
BEARER = {"Authorization": f"Bearer {KEY}"}
JSON = {"Content-Type": "application/json"}
CHAT, MESSAGES, RESPONSES, PASSED = "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings"


def leaks(where: object) -> bool:
    """Return whether any part of the key is present."""
    return any(KEY[at : at + PART] in str(where) for at in range(len(KEY) - PART + 1))


def error(message: str = f"no key {KEY}!") -> dict[str, Any]:
    return {"error": {"message": message, "type": f"bad key {KEY}", "code": 401}}


def request_to(path: str, *, streamed: bool = False) -> dict[str, Any]:
    tool = {"name": "write_file", "input_schema": WRITE_FILE["function"]["parameters"]}
    function = {"type": "function", "name": "write_file", "parameters": WRITE_FILE["function"]["parameters"]}
    return {
        CHAT: chat(stream=streamed, tools=[WRITE_FILE]),
        MESSAGES: ask(stream=streamed, tools=[tool]),
        RESPONSES: {"model": "tiny", "input": "Hi", "stream": streamed, "tools": [function]},
    }.get(path, {"model": "tiny", "input": "a", "stream": streamed})


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("before", [b"", ROLE + text("So. ")], ids=["first", "later"])
def test_an_error_event_is_masked(inside: Inside, path: str, before: bytes) -> None:
    with Upstream([SSE, *([chunked(before)] if before else []), chunked(event(error())), LAST]) as server:
        response = inside(server.url).post(path, json=request_to(path, streamed=True), headers=BEARER)
    said = response.get_data(as_text=True)
    assert "no key ****" in said and not leaks(said)


@pytest.mark.parametrize("path", [CHAT, PASSED])
def test_the_servers_own_key_is_masked_for_a_client_that_does_not_know_it(inside: Inside, path: str) -> None:
    with Upstream([answer(error(), 401)]) as server:
        client = inside(server.url, keys=Keys(upstream=KEY))
        response = client.post(path, json=request_to(path), headers={"Authorization": "Bearer another-key"})
        assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "bad key ****" in response.get_data(as_text=True) and not leaks(response.get_data(as_text=True))


@pytest.mark.parametrize("place", ["/v1/models/{}", "/{}", "/for/{}/v1/models"])
def test_a_key_in_the_path_is_masked(inside: Inside, logged: pytest.LogCaptureFixture, place: str) -> None:
    with Upstream() as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        response = inside(server.url).get(place.format(KEY), headers=BEARER)
    assert response.status_code >= 400 and not leaks(response.get_data(as_text=True))
    assert not any(leaks(TextLines().format(record)) for record in logged.records)


CODE = f'client = OpenAI(base_url=URL, api_key="{KEY}")\n'
CALL = json.dumps({"path": "client.py", "content": CODE})


def whole_answer() -> list[Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "write_file", "arguments": CALL}}
    message = {"role": "assistant", "content": f"It is {KEY}.", "tool_calls": [call]}
    return whole_reply(message, "tool_calls", note=KEY)


def streamed_answer() -> list[Any]:
    pieces = [arguments(0, CALL[at : at + 7]) for at in range(0, len(CALL), 7)]
    said = text(f"It is {KEY}.")
    return stream(ROLE, said, opened(0, "c1", "write_file"), *pieces, finish("tool_calls"), DONE)


def without_ids(response: TestResponse) -> bytes:
    """Return the body without the ids and times that the proxy makes."""
    data = re.sub(rb"(call|msg|toolu|resp|fc|rs)_[0-9a-f]{8,}", b"ID", response.data)
    return re.sub(rb'"(created_at|completed_at)": ?[0-9.]+', b"", data)


@pytest.mark.parametrize("path", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_models_answer_that_contains_the_key_is_unchanged(inside: Inside, path: str, streamed: bool) -> None:
    """Asterisks in a tool call would be written into the user's file."""
    script = streamed_answer() if streamed else whole_answer()
    with Upstream(script, script) as server:
        server.paths["/v1/models"] = [answer({"data": []})]
        client = inside(server.url)
        with_key = client.post(path, json=request_to(path, streamed=streamed), headers=BEARER)
        without = client.post(path, json=request_to(path, streamed=streamed))
    assert with_key.status_code == 200 and f"It is {KEY}." in with_key.get_data(as_text=True)
    assert without_ids(with_key) == without_ids(without) and b"****" not in with_key.data


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", "application/x-ndjson", "text/plain"])
def test_a_forwarded_answer_with_status_200_is_unchanged(inside: Inside, kind: str) -> None:
    data = b'data: {"choices": [{"text": "%b"}]}\n\ndata: {"error": "%b"}\n\n' % (KEY.encode(), KEY.encode())
    parts: list[Any] = [head(200, {"Content-Type": kind, "Content-Length": str(len(data))}), data[:40], 0.01, data[40:]]
    with Upstream(parts) as server:
        response = inside(server.url).post("/v1/completions", json={"prompt": "a"}, headers=BEARER)
    assert (response.status_code, response.data) == (200, data)


REFUSAL = {"message": f'no {KEY}: "auto" tool choice requires --enable-auto-tool-choice', "type": "x", "code": 400}


def unclosed(content: str) -> list[Any]:
    """Return a call that needs repair, so that the audit file contains it before and after."""
    broken = arguments(0, f'{{"path": "a", "content": "{content}"')
    return stream(ROLE, opened(0, "c1", "write_file"), broken, finish("stop"), DONE)


@pytest.mark.parametrize("lines", ["text", "json"])
def test_log_audit_and_captures_of_a_running_proxy_are_masked(proxy: Start, tmp_path: Path, lines: str) -> None:
    audit, folder = tmp_path / "audit.jsonl", tmp_path / "captures"
    told = text_reply(f"I say {KEY}.")
    cut = unclosed("x" * (10_000 - 36 - PART) + KEY)
    with Upstream(unclosed(KEY), cut, told, [answer({"error": REFUSAL}, 400)], told, [answer(error(), 401)]) as server:
        server.paths["/v1/models"] = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]
        flags = ("--log-format", lines, "--audit-file", str(audit), "--capture", str(folder))
        running = proxy(server.url, *flags)
        statuses = []
        for model in ("tiny", "tiny", "tiny", KEY, KEY):
            results = [{"role": "user", "content": f"Call write_file with {KEY}."}]
            body = chat(tools=[WRITE_FILE], model=model, messages=results)
            path = f"{CHAT}?key=word-in-query"
            status, _, data = running.ask("POST", path, body, **BEARER, **JSON, Cookie="a=word-in-cookie")
            statuses.append(status)
            assert leaks(data.decode()) == (status == 200)
        assert statuses == [200, 200, 200, 200, 401]
        running.logged('"status": 401' if lines == "json" else "status=401")
        assert running.idle()
        log = running.log.read_text()
    assert "repair" in log and "********" in log and not leaks(log) and "word-in-" not in log
    assert '"content\\": \\"****' in audit.read_text() and not leaks(audit.read_text())
    captures = [file.read_bytes().decode().partition("\n") for file in folder.iterdir()]
    assert len(captures) == 6 and "word-in-" not in str(captures)
    for first, _, body_of in captures:
        assert "Call write_file with ****" in first and not leaks(first)
        # Error bodies are masked. The model's text is what a capture is for.
        assert leaks(body_of) == (json.loads(first)["status"] == 200)


def test_a_key_in_an_exception_is_masked_in_its_traceback(inside: Inside) -> None:
    inside("http://127.0.0.1:1").get("/health", headers=BEARER)
    made = failed(f"what is {KEY}?")
    for form in (TextLines(), JsonLines()):
        line = form.format(made)
        assert "ValueError: what is ****" in line and not leaks(line)
    inside("http://127.0.0.1:1").get("/health")
    assert leaks(TextLines().format(made))  # the next request on this thread has other secrets


def failed(message: str) -> Any:
    made = logging.LogRecord("proxy", logging.ERROR, "x.py", 1, "failed", (), None)
    try:
        raise ValueError(message)
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
@pytest.mark.parametrize("named", [KEY, f"Bearer {KEY}", "another-tenants-key-1234"])
def test_a_key_used_as_model_name_is_not_a_metric_label(inside: Inside, path: str, listed: bool, named: str) -> None:
    done = whole_reply("a")
    with Upstream(done, done) as server:
        models = [{"id": "tiny", "object": "model", "owned_by": "llamacpp"}] if listed else []
        server.paths["/v1/models"] = [answer({"data": models})]
        client = inside(server.url)
        for model in (named, "tiny"):
            body = chat(stream=False, model=model) if path == CHAT else ask(model=model)
            assert client.post(path, json=body, headers=BEARER).status_code == 200
        metrics = client.get("/metrics", headers={"Host": "localhost"}).get_data(as_text=True)
    assert not leaks(metrics) and "tenant" not in metrics
    expected = {"other": "1", "tiny": "1"} if listed else {"other": "2"}
    assert dict(re.findall(r'requests_total{.*model="([^"]+)",status="200"} ([0-9]+)', metrics)) == expected


def test_a_scrape_does_not_send_the_admins_key_upstream(inside: Inside) -> None:
    with Upstream() as server:
        server.play([answer({"data": [{"id": "tiny"}]})])
        inside(server.url).get("/metrics", headers={"Host": "localhost", **BEARER})
        assert [seen.path for seen in server.seen] == ["/v1/models"]
        assert "Authorization" not in server.seen[0].headers
