"""Whole chat answers: processed like a stream of one chunk, and changed only where the engine requires it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, as_chunk, read_whole, rebuild
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import UpstreamBroken
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import AnswerWriter
from proxy.notations.thoughts import Thoughts
from tests.support.helpers import SEED, new_engine, offered

LS = '{"command": "ls"}'
TOOL_CALL = {"id": "a", "type": "function", "function": {"name": "bash", "arguments": LS}}
COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "prompt_tokens_details": None}


def message(index: int = 0, finish: str | None = "stop", **said: Any) -> dict[str, Any]:
    return {"index": index, "message": {"role": "assistant", **said}, "finish_reason": finish}


def answer(*entries: dict[str, Any], **top: Any) -> bytes:
    body = {"id": "w", "object": "chat.completion", "created": 7, "model": "m", "choices": [*entries], **top}
    return json.dumps(body).encode()


def rebuilt(
    body: bytes, *, clean: StripFields | None = None, parsed: bool = True, reasoning: Any = "as_is", **task: Any
) -> bytes:
    """Return the answer as the client receives it."""
    engine = Engine(Task(tools=offered() if parsed else None, seed=SEED, **task))
    read = read_whole(body)
    events = (*engine.feed(as_chunk(read)), *engine.finish(done=True))
    options = ChatOptions("m", True, clean or StripFields(), parsed=parsed, reasoning=reasoning)
    return rebuild(body, read, events, options)


def first(body: bytes) -> tuple[Any, list[tuple[str, str]], str]:
    """Return the content, calls and finish reason of the first choice."""
    entry = json.loads(body)["choices"][0]
    found = entry["message"].get("tool_calls") or []
    assert all(isinstance(call["id"], str) and call["id"] and call["type"] == "function" for call in found)
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in found]
    return entry["message"].get("content"), calls, entry["finish_reason"]


UNCHANGED: dict[str, bytes] = {
    "text": answer(message(content="Just text.")),
    "text cut off": answer(message(0, "length", content="Just")),
    "filtered": answer(message(0, "content_filter", content="Just")),
    "content null": answer(message(content=None)),
    "content empty": answer(message(content="")),
    "no content": answer(message()),
    "content of parts": answer(message(content=[{"type": "text", "text": "a"}])),
    "reasoning": answer(message(content="a", reasoning="so")),
    "a call": answer(message(0, "tool_calls", content=None, tool_calls=[TOOL_CALL])),
    "a call and text": answer(message(0, "tool_calls", content="I will.", tool_calls=[TOOL_CALL])),
    "two calls": answer(message(0, "tool_calls", content="", tool_calls=[TOOL_CALL, {**TOOL_CALL, "id": "b"}])),
    "a call with whitespace around its arguments": answer(
        message(0, "tool_calls", tool_calls=[{**TOOL_CALL, "function": {"name": "bash", "arguments": f" {LS}\n"}}])
    ),
    "a call cut off": answer(
        message(0, "length", tool_calls=[{**TOOL_CALL, "function": {"name": "bash", "arguments": LS[:-4]}}])
    ),
    "a call cut off in a number": answer(
        message(0, "length", tool_calls=[{**TOOL_CALL, "function": {"name": "bash", "arguments": '{"timeout": 1'}}])
    ),
    "two choices": answer(message(0, content="a"), message(1, "length", content="b")),
    "extra fields": answer(message(content="a", refusal=None), usage=COUNTS, service_tier=None),
    "odd spacing": b'{ "choices" :[ {"index":0, "message":{"content":"\\u0061"},"finish_reason":"stop"} ] }',
    "lone surrogate": b'{"choices": [{"index": 0, "message": {"content": "\\ud83d"}, "finish_reason": "stop"}]}',
    "huge integer": b'{"created": 123456789012345678901234567890, "choices": [{"index": 0, "message": {"content": "a"},'
    b' "finish_reason": "stop"}]}',
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_an_answer_that_needs_no_repair_is_forwarded_unchanged(name: str) -> None:
    """C1: an unchanged body is never serialized again."""
    assert rebuilt(UNCHANGED[name]) == UNCHANGED[name]
    assert rebuilt(UNCHANGED[name], parsed=False) == UNCHANGED[name]


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'"a"', b"{}", b'{"choices": {}}', b'{"choices": null}', b"\xff"])
def test_a_body_that_is_not_an_answer_raises_upstream_broken(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_whole(body)


@pytest.mark.parametrize("entry", [{"message": None, "finish_reason": "stop"}, {"message": "x"}, {"text": None}])
def test_a_choice_without_a_message_raises_upstream_broken(entry: dict[str, Any]) -> None:
    """The error of an SDK would not say what is wrong."""
    with pytest.raises(UpstreamBroken, match="without a message"):
        read_whole(answer({"index": 0, **entry}))


@pytest.mark.parametrize(
    ("body", "nothing"),
    [
        (answer(message(content=None), usage=COUNTS), True),
        (answer(message(content=""), usage=COUNTS), True),
        (answer(message(content="", tool_calls=[]), usage=COUNTS), True),
        (answer(message(content=None)), False),
        (answer(message(content=None), usage={**COUNTS, "completion_tokens": 1}), False),
        (answer(message(content=None), usage={**COUNTS, "completion_tokens": None}), False),
        (answer(message(content="a"), usage=COUNTS), False),
        (answer(message(content=None, reasoning="so"), usage=COUNTS), False),
        (answer(message(content=None, tool_calls=[TOOL_CALL]), usage=COUNTS), False),
        (answer(message(content=None), message(1, content="a"), usage=COUNTS), False),
    ],
)
def test_an_empty_answer_that_used_tokens_counts_as_swallowed(body: bytes, nothing: bool) -> None:
    writer = AnswerWriter(ChatWriter(ChatOptions("m", True, StripFields(), parsed=True)))
    reply = StreamReply(new_engine(), writer, lambda error: pytest.fail(repr(error)))
    reply.receive_answer(body, read_whole(body))
    reply.finish()
    assert reply.swallowed is nothing


def test_without_tools_a_call_without_a_name_stays() -> None:
    """Reasoning that is separated from the text changes the rest of the message."""
    calls = [{"id": "a", "type": "function", "function": {"arguments": LS}}, {**TOOL_CALL, "id": "b"}]
    body = answer(message(content="<think>Hm.</think>", tool_calls=calls, finish="tool_calls"))
    engine = Engine(Task(tools=None, seed=SEED, thoughts=Thoughts()))
    events = (*engine.feed(as_chunk(read_whole(body))), *engine.finish(done=True))
    writer = ChatWriter(ChatOptions("m", usage=False, clean=StripFields()))
    made = json.loads(writer.complete_answer(body, read_whole(body), events))["choices"][0]["message"]
    assert (made["reasoning_content"], made["tool_calls"]) == ("Hm.", calls)
