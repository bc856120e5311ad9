"""What a client asks of a model, read from its dialect: one internal request, its server, and the way back."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.config.api_keys import ClientKey
from proxy.config.rules import parse_rules
from proxy.config.settings import Settings
from proxy.errors import BadRequest, NotFound, ResponseNotFound
from proxy.web.context import RequestContext
from proxy.web.prepare import (
    conversation_headers,
    healed_conversation,
    model_server,
    prepare_chat,
    prepare_messages,
    prepare_responses,
    response_store,
    resumed,
)
from proxy.worker.shared_file import SharedFile
from tests.support.answered_exchange import Server, answering
from tests.support.worker_state import make_state, read_rules

URL, OTHER = "http://127.0.0.1:9", "http://127.0.0.1:8"
SAID: list[Any] = [{"role": "user", "content": "Hi"}]
CHAT: JsonObject = {"model": "tiny", "messages": SAID}
MESSAGES: JsonObject = {**CHAT, "max_tokens": 9}
RESPONSES: JsonObject = {"model": "tiny", "input": "Hi"}
ALIAS = 'aliases: {"mine": tiny}\n'
URLS = f'models: [{{match: "large*", url: "{OTHER}"}}]\n'
# A template that asks for a tool's parameters fails where there are none.
UNTIDY: JsonObject = {**CHAT, "tools": [{"type": "function", "function": {"name": "read"}}]}


def context(body: JsonObject | bytes, rules: str = "", **settings: Any) -> RequestContext:
    read = parse_rules(rules.encode(), "r.yaml", read_rules(None)) if rules else read_rules(None)
    worker = make_state(Settings(upstream=URL, **settings), read)
    data = body if isinstance(body, bytes) else json.dumps(body, indent=1).encode()
    return RequestContext("r1", worker, worker.current(), method="POST", body=data)


def keeping(body: JsonObject, folder: Path) -> RequestContext:
    ctx = context(body)
    ctx.worker.shared, ctx.worker.keeps = SharedFile(str(folder / "kept.db")), True
    return ctx


@pytest.fixture(name="server", autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """A model server that says which models it has, and else nothing."""
    return answering(monkeypatch, models=("tiny", "large"))


def test_a_chat_request_is_the_internal_one_to_its_bytes() -> None:
    """C1."""
    ctx = context(CHAT)
    made = prepare_chat(ctx, {})
    assert made.chat.raw == ctx.body and (made.chat.model, made.server.target.url) == ("tiny", URL)
    assert ctx.outcome.request_audit == ()


def test_an_alias_gives_a_chat_request_another_model() -> None:
    asked: JsonObject = {**CHAT, "model": "mine"}
    made = prepare_chat(context(asked, ALIAS), {})
    assert made.chat.model == "tiny" and json.loads(made.chat.raw) == CHAT


def test_a_messages_request_is_translated_and_keeps_its_name() -> None:
    ctx = context({**MESSAGES, "model": "mine", "metadata": {"user_id": "u"}, "top_k": 3}, ALIAS)
    made = prepare_messages(ctx, {})
    body = json.loads(made.chat.raw)
    assert (body["model"], body["messages"], body["max_tokens"]) == ("tiny", SAID, 9)
    assert b'"mine"' in made.dialect.complete_answer(b"", {"choices": []}, ())


@pytest.mark.parametrize("field", [{"output_format": {"type": "json_schema", "schema": {}}}, {}])
def test_a_messages_client_may_have_asked_for_json(field: JsonObject) -> None:
    """C3."""
    assert prepare_messages(context({**MESSAGES, **field}), {}).chat.json_reply is bool(field)


def test_what_could_not_be_carried_is_in_the_outcome() -> None:
    ctx = context({**RESPONSES, "odd": 1})
    prepare_responses(ctx, {})
    assert [repair.id for repair in ctx.outcome.request_audit] and "odd" in str(ctx.outcome.request_audit)


@pytest.mark.parametrize("prepare", [prepare_messages, prepare_responses])
@pytest.mark.parametrize(
    ("model", "error"), [(None, BadRequest), (7, BadRequest), ("", BadRequest), ("claude-x", NotFound)]
)
def test_which_model_is_meant_must_be_known(prepare: Any, model: object, error: type[Exception]) -> None:
    """Of two that are served neither is the one that a name of Anthropic's means."""
    body: dict[str, Any] = {**(MESSAGES if prepare is prepare_messages else RESPONSES), "model": model}
    with pytest.raises(error):
        prepare(context(body), {})


@pytest.mark.parametrize("prepare", [prepare_chat, prepare_messages, prepare_responses])
@pytest.mark.parametrize("body", [b"", b"[]", b"no JSON", b'{"model": "tiny"', b'"a"'])
def test_a_body_that_is_no_object_is_refused(prepare: Any, body: bytes) -> None:
    with pytest.raises(BadRequest):
        prepare(context(body), {})


def test_a_response_goes_on_from_a_kept_one_where_there_is_a_store(tmp_path: Path) -> None:
    asked: JsonObject = {**RESPONSES, "previous_response_id": "resp_1"}
    assert resumed(context(asked), {}, asked).body is asked
    with pytest.raises(ResponseNotFound, match="resp_1"):
        prepare_responses(keeping(asked, tmp_path), {})


def test_each_key_has_a_store_of_its_own(tmp_path: Path) -> None:
    assert response_store(context(RESPONSES), {}) is None
    ctx = keeping(RESPONSES, tmp_path)
    one, other = ({"HTTP_AUTHORIZATION": f"Bearer {name}"} for name in ("one", "other"))
    first = response_store(ctx, one)
    assert first is not None and first != response_store(ctx, other)
    assert first == response_store(ctx, {**one}) == response_store(ctx, {"HTTP_X_API_KEY": "one"})
    ctx.key = ClientKey("k", sha256(b"one").digest())
    assert response_store(ctx, {}) == first, "a file of client keys does not hide what was kept before"


@pytest.mark.parametrize(("model", "url"), [(None, URL), ("tiny", URL), ("large-1", OTHER)])
def test_the_rules_say_where_a_model_is(model: str | None, url: str) -> None:
    assert model_server(context(CHAT, URLS), model).target.url == url


def test_a_conversation_has_a_header_that_its_turns_share() -> None:
    def key(*messages: Any) -> str | None:
        ctx = context(CHAT)
        return conversation_headers(ctx, {}, {"messages": [*messages]}, None).get("X-Conversation-Key")

    first = {"role": "user", "content": "a"}
    assert key(first) == key(first, {"role": "assistant", "content": "b"}) != key({"role": "user", "content": "c"})


def test_what_is_counted_is_healed_but_for_the_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = 'models: [{match: "*", sampling: {set: {top_p: 0.5}}}]'
    healed = healed_conversation(context(CHAT, rules), UNTIDY).body
    assert healed["tools"] != UNTIDY["tools"] and "top_p" not in healed

    def fails(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("proxy.web.prepare.heal_request", fails)
    assert healed_conversation(context(CHAT), UNTIDY).body is UNTIDY
