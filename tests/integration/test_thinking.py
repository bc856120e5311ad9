"""Reasoning of a server without a reasoning parser: separated for both fronts, and sent back in the next turn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import pytest

from proxy.healing.families import FAMILIES, Family, Opens, family_of
from tests.conftest import Inside, Proxy, start
from tests.real.llama import LlamaServer
from tests.support.helpers import received
from tests.support.messages_checker import check_message, check_stream
from tests.support.reply import read
from tests.support.responses_client import RESPONSES, ask, response_of
from tests.support.responses_client import TOOL as RESPONSES_TOOL
from tests.support.rows import rows
from tests.support.scripted import (
    DONE,
    PATIENCE,
    ROLE,
    WRITE_FILE,
    Upstream,
    answer,
    chat,
    completion,
    delta,
    event,
    finish,
    stream,
    text,
    whole_reply,
)

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "b"}}\n</tool_call>'
THOUGHT = "I must write it."
REPLY = f"<think>\n{THOUGHT}\n</think>\n\nI will.\n{CALL}"
SPLIT = 'models:\n  - {match: "*", reasoning: split, family: qwen3}\n'
PROMPTED = 'models:\n  - {match: "*", reasoning: split, family: qwen3.5}\n'
MODELS = [answer({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "vllm"}]})]
TOOL = {"name": "write_file", "description": "Writes.", "input_schema": WRITE_FILE["function"]["parameters"]}


def pieces(said: str, size: int = 5) -> list[bytes]:
    return [text(said[at : at + size]) for at in range(0, len(said), size)]


def serving(said: str, *, streamed: bool) -> Any:
    if streamed:
        return stream(ROLE, *pieces(said), finish(), DONE)
    return whole_reply(said)


def in_chat(inside: Inside, rules: str, said: str, *, streamed: bool, **more: Any) -> tuple[Any, dict[str, Any]]:
    """Return a chat client's view of a reply, and the upstream request."""
    with Upstream(serving(said, streamed=streamed)) as server:
        response = inside(server.url, rules).post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE], **more))
        assert response.status_code == 200
        asked = json.loads(server.seen[0].body)
    seen = read("chat", 200, response.data).choice()
    return (seen.thinking, seen.text, seen.calls, seen.finish), asked


WANTED = (THOUGHT, "I will.\n", [("write_file", {"path": "a", "content": "b"})], "tool_calls")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chat_client_gets_reasoning_separated_from_text(inside: Inside, streamed: bool) -> None:
    found, _ = in_chat(inside, SPLIT, REPLY, streamed=streamed)
    assert (found[0], found[1].strip(), *found[2:]) == (THOUGHT, "I will.", *WANTED[2:])
    prompted, _ = in_chat(inside, PROMPTED, REPLY.removeprefix("<think>"), streamed=streamed)
    assert prompted == found


@pytest.mark.parametrize("streamed", [True, False])
def test_disabled_reasoning_is_not_searched_for(inside: Inside, streamed: bool) -> None:
    """The prompt of the same family then opens no reasoning."""
    found, asked = in_chat(inside, PROMPTED, "Hello.", streamed=streamed, reasoning_effort="none")
    assert found == ("", "Hello.", [], "stop")
    assert asked["chat_template_kwargs"] == {"enable_thinking": False} and "reasoning_effort" not in asked


@pytest.mark.parametrize("streamed", [True, False])
def test_grammar_output_is_not_reasoning(inside: Inside, streamed: bool) -> None:
    """The prompt opens reasoning nevertheless. Arguments that the server sends as text are a call (F87)."""
    asked: list[dict[str, Any]] = [
        {"tool_choice": {"type": "function", "function": {"name": "write_file"}}},
        {"response_format": {"type": "json_object"}},
    ]
    given = '{"path": "a", "content": "b"}'
    found = [in_chat(inside, PROMPTED, given, streamed=streamed, **more)[0] for more in asked]
    assert found[0][0] == "" and found[0][2:] == WANTED[2:] and not found[0][1]
    assert found[1] == ("", given, [], "stop")


@pytest.mark.parametrize("streamed", [True, False])
def test_the_continuation_of_a_prefilled_answer_is_not_reasoning(inside: Inside, streamed: bool) -> None:
    with Upstream(serving(" are you?", streamed=streamed)) as server:
        server.paths["/v1/models"] = MODELS
        talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "How"}]
        body = {"model": "tiny", "max_tokens": 9, "messages": talk, "stream": streamed}
        data = inside(server.url, PROMPTED).post(MESSAGES, json=body).data
    message = (check_stream if streamed else check_message)(data)
    assert [(block["type"], block.get("text")) for block in message["content"]] == [("text", " are you?")]


@pytest.mark.parametrize("streamed", [True, False])
def test_text_is_not_separated_without_a_rule(inside: Inside, streamed: bool) -> None:
    """C1: a server that parses calls may parse reasoning too, so the text keeps its tags."""
    found, _ = in_chat(inside, "", "<think>a</think>Hello.", streamed=streamed)
    assert found == ("", "<think>a</think>Hello.", [], "stop")


OPEN = "<think>\nThe user says hi. Hello!"
OPEN_RULES = {
    "": OPEN,
    SPLIT: "The user says hi. Hello!",
    PROMPTED: "The user says hi. Hello!",
    'models:\n  - {match: "*", parse: proxy, server: vllm, family: qwen3}\n': "The user says hi. Hello!",
}


@pytest.mark.parametrize("front", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("size", [0, 1, 3, 7, 99])
@pytest.mark.parametrize("rules", OPEN_RULES)
def test_reasoning_that_is_never_closed_is_sent_once(inside: Inside, rules: str, size: int, front: str) -> None:
    """It may contain the answer. A second reply would repeat it after the text that was already sent."""
    script = stream(ROLE, *pieces(OPEN, size), finish(), DONE) if size else whole_reply(OPEN)
    with Upstream(script, script) as server:
        server.paths |= {"/v1/models": MODELS, "/tokenize": [answer({}, 404)]}
        client, streamed = inside(server.url, rules), size > 0
        if front == CHAT:
            seen = read("chat", 200, client.post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE])).data).choice()
            assert (seen.thinking, seen.text) == ((OPEN_RULES[rules], "") if rules else ("", OPEN))
        elif front == MESSAGES:
            body = {"model": "tiny", "max_tokens": 99, "tools": [TOOL], "messages": [{"role": "user", "content": "Hi"}]}
            data = client.post(MESSAGES, json={**body, "stream": streamed}).data
            (block,) = (check_stream if streamed else check_message)(data)["content"]
            assert (block["type"], block["thinking"]) == ("thinking", "The user says hi. Hello!")
        else:
            made = response_of(client.post(RESPONSES, json=ask(tools=[RESPONSES_TOOL], stream=streamed)))
            assert items_of(made) == [("reasoning", "The user says hi. Hello!")]
        assert len(server.seen) == 1


def name_of(family: Family) -> str:
    """Return a name that a server may use for a model of the family."""
    return re.sub(r"\[(.)[^]]*\]", r"\1", family.match[0]).strip("*").replace("*", "-")


ROOTS = {
    "a name": "org/{0}",
    "a local path": "/models/{0}",
    "a path in the hub's cache": "/hub/models--org--{0}/snapshots/0123456789abcdef",
    "missing": "",
}
PARSED = 'models:\n  - {match: "*", parse: proxy, server: vllm}\n'


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("family", [each for each in FAMILIES if each.markers], ids=lambda family: family.name)
def test_reasoning_of_an_alias_is_parsed_as_the_familys(inside: Inside, family: Family, root: str) -> None:
    """The family comes from the card's `root`. Without it, only a reply that starts with the opening tag shows it."""
    found = family_of(name_of(family))
    assert found is not None and found.name == family.name
    opener, (closer, *_) = family.markers[0].opener, family.markers[0].closers
    opened = family.prompt.unsaid is Opens.YES
    said = f"{'' if opened else opener}Hm.{closer}Hello."
    told = ("Hm.", "Hello.") if root != "missing" or not opened else ("", said)
    card = {"id": "tiny", "object": "model", "owned_by": "vllm", "root": ROOTS[root].format(name_of(family)) or None}
    for streamed in (True, False):
        with Upstream(serving(said, streamed=streamed)) as server:
            server.paths["/v1/models"] = [answer({"object": "list", "data": [card]})]
            response = inside(server.url, PARSED).post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE]))
        seen = read("chat", 200, response.data).choice()
        assert (seen.thinking, seen.text) == told


PLAIN = ["Hello.", "The tag <think> opens it.</think>", "a</think>b", "<answer>a</answer>", "<response>a</response>"]
PLAIN += ["Here are my reasoning steps:\nNone.", "`<think>` it", "> <think>a</think>", "<thinking>a</thinking>b"]


@pytest.mark.parametrize("said", PLAIN)
def test_a_reply_of_an_unknown_model_without_reasoning_is_unchanged(inside: Inside, said: str) -> None:
    """C1: a whole answer is unchanged byte for byte, and the text of a stream is complete."""
    for streamed in (True, False):
        script = serving(said, streamed=streamed)
        with Upstream(script) as server:
            data = inside(server.url, PARSED).post(CHAT, json=chat(stream=streamed, tools=[WRITE_FILE])).data
        if streamed:
            assert received(data)[0].text == said and not received(data)[0].reasoning
        else:
            assert json.loads(data) == completion(said)


def test_a_request_for_an_alias_uses_the_familys_fields(inside: Inside) -> None:
    """This holds for all three dialects, with one request to the model server for all of them."""
    card = {"id": "tiny", "object": "model", "owned_by": "vllm", "root": "/models/Kimi-K3"}
    with Upstream(*[whole_reply("a")] * 3) as server:
        server.paths["/v1/models"] = [answer({"object": "list", "data": [card]})]
        client = inside(server.url)
        client.post(CHAT, json=chat(stream=False, reasoning_effort="low"))
        effort = {"output_config": {"effort": "low"}, "max_tokens": 9}
        client.post(MESSAGES, json={"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **effort})
        client.post(RESPONSES, json=ask(stream=False, reasoning={"effort": "low"}))
        asked = [json.loads(seen.body)["chat_template_kwargs"]["thinking_effort"] for seen in server.seen]
        assert asked == ["low"] * 3 and server.asked == ["/v1/models"]


def items_of(response: dict[str, Any]) -> list[tuple[str, str]]:
    said = {"reasoning": "content", "message": "content"}
    return [(item["type"], item[said[item["type"]]][0]["text"] if item["type"] in said else item["arguments"])
            for item in response["output"]]  # fmt: skip


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("rules", [SPLIT, PROMPTED, ""], ids=["split", "in the prompt", "no rules"])
def test_a_responses_client_gets_a_reasoning_item(inside: Inside, streamed: bool, rules: str) -> None:
    """The events are the same as in the other dialects. Tags in the reply itself are always recognized."""
    reply = REPLY.removeprefix("<think>\n") if rules == PROMPTED else REPLY
    with Upstream(serving(reply, streamed=streamed)) as server:
        server.paths |= {"/v1/models": MODELS, "/tokenize": [answer({}, 404)]}
        client = inside(server.url, rules)
        made = response_of(client.post(RESPONSES, json=ask(tools=[RESPONSES_TOOL], stream=streamed)))
    thought, message, call = items_of(made)
    assert thought == ("reasoning", THOUGHT) and message[0] == "message" and message[1].strip() == "I will."
    assert (call[0], json.loads(call[1])) == ("function_call", {"path": "a", "content": "b"})


@pytest.mark.parametrize("streamed", [True, False])
@rows(__file__, "family,thought")
def test_reasoning_is_sent_back_if_the_family_uses_it(
    inside: Inside, streamed: bool, family: str, thought: dict[str, str]
) -> None:
    """For an unknown family, reasoning is not sent back until the server has shown that it requires it."""
    rules = f'models:\n  - {{match: "*", family: {family}}}\n' if family else ""
    given = {"reasoning_content": "Hm.", "content": "Hi."}
    whole = whole_reply({"role": "assistant", **given})
    script = stream(ROLE, delta(given), finish(), DONE) if streamed else whole
    with Upstream(script, whole_reply("a")) as server:
        server.paths["/v1/models"] = MODELS
        client = inside(server.url, rules)
        made = response_of(client.post(RESPONSES, json=ask(stream=streamed)))
        history = [{"role": "user", "content": "Hi"}, *made["output"], {"role": "user", "content": "go"}]
        response_of(client.post(RESPONSES, json=ask(history, stream=False)))
        sent = json.loads(server.seen[1].body)["messages"][1]
    assert sent == {"role": "assistant", "content": "Hi.", **thought}


def test_a_block_with_an_unknown_signature_is_sent_back_only_if_the_model_uses_it(inside: Inside) -> None:
    block = {"type": "thinking", "thinking": "Hm.", "signature": "another server's"}
    talk = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [block, {"type": "text", "text": "Hi."}]},
        {"role": "user", "content": "go"},
    ]
    body = {"model": "tiny", "max_tokens": 9, "messages": talk}
    for rules, wanted in (("", None), ('models:\n  - {match: "*", family: qwen3}\n', "Hm.")):
        with Upstream(whole_reply("a")) as server:
            server.paths["/v1/models"] = MODELS
            assert inside(server.url, rules).post(MESSAGES, json=body).status_code == 200
            sent = json.loads(server.seen[0].body)["messages"][1]
        assert sent.get("reasoning_content") == wanted


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_a_block_is_sent_back_in_the_field_that_the_server_used(inside: Inside, field: str) -> None:
    told = stream(ROLE, delta({field: "Hm."}), text("Hi."), finish(), DONE)
    with Upstream(told, whole_reply("a")) as server:
        server.paths["/v1/models"] = MODELS
        client = inside(server.url)
        turn: dict[str, Any] = {"role": "user", "content": "Hi"}
        body = {"model": "tiny", "max_tokens": 99}
        message = check_stream(client.post(MESSAGES, json={**body, "stream": True, "messages": [turn]}).data)
        said = {"role": "assistant", "content": message["content"]}
        client.post(MESSAGES, json={**body, "messages": [turn, said, turn]})
        sent = json.loads(server.seen[1].body)["messages"]
    assert sent[1] == {"role": "assistant", "content": "Hi.", field: "Hm."}


def test_a_chat_clients_reasoning_is_sent_back_in_the_familys_field(inside: Inside) -> None:
    said = {"role": "assistant", "content": "Hi.", "reasoning_content": "Hm."}
    user = {"role": "user", "content": "Hi"}
    rules = 'models:\n  - {match: "*", family: gpt-oss}\n'
    with Upstream(whole_reply("a")) as server:
        inside(server.url, rules).post(CHAT, json={**chat(), "messages": [user, said, user]})
        sent = json.loads(server.seen[0].body)["messages"]
    assert sent == [user, {**said, "thinking": "Hm."}, user]


def test_a_model_name_suffix_switches_thinking(inside: Inside) -> None:
    rules = 'aliases: {"q:*": Qwen/Qwen3-8B}\n'
    for name, wanted in (("q:nothink", {"enable_thinking": False}), ("q:high", {"enable_thinking": True})):
        with Upstream(whole_reply("a"), whole_reply("a")) as server:
            server.paths["/v1/models"] = MODELS
            client = inside(server.url, rules)
            client.post(CHAT, json={**chat(), "model": name})
            ask = {"model": name, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
            client.post(MESSAGES, json=ask)
            for seen in server.seen:
                asked = json.loads(seen.body)
                assert (asked["model"], asked["chat_template_kwargs"]) == ("Qwen/Qwen3-8B", wanted)


SWITCHED = {
    "family: qwen3.5": {"chat_template_kwargs": {"enable_thinking": False}},
    "family: kimi-k3": {"chat_template_kwargs": {"thinking": False}},
    "family: minimax-m3": {"chat_template_kwargs": {"thinking_mode": "disabled"}},
    "family: gpt-oss": {"reasoning_effort": "low"},
    "family: minimax-m2": {},
    "family: qwen3.5, thinking: none": {},
    "thinking: enable_thinking": {"chat_template_kwargs": {"enable_thinking": False}},
    "parse: auto": {},
}


@pytest.mark.parametrize("said", SWITCHED)
def test_a_messages_client_switches_the_thinking_of_a_known_family(inside: Inside, said: str) -> None:
    """If the rules name no switch, the family's own is used."""
    with Upstream(whole_reply("a")) as server:
        server.paths["/v1/models"] = MODELS
        body = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        front = inside(server.url, f'models:\n  - {{match: "*", {said}}}\n')
        assert front.post(MESSAGES, json={**body, "thinking": {"type": "disabled"}}).status_code == 200
        asked = json.loads(server.seen[0].body)
    names = ("chat_template_kwargs", "reasoning_effort", "thinking")
    assert {name: asked[name] for name in names if name in asked} == SWITCHED[said]


@pytest.mark.parametrize("rules", [SPLIT, PROMPTED])
def test_a_server_with_its_own_parser_is_unaffected(inside: Inside, rules: str) -> None:
    sent = [ROLE, delta({"reasoning_content": "Hm, <think>"}), text("Hi "), text("you."), finish(), DONE]
    with Upstream(stream(*sent)) as server:
        response = inside(server.url, rules).post(CHAT, json=chat(tools=[WRITE_FILE]))
    assert response.data == b"".join(sent)


USED = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
COUNTED = {"vllm": {"count": 3, "tokens": [1]}, "llamacpp": {"tokens": [1, 2, 3]}}


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("streamed", [True, False])
def test_reasoning_tokens_are_counted_by_the_server(inside: Inside, streamed: bool, kind: str) -> None:
    usage = event({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": USED})
    told = stream(ROLE, text("<think>a</think>b"), finish(), usage, DONE)
    script = told if streamed else whole_reply("<think>a</think>b", usage=USED)
    with Upstream(script, script) as server:
        server.paths |= {"/v1/models": MODELS, "/tokenize": [answer(COUNTED[kind])]}
        client = inside(server.url, SPLIT)
        body = chat(stream=streamed, stream_options={"include_usage": True}) if streamed else chat(stream=False)
        data = client.post(CHAT, json=body).data
        got = received(data).usage[-1] if streamed else json.loads(data)["usage"]
        ask = {"model": "tiny", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": streamed}
        told_again = client.post(MESSAGES, json=ask).data
    assert got == {**USED, "completion_tokens_details": {"reasoning_tokens": 3}}
    message = (check_stream if streamed else json.loads)(told_again)
    assert message["usage"]["output_tokens_details"] == {"thinking_tokens": 3}


SCRIPTS = {"opened": [REPLY, "Done."], "prompted": [REPLY.removeprefix("<think>\n"), "Done."]}


@pytest.fixture(scope="module")
def thinking_front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Proxy]]:
    """Yield proxies in front of a real llama.cpp server whose scripted model writes reasoning in its text."""
    with ExitStack() as stack:
        server = stack.enter_context(LlamaServer(SCRIPTS, cache=tmp_path_factory.mktemp("llama")))
        fronts = {}
        for script, rules in (("opened", SPLIT), ("prompted", PROMPTED)):
            folder: Path = tmp_path_factory.mktemp(f"front_{script}")
            path = folder / "rules.yaml"
            path.write_text(rules)
            fronts[script] = start(server.url, "--rules", str(path), folder=folder, stack=stack)
        yield fronts


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_anthropic_sdk_gets_the_reasoning_of_a_real_server(thinking_front: dict[str, Proxy], script: str) -> None:
    front = thinking_front[script]
    turn: Any = {"role": "user", "content": f"Write [[script:{script}]]"}
    tools: Any = [TOOL]
    with anthropic.Anthropic(base_url=front.url, api_key="k", max_retries=0, timeout=PATIENCE) as client:
        with client.messages.stream(model="parrot", max_tokens=500, messages=[turn], tools=tools) as events:
            message = events.get_final_message()
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        first, _, call = message.content
        assert first.type == "thinking" and first.thinking == THOUGHT
        assert call.type == "tool_use"
        said: Any = {"role": "assistant", "content": message.content}
        result: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "ok"}]}
        again = client.messages.create(model="parrot", max_tokens=500, messages=[turn, said, result], tools=tools)
        assert [block.type for block in again.content] in (["text"], ["thinking"], ["thinking", "text"])
