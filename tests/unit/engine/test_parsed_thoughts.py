"""Replies of servers that separate reasoning themselves are unchanged, whatever the rules say (C1)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.reply_stream import StreamReply
from proxy.healing.families import FAMILIES
from proxy.notations.thoughts import ALL_MARKERS, Thoughts
from tests.support.answers import answer_as_answer
from tests.support.helpers import SEED, calls, chunk, delta, ends, offered, piece, random_cut, received, says

CORPORA = Path(__file__).parents[2] / "corpora"
OPTIONS = ChatOptions("m", True, StripFields(), parsed=True)
USAGE = chunk(usage={"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 3}})
CALL = '{"command": "echo \\"</think>\\" <think>"}'
EVERY = 9


def given() -> Iterator[Any]:
    yield pytest.param(None, id="server")
    yield pytest.param(Thoughts(), id="marked")
    yield pytest.param(Thoughts(ALL_MARKERS, unknown=True), id="unknown family")
    for family in [family for family in FAMILIES if family.markers][::EVERY]:
        opener = family.markers[0].opener
        yield pytest.param(Thoughts(family.markers, opener), id=family.name)


def texts() -> list[str]:
    """Return texts that reasoning may contain: prose, code, markup, and calls that are not meant."""
    files = sorted((CORPORA / "negative").glob("*.jsonl"))
    rows = [row for path in files for row in path.read_text("utf-8").split("\n") if row]
    return [json.loads(row)["text"] for row in rows[::EVERY]]


TEXTS = texts()


def streams(field: str) -> Iterator[list[bytes]]:
    """Yield streams of reasoning and an answer, a call or both, as vLLM, SGLang and llama.cpp send them."""
    rng = random.Random(1)
    for number, text in enumerate(TEXTS):
        parts = filter(None, random_cut(text, rng))
        thoughts = [chunk({"index": 0, "delta": {field: part}, "finish_reason": None}) for part in parts]
        answer = [says("It is "), says("done.")]
        called = [calls(piece(0, "", "bash", "call_1")), calls(piece(0, CALL[:9])), calls(piece(0, CALL[9:]))]
        after = ([*answer, ends()], [*called, ends("tool_calls")], [*answer, *called, ends("tool_calls")])[number % 3]
        events = [chunk(delta(role="assistant", content="")), *thoughts, *after, USAGE]
        yield [*(event.raw for event in events), b"data: [DONE]\n\n"]


def relayed(parts: list[bytes], thoughts: Thoughts | None) -> bytes:
    engine = Engine(Task(tools=offered(), seed=SEED, thoughts=thoughts))
    reply = StreamReply(engine, ChatWriter(OPTIONS), fails)
    return b"".join([*map(reply.receive, parts), reply.finish()])


def fails(error: Exception) -> None:
    raise error


@pytest.mark.slow
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("thoughts", [*given()])
def test_a_stream_with_separate_reasoning_is_unchanged(thoughts: Thoughts | None, field: str) -> None:
    """Only pieces of calls may be rewritten."""
    found = [*streams(field)]
    assert len(found) > 50
    for parts in found:
        sent = b"".join(parts)
        given = relayed(parts, thoughts)
        assert received(given) == received(sent) and relayed([sent], thoughts) == given
        assert given == sent or b"tool_calls" in sent


@pytest.mark.slow
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("thoughts", [*given()])
def test_a_whole_answer_with_separate_reasoning_is_unchanged(thoughts: Thoughts | None, field: str) -> None:
    function = {"name": "bash", "arguments": CALL}
    for number, text in enumerate(TEXTS):
        message: dict[str, Any] = {"role": "assistant", "content": "It is done.", field: text or "So."}
        finish = "stop"
        if number % 2:
            message |= {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": function}]}
            finish = "tool_calls"
        body = json.dumps({"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()
        engine = Engine(Task(tools=offered(), seed=SEED, thoughts=thoughts))
        assert answer_as_answer(body, read_whole(body), engine, ChatWriter(OPTIONS)) == body
