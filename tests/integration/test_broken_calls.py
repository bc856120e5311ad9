"""If a reply ends in an unrepairable call and the rules allow it, the call is requested again with its tool forced."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Inside
from tests.integration.test_second_try import BROKEN, body_for, models, sends, usage, usage_chunk, view
from tests.real import llama
from tests.support.reply import read
from tests.support.responses_ask import ask as ask_response
from tests.support.responses_checker import calls_of, text_of
from tests.support.responses_checker import check_stream as check_response
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Script,
    Upstream,
    answer,
    chat,
    finish,
    stream,
    text,
    whole_reply,
)

CHAT = "/v1/chat/completions"
RULES = 'models: [{match: "*", broken_calls: retry}]'
ARGUMENTS = {"path": "a", "content": "b"}
# No reading of this text shows where the content ends.
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "say "x" y" z}}\n</tool_call>'
BEFORE = "I write it.\n"


@contextlib.contextmanager
def upstream(*scripts: Script, owner: str = "vllm") -> Iterator[Upstream]:
    """Yield a server that reveals its kind."""
    with Upstream(*scripts) as server:
        server.paths["/v1/models"] = models(owner)
        yield server


def call_of(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "call_7", "type": "function", "function": {"name": name, "arguments": arguments}}


def guided(name: str = "write_file", arguments: str | None = None, why: str = "stop") -> Script:
    """Return the answer to a forced call. Its finish reason is `stop`, as in vLLM for a named tool choice."""
    called = call_of(name, json.dumps(ARGUMENTS) if arguments is None else arguments)
    message = {"role": "assistant", "content": None, "tool_calls": [called]}
    return whole_reply(message, why, usage=usage(20, 5))


def bare() -> Script:
    """Return the same answer from a server that sends the arguments as text (F87)."""
    message = {"role": "assistant", "content": json.dumps(ARGUMENTS)}
    return whole_reply(message, "stop", usage=usage(20, 5))


def arguments_of(data: bytes) -> list[Any]:
    """Return the arguments of the calls that a chat client receives."""
    return [arguments for _, arguments in read("chat", 200, data).choice().calls]


@pytest.mark.parametrize("second", [guided, bare])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("before", ["", BEFORE, "<think>Hm.</think>\n\n"])
@pytest.mark.parametrize("behind", ["", "\n", "\n</tool_calls>\n "])
def test_the_second_call_replaces_the_broken_one(
    inside: Inside, before: str, behind: str, streamed: bool, second: Any
) -> None:
    with upstream(sends(before + CALL + behind, used=9, streamed=streamed), second()) as server:
        response = inside(server.url, rules=RULES).post(CHAT, json=body_for(streamed))
        one, other = (seen.json for seen in server.seen)
    found = view(response.data, streamed)
    assert found["text"].strip() == before.strip() and found["calls"] == ["write_file"]
    assert found["end"] == ["tool_calls"] and found["roles"] == 1 and len(found["ids"]) == 1
    assert found["usage"] == usage(30, 14)
    assert arguments_of(response.data) == [ARGUMENTS]
    assert other["tool_choice"] == {"type": "function", "function": {"name": "write_file"}}
    assert other["messages"] == one["messages"] and other["tools"] == one["tools"]
    assert "stream_options" not in other and not other.get("stream")


def test_an_unreadable_structured_call_of_a_whole_answer_is_requested_again(inside: Inside) -> None:
    """In a stream, a call that has been partly sent cannot be taken back."""
    called = call_of("write_file", '{"path": "a", "content": "say "x" y" z}')
    message = {"role": "assistant", "content": "I write it.", "tool_calls": [called]}
    first = whole_reply(message, "tool_calls", usage=usage(10, 9))
    with upstream(first, guided()) as server:
        response = inside(server.url, rules=RULES).post(CHAT, json=body_for(False))
        assert len(server.seen) == 2
    found = view(response.data, False)
    assert found["text"] == "I write it." and found["calls"] == ["write_file"] and found["end"] == ["tool_calls"]
    assert arguments_of(response.data) == [ARGUMENTS] and found["usage"] == usage(30, 14)


@pytest.mark.parametrize("second", [guided(), sends("I cannot.")])
@pytest.mark.parametrize("before", ["", BEFORE])
def test_a_responses_client_sees_one_response_after_heartbeats(inside: Inside, before: str, second: Script) -> None:
    """Its sequence numbers continue after the heartbeats of the second try."""
    tool = {"type": "function", "name": "write_file", "parameters": WRITE_FILE["function"]["parameters"]}
    body = ask_response(tools=[tool], stream=True)
    with upstream() as server:
        gate = server.gate()
        server.play(sends(before + CALL, used=9, streamed=True), [gate, *second])
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url, rules=RULES, heartbeat=0.02)
        given: Any = iter(client.post("/v1/responses", json=body, buffered=False).response)
        data = b""
        while data.count(b"event: response.in_progress") < 3:
            data += next(given)
        gate.open()
        made = check_response(data + b"".join(given))
    calls = [("write_file", ARGUMENTS)] if second == guided() else []
    assert calls_of(made) == calls
    assert text_of(made).strip() == (before if calls else before + CALL).strip()


def test_no_reasoning_follows_sent_text(inside: Inside) -> None:
    rules = 'models: [{match: "*", broken_calls: retry, reasoning: split, family: qwen3}]'
    with upstream(sends(f"<think>Hm.</think>{BEFORE}{CALL}", streamed=True), guided()) as server:
        server.paths["/tokenize"] = [answer({}, 404)]
        found = view(inside(server.url, rules=rules).post(CHAT, json=body_for(True)).data, True)
    assert (found["thoughts"], found["text"], found["calls"]) == ("Hm.", BEFORE, ["write_file"])


THINKS = 'models: [{match: "*", broken_calls: retry, %s}]'
# A reply with reasoning, and the rules that separate it.
THOUGHTS = {
    "opened": (THINKS % "reasoning: split, family: qwen3", "<think>\nHm.\n</think>\n\n"),
    "in the prompt": (THINKS % "reasoning: split, family: qwen3.5", "Hm.\n</think>\n\n"),
    "learned": (THINKS % "family: qwen3.5", "Hm.\n</think>\n\n"),
}
NO_PARSER = [answer({"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice', "code": 400}}, 400)]


def thinking() -> Script:
    """Return the same answer from a server whose model reasons first."""
    message = {"role": "assistant", "content": f"So.\n</think>\n\n{json.dumps(ARGUMENTS)}"}
    return whole_reply(message, "stop", usage=usage(20, 5))


@pytest.mark.parametrize("second", [guided, bare, thinking])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("before", ["", BEFORE])
@pytest.mark.parametrize("how", THOUGHTS)
def test_reasoning_before_the_call_is_kept(inside: Inside, how: str, before: str, streamed: bool, second: Any) -> None:
    """No text is added after it. It is separated once the proxy has learned to parse, even without a closing tag."""
    rules, thought = THOUGHTS[how]
    refused = [NO_PARSER] if how == "learned" else []
    with upstream(*refused, sends(thought + before + CALL, used=9, streamed=streamed), second()) as server:
        server.paths["/tokenize"] = [answer({}, 404)]
        data = inside(server.url, rules=rules).post(CHAT, json=body_for(streamed)).data
    seen = read("chat", 200, data).choice()
    assert (seen.thinking, seen.text.strip()) == ("Hm.", before.strip())
    assert arguments_of(data) == [ARGUMENTS]


def test_llama_cpp_is_offered_only_that_tool_and_must_call_one(inside: Inside) -> None:
    other = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    with upstream(sends(CALL), guided(), owner="llamacpp") as server:
        body = chat(stream=False, tools=[other, WRITE_FILE])
        found = view(inside(server.url, rules=RULES).post(CHAT, json=body).data, False)
        second = server.seen[-1].json
    assert found["calls"] == ["write_file"]
    assert second["tool_choice"] == "required" and second["tools"] == [WRITE_FILE]
    assert second["parallel_tool_calls"] is False


def test_only_the_first_of_several_calls_is_used(inside: Inside) -> None:
    calls = [call_of("write_file", json.dumps({"path": path, "content": "b"})) for path in "ac"]
    second = whole_reply({"role": "assistant", "content": None, "tool_calls": calls}, "tool_calls")
    with upstream(sends(CALL), second) as server:
        data = inside(server.url, rules=RULES).post(CHAT, json=body_for(False)).data
    assert arguments_of(data) == [ARGUMENTS]


# Replies that do not end in a broken call, or only show one.
NOT_ASKED = [
    "I wrote it.",
    f"{CALL}\nThat is what it wrote.",
    f"Write {CALL}",
    f'The docs say "{CALL}"',
    f"`{CALL}`",
    f"```\n{CALL}\n```",
    f"```\n{CALL}",
    *(f"{mark} {CALL}" for mark in (">", "-", "12:", "+", "#")),
    "So:\n\n    " + CALL.replace("\n", "\n    "),
    f"<pre>\n{CALL}\n</pre>",
    f"<!-- {CALL} -->",
    f"<think>{CALL}</think>\nNo.",
    CALL.replace("write_file", "unknown"),
    CALL.replace('"arguments"', '"parameters"').replace('"path": "a"', '"type": "object", "properties": {"path": 1}'),
    f'<tool_call>{{"name": "write_file", "arguments": {json.dumps(ARGUMENTS)}}}</tool_call>\n{CALL}',
    f"{CALL}\nOr so:\n{CALL}",
    '{"name": "write_file", "arguments": {"path": "a", "content": "say "x" y" z}}',
    'write_file{"path": "a", "content": "say "x" y" z}',
]
TEXT = 'models: [{match: "*", broken_calls: text}]'


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("message", NOT_ASKED, ids=map(str, range(len(NOT_ASKED))))
def test_only_a_broken_call_at_the_end_is_requested_again(inside: Inside, message: str, streamed: bool) -> None:
    """The reply is the same as without this feature."""
    with upstream(sends(message, streamed=streamed), sends(message, streamed=streamed)) as server:
        one = inside(server.url).post(CHAT, json=body_for(streamed)).data
        assert len(server.seen) == 1
        other = inside(server.url, rules=TEXT).post(CHAT, json=body_for(streamed)).data
    heard = [view(each, streamed) for each in (one, other)]
    assert heard[0] == heard[1]


# Broken calls that are not requested again: additional request fields, rules, server, and finish reason.
LEFT: dict[str, tuple[dict[str, Any], str, str, str]] = {
    **{why: ({}, RULES, "vllm", why) for why in ("length", "content_filter")},
    "no tools": ({"tools": None}, RULES, "vllm", "stop"),
    "no choice": ({"tool_choice": "none"}, RULES, "vllm", "stop"),
    "two choices": ({"n": 2}, RULES, "vllm", "stop"),
    "a continued message": ({"continue_final_message": True}, RULES, "vllm", "stop"),
    "JSON": ({"response_format": {"type": "json_object"}}, RULES, "vllm", "stop"),
    "a rule": ({}, TEXT, "vllm", "stop"),
    "a server that may not guide": ({}, "", "unknown", "stop"),
    "a copy": ({"messages": [{"role": "user", "content": f"What does this do?\n{CALL}"}]}, "", "vllm", "stop"),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("case", LEFT)
def test_some_broken_calls_stay_text(inside: Inside, case: str, streamed: bool) -> None:
    more, rules, owner, why = LEFT[case]
    with upstream(sends(CALL, why, streamed=streamed), owner=owner) as server:
        found = view(inside(server.url, rules).post(CHAT, json={**body_for(streamed), **more}).data, streamed)
        assert len(server.seen) == 1
    assert (found["text"], found["calls"], found["end"]) == (CALL, [], [why])


@pytest.mark.parametrize("owner", ["vllm", "sglang", "llamacpp", "lmdeploy"])
def test_it_is_enabled_with_guided_decoding(inside: Inside, owner: str) -> None:
    with upstream(sends(CALL, streamed=True), guided(), owner=owner) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(True)).data, True)
        assert len(server.seen) == 2
    assert found["calls"] == ["write_file"]


NO_CALL: list[Script] = [
    *BROKEN,
    sends("I cannot."),
    sends(CALL),
    guided("now", "{}"),
    guided(arguments="{"),
    # Truncated arguments are not what the model meant, even if they can be parsed (C4).
    guided(arguments='{"path": "a", "content": "hal', why="length"),
    guided(arguments='{"path": "a"', why="length"),
    guided(arguments='{"path": "a"}', why="length"),
    guided(arguments='{"path": "a"}', why="content_filter"),
    sends("", streamed=True),
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("second", NO_CALL)
def test_without_a_second_call_the_first_reply_is_kept(inside: Inside, second: Script, streamed: bool) -> None:
    with upstream(sends(BEFORE + CALL, streamed=streamed), second) as server:
        response = inside(server.url, rules=RULES).post(CHAT, json=body_for(streamed))
        assert len(server.seen) == 2
    found = view(response.data, streamed)
    assert response.status_code == 200 and found["text"] == BEFORE + CALL and found["end"] == ["stop"]
    assert found["calls"] == [] and found["usage"] == usage(10, 1)


def test_the_text_before_the_call_is_sent_immediately(inside: Inside) -> None:
    with upstream() as server:
        gate = server.gate()
        parts = [ROLE, *(text(CALL[at : at + 5]) for at in range(0, len(CALL), 5))]
        head, *tail = stream(ROLE, text(BEFORE), *parts[1:], finish(), usage_chunk(10, 9), DONE)
        server.play([head, *tail[:-2], gate, *tail[-2:]], guided())
        server.paths["/v1/models"] = models("vllm")
        given: Any = iter(inside(server.url, rules=RULES).post(CHAT, json=body_for(True), buffered=False).response)
        begun = b""
        while b"I write it." not in begun:
            begun += next(given)
        assert b"tool_call" not in begun
        gate.open()
        data = begun + b"".join(given)
    assert view(data, True)["text"] == BEFORE and arguments_of(data) == [ARGUMENTS]


SCRIPTS = {"broken": [CALL.replace("write_file", "run")], "after_text": [BEFORE + CALL.replace("write_file", "run")]}
COMMAND = {"type": "object", "properties": {"command": {"type": "string", "maxLength": 12}}, "required": ["command"]}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a real llama.cpp server whose model writes broken calls unless a grammar prevents it."""
    with llama.LlamaServer(SCRIPTS, cache=tmp_path_factory.mktemp("model")) as server:
        yield server.url


@pytest.mark.skipif(not llama.available(), reason="needs the extra `real`")
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("script,before", [("broken", ""), ("after_text", BEFORE.strip())])
def test_a_real_llama_cpp_grammar_writes_the_call(
    inside: Inside, real: str, script: str, before: str, streamed: bool
) -> None:
    """The model then writes one call of that tool with valid arguments. Their values are random."""
    run = {"type": "function", "function": {"name": "run", "description": "Runs.", "parameters": COMMAND}}
    rules = 'models: [{match: "*", parse: proxy, broken_calls: retry}]'
    messages = [{"role": "user", "content": f"[[script:{script}]]"}]
    body = chat(tools=[WRITE_FILE, run], stream=streamed, messages=messages, max_tokens=300)
    data = inside(real, rules=rules).post(CHAT, json=body).data
    [arguments] = arguments_of(data)
    assert [*arguments] == ["command"] and isinstance(arguments["command"], str)
    assert b"tool_call>" not in data
    assert read("chat", 200, data).choice().text.strip() == before
