"""Routing: each model's server, and the header that keeps a conversation on one of several replicas."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from proxy.config.api_keys import Keys
from tests.conftest import Inside, Start
from tests.real.processes import free_port
from tests.support.reply import read
from tests.support.scripted import Client, Script, Upstream, answer, chat, text_reply

pytestmark = pytest.mark.once

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
KEY = "X-Conversation-Key"
REPLY = text_reply("a")
MODELS: Script = [answer({"data": [{"id": "tiny", "owned_by": "vllm"}]})]


def body_of(response: TestResponse) -> Any:
    return json.loads(response.data)


def nowhere() -> str:
    return f"http://127.0.0.1:{free_port()}"


def named(name: str) -> dict[str, Script]:
    """Return paths that always answer with the server's name."""
    return {
        CHAT: text_reply(name),
        "/v1/models": MODELS,
        "/tokenize": [answer({"count": 7, "max_model_len": 99, "tokens": [], "name": name})],
        "/v1/completions": [answer({"name": name})],
        "/health": [answer({})],
    }


@pytest.fixture
def two() -> Iterator[list[Upstream]]:
    """Yield the main server, named `usual`, and another server, named `own`."""
    with ExitStack() as stack:
        servers = [stack.enter_context(Upstream()) for _ in range(2)]
        for server, name in zip(servers, ("usual", "own"), strict=True):
            server.paths = named(name)
        yield servers


def text_of(data: bytes) -> str:
    return read("chat", 200, data).choice().text


def messages_body(words: str, *turns: str, **more: Any) -> dict[str, Any]:
    roles = ["user", "assistant"] * (1 + len(turns))
    said = [{"role": role, "content": turn} for role, turn in zip(roles, (words, *turns), strict=False)]
    return {"model": "claude-x", "max_tokens": 9, "messages": said, "stream": True, **more}


def keys_of(client: FlaskClient, server: Upstream, path: str, *bodies: dict[str, Any], **sent: Any) -> list[str | None]:
    """Return the conversation key of each request that is sent upstream."""
    server.play(*[REPLY] * len(bodies))
    server.paths["/v1/models"] = MODELS
    for body in bodies:
        assert client.post(path, json=body, **sent).status_code == 200
    return [seen.headers.get(KEY) for seen in server.seen]


CLIENT_KEY = {"Authorization": "Bearer client", "x-api-key": "client"}


def keys_at(server: Upstream) -> set[str | None]:
    """Return the API keys that the server received (None for a request without one), and reset its record."""
    found = {seen.headers.get("Authorization") for seen in server.received}
    assert not any("client" in str(seen.headers.get("x-api-key")) for seen in server.received)
    server.received.clear()
    return found


def ask_all(client: FlaskClient, model: str) -> None:
    """Send a request of each kind for a model."""
    asked = {
        CHAT: chat(model=model),
        MESSAGES: {**messages_body("a"), "model": model},
        COUNT: {**messages_body("a"), "model": model},
        "/v1/responses": {"model": model, "input": "a", "stream": True},
        "/v1/completions": {"model": model, "prompt": "a"},
    }
    for path, body in asked.items():
        assert client.post(path, json=body, headers=CLIENT_KEY).status_code == 200, path
    for version in ({}, {"anthropic-version": "2023-06-01"}):
        for path in ("/v1/models", f"/v1/models/{model}"):
            assert client.get(path, headers={**CLIENT_KEY, **version}).status_code
    assert client.get("/metrics").status_code == 200


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("", {None}),
        (", key: same", {"Bearer main"}),
        (", key: $OWN_KEY", {"Bearer own"}),
        (", key: /keys/own", {"Bearer of-file"}),
    ],
)
def test_another_server_receives_only_the_key_of_its_entry(
    inside: Inside, two: list[Upstream], entry: str, expected: set[str | None]
) -> None:
    usual, own = two
    keys = Keys(upstream="main", named={"$OWN_KEY": "own", "/keys/own": "of-file"})
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}'{entry}}}]", keys)
    ask_all(client, "own")
    assert keys_at(own) == expected
    assert keys_at(usual) <= {"Bearer main"}


def test_another_server_does_not_receive_the_clients_key(inside: Inside, two: list[Upstream]) -> None:
    """The main server receives it if the proxy has no key of its own."""
    usual, own = two
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}'}}]")
    ask_all(client, "own")
    assert keys_at(own) == {None}
    ask_all(client, "tiny")
    assert "Bearer client" in keys_at(usual) and keys_at(own) == set()


def test_another_path_of_the_main_server_receives_its_key(inside: Inside, two: list[Upstream]) -> None:
    usual, _ = two
    usual.paths = {f"/other{path}": script for path, script in usual.paths.items()} | usual.paths
    client = inside(usual.url, f"models: [{{match: own, url: '{usual.url}/other'}}]", Keys(upstream="main"))
    assert client.post(CHAT, json=chat(model="own")).status_code == 200
    assert f"/other{CHAT}" in usual.asked
    assert keys_at(usual) == {"Bearer main"}


def test_the_key_of_another_server_is_masked(
    inside: Inside, two: list[Upstream], caplog: pytest.LogCaptureFixture
) -> None:
    usual, own = two
    own.paths[CHAT] = [answer({"error": {"message": "the key secret-of-own is not known"}}, 401)]
    keys = Keys(upstream="main", named={"$OWN_KEY": "secret-of-own"})
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}', key: $OWN_KEY}}]", keys)
    response = client.post(CHAT, json=chat(model="own"))
    assert response.status_code == 401 and b"secret-of-own" not in response.data
    assert "secret-of-own" not in caplog.text


def test_each_conversation_has_one_key_for_all_its_turns(inside: Inside) -> None:
    with Upstream() as server:
        client = inside(server.url)
        first, other = chat("task 1"), chat("task 2")
        more = [{"role": "assistant", "content": "I look."}, {"role": "user", "content": "Go on."}]
        turn = {**first, "messages": first["messages"] + more}
        one, two, three, four = keys_of(client, server, CHAT, first, turn, other, {**first, "model": "large"})
        assert one == two and len({one, three, four}) == 3
        mine, later, others = keys_of(
            client, server, MESSAGES, messages_body("a"), messages_body("a", "b", "c"), messages_body("b")
        )
        assert mine == later != others
        assert all(re.fullmatch("[0-9a-f]{32}", str(key)) for key in (one, three, four, mine, others))


def test_claude_codes_billing_header_does_not_change_the_key(inside: Inside) -> None:
    with Upstream() as server:
        bodies = [messages_body("a", system=f"x-anthropic-billing-header: {n}\nYou are an agent.") for n in (1, 2)]
        one, two = keys_of(inside(server.url), server, MESSAGES, *bodies)
        assert one == two is not None


def test_a_second_try_has_the_same_key(inside: Inside) -> None:
    refused = [answer({"error": {"message": "'store' is not supported"}}, 400)]
    with Upstream(refused, REPLY) as server:
        assert inside(server.url).post(CHAT, json=chat("a", store=True)).status_code == 200
        first, second = (seen.headers[KEY] for seen in server.seen)
        assert first == second


@pytest.mark.parametrize("words", ["a", None])
def test_a_clients_conversation_key_is_not_forwarded(inside: Inside, words: str | None) -> None:
    """This holds even if the proxy adds no key."""
    body = chat(words) if words else chat(messages=[])
    with Upstream() as server:
        forged = {KEY: "forged", "OpenAI-Session": "forged"}
        (key,) = keys_of(inside(server.url), server, CHAT, body, headers=forged)
        assert key != "forged" and server.seen[0].headers["Openai-Session"] == "forged"


def test_a_forwarded_conversation_has_the_key_of_its_chat_requests(inside: Inside, two: list[Upstream]) -> None:
    client = inside(two[0].url, pass_through=("/v1/render",))
    (key,) = keys_of(client, two[0], CHAT, chat("a"))
    for path in ("/tokenize", "/v1/render"):
        two[0].play([answer({})])
        assert client.post(path, json=chat("a"), headers={KEY: "forged"}).status_code == 200
        assert two[0].seen[-1].headers[KEY] == key


def test_forwarded_requests_without_messages_have_no_key(inside: Inside, two: list[Upstream]) -> None:
    client = inside(two[0].url)
    paths = {"/v1/completions": b'{"prompt":"a"}', "/v1/embeddings": b'{"input":"a"}', "/tokenize": b'["messages"]'}
    for path, body in paths.items():
        two[0].play([answer({})])
        client.post(path, data=body, content_type="application/json")
        assert KEY not in two[0].seen[-1].headers


def test_each_dialect_is_sent_to_the_server_of_the_model(inside: Inside, two: list[Upstream]) -> None:
    usual, own = two
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}/v1'}}]")
    own.paths["/v1/models/own"] = [answer({"id": "own"})]
    assert text_of(client.post(CHAT, json=chat(model="own")).data) == "own"
    assert text_of(client.post(CHAT, json=chat()).data) == "usual"
    assert b'"own"' in client.post(MESSAGES, json=messages_body("a", model="own")).data
    assert b'"usual"' in client.post(MESSAGES, json=messages_body("a")).data
    assert body_of(client.post("/v1/completions", json={"model": "own", "prompt": "a"}))["name"] == "own"
    assert body_of(client.post("/v1/completions", json={"model": "tiny", "prompt": "a"}))["name"] == "usual"
    assert body_of(client.post("/v1/completions", data=b"\x00 no json {"))["name"] == "usual"
    assert body_of(client.post("/v1/completions", data=b"[]"))["name"] == "usual"
    assert client.get("/v1/models/own").json == {"id": "own"}


def test_messages_clients_see_a_model_as_its_own_server_lists_it(inside: Inside, two: list[Upstream]) -> None:
    usual, own = two
    own.paths["/v1/models"] = [answer({"data": [{"id": "own", "owned_by": "sglang"}]})]
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}'}}]")
    asked = {"anthropic-version": "2023-06-01"}
    assert body_of(client.get("/v1/models/own", headers=asked))["id"] == "own"
    assert body_of(client.get("/v1/models/tiny", headers=asked))["id"] == "tiny"


LISTS = [{}, {"anthropic-version": "2023-06-01"}]


def names(client: FlaskClient, version: dict[str, str]) -> list[str]:
    response = client.get("/v1/models", headers=version)
    assert response.status_code == 200
    return [each["id"] for each in body_of(response)["data"]]


def lists(*models: str, **more: object) -> Script:
    return [answer({"object": "list", "data": [{"id": name, "owned_by": "sglang", **more} for name in models]})]


@pytest.mark.parametrize("version", LISTS)
def test_models_and_aliases_of_all_servers_are_listed(
    inside: Inside, two: list[Upstream], version: dict[str, str]
) -> None:
    usual, own = two
    own.paths["/v1/models"] = lists("own", "own-2", "tiny", "unrouted")
    rules = f"""
models:
  - {{match: own, url: '{own.url}'}}
  - {{match: own-*, url: '{own.url}'}}
  - {{match: gone, url: '{nowhere()}'}}
  - {{match: usual, url: '{usual.url}'}}
aliases: {{fast: own, "claude-*": own-2, slow: tiny, none: gone}}
"""
    client = inside(usual.url, rules)
    listed = names(client, version)
    assert listed == ["tiny", "own", "own-2", "fast", "claude-own-2", "slow"]
    for name in listed:
        assert client.get(f"/v1/models/{name}", headers=LISTS[1]).status_code == 200
    assert text_of(client.post(CHAT, json=chat(model="fast")).data) == "own"
    assert text_of(client.post(CHAT, json=chat(model="slow")).data) == "usual"


def test_a_model_of_another_server_is_listed_with_its_context(inside: Inside, two: list[Upstream]) -> None:
    usual, own = two
    own.paths["/v1/models"] = lists("own", max_model_len=4096, created=1795223438)
    client = inside(usual.url, f"models: [{{match: own, url: '{own.url}'}}]")
    theirs, mine = [body_of(client.get("/v1/models", headers=version))["data"][1] for version in LISTS]
    assert theirs == {
        **{"id": "own", "object": "model", "created": 1795223438, "owned_by": "sglang", "max_model_len": 4096}
    }
    assert (mine["id"], mine["max_input_tokens"]) == ("own", 4096)


def test_an_ambiguous_claude_name_is_not_listed_for_messages(inside: Inside, two: list[Upstream]) -> None:
    usual, own = two
    own.paths["/v1/models"] = lists("claude-own")
    client = inside(usual.url, f"models: [{{match: claude-own, url: '{own.url}'}}]")
    assert [names(client, version) for version in LISTS] == [["tiny", "claude-own"], ["tiny"]]
    own.received.clear()
    client = inside(
        usual.url, f"models: [{{match: claude-own, url: '{own.url}'}}]\naliases: {{claude-own: claude-own}}"
    )
    assert [names(client, version) for version in LISTS] == [["tiny", "claude-own"]] * 2


@pytest.mark.parametrize("version", LISTS)
def test_an_unreachable_server_shortens_the_list(inside: Inside, two: list[Upstream], version: dict[str, str]) -> None:
    usual, own = two
    own.paths["/v1/models"] = [answer({"error": "starting"}, 503)]
    rules = f"models: [{{match: gone, url: '{nowhere()}'}}, {{match: own, url: '{own.url}'}}]"
    assert names(inside(usual.url, rules), version) == ["tiny"]
    own.paths["/v1/models"] = lists("own")
    assert names(inside(usual.url, rules), version) == ["tiny", "own"]


@pytest.mark.parametrize("version", LISTS)
def test_unresponsive_servers_delay_the_list_only_briefly(inside: Inside, version: dict[str, str]) -> None:
    """C7: for any number of servers."""
    with ExitStack() as stack:
        usual = stack.enter_context(Upstream())
        usual.paths = named("usual")
        silent = [stack.enter_context(Upstream()) for _ in range(4)]
        for server in silent:
            server.paths["/v1/models"] = [server.gate()]
        entries = [f"{{match: m{at}, url: '{server.url}'}}" for at, server in enumerate(silent)]
        client = inside(usual.url, f"models: [{', '.join(entries)}]")
        began = time.monotonic()
        assert names(client, version) == ["tiny"]
        assert time.monotonic() - began < 5


def test_the_plan_is_made_for_the_models_server(inside: Inside) -> None:
    """vLLM is asked for the raw text. SGLang is not, because it would drop the tools."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with Upstream(REPLY) as usual, Upstream(REPLY) as own:
        usual.paths["/v1/models"] = MODELS
        own.paths["/v1/models"] = [answer({"data": [{"id": "own", "owned_by": "sglang"}]})]
        client = inside(
            usual.url, f"models: [{{match: own, url: '{own.url}', parse: proxy}}, {{match: '*', parse: proxy}}]"
        )
        for model in ("tiny", "own"):
            assert client.post(CHAT, json=chat(model=model, tools=[tool])).status_code == 200
        assert [server.seen[0].json.get("tool_choice") for server in (usual, own)] == ["none", None]


@pytest.mark.parametrize("stream_", [True, False])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_an_unreachable_server_has_no_substitute(inside: Inside, two: list[Upstream], path: str, stream_: bool) -> None:
    gone = nowhere()
    client = inside(two[0].url, f"models: [{{match: own, url: '{gone}'}}]")
    for _ in range(2):
        response = client.post(path, json={**chat(model="own"), "max_tokens": 9, "stream": stream_})
        assert (response.status_code, response.headers["Retry-After"]) == (502, "5")
        assert body_of(response)["error"]["message"].startswith(f"the model server at {gone} ")
    assert CHAT not in two[0].asked


@pytest.mark.parametrize(("healths", "ready"), [((200, 503), True), ((503, 200), True), ((503, 503), False)])
def test_ready_succeeds_while_any_server_is_ready(inside: Inside, healths: tuple[int, ...], ready: bool) -> None:
    with Upstream() as usual, Upstream() as own:
        for server, status in zip((usual, own), healths, strict=True):
            server.paths["/health"] = [answer({}, status)]
        client = inside(usual.url, f"models: [{{match: own, url: '{own.url}'}}, {{match: x, url: '{nowhere()}'}}]")
        assert client.get("/_ready").status_code == (200 if ready else 503)


def test_health_names_the_servers(inside: Inside) -> None:
    usual, own = nowhere(), nowhere()
    client = inside(usual, f"models: [{{match: own, url: '{own}'}}, {{match: b, url: '{usual}'}}]")
    health = body_of(client.get("/health"))
    assert health["vllm_url"] == health["target_host"] == usual
    assert health["servers"] == [{"url": usual}, {"url": own}]


def test_a_reload_assigns_a_model_to_another_server(proxy: Start, two: list[Upstream], tmp_path: Any) -> None:
    """With a real server."""
    usual, own = two
    rules = tmp_path / "rules.yaml"
    rules.write_text("models: [{match: '*'}]\n")
    front = proxy(usual.url, "--rules", str(rules))

    def home() -> str:
        with Client.post(front.port, chat(model="own")) as client, client.answer() as response:
            return text_of(response.read())

    assert home() == "usual"
    rules.write_text(f"models: [{{match: own, url: '{own.url}'}}]\n")
    assert front.ask("POST", "/_reload")[0] == 200
    assert home() == "own"
