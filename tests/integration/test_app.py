"""The application: its paths, the errors for invalid requests, and the forwarded headers."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from proxy import __version__
from proxy.config.api_keys import ClientKey, Keys
from tests.conftest import Front, Inside
from tests.support.rows import rows
from tests.support.scripted import WRITE_FILE, Client, Upstream, answer, chat, completion, text_reply, whole_reply

CHAT = "/v1/chat/completions"
NOWHERE = "http://127.0.0.1:1"
POSTED = ["/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"]
LISTED = ["/v1/rerank", "/v1/score", "/v1/classify", "/v1/audio/transcriptions", "/v1/audio/translations"]
MESSAGES = ["/v1/messages", "/v1/messages/count_tokens"]
RESPONSES = ["/v1/responses", "/v1/responses/input_tokens"]
SLASHED = "/v1/models/Qwen/Qwen3-Coder:30b@main"


def error_of(response: TestResponse) -> dict[str, Any]:
    assert response.headers["Content-Type"] == "application/json"
    body = json.loads(response.data)
    assert list(body) == ["error"] and {"message", "type", "param", "code"} <= body["error"].keys()
    assert isinstance(body["error"]["message"], str) and isinstance(body["error"]["type"], str)
    inner: dict[str, Any] = body["error"]
    return inner


@pytest.mark.parametrize("path", [*POSTED, *LISTED])
@pytest.mark.parametrize("prefix", ["", "/for/openclaw"])
def test_a_forwarded_path_reaches_the_upstream_unchanged(inside: Inside, path: str, prefix: str) -> None:
    body, reply = b'{"any": NaN, thing', b"\x00any\xffthing"
    with Upstream([answer(reply, 418)]) as server:
        response = inside(server.url).post(prefix + path, data=body, content_type="multipart/form-data; boundary=b")
        seen = server.seen[0]
    assert (seen.line, seen.body) == (f"POST {path} HTTP/1.1", body)
    assert seen.headers["Content-Type"] == "multipart/form-data; boundary=b"
    assert (response.status_code, response.data) == (418, reply)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/tiny", SLASHED])
def test_model_requests_are_forwarded(inside: Inside, path: str) -> None:
    with Upstream([answer({"data": []})]) as server:
        response = inside(server.url).get(path)
        assert server.seen[0].line == f"GET {path} HTTP/1.1" and server.seen[0].headers["Content-Length"] is None
    assert response.json == {"data": []}


ELSEWHERE = ["/version", "/v1", "/v1/", "//v1/models", "/v1/rerank/", "/sleep", "/x"]
UNLISTED = ["/v1/own/", "/v1/owner", "/V1/own", "/for/v1/own"]


@pytest.mark.parametrize("path", [*ELSEWHERE, *UNLISTED])
def test_any_other_path_is_a_404_that_names_the_known_paths_and_the_setting(inside: Inside, path: str) -> None:
    with Upstream() as server:
        response = inside(server.url, pass_through=("/v1/own",)).get(path)
        assert server.seen == []
    assert response.status_code == 404
    message = error_of(response)["message"]
    for word in (CHAT, "/v1/models", "/v1/own", "/_ready", "settings.pass_through"):
        assert word in message


@pytest.mark.parametrize("prefix", ["", "/for/openclaw"])
def test_a_listed_path_allows_only_forwarded_methods(inside: Inside, prefix: str) -> None:
    with Upstream(*[[answer({"a": 1})]] * 5) as server:
        client = inside(server.url, pass_through=("/v1/own",))
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
            assert client.open(f"{prefix}/v1/own", method=method).status_code == 200
        assert [seen.line.split()[:2] for seen in server.seen] == [
            [method, "/v1/own"] for method in ("GET", "GET", "POST", "PUT", "DELETE")
        ]
        for method, status in (("PATCH", 405), ("OPTIONS", 204)):
            response = client.open(f"{prefix}/v1/own", method=method)
            allowed = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
            assert (response.status_code, response.headers["Allow"]) == (status, allowed)


def test_a_reload_changes_the_listed_paths(inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules.yaml"
    with Upstream(*[[answer({})]] * 3) as server:
        monkeypatch.setenv("TOOL_PROXY_RULES", str(rules))
        monkeypatch.setenv("TOOL_PROXY_UPSTREAM", server.url)
        client = inside(server.url, pass_through=("/v1/one",))
        assert [client.post(path).status_code for path in ("/v1/one", "/v1/two")] == [200, 404]
        rules.write_text("settings: {pass_through: [/v1/two]}")
        assert client.post("/_reload").json == {"status": "success", "message": "Configuration reloaded"}
        assert [client.post(path).status_code for path in ("/v1/one", "/v1/two")] == [404, 200]
        paths = client.get("/").json
    assert paths is not None and "/v1/two" in paths["paths"] and "/v1/one" not in paths["paths"]


@pytest.mark.parametrize(
    "method,path,allowed",
    [("GET", CHAT, "POST"), ("DELETE", "/v1/models", "GET"), ("GET", "/tokenize", "POST"), ("POST", "/health", "GET")],
)
def test_a_wrong_method_is_a_405_with_allow(inside: Inside, method: str, path: str, allowed: str) -> None:
    response = inside(NOWHERE).open(path, method=method)
    assert response.status_code == 405
    assert allowed in re.split(", *", response.headers["Allow"])
    assert allowed in error_of(response)["message"]


@pytest.mark.parametrize("path", [CHAT, *MESSAGES, "/v1/models", "/health", "/", "/for/openclaw/v1/models", "/nothing"])
def test_options_is_a_204(inside: Inside, path: str) -> None:
    response = inside(NOWHERE).options(path)
    assert (response.status_code, response.data) == (204, b"")
    if path == CHAT:
        assert set(re.split(", *", response.headers["Allow"])) == {"POST", "OPTIONS"}


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/"])
def test_head_has_no_body_and_closes_the_upstream(inside: Inside, path: str) -> None:
    """HEAD is supported automatically, and its upstream response is closed."""
    with Upstream([answer({"data": []})]) as server:
        response = inside(server.url).head(path)
    assert (response.status_code, response.data) == (200, b"")


def test_the_root_returns_service_version_and_paths(inside: Inside) -> None:
    body = inside(NOWHERE).get("/").json
    assert body is not None and (body["service"], body["version"]) == ("vllm-tool-proxy", __version__)
    assert {CHAT, *MESSAGES, *RESPONSES, *POSTED, *LISTED, "/v1/models"} <= set(body["paths"])
    assert {"/health", "/_health", "/_ready"} <= set(body["paths"])


@pytest.mark.parametrize("path", ["/health", "/_health"])
def test_health_never_touches_the_upstream(inside: Inside, path: str) -> None:
    with Upstream() as server:
        response = inside(server.url, max_tool_calls=9).get(path)
        assert server.seen == []
    body = response.json
    assert response.status_code == 200 and body is not None
    assert (body["status"], body["max_tool_calls"], body["config_loaded"]) == ("healthy", 9, True)
    assert body["vllm_url"] == body["target_host"] == server.url
    assert {"version", "rules_file", "rules_sha256", "uptime"} <= body.keys()
    assert (body["active_requests"], body["total_buffers"], body["rules_error"]) == (0, 0, None)


def test_ready_asks_the_upstream_and_caches_the_answer_briefly(inside: Inside) -> None:
    with Upstream([answer({})], [answer({}, 503)]) as server:
        client = inside(server.url)
        assert [client.get("/_ready").status_code for _ in range(3)] == [200] * 3
        assert len(server.seen) == 1


def test_only_a_repaired_whole_answer_has_the_fixes_header(inside: Inside) -> None:
    call = '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "b"}}</tool_call>'
    for said, streamed, header in ((call, False, "text_call:2"), ("a", False, None), (call, True, None)):
        with Upstream(whole_reply(said * 2)) as server:
            response = inside(server.url).post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE]))
        assert response.headers.get("X-Tool-Proxy-Fixes") == header


KEY = "sk-1"
RULES = """
clients:
  mine: {clean: {top: [secret]}}
  other: {clean: {top: [other_secret]}}
"""
KEYS = Keys(
    (
        ClientKey("one", hashlib.sha256(KEY.encode()).hexdigest(), client="mine"),
        ClientKey("two", hashlib.sha256(b"sk-2").hexdigest()),
    )
)


@rows(__file__, "path,key,setting,client")
def test_the_client_is_set_by_path_then_key_then_setting(
    inside: Inside, path: str, key: str, setting: str, client: str
) -> None:
    with Upstream(whole_reply("a", secret=1, other_secret=2)) as server:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        request = chat(stream=False)
        front = inside(server.url, RULES, KEYS if key else None, client=setting)
        body = front.post(path, json=request, headers=headers).json
    assert body is not None
    missing = {"mine": {"secret"}, "other": {"other_secret"}, "": set()}[client]
    assert {"secret", "other_secret"} - body.keys() == missing


def test_an_unknown_client_is_a_404_that_lists_the_known_ones(inside: Inside) -> None:
    response = inside(NOWHERE, RULES).post(f"/for/nobody{CHAT}", json=chat())
    assert response.status_code == 404
    message = error_of(response)["message"]
    assert "'nobody'" in message and "mine, other" in message


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_a_compressed_body_is_a_415(inside: Inside, path: str) -> None:
    response = inside(NOWHERE).post(path, data=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})
    assert response.status_code == 415
    error_of(response)


def test_only_allowed_headers_are_forwarded(inside: Inside) -> None:
    dropped = {
        **{"Host": "evil.example", "Cookie": "a=b", "X-Foo": "1", "X-Forwarded-For": "1.2.3.4"},
        **{"User-Agent": "agent/1", "Accept-Encoding": "gzip", "Connection": "x-foo"},
        **{"Proxy-Authorization": "Basic x", "X-Api-Key": "k1"},
    }
    kept = {"X-Request-Id": "r-1", "Accept": "text/event-stream", "Openai-Organization": "o1"}
    with Upstream(text_reply("a")) as server:
        response = inside(server.url).post(CHAT, json=chat(), headers={**dropped, **kept})
        headers = dict(server.seen[0].headers.items())
    assert headers.pop("User-Agent") == f"vllm-tool-proxy/{__version__}"
    assert int(headers.pop("Content-Length")) > 0
    assert len(headers.pop("X-Conversation-Key")) == 32
    assert headers == {
        **kept,
        "Host": f"127.0.0.1:{server.port}",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer k1",
        "Content-Type": "application/json",
        **({"Connection": headers["Connection"]} if headers.get("Connection") in ("close", "keep-alive") else {}),
    }
    assert response.headers["X-Request-Id"] == "r-1"


def test_a_request_without_an_id_gets_one_upstream_and_downstream(inside: Inside) -> None:
    with Upstream(whole_reply("a")) as server:
        response = inside(server.url).post(CHAT, json=chat(stream=False), headers={"X-Request-Id": "no good"})
        made = server.seen[0].headers["X-Request-Id"]
    assert re.fullmatch("[0-9a-f]{32}", made) and response.headers["X-Request-Id"] == made


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
@pytest.mark.parametrize("streamed", [True, False])
def test_only_meaningful_upstream_headers_are_returned(inside: Inside, streamed: bool, path: str) -> None:
    hidden = {"Server": "uvicorn", "Set-Cookie": "a=b", "X-Foo": "1", "Keep-Alive": "timeout=5"}
    kept = {"Retry-After": "3", "X-Should-Retry": "false"} if path != CHAT else {}
    with Upstream([answer(completion("a"), headers={**hidden, **kept, "X-Request-Id": "up-1"})]) as server:
        response = inside(server.url).post(path, json=chat(stream=streamed))
    assert not hidden.keys() & {name.title() for name, _ in response.headers}
    assert response.headers.getlist("X-Request-Id") == ["up-1"]
    assert {name: response.headers[name] for name in kept} == kept


def test_an_invalid_client_header_does_not_cause_a_502(inside: Inside) -> None:
    """Header values that cannot be sent are validated or dropped before the upstream call."""
    with Upstream(whole_reply("a")) as server:
        headers = {"Authorization": "Bearer k\u00e9\u2603".encode().decode("latin-1")}
        response = inside(server.url).post(CHAT, json=chat(stream=False), headers=headers)
    assert response.status_code in (200, 400)


def raw(front: Front, data: bytes, *, half_close: bool = False) -> tuple[int, dict[str, Any]]:
    with Client(front.proxy.port, data) as client:
        if half_close:
            client.half_close()
        with client.answer() as response:
            return response.status, json.loads(response.read())


def chunks(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"


def test_a_chunked_request_body_works_under_gunicorn(front: Front) -> None:
    front.upstream.play(whole_reply("a"))
    request = chat(stream=False, tools=[WRITE_FILE])
    top = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    status, _ = raw(front, top + chunks(json.dumps(request).encode()))
    assert status == 200 and front.upstream.seen[0].json == request
    assert front.upstream.seen[0].headers["Transfer-Encoding"] is None
