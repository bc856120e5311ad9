"""Requests healed on their way upstream: by rules and by a server's refusals, in every dialect (F79 to F84)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import parse_rules
from proxy.exchange import plan
from proxy.healing.heal import heal_request
from proxy.notations.toolset import short_name
from tests.conftest import Inside
from tests.healing.shapes import call, calls, result, said, system, tool, turn, user
from tests.support import messages_ask
from tests.support.messages_ask import ask
from tests.support.rows import rows
from tests.support.scripted import (
    DONE,
    ROLE,
    Script,
    Upstream,
    answer,
    arguments,
    chat,
    event,
    finish,
    opened,
    stream,
    text,
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
OK = text_reply("a")
BROKEN = turn(calls(call(arguments="{'path': 'mkp1'}")))
LATE = [system(), user(), said(), system("mks2 now"), user("mku2")]
PICTURE = [user([{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": "data:,"}}])]


def refused(message: str, status: int = 400) -> Script:
    return [answer({"error": {"message": message, "type": "BadRequestError", "code": status}}, status)]


def body_of(messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {**chat(tools=[tool()], **more), "messages": messages}


def test_only_the_broken_call_of_a_request_is_changed(inside: Inside) -> None:
    """F79."""
    with Upstream(whole_reply("Hi")) as server:
        response = inside(server.url).post(CHAT, json=body_of(BROKEN, stream=False))
        sent = server.seen[0].json
    assert sent["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"path": "mkp1"}'
    assert sent == body_of(turn(calls(call())), stream=False)
    assert response.headers["X-Tool-Proxy-Fixes"] == "heal_arguments:1"


GEMMA_2 = "{{ raise_exception('System role not supported') }}{{ '<start_of_turn>model' }}"
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "root": ({"owned_by": "vllm", "root": "google/gemma-2-9b-it"}, {}, ""),
    "template": ({"owned_by": "llamacpp"}, {"model_path": "/m.gguf", "chat_template": GEMMA_2}, ""),
    "rules": ({"owned_by": "vllm"}, {}, 'models: [{match: "*", family: gemma-2}]'),
}


@pytest.mark.parametrize("source", SHOWN)
def test_the_family_comes_from_the_rules_or_the_server(inside: Inside, source: str) -> None:
    """Gemma 2 accepts no system message: the first request is already healed, in both dialects."""
    card, props, rules = SHOWN[source]
    with Upstream(*[whole_reply("Hi")] * 2) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "tiny", "object": "model", **card}]})]
        server.paths["/props"] = [answer(props)]
        client = inside(server.url, rules)
        client.post(CHAT, json=body_of([system(), user()], stream=False))
        client.post(MESSAGES, json={"model": "tiny", "max_tokens": 9, "system": "mks1 rules", "messages": [user()]})
        sent = [seen.json["messages"] for seen in server.seen]
    assert sent == [[user("mks1 rules\n\nmku1 question")]] * 2


def test_a_healthy_conversation_is_unchanged(inside: Inside) -> None:
    """C1."""
    body = json.dumps(body_of(turn(calls())), indent=1).encode()
    with Upstream(OK) as server:
        inside(server.url).post(CHAT, data=body)
        assert server.seen[0].body == body


@pytest.mark.parametrize(
    "status,words", [(400, "roles must alternate"), (500, "Jinja Exception: roles must alternate")]
)
def test_the_cause_of_a_refusal_is_remembered(
    status: int, words: str, inside: Inside, logged: pytest.LogCaptureFixture
) -> None:
    """F82: the next request is healed before it is sent, and the log shows the entry that makes this permanent."""
    body = body_of([user(), user("mku2")], model="tiny")
    with Upstream(refused(words, status), OK, OK) as server:
        client = inside(server.url)
        first = client.post(CHAT, json=body)
        assert first.status_code == 200 and first.data
        assert client.post(CHAT, json=body).data
        sent = [seen.json["messages"] for seen in server.seen]
    healed = [user("mku1 question\n\nmku2")]
    assert sent == [body["messages"], healed, healed]
    (line,) = [record.getMessage() for record in logged.records if "rules.yaml" in record.getMessage()]
    entry = line.partition("rules.yaml: ")[2]
    rules = parse_rules(f"models:\n{entry}\n".encode(), "r.yaml")
    assert rules.heal_plan("tiny").on == {"alternate"}
    assert rules.profile("tiny", "").thinking == "enable_thinking", "the entry keeps its other fields"


NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def test_a_refusal_after_a_missing_parser_is_healed(inside: Inside) -> None:
    """vLLM checks for its parser before it renders the template, so it rejects the request twice, for two causes."""
    body = body_of([user(), user("mku2")])
    rules = 'models: [{match: "*", server: vllm}]'
    with Upstream(refused(NO_PARSER), refused("roles must alternate"), OK, OK) as server:
        client = inside(server.url, rules=rules)
        for _ in range(2):
            assert client.post(CHAT, json=body).status_code == 200
        sent = [seen.json for seen in server.seen]
    healed = [user("mku1 question\n\nmku2")]
    assert [each["messages"] for each in sent] == [body["messages"], body["messages"], healed, healed]
    assert [each.get("tool_choice") for each in sent] == [None, "none", "none", "none"]


IDS_OF_NINE = "Tool call IDs should be alphanumeric strings with length 9!"
BEHIND_A_RESULT = "Unexpected role 'user' after role 'tool'"
TOO_LONG = (
    "'max_tokens' is too large: 32000. This model's maximum context length is 4096 tokens and your request has 96 input"
    " tokens"
)
TWO_CAUSES = [user(), calls(call(id="call_Ab12")), result(tool_call_id="call_Ab12"), user("mku2")]


@pytest.mark.parametrize("others", [(), (TOO_LONG,), (NO_PARSER,)])
def test_a_request_with_several_causes_is_healed_for_each(others: tuple[str, ...], inside: Inside) -> None:
    """A template reports one cause at a time. All of them are remembered."""
    body = body_of(TWO_CAUSES, max_tokens=32000)
    refusals = [refused(words) for words in (IDS_OF_NINE, *others, BEHIND_A_RESULT)]
    with Upstream(*refusals, OK, OK) as server:
        client = inside(server.url, rules='models: [{match: "*", server: vllm}]')
        assert client.post(CHAT, json=body).status_code == 200
        assert client.post(CHAT, json=body).status_code == 200
        *_, last, next_one = (seen.json["messages"] for seen in server.seen)
        assert len(server.seen) == len(refusals) + 2
    assert last == next_one and [message["role"] for message in last] == ["user", "assistant", "tool"]
    assert len(last[1]["tool_calls"][0]["id"]) == 9


ALTERNATE = "roles must alternate"
TWO_USERS = [user(), user("mku2")]
SEVERAL = [system(), *TWO_CAUSES, said(""), user("mku3")]
VLLM_AT_LAST = 'models: [{match: "*", server: vllm}]'
UNREAD = 'models: [{match: "*", parse: server}]'
# Refusals that are returned to the client: the message, the conversation, and the rules.
FINAL: dict[str, tuple[tuple[str, ...], list[dict[str, Any]], str]] = {
    "the same a third time": ((NO_PARSER, ALTERNATE, ALTERNATE), [system(), *TWO_USERS], VLLM_AT_LAST),
    "another that does not help": ((NO_PARSER, ALTERNATE, NO_PARSER), [system(), *TWO_USERS], VLLM_AT_LAST),
    "too many": ((IDS_OF_NINE, BEHIND_A_RESULT, "System role not supported", "content must not be empty"), SEVERAL, ""),
    "refused in other words when healed": ((ALTERNATE, "no such luck"), TWO_USERS, ""),
    "nothing to heal": ((ALTERNATE,), [user()], ""),
    "switched off": (
        ("This model does not support image input",),
        PICTURE,
        'models: [{match: "*", heal: {off: [pictures]}}]',
    ),
    # The server could not parse the model's answer.
    "an empty stack": (("Unexpected empty grammar stack",), TWO_USERS, UNREAD),
    "a failed parser": (("Failed to parse input at pos 3: a template",), TWO_USERS, UNREAD),
    "a failed format": (
        ("The model produced output that does not match the expected peg-native format",),
        TWO_USERS,
        UNREAD,
    ),
}


@pytest.mark.parametrize("case", FINAL)
def test_a_final_refusal_is_not_remembered(case: str, inside: Inside) -> None:
    refusals, talk, rules = FINAL[case]
    status = 500 if rules == UNREAD else 400
    with Upstream(*(refused(words, status) for words in refusals), OK) as server:
        client = inside(server.url, rules=rules)
        response = client.post(CHAT, json=body_of(talk))
        assert response.status_code == status and response.json is not None
        assert refusals[-1] in response.json["error"]["message"] and len(server.seen) == len(refusals)
        assert client.post(CHAT, json=body_of(talk)).status_code == 200
        assert server.seen[-1].json["messages"] == talk


@pytest.mark.parametrize("off", ["all", "arguments"])
def test_each_healing_can_be_disabled(off: str, inside: Inside) -> None:
    rules = f'models: [{{match: "*", heal: {{off: [{off}]}}}}]'
    body = body_of(BROKEN)
    with Upstream(OK) as server:
        inside(server.url, rules=rules).post(CHAT, json=body)
        assert server.seen[0].json == body


def test_an_image_for_a_text_model_is_replaced(inside: Inside) -> None:
    with Upstream(refused("At most 0 image(s) may be provided in one prompt."), OK) as server:
        inside(server.url).post(CHAT, json=body_of(PICTURE))
        told = server.seen[1].json["messages"][0]["content"]
    assert told == "What is it?\n[Here was a picture, which this model cannot read.]"


def test_a_healing_defect_leaves_the_request_unchanged(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    """C6."""
    heal = heal_request

    def fail(body: Any, how: Any) -> Any:
        if how.ids:
            raise KeyError("a defect")
        return heal(body, how)

    monkeypatch.setattr(plan, "heal_request", fail)
    with Upstream(OK) as server:
        assert inside(server.url).post(CHAT, json=body_of(BROKEN)).status_code == 200
        assert server.seen[0].json == body_of(BROKEN)
    assert "a defect" in logged.text


def test_a_messages_request_is_healed_in_the_same_way(inside: Inside) -> None:
    """Mistral's template accepts ids of nine letters and digits (F49), and no user message after a result."""
    turns = (
        messages_ask.assistant(messages_ask.call()),
        messages_ask.user(messages_ask.result("found"), messages_ask.text("And?")),
    )
    body = ask(messages_ask.user("Hi"), *turns, model="Mistral-Nemo", tools=[messages_ask.TOOL])
    with Upstream(whole_reply("Hi"), [answer({"count": 7})]) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "Mistral-Nemo"}]})]
        client = inside(server.url)
        assert client.post(MESSAGES, json=body).status_code == 200
        assert client.post(f"{MESSAGES}/count_tokens", json=body).json == {"input_tokens": 7}
        sent, counted = (seen.json["messages"] for seen in server.seen)
    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert len(sent[1]["tool_calls"][0]["id"]) == 9
    assert sent[2]["content"] == "found\n\nAnd?"
    assert counted == sent, "the request that is counted is the request that is sent"


WANTS = "The `reasoning_content` in the thinking mode must be passed back to the API."


def test_reasoning_is_sent_back_to_a_server_that_requires_it(inside: Inside) -> None:
    """F74: in the server's own field, and empty where the client dropped it."""
    talk = [user(), calls(reasoning="Hm."), result(), calls(call(2)), result(2)]
    with Upstream(refused(WANTS), OK) as server:
        assert inside(server.url).post(CHAT, json=body_of(talk)).status_code == 200
        sent = server.seen[1].json["messages"]
    assert [message.get("reasoning_content") for message in sent] == [None, "Hm.", None, "", None]


def test_a_messages_clients_thinking_is_sent_back_once_a_server_requires_it(inside: Inside) -> None:
    """F74."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    talk = [
        messages_ask.user("Hi"),
        messages_ask.assistant(thought, messages_ask.call()),
        messages_ask.user(messages_ask.result()),
    ]
    whole = whole_reply("Hi")
    with Upstream(refused(WANTS), whole, whole) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "tiny"}]})]
        client = inside(server.url)
        for _ in range(2):
            assert client.post(MESSAGES, json=ask(*talk, model="tiny", tools=[messages_ask.TOOL])).status_code == 200
        sent = [seen.json["messages"][1].get("reasoning_content") for seen in server.seen]
    assert sent == [None, "", "Hm."]


def test_a_repeated_call_is_logged_and_reported_to_the_model(inside: Inside, logged: pytest.LogCaptureFixture) -> None:
    """F92."""
    conversation = [user()]
    counts = []
    with Upstream(*[OK] * 6) as server:
        client = inside(server.url)
        for number in range(6):
            conversation += [calls(call(number)), result(number, text="same")]
            conversation[-2]["tool_calls"][0]["function"]["arguments"] = "{}"
            assert client.post(CHAT, json=body_of(conversation)).data
            counts.append(logged.text.count("has made the same call"))
        sent = server.seen[5].json["messages"]
    assert counts == [0, 0, 1, 2, 3, 4]
    told = [message["content"] for message in sent if message["role"] == "tool"]
    assert told[:4] == ["same"] * 4 and "5 times" in told[4] and "6 times" in told[5]
    assert sent[: len(sent) - 2] == server.seen[4].json["messages"], "the server's prefix cache stays valid"


def repeated(times: int) -> list[dict[str, Any]]:
    """Return a conversation with this number of identical calls and results."""
    talk = [user()]
    for number in range(times):
        one = calls(call(number))
        one["tool_calls"][0]["function"]["arguments"] = "{}"
        talk += [one, result(number, text="same")]
    return talk


@pytest.mark.parametrize("streamed", [True, False])
@rows(__file__, "rules,times,answered")
def test_a_rule_answers_a_repeated_call(inside: Inside, rules: str, times: int, answered: bool, streamed: bool) -> None:
    """F92: the proxy answers in the client's dialect and mode."""
    with Upstream(OK if streamed else whole_reply("a")) as server:
        client = inside(server.url, rules=f'models: [{{match: "*", tools: {{{rules}}}}}]')
        response = client.post(CHAT, json=body_of(repeated(times), stream=streamed))
        assert len(server.seen) == (0 if answered else 1)
    assert (b"made 4 times" in response.data) is answered
    assert (response.mimetype == "text/event-stream") is streamed and response.data.endswith(DONE) is streamed


LONG = "mcp__a_server_of_some_length__and_a_tool_of_a_name_that_is_longer_than_others"


@pytest.mark.parametrize("streamed", [True, False])
def test_a_name_that_the_server_rejects_is_restored_for_the_client(inside: Inside, streamed: bool) -> None:
    """F84."""
    refusal = refused("tools[0].function.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
    body = {**chat(stream=streamed, tools=[tool(LONG)]), "messages": turn(calls(call(name=LONG)))}
    short = short_name(LONG)
    called = [{"id": "c", "type": "function", "function": {"name": short, "arguments": '{"path": "a"}'}}]
    reply: Script = whole_reply({"role": "assistant", "content": None, "tool_calls": called}, "tool_calls")
    if streamed:
        reply = stream(ROLE, opened(0, "c", short), arguments(0, '{"path": "a"}'), finish("tool_calls"), DONE)
    with Upstream(refusal, reply) as server:
        response = inside(server.url).post(CHAT, json=body)
        sent = server.seen[1].json
    assert len(short) == 64 and sent["tools"][0]["function"]["name"] == short
    assert sent["messages"][2]["tool_calls"][0]["function"]["name"] == short
    assert LONG in response.text and short not in response.text


USAGE_BY_RULE = 'models: [{match: "*", sampling: {default: {stream_options: {include_usage: true}}}}]'


@pytest.mark.parametrize("given", [None, {"include_usage": True}, {"include_usage": False}])
def test_usage_that_a_rule_requests_is_hidden(given: dict[str, bool] | None, inside: Inside) -> None:
    """F59, F61: a default does not change what the client requests."""
    used = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
    counts = event({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": used})
    options = {} if given is None else {"stream_options": given}
    with Upstream(stream(ROLE, text("a"), finish(), counts, DONE)) as server:
        data = inside(server.url, rules=USAGE_BY_RULE).post(CHAT, json={**body_of([user()]), **options}).data
        assert server.seen[0].json["stream_options"] == (given or {"include_usage": True})
    assert (b'"prompt_tokens"' in data) is (given == {"include_usage": True})
    assert data.endswith(DONE)


def test_a_rule_that_requests_usage_in_streams_does_not_affect_whole_answers(inside: Inside) -> None:
    """F60: servers reject `stream_options` with `stream: false`."""
    with Upstream(whole_reply("Hi")) as server:
        client = inside(server.url, rules=USAGE_BY_RULE)
        assert client.post(CHAT, json=body_of([user()], stream=False)).status_code == 200
        assert "stream_options" not in server.seen[0].json


COUNT = "<total_tokens>123 tokens left</total_tokens>"


@pytest.mark.parametrize("front", [CHAT, MESSAGES])
def test_a_token_counting_line_is_removed_in_both_fronts(inside: Inside, front: str) -> None:
    """F95: only if it is a whole system message."""
    talk = [user("Hi"), said("Yes?"), user(f"What is {COUNT}?"), system(COUNT)]
    body = body_of(talk, stream=False) if front == CHAT else ask(*talk, model="tiny")
    with Upstream(whole_reply("Hi")) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [{"id": "tiny"}]})]
        assert inside(server.url).post(front, json=body).status_code == 200
        sent = server.seen[0].json["messages"]
    assert [(message["role"], message["content"]) for message in sent] == [
        (message["role"], message["content"]) for message in talk[:3]
    ]
