"""The upstream request of a Messages client: model name, profile, and fields (C8, F94, F95)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.server import snapshot
from tests.conftest import Inside
from tests.support.messages_checker import check_error, check_stream
from tests.support.messages_client import CHAT, COUNT, MESSAGES, MODELS, TOOL, ask, cards, message, reply, said, serving
from tests.support.scripted import ROLE, WRITE_FILE, Upstream, answer, event, head, stream, text, whole_reply

ALIAS = 'aliases: {"claude-*": mine}\n'
MODES = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def sent_body(inside: Inside, body: object, rules: str = "", path: str = MESSAGES, **settings: Any) -> Any:
    with serving(reply(False, "a"), models=cards("tiny")) as server:
        response = inside(server.url, rules, **settings).post(path, json=body)
        assert response.status_code == 200, response.data
        (seen,) = server.seen
    assert seen.line == f"POST {CHAT} HTTP/1.1"
    return seen.json


@pytest.mark.parametrize("name", ["claude-sonnet-4-5", "claude-opus-4-1-20250805", "claude-"])
@MODES
def test_a_claude_model_means_the_only_served_model(inside: Inside, name: str, streamed: bool) -> None:
    with serving(reply(streamed, "a")) as server:
        made = message(inside(server.url).post(MESSAGES, json=ask(model=name, stream=streamed)))
        assert server.seen[0].json["model"] == "tiny"
    assert made["model"] == name


def test_an_alias_has_priority_over_the_only_model(inside: Inside) -> None:
    assert sent_body(inside, ask(model="claude-x", stream=False), ALIAS)["model"] == "mine"


def test_an_alias_applies_to_chat(inside: Inside) -> None:
    """C1."""
    raw = json.dumps({"stream": False, "model": "claude-x", "messages": [], "odd": "Hé"}, indent=1).encode()
    with Upstream(whole_reply("a"), whole_reply("a")) as server:
        client = inside(server.url, ALIAS)
        assert client.post(CHAT, data=raw).status_code == 200
        assert client.post(CHAT, data=raw.replace(b"claude-x", b"other")).status_code == 200
        mapped, plain = server.seen
    assert mapped.json == {**json.loads(raw), "model": "mine"}
    assert plain.body == raw.replace(b"claude-x", b"other")


@pytest.mark.parametrize("path", [MESSAGES, COUNT])
def test_with_several_models_the_error_suggests_a_rule(inside: Inside, path: str) -> None:
    with serving(models=cards("small", "large")) as server:
        response = inside(server.url).post(path, json=ask())
        assert server.seen == []
    words = check_error(response.data, response.status_code)["error"]["message"]
    assert response.status_code == 404
    assert "small, large" in words and 'aliases: {"claude-*": NAME}' in words and "'" not in words


@pytest.mark.parametrize(
    "models",
    [[answer({}, 500)], [answer(b"no JSON")], [answer({"data": []})], [answer({"error": "Unauthorized"}, 401)], []],
    ids=["500", "no JSON", "none", "401", "closed"],
)
def test_without_a_model_list_the_name_is_forwarded(inside: Inside, models: Any) -> None:
    with serving(reply(False, "a"), models=models or [b""]) as server:
        message(inside(server.url).post(MESSAGES, json=ask(stream=False)))
        assert server.seen[0].json["model"] == "claude-x"


@pytest.mark.parametrize("models", [[9.0], [head(200), *[b"x", 0.03] * 3000]], ids=["silent", "dribbling"])
def test_a_slow_model_list_is_not_awaited(inside: Inside, monkeypatch: pytest.MonkeyPatch, models: Any) -> None:
    monkeypatch.setattr(snapshot, "_CARDS_SECONDS", 0.1)
    with serving(reply(False, "a"), models=models) as server:
        message(inside(server.url).post(MESSAGES, json=ask(stream=False)))
        assert server.seen[0].json["model"] == "claude-x"


def test_a_refused_key_does_not_affect_the_next_client(inside: Inside) -> None:
    with serving(reply(False, "a"), reply(False, "a"), models=[answer({"error": "Unauthorized"}, 401)]) as server:
        client = inside(server.url)
        message(client.post(MESSAGES, json=ask(stream=False)))
        server.paths[MODELS] = cards("tiny")
        message(client.post(MESSAGES, json=ask(stream=False), headers={"X-Api-Key": "another"}))
        assert [seen.json["model"] for seen in server.seen] == ["claude-x", "tiny"]


PROFILES = """
models:
  - {match: tiny, thinking: reasoning_effort, server_tools: drop}
  - {match: "claude-*", thinking: enable_thinking}
"""


def test_the_profile_is_that_of_the_requested_model(inside: Inside) -> None:
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
        {"role": "user", "content": "b"},
    ]
    thinking = {"type": "enabled", "budget_tokens": 2000}
    tools = [TOOL, {"type": "web_search_20250305", "name": "web_search"}]
    body = sent_body(inside, ask(messages=history, thinking=thinking, tools=tools, stream=False), PROFILES)
    assert body["reasoning_effort"] == "low" and "chat_template_kwargs" not in body
    assert [tool["function"]["name"] for tool in body["tools"]] == ["write_file"]


@pytest.mark.parametrize(("owner", "counts"), [("vllm", True), ("llamacpp", False), ("someone", False)])
def test_only_vllm_is_asked_for_token_counts_in_every_chunk(inside: Inside, owner: str, counts: bool) -> None:
    with serving(reply(True, "a"), models=cards("tiny", owner=owner)) as server:
        message(inside(server.url).post(MESSAGES, json=ask()))
        options = server.seen[0].json["stream_options"]
    assert options == {"include_usage": True, **({"continuous_usage_stats": True} if counts else {})}


def test_the_rules_override_the_detected_kind_of_server(inside: Inside) -> None:
    rules = 'models:\n  - {match: "*", server: vllm}\n'
    with serving(reply(True, "a"), models=cards("tiny", owner="someone")) as server:
        message(inside(server.url, rules).post(MESSAGES, json=ask()))
        assert server.seen[0].json["stream_options"]["continuous_usage_stats"] is True


def test_the_request_is_sent_as_chat_completions(inside: Inside) -> None:
    body = ask("Hi", system="Be brief.", tools=[TOOL], stop_sequences=["END"], top_k=5, stream=False)
    assert sent_body(inside, body) == {
        "model": "tiny",
        "max_tokens": 1000,
        "top_k": 5,
        "stop": ["END"],
        "stream": False,
        "tools": [WRITE_FILE],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }


@pytest.mark.parametrize(
    ("agent", "left_open"), [("claude-cli/2.1.197 (external)", True), ("anthropic-sdk/2.12", False), ("", False)]
)
def test_only_claude_codes_block_stays_open_before_an_error(inside: Inside, agent: str, left_open: bool) -> None:
    broken = stream(ROLE, text("So"), event({"error": {"message": "no", "code": 500}}))
    with serving(broken) as server:
        response = inside(server.url).post(MESSAGES, json=ask(), headers={"User-Agent": agent})
    assert (b"content_block_stop" not in response.data) is left_open
    assert check_stream(response.data, left_open=left_open)["error"]["type"] == "api_error"


@pytest.mark.parametrize(("owner", "text_"), [("llamacpp", " is four."), ("vllm", "The answer is four.")])
def test_a_prefill_that_llama_cpp_repeats_is_removed(inside: Inside, owner: str, text_: str) -> None:
    body = ask(stream=False)
    body["messages"].append({"role": "assistant", "content": "The answer"})
    with serving(reply(False, "The answer is four."), models=cards("tiny", owner=owner)) as server:
        made = message(inside(server.url).post(MESSAGES, json=body))
    assert said(made) == [("text", text_)]


@pytest.mark.parametrize("owner", ["vllm", "llamacpp"])
def test_bare_json_is_not_a_call_if_the_client_requests_json(inside: Inside, owner: str) -> None:
    """C3. vLLM is not sent the format, because it would then never call a tool."""
    bare = json.dumps({"name": "write_file", "arguments": {"path": "a", "content": "b"}})
    form = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    for config, kind in ((None, "tool_use"), (form, "text")):
        body = ask(tools=[TOOL], output_config=config, stream=False)
        with serving(reply(False, bare), models=cards("tiny", owner=owner)) as server:
            made = message(inside(server.url).post(MESSAGES, json=body))
        assert [block["type"] for block in made["content"]] == [kind]
