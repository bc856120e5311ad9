"""Access control: keys, models and limits of each route, and the key that is sent upstream."""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import Any

import pytest
from flask.testing import FlaskClient

from proxy.config.api_keys import ClientKey, Keys
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.server.state import WorkerState
from proxy.web.app import make_app
from tests.conftest import BufferedClient
from tests.support.messages_ask import ask
from tests.support.rows import rows
from tests.support.scripted import Script, Upstream, answer, chat, completion, text_reply, whole_reply
from tests.support.worker_state import held, make_state, read_rules

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
FINE = text_reply("a")
WHOLE = chat(stream=False)
MODELS = [answer({"object": "list", "data": [{"id": "tiny", "owned_by": "vllm"}]})]


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def access(**more: Any) -> Keys:
    """Return one key, `secret-of-alice`, with these limits."""
    return Keys(clients=(ClientKey("alice", digest("secret-of-alice"), **more),))


def front(upstream: str, keys: Keys, rules: str = "", **settings: Any) -> tuple[FlaskClient, WorkerState]:
    read = parse_rules(rules.encode(), "rules.yaml", read_rules(None)) if rules else read_rules(None)
    service = make_state(Settings(upstream=upstream, **settings), read, keys=keys)
    app = make_app(service)
    app.test_client_class = BufferedClient
    return app.test_client(), service


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


ALICE = bearer("secret-of-alice")
NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "given",
    [
        *({}, bearer("secret-of-alic"), bearer(digest("secret-of-alice")), {"Authorization": "secret-of-alice"}),
        *({"Authorization": "Basic secret-of-alice"}, bearer(""), {"Cookie": "secret-of-alice"}, bearer("é")),
    ],
)
@rows(__file__, "method,path")
def test_requests_without_a_key_are_neither_read_nor_sent(method: str, path: str, given: dict[str, str]) -> None:
    with Upstream() as server:
        client, _ = front(server.url, access())
        response = client.open(path, method=method, data=b"[" * 100_000, headers=given)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert server.seen == [] and server.asked == []
    if method != "HEAD":
        told = response.get_json()
        assert told["error"]["type"] == "authentication_error"
        assert (told.get("type") == "error") is path.startswith(MESSAGES)


@pytest.mark.parametrize("path", ["/", "/health", "/_health", "/_ready", "/for/openclaw/"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_health_paths_need_no_key(path: str, method: str) -> None:
    with Upstream() as server:
        server.paths = {"/health": [answer(b"")]}
        client, _ = front(server.url, access())
        assert client.open(path, method=method).status_code == 200


def test_a_key_may_select_the_client(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "proxy")
    keys = Keys((ClientKey("alice", digest("secret-of-alice"), client="agent"),))
    with Upstream(FINE) as server:
        client, _ = front(server.url, keys, "clients: {agent: {}}")
        client.post(CHAT, json=chat(), headers=ALICE)
    assert " client=agent key=alice " in caplog.messages[0] and "secret-of-alice" not in caplog.text


# The key that is sent upstream.


@pytest.mark.parametrize(
    "keys,expected", [(Keys(), "Bearer secret-of-alice"), (access(), None), (Keys(upstream="upkey"), "Bearer upkey")]
)
@pytest.mark.parametrize(
    "path", [CHAT, MESSAGES, "/v1/messages/count_tokens", "/v1/models", "/v1/rerank", "/v1/completions"]
)
@pytest.mark.parametrize(
    "header",
    [ALICE, {"X-Api-Key": "secret-of-alice"}, {**ALICE, "X-Api-Key": "another"}],
    ids=["bearer", "key", "both"],
)
def test_the_clients_key_is_used_only_without_another_key(
    keys: Keys, expected: str | None, path: str, header: dict[str, str]
) -> None:
    with Upstream(*[[answer({"count": 3, **completion("a")})]] * 9) as server:
        client, _ = front(server.url, keys)
        body = ask(stream=False) if path.startswith(MESSAGES) else WHOLE
        if path == "/v1/models":
            client.get(path, headers=header)
        else:
            client.post(path, json=body, headers=header)
        assert server.seen
        for seen in server.seen:
            assert seen.headers.get("Authorization") == expected
            assert "X-Api-Key" not in seen.headers
            assert "secret-of-alice" not in str(seen.headers) or expected == "Bearer secret-of-alice"


# Models.


@rows(__file__, "path,body")
def test_a_key_is_limited_to_its_models(path: str, body: Any) -> None:
    with Upstream() as server:
        server.paths = {"/v1/models": MODELS}
        client, _ = front(server.url, access(models=("tiny",)))
        response = client.post(path, json=body, headers=ALICE)
        assert server.seen == []
    assert response.status_code == 403
    assert (
        response.get_json()["error"]["type"] == "permission_error" and "tiny" in response.get_json()["error"]["message"]
    )


def test_limits_apply_to_the_upstream_name() -> None:
    rules = "aliases: {tiny: big, small: tiny}"
    with Upstream(FINE, FINE) as server:
        client, _ = front(server.url, access(models=("tiny",)), rules)
        assert client.post(CHAT, json=chat(model="tiny"), headers=ALICE).status_code == 403
        assert client.post(CHAT, json=chat(model="small"), headers=ALICE).status_code == 200
        assert server.wait().json["model"] == "tiny"


@pytest.mark.parametrize("headers", [ALICE, {**ALICE, "anthropic-version": "2023-06-01"}], ids=["openai", "anthropic"])
def test_a_key_may_read_about_no_other_model(headers: dict[str, str]) -> None:
    with Upstream(*[[answer({"id": "tiny"})]] * 2) as server:
        server.paths = {"/v1/models": [answer({"data": [{"id": "tiny"}, {"id": "big"}]})]}
        client, _ = front(server.url, access(models=("tiny",)))
        assert client.get("/v1/models/tiny", headers=headers).status_code == 200
        assert client.get("/v1/models/big", headers=headers).status_code == 403
        assert "/v1/models/big" not in [seen.path for seen in server.seen]


@pytest.mark.parametrize("allowed,status", [("tiny", 200), ("claude-*", 403)])
def test_a_claude_name_counts_as_the_only_served_model(allowed: str, status: int) -> None:
    with Upstream(whole_reply("a")) as server:
        server.paths = {"/v1/models": MODELS}
        client, _ = front(server.url, access(models=(allowed,)))
        assert client.post(MESSAGES, json=ask(model="claude-sonnet-4-5"), headers=ALICE).status_code == status


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/rerank"])
@pytest.mark.parametrize(
    "body", [b'{"model": "tiny", "model": "big"}', b'{"Model": "big", "model": "tiny"}', b'{"MODEL": "tiny"}']
)
def test_an_ambiguous_body_is_rejected(path: str, body: bytes) -> None:
    with Upstream() as server:
        client, _ = front(server.url, access(models=("tiny",)))
        assert client.post(path, data=body, headers=ALICE).status_code == 400
        assert server.seen == []


def test_a_form_is_rejected_because_its_model_cannot_be_checked() -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny\r\n--x--\r\n'
    with Upstream([answer({})]) as server:
        client, _ = front(server.url, access(models=("tiny",)))
        headers = {**ALICE, "Content-Type": "multipart/form-data; boundary=x"}
        assert client.post("/v1/audio/transcriptions", data=form, headers=headers).status_code == 403
        client, _ = front(server.url, access(models=("*",)))
        assert client.post("/v1/audio/transcriptions", data=form, headers=headers).status_code == 200


# Limits.


@pytest.mark.parametrize("path,kind", [(CHAT, "rate_limit_error"), (MESSAGES, "rate_limit_error")])
def test_a_key_has_a_rate_limit(path: str, kind: str) -> None:
    body = ask(model="tiny", stream=False) if path == MESSAGES else WHOLE
    with Upstream(*[whole_reply("a")] * 3) as server:
        server.paths = {"/v1/models": MODELS}
        client, _ = front(server.url, access(requests_per_minute=3))
        assert [client.post(path, json=body, headers=ALICE).status_code for _ in range(3)] == [200] * 3
        response = client.post(path, json=body, headers=ALICE)
        assert len(server.seen) == 3
    assert response.status_code == 429 and 1 <= int(response.headers["Retry-After"]) <= 61
    assert response.get_json()["error"]["type"] == kind
    assert client.get("/health").status_code == 200


def test_a_wrong_key_does_not_count_against_the_limit() -> None:
    with Upstream(whole_reply("a")) as server:
        client, _ = front(server.url, access(requests_per_minute=1))
        assert [client.post(CHAT, json=WHOLE, headers=bearer("wrong")).status_code for _ in range(3)] == [401] * 3
        assert client.post(CHAT, json=WHOLE, headers=ALICE).status_code == 200


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("path", [CHAT, MESSAGES, "/v1/completions"])
def test_a_key_has_a_concurrency_limit(path: str, streamed: bool) -> None:
    body = ask(model="tiny", stream=streamed) if path == MESSAGES else chat(stream=streamed)
    with Upstream() as server:
        gate = server.gate()
        whole = answer(completion("a"))
        waiting: Script = text_reply("a", gate)
        server.play(waiting if streamed else [whole[:-1], gate, whole[-1:]], FINE if streamed else [whole])
        server.paths = {"/v1/models": MODELS}
        client, service = front(server.url, access(streams=1))
        other = client.application.test_client()
        first = client.post(path, json=body, headers=ALICE, buffered=False) if streamed else None
        if first is None:
            found: list[int] = []
            thread = threading.Thread(
                target=lambda: found.append(client.post(path, json=body, headers=ALICE).status_code)
            )
            thread.start()
        gate.wait()
        refused = other.post(path, json=body, headers=ALICE)
        assert refused.status_code == 429 and int(refused.headers["Retry-After"]) >= 1
        assert held(service.shared, "key alice") == 1
        gate.open()
        if first is not None:
            assert first.data and first.status_code == 200
            first.close()
        else:
            thread.join()
            assert found == [200]
        assert held(service.shared, "key alice") == 0
        assert other.post(path, json=body, headers=ALICE).status_code == 200
        assert held(service.shared, "key alice") == 0


@pytest.mark.parametrize("body", [b"{", b"{}", b'{"model": "x", "model": "y"}'])
def test_a_failed_request_releases_its_slot(body: bytes) -> None:
    client, service = front(NOWHERE, access(streams=1, models=("tiny",)))
    for _ in range(3):
        assert client.post(CHAT, data=body, headers=ALICE).status_code in (400, 403)
    assert held(service.shared, "key alice") == 0
    assert client.post("/v1/completions", json={"model": "tiny"}, headers=ALICE).status_code == 502
    assert held(service.shared, "key alice") == 0


# Admin paths.


@pytest.mark.parametrize("method,path", [("POST", "/_reload"), ("GET", "/metrics"), ("HEAD", "/metrics")])
def test_admin_paths_require_the_admins_key_if_there_is_one(method: str, path: str) -> None:
    client, _ = front(NOWHERE, Keys(access().clients, admin=digest("the-admins-key")))
    for given in ({}, ALICE, bearer("wrong")):
        assert client.open(path, method=method, headers=given).status_code == 401
    assert client.post(CHAT, json=chat(), headers=bearer("the-admins-key")).status_code == 401
    assert client.open(path, method=method, headers=bearer("the-admins-key")).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "http://localhost"}, {"Host": "evil.example"}, {"X-Forwarded-For": "1.2.3.4"}]
)
@pytest.mark.parametrize("method,path", [("POST", "/_reload"), ("GET", "/metrics")])
def test_without_an_admins_key_only_this_machine_is_allowed(headers: dict[str, str], method: str, path: str) -> None:
    client, service = front(NOWHERE, access())
    refused = client.open(path, method=method, headers=headers)
    assert refused.status_code == 403 and "admin_key_file" in refused.get_json()["error"]["message"]
    assert service.in_force.read() is None
    for host in ("127.0.0.1", "localhost:80", "[::1]:8003"):  # without a client's key
        assert client.get("/metrics", headers={"Host": host}).status_code == 200


def samples(client: FlaskClient) -> dict[str, float]:
    found = client.get("/metrics").get_data(as_text=True)
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in found.splitlines() if line[0] != "#"}


def test_requests_are_counted_when_they_end() -> None:
    with Upstream(FINE, [answer({"error": {"message": "no"}}, 400)], FINE) as server:
        server.paths["/v1/models"] = [answer({"data": [{"id": "tiny"}]})]
        client, _ = front(server.url, access(requests_per_minute=3))
        for _ in range(2):
            client.post(CHAT, json=chat(), headers=ALICE)
        client.post(CHAT, json=chat(), headers=bearer("wrong"))
        with client.post(CHAT, json=chat(), headers=ALICE, buffered=False) as streamed:
            assert samples(client)["tool_proxy_active_streams"] == 1
            assert next(streamed.iter_encoded())
        client.post(CHAT, json=chat(), headers=ALICE)
        found = samples(client)
    assert found["tool_proxy_active_streams"] == 0
    name = 'tool_proxy_requests_total{dialect="chat",model="%s",status="%d"}'
    assert [found[name % pair] for pair in (("tiny", 200), ("tiny", 400), ("", 401), ("", 429))] == [2, 1, 1, 1]
    assert found['tool_proxy_denied_total{reason="key"}'] == found['tool_proxy_denied_total{reason="rate"}'] == 1
    assert found['tool_proxy_upstream_errors_total{kind="refused"}'] == 1
    assert found['tool_proxy_disconnects_total{when="answering"}'] == 1
    assert found['tool_proxy_time_to_first_byte_seconds_count{dialect="chat"}'] == 2
