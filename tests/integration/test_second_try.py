"""Replies without content are requested again: silently, once, in both fronts, streamed and whole (F63, F72)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.engine.engine import Engine
from tests.conftest import Inside
from tests.support.messages_ask import ask
from tests.support.messages_checker import check_message, check_stream
from tests.support.reply import events, read
from tests.support.scripted import (
    DONE,
    ROLE,
    WRITE_FILE,
    Act,
    Script,
    Upstream,
    answer,
    chat,
    completion,
    delta,
    event,
    finish,
    stream,
    text,
    text_reply,
    whole_reply,
)

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
CALL = '<tool_call>{"name": "write_file", "arguments": {"path": "a", "content": "b"}}</tool_call>'
EMPTY = {"role": "assistant", "content": None}
THOUGHT = {"role": "assistant", "content": None, "reasoning": "Hm."}
TOOL = {"name": "write_file", "input_schema": WRITE_FILE["function"]["parameters"]}


def usage(prompt: int, used: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": used, "total_tokens": prompt + used}


def usage_chunk(prompt: int, used: int) -> bytes:
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1795223438, "model": "tiny"}
    return event({**envelope, "choices": [], "usage": usage(prompt, used)})


def reasoning(said: str) -> bytes:
    return delta({"reasoning": said})


def sends(message: dict[str, Any] | str, why: str = "stop", used: int = 1, streamed: bool = False) -> Script:
    if not streamed:
        return whole_reply(message, why, usage=usage(10, used))
    given = {"content": message} if isinstance(message, str) else message
    words = {key: word for key, word in given.items() if word and key != "role"}
    return stream(ROLE, *([delta(words)] if words else []), finish(why), usage_chunk(10, used), DONE)


def body_for(streamed: bool, **more: Any) -> dict[str, Any]:
    options = {"stream_options": {"include_usage": True}} if streamed else {}
    return chat(stream=streamed, tools=[WRITE_FILE], **options, **more)


def view(data: bytes, streamed: bool) -> dict[str, Any]:
    """Return a chat client's view of a reply: text, reasoning, calls, finish reasons, usage, ids and roles."""
    bodies = [*events(data)] if streamed else [json.loads(data)]
    assert not streamed or (data.endswith(DONE) and data.count(DONE) == 1)
    seen, choices = read("chat", 200, data).choice(), [choice for body in bodies for choice in body["choices"]]
    return {
        **{"text": seen.text, "thoughts": seen.thinking, "calls": [name for name, _ in seen.calls]},
        "end": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "usage": next((body["usage"] for body in reversed(bodies) if body.get("usage")), None),
        "ids": {body["id"] for body in bodies},
        "roles": sum("role" in choice.get("delta", choice.get("message")) for choice in choices),
    }


def models(owner: str) -> Script:
    return [answer({"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": owner}]})]


BLANK = [EMPTY, {"role": "assistant", "content": ""}, " \n", "<think>\n\n</think>\n\n"]
NOTHING = [*BLANK, THOUGHT, "<think>Hm.</think>\n", "<think>\n"]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("message", NOTHING)
def test_an_empty_reply_is_requested_again(inside: Inside, message: Any, streamed: bool) -> None:
    with Upstream(sends(message, streamed=streamed), sends("Hi.", used=4, streamed=streamed)) as server:
        response = inside(server.url).post(CHAT, json=body_for(streamed))
        one, other = server.seen
        assert one.body == other.body
    found = view(response.data, streamed)
    assert found["text"].endswith("Hi.") and found["end"] == ["stop"] and found["roles"] == 1
    assert found["usage"] == usage(20, 5)
    assert len(found["ids"]) == 1


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_of_the_second_reply_is_returned(inside: Inside, streamed: bool) -> None:
    with Upstream(sends(THOUGHT, streamed=streamed), sends(CALL, streamed=streamed)) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(streamed)).data, streamed)
    assert found["calls"] == ["write_file"] and found["end"] == ["tool_calls"]
    assert found["thoughts"] == ("Hm." if streamed else "")


def test_the_second_reply_continues_a_stream_that_contains_reasoning(inside: Inside) -> None:
    """The id and the role do not change. Reasoning is sent immediately, before the second reply arrives."""
    other = {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 2, "model": "tiny"}

    def chunk(said: dict[str, str], why: str | None = None, **more: Any) -> bytes:
        choices = [{"index": 0, "delta": said, "finish_reason": why}]
        return event({**other, "choices": choices, **more})

    with Upstream() as server:
        gate = server.gate()
        second = stream(
            chunk({"role": "assistant", "content": ""}),
            chunk({"reasoning": "Hm."}),
            chunk({"role": "assistant", "content": "Hi."}),
            chunk({}, "stop", usage=usage(10, 4)),
            DONE,
        )
        server.play(sends(THOUGHT, streamed=True), [gate, *second])
        parts: Any = iter(inside(server.url).post(CHAT, json=body_for(True), buffered=False).response)
        begun = b""
        while b"Hm." not in begun:
            begun += next(parts)
        assert b'"finish_reason": "stop"' not in begun
        gate.open()
        found = view(begun + b"".join(parts), True)
    assert found == {
        **{"text": "Hi.", "thoughts": "Hm.", "calls": [], "end": ["stop"]},
        **{"usage": usage(20, 5), "ids": {"chatcmpl-1"}, "roles": 1},
    }


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("message", [EMPTY, THOUGHT])
def test_a_messages_client_sees_one_message(inside: Inside, message: dict[str, Any], streamed: bool) -> None:
    with Upstream(sends(message, streamed=streamed), sends("Hi.", used=4, streamed=streamed)) as server:
        server.paths["/v1/models"] = models("vllm")
        body = ask({"role": "user", "content": "Hi"}, tools=[TOOL], stream=streamed, model="tiny")
        response = inside(server.url).post(MESSAGES, json=body)
        assert len(server.seen) == 2
    made = check_stream(response.data) if streamed else check_message(response.data)
    blocks = [(block["type"], block.get("text", block.get("thinking"))) for block in made["content"]]
    thoughts = [("thinking", "Hm.")] if streamed and message is THOUGHT else []
    assert blocks == [*thoughts, ("text", "Hi.")] and made["stop_reason"] == "end_turn"
    assert made["usage"]["output_tokens"] == 5


def test_separated_reasoning_of_the_first_reply_is_kept(inside: Inside) -> None:
    rules = 'models:\n  - {match: "*", reasoning: split, family: qwen3}\n'
    replies = sends("<think>Hm.</think>\n", streamed=True), sends("<think>So.</think>\n\nHi.", used=4, streamed=True)
    with Upstream(*replies) as server:
        server.paths["/tokenize"] = [answer({}, 404)]
        found = view(inside(server.url, rules).post(CHAT, json=body_for(True)).data, True)
    assert (found["thoughts"], found["text"], found["end"]) == ("Hm.", "Hi.", ["stop"])
    with Upstream(*replies) as server:
        server.paths |= {"/v1/models": models("vllm"), "/tokenize": [answer({}, 404)]}
        body = ask({"role": "user", "content": "Hi"}, tools=[TOOL], stream=True, model="tiny")
        made = check_stream(inside(server.url).post(MESSAGES, json=body).data)
    blocks = [(block["type"], block.get("text", block.get("thinking"))) for block in made["content"]]
    assert blocks == [("thinking", "Hm."), ("text", "Hi.")]


AGAIN: dict[str, list[bytes]] = {
    "only reasoning": [*map(reasoning, ("thin", "king", " it", " over")), finish()],
    "reasoning, then text": [*map(reasoning, ("thin", "king")), *map(text, ("Hi", ".")), finish()],
    "both in one chunk": [delta({"reasoning": "thinking", "content": "Hi."}), finish()],
    "reasoning in the last chunk": [text("Hi."), delta({"reasoning_content": "thinking"}, "stop")],
    "reasoning with fields of the server": [delta({"reasoning": "thinking", "extra": 1}), text("Hi."), finish()],
    "a call in it": [reasoning(CALL), finish()],
}


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("again", AGAIN)
def test_a_second_reply_repeats_no_reasoning_in_a_stream(inside: Inside, again: str, name: str) -> None:
    second = [part.replace(b'"reasoning"', f'"{name}"'.encode()) for part in AGAIN[again]]
    first = stream(ROLE, delta({name: "thinking"}), finish(), usage_chunk(10, 9), DONE)
    with Upstream(first, stream(ROLE, *second, usage_chunk(10, 9), DONE)) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(True)).data, True)
        assert len(server.seen) == 2
    calls = ["write_file"] if again == "a call in it" else []
    assert (found["thoughts"], found["calls"], found["usage"]) == ("thinking", calls, usage(20, 18))
    assert found["text"] == ("" if calls or again == "only reasoning" else "Hi.")
    assert found["end"] == ["tool_calls" if calls else "stop"]


def test_a_second_reply_with_reasoning_is_not_a_swallowed_call(inside: Inside) -> None:
    thought = sends(THOUGHT, used=40, streamed=True)
    with Upstream(thought, thought, sends("Hi.", streamed=True)) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for _ in range(2):
            client.post(CHAT, json=body_for(True))
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, None, None]


ONE_TRY: list[dict[str, Any]] = [
    {"tools": None},
    {"tool_choice": "none"},
    {"n": 2},
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "So"}]},
    {"continue_final_message": True},
    {"add_generation_prompt": False},
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("why", ["length", "content_filter", "abort", "repetition"])
def test_only_replies_with_a_natural_end_are_retried(inside: Inside, why: str, streamed: bool) -> None:
    with Upstream(sends(EMPTY, why, streamed=streamed)) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(streamed)).data, streamed)
        assert len(server.seen) == 1 and found["end"] == [why]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_stop_sequence_is_not_a_natural_end(inside: Inside, streamed: bool) -> None:
    ended: dict[str, Any] = {"index": 0, "finish_reason": "stop", "stop_reason": "END"}
    whole = [answer({**completion(EMPTY), "choices": [{**ended, "message": EMPTY}]})]
    last = event({"id": "c", "object": "chat.completion.chunk", "choices": [{**ended, "delta": {}}]})
    with Upstream(stream(ROLE, last, DONE) if streamed else whole) as server:
        assert inside(server.url).post(CHAT, json=body_for(streamed, stop=["END"])).status_code == 200
        assert len(server.seen) == 1


ANSWERS: list[Any] = [
    "Done.",
    CALL,
    {"role": "assistant", "content": None, "refusal": "No."},
    {"role": "assistant", "content": "<think>Hm.</think>Yes."},
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("message", "more"), [*((EMPTY, more) for more in ONE_TRY), *((message, {}) for message in ANSWERS)]
)
def test_an_answer_needs_no_second_try(inside: Inside, message: Any, more: dict[str, Any], streamed: bool) -> None:
    """A second try needs offered tools, and one answer that the client has not prefilled."""
    with Upstream(sends(message, streamed=streamed)) as server:
        assert inside(server.url).post(CHAT, json={**body_for(streamed), **more}).status_code == 200
        assert len(server.seen) == 1


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("message", [EMPTY, THOUGHT])
def test_a_reply_is_retried_only_once(inside: Inside, message: dict[str, Any], streamed: bool) -> None:
    with Upstream(sends(message, streamed=streamed), sends(message, streamed=streamed)) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(streamed)).data, streamed)
        assert len(server.seen) == 2
    assert found["text"] == "" and found["end"] == ["stop"] and found["usage"] == usage(20, 2)


BROKEN: list[Script] = [
    [answer({"error": {"message": "no", "code": 500}}, 500)],
    [answer({"error": {"message": "out of room", "code": 400}}, 400)],
    [Act.RST],
    stream(ROLE),
    stream(ROLE, event({"error": {"message": "no", "code": 500}})),
    [answer(b"<html>")],
]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("second", BROKEN)
@pytest.mark.parametrize("message", [EMPTY, THOUGHT])
def test_a_failed_second_try_keeps_the_first_reply(
    inside: Inside, second: Script, message: dict[str, Any], streamed: bool
) -> None:
    with Upstream(sends(message, streamed=streamed), second) as server:
        response = inside(server.url).post(CHAT, json=body_for(streamed))
        assert len(server.seen) == 2
    found = view(response.data, streamed)
    assert response.status_code == 200 and found["end"] == ["stop"] and found["text"] == ""
    assert found["thoughts"] == message.get("reasoning", "") and found["usage"] == usage(10, 1)


def test_a_second_reply_that_breaks_off_ends_in_an_error(inside: Inside) -> None:
    with Upstream(sends(THOUGHT, streamed=True), stream(ROLE, text("So"))) as server:
        data = inside(server.url).post(CHAT, json=body_for(True)).data
    assert b"Hm." in data and b"So" in data and b'"error"' in data and DONE not in data


def test_a_defect_in_the_second_try_is_logged(
    inside: Inside, monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    """C6."""
    feed, fed = Engine.feed, []

    def broken(self: Engine, *args: Any, **more: Any) -> Any:
        fed.append(1)
        if len(fed) > 1:
            raise KeyError("a defect")
        return feed(self, *args, **more)

    monkeypatch.setattr(Engine, "feed", broken)
    with Upstream(sends(EMPTY), sends("Hi.")) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(False)).data, False)
    assert found["end"] == ["stop"] and "a defect" in logged.text


@pytest.mark.parametrize("streamed", [True, False])
def test_a_swallowed_call_is_retried_as_proxy(inside: Inside, streamed: bool) -> None:
    swallowed = sends(EMPTY, used=40, streamed=streamed)
    raw = sends(CALL, used=40, streamed=streamed)
    with Upstream(swallowed, raw, raw) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for _ in range(2):
            found = view(client.post(CHAT, json=body_for(streamed)).data, streamed)
            assert found["calls"] == ["write_file"] and found["end"] == ["tool_calls"]
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, "none", "none"]


@pytest.mark.parametrize("words", ["parse: server", "server: sglang"])
def test_profile_and_server_can_prevent_the_proxy_retry(inside: Inside, words: str) -> None:
    with Upstream(sends(EMPTY, used=40), sends(EMPTY, used=40)) as server:
        client = inside(server.url, rules=f'models: [{{match: "*", {words}}}]')
        client.post(CHAT, json=body_for(False))
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, None]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_swallowed_in_both_modes_is_not_remembered(inside: Inside, streamed: bool) -> None:
    """vLLM's newer parsers take their family's calls out of the text under `none`, too."""
    swallowed = sends(EMPTY, used=40, streamed=streamed)
    with Upstream(swallowed, swallowed, sends("Hi.", streamed=streamed)) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for text_ in ("", "Hi."):
            found = view(client.post(CHAT, json=body_for(streamed)).data, streamed)
            assert (found["text"], found["calls"], found["end"]) == (text_, [], ["stop"])
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, "none", None]


@pytest.mark.parametrize(("rules", "advice"), [("parse: server", "set parse: proxy"), ("parse: auto", "start it with")])
def test_the_log_advises_the_untried_setting(
    inside: Inside, logged: pytest.LogCaptureFixture, rules: str, advice: str
) -> None:
    swallowed = sends(EMPTY, used=40)
    with Upstream(swallowed, swallowed) as server:
        client = inside(server.url, rules=f'models: [{{match: "*", server: vllm, {rules}}}]')
        client.post(CHAT, json=body_for(False))
    (line,) = [line for line in logged.messages if line.startswith("model ")]
    assert advice in line


@pytest.mark.parametrize("streamed", [True, False])
def test_text_on_retry_does_not_prove_a_missing_parser(inside: Inside, streamed: bool) -> None:
    swallowed, answered = sends(EMPTY, used=40, streamed=streamed), sends("Hi.", used=4, streamed=streamed)
    with Upstream(swallowed, answered, answered) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for _ in range(2):
            assert view(client.post(CHAT, json=body_for(streamed)).data, streamed)["text"] == "Hi."
        assert [seen.json.get("tool_choice") for seen in server.seen] == [None, "none", None]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("counted_", [True, False])
def test_a_call_hidden_from_the_proxy_is_left_to_the_server(inside: Inside, streamed: bool, counted_: bool) -> None:
    rules = 'models: [{match: "*", parse: proxy, server: vllm}]'
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "write_file", "arguments": INPUT}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    parsed = sends(message, "tool_calls", used=40, streamed=streamed)
    swallowed = sends(EMPTY, used=40, streamed=streamed)
    tries: list[Script] = [swallowed, parsed]
    body = body_for(streamed)
    if streamed and not counted_:
        tries, body = [SILENT, *tries], chat(tools=[WRITE_FILE])
    with Upstream(*tries) as server:
        found = view(inside(server.url, rules=rules).post(CHAT, json=body).data, streamed)
        assert (found["calls"], found["end"], found["roles"]) == (["write_file"], ["tool_calls"], 1)
        sent = [seen.json.get("tool_choice") for seen in server.seen]
    assert sent == ["none"] * (len(tries) - 1) + [None]


INPUT = json.dumps({"path": "a", "content": "b"})
SILENT = text_reply()
SWALLOWED = sends(EMPTY, used=40, streamed=True)


def test_a_call_swallowed_twice_is_retried_as_proxy(inside: Inside) -> None:
    """The client requests no usage, so only the second reply shows that tokens were used."""
    raw = sends(CALL, used=40, streamed=True)
    with Upstream(SILENT, SWALLOWED, raw, raw) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        for _ in range(2):
            found = view(client.post(CHAT, json=chat(tools=[WRITE_FILE])).data, True)
            assert (found["calls"], found["end"], found["roles"]) == (["write_file"], ["tool_calls"], 1)
            assert (len(found["ids"]), found["usage"]) == (1, None), "the client did not request usage"
        sent = [seen.json for seen in server.seen]
    assert [each.get("tool_choice") for each in sent] == [None, None, "none", "none"]
    assert sent[1]["stream_options"] == {"include_usage": True}, "the second try requests usage"
    assert "stream_options" not in sent[3]


@pytest.mark.parametrize(
    ("second", "text_", "thoughts"),
    [
        (sends(EMPTY, used=1, streamed=True), "", ""),
        (sends(THOUGHT, used=40, streamed=True), "", "Hm."),
        (sends("<think>Hm.", used=40, streamed=True), "<think>Hm.", ""),
        (sends("Hi.", used=40, streamed=True), "Hi.", ""),
    ],
)
def test_no_other_reply_is_retried_twice(inside: Inside, second: Script, text_: str, thoughts: str) -> None:
    with Upstream(SILENT, second) as server:
        server.paths["/v1/models"] = models("vllm")
        found = view(inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data, True)
        assert len(server.seen) == 2
    assert (found["text"], found["thoughts"], found["calls"], found["end"]) == (text_, thoughts, [], ["stop"])


@pytest.mark.parametrize("words", ["parse: server", "server: sglang"])
def test_there_is_no_third_try_if_the_proxy_cannot_parse(inside: Inside, words: str) -> None:
    with Upstream(SILENT, SWALLOWED) as server:
        client = inside(server.url, rules=f'models: [{{match: "*", {words}}}]')
        found = view(client.post(CHAT, json=chat(tools=[WRITE_FILE])).data, True)
        assert len(server.seen) == 2
    assert (found["text"], found["calls"], found["end"]) == ("", [], ["stop"])


@pytest.mark.parametrize("streamed", [True, False])
def test_usage_is_the_sum_of_all_three_tries(inside: Inside, streamed: bool) -> None:
    tries = (sends(EMPTY, streamed=streamed), sends(EMPTY, used=40, streamed=streamed), sends(CALL, streamed=streamed))
    with Upstream(*tries) as server:
        server.paths["/v1/models"] = models("vllm")
        found = view(inside(server.url).post(CHAT, json=body_for(streamed)).data, streamed)
        assert len(server.seen) == 3
    assert (found["calls"], found["usage"]) == (["write_file"], usage(30, 42))


@pytest.mark.parametrize("third", [[answer({"error": {"message": "no"}}, 500)], [], SWALLOWED])
def test_a_failed_third_try_keeps_the_second_reply(inside: Inside, third: Script) -> None:
    with Upstream(SILENT, SWALLOWED, third) as server:
        server.paths["/v1/models"] = models("vllm")
        found = view(inside(server.url).post(CHAT, json=chat(tools=[WRITE_FILE])).data, True)
        assert len(server.seen) == 3
    assert (found["text"], found["calls"], found["end"], found["roles"]) == ("", [], ["stop"], 1)


def test_a_call_swallowed_twice_after_whitespace_is_remembered(inside: Inside) -> None:
    blank = text_reply(" ")
    with Upstream(blank, SWALLOWED, sends(CALL, streamed=True)) as server:
        server.paths["/v1/models"] = models("vllm")
        client = inside(server.url)
        first, second = (view(client.post(CHAT, json=chat(tools=[WRITE_FILE])).data, True) for _ in range(2))
        sent = [seen.json.get("tool_choice") for seen in server.seen]
    assert (first["calls"], first["end"], first["roles"]) == ([], ["stop"], 1)
    assert (second["calls"], second["end"]) == (["write_file"], ["tool_calls"])
    assert sent == [None, None, "none"]


def test_an_empty_whole_answer_for_a_stream_is_requested_again(inside: Inside) -> None:
    rules = 'models: [{match: "*", upstream: whole}]'
    with Upstream(sends(THOUGHT), sends("Hi.", used=4)) as server:
        found = view(inside(server.url, rules=rules).post(CHAT, json=body_for(True)).data, True)
    assert found["text"] == "Hi." and found["thoughts"] == "" and found["usage"] == usage(20, 5)


def test_a_whole_answer_does_not_continue_a_stream(inside: Inside) -> None:
    with Upstream(sends(THOUGHT, streamed=True), sends("Hi.")) as server:
        found = view(inside(server.url).post(CHAT, json=body_for(True)).data, True)
    assert found["text"] == "" and found["end"] == ["stop"]


def test_a_second_answer_without_usage_is_unchanged(inside: Inside) -> None:
    """C1."""
    second = json.dumps({key: value for key, value in completion("Hi.").items() if key != "usage"}, indent=1).encode()
    with Upstream(sends(EMPTY), [answer(second)]) as server:
        assert inside(server.url).post(CHAT, json=body_for(False)).data == second
