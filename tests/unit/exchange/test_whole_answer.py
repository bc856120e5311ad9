"""A whole answer in the client's dialect: as the answer that it is, or as the stream that was asked for (C1, C4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.chat.answer import ChatDialect, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.events import Event, Reasoning, Text
from proxy.engine.task import Task
from proxy.errors import UpstreamBroken
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream, unrepaired
from tests.support.helpers import SEED, bodies, flat, new_engine, received
from tests.unit.exchange.test_reply_stream import LS, STRONG, options


def whole(*entries: dict[str, Any], **top: Any) -> bytes:
    """A whole answer."""
    return json.dumps(
        {"id": "w", "object": "chat.completion", "created": 7, "model": "m", "choices": [*entries], **top}
    ).encode()


def message(index: int = 0, finish: str | None = "stop", **said: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", **said}, "finish_reason": finish}


def rewrapped(body: bytes, *, usage: bool = True, task: Task | None = None) -> bytes:
    engine = Engine(task) if task else new_engine()
    return answer_as_stream(read_whole(body), engine, ChatWriter(options(usage=usage), expand=True))


COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
TOOL_CALL = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": LS}}


def test_a_whole_answer_becomes_the_stream_that_was_asked_for() -> None:
    data = rewrapped(whole(message(content="Just text."), usage=COUNTS))
    got = received(data)
    assert (got[0].text, got[0].finish, got.done, got.roles) == ("Just text.", "stop", True, 1)
    assert got.usage == [COUNTS]
    assert all(body["object"] == "chat.completion.chunk" for body in bodies(data)[:-1])
    assert {body["id"] for body in bodies(data)[:-1]} == {"w"}


def test_a_whole_answer_s_calls_become_deltas() -> None:
    second = {**TOOL_CALL, "id": "b"}
    got = received(rewrapped(whole(message(0, "tool_calls", content=None, tool_calls=[TOOL_CALL, second]))))
    assert (got[0].ids, got[0].calls, got[0].finish) == (["a", "b"], [("bash", LS)] * 2, "tool_calls")


def test_a_call_in_a_whole_answer_s_text_is_found() -> None:
    got = received(rewrapped(whole(message(content=f"I will.\n{STRONG}"))))
    assert (got[0].text, got[0].calls, got[0].finish) == ("I will.\n", [("bash", LS)], "tool_calls")


def test_reasoning_of_a_whole_answer_is_said_by_its_name() -> None:
    """F73."""
    for key in ("reasoning", "reasoning_content"):
        data = rewrapped(whole(message(0, "stop", content="a", **{key: "so"})))
        assert received(data)[0].reasoning == "so"
        assert f'"{key}":"so"'.encode() in data


def test_usage_is_said_only_if_it_was_asked_for() -> None:
    """F61."""
    body = whole(message(content="a"), usage=COUNTS)
    assert received(rewrapped(body, usage=False)).usage == []
    assert received(rewrapped(whole(message(content="a")))).usage == []


def test_two_choices_become_two() -> None:
    got = received(rewrapped(whole(message(0, content="a"), message(1, "length", content="b"))))
    assert [(seen.text, seen.finish) for seen in got.choices.values()] == [("a", "stop"), ("b", "length")]
    assert got.roles == 2


@pytest.mark.parametrize("finish", ["stop", None])
def test_without_tools_a_whole_answer_becomes_a_finished_stream_too(finish: str | None) -> None:
    """C4: also where it lacks its finish reason."""
    got = received(rewrapped(whole(message(0, finish, content=STRONG)), task=Task(tools=None, seed=SEED)))
    assert (got[0].text, got[0].finish, got.done) == (STRONG, "stop", True)


@pytest.mark.parametrize("body", [b'{"choices": []}', b'{"choices": [7]}'])
def test_an_answer_without_a_choice_is_an_error(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        rewrapped(body)


def test_a_whole_answer_whose_call_cannot_be_finished_is_text() -> None:
    """C4: nothing of it has left."""
    half = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "l'}}
    seen = received(rewrapped(whole(message(0, "tool_calls", content=None, tool_calls=[half]))))[0]
    assert (seen.text, seen.calls, seen.finish) == ('bash{"command": "l', [], "stop")


def test_a_whole_answer_is_made_anew_only_if_it_must_be() -> None:
    """C1."""
    same = whole(message(content="Just text."))
    assert answer_as_answer(same, read_whole(same), new_engine(), ChatDialect(options(parsed=True))) == same
    found = whole(message(content=STRONG))
    made = json.loads(answer_as_answer(found, read_whole(found), new_engine(), ChatDialect(options(parsed=True))))
    assert made["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "bash", "arguments": LS}


class Heard(list[Event]):
    """Who listens to a reply."""

    observe = list.extend


def test_who_listens_has_what_the_engine_said_either_way() -> None:
    answer = read_whole(whole(message(content=f"I will.\n{STRONG}", reasoning="so")))
    told = [Heard() for _ in range(3)]
    answer_as_stream(answer, new_engine(), ChatWriter(options(), expand=True), *told[:2])
    answer_as_answer(b"", answer, new_engine(), ChatDialect(options()), told[2])
    assert told[0] == told[1] == told[2] != []
    assert "I will.\n" in "".join(event.text for event in flat(told[0]) if isinstance(event, Text))


def test_what_cannot_be_said_is_raised_either_way() -> None:
    """C4: more calls than a reply may have."""
    calls = [{**TOOL_CALL, "id": f"c{number}"} for number in range(3)]
    body = whole(message(0, "tool_calls", content=None, tool_calls=calls))
    with pytest.raises(UpstreamBroken, match="more than 2"):
        answer_as_stream(read_whole(body), new_engine(max_calls=2), ChatWriter(options(), expand=True))
    with pytest.raises(UpstreamBroken, match="more than 2"):
        answer_as_answer(body, read_whole(body), new_engine(max_calls=2), ChatDialect(options()))


def test_an_engine_without_tools_separates_reasoning_and_finds_no_call() -> None:
    """For dialects in which thoughts stand apart."""
    heard = Heard()
    body = whole(message(content=f"<think>So.</think>{STRONG}"))
    answer_as_answer(body, read_whole(body), unrepaired(), ChatDialect(options()), heard)
    said = [(type(event), event.text) for event in flat(heard) if isinstance(event, Text | Reasoning)]
    assert said == [(Reasoning, "So."), (Text, STRONG)]
