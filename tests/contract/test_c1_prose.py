"""A whole response of only prose is passed on unread (contract C1). The client receives the same bytes as if it had
been read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.base import Dialect
from proxy.dialects.chat.answer import ChatDialect, read_whole
from proxy.dialects.chat.writer import ChatOptions
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.writer import MessagesDialect
from proxy.dialects.responses.writer import ResponsesDialect
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import ProxyError
from proxy.exchange.second_try import ReplyContent
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream
from proxy.notations.thoughts import Thoughts
from proxy.notations.toolset import read_tools
from tests.support.each_case import each_case
from tests.support.helpers import SEED
from tests.support.responses_view import options

pytestmark = pytest.mark.once

CORPORA = Path(__file__).parents[1] / "corpora"
AGENT = json.loads((CORPORA / "tools.json").read_text("utf-8"))["agent"]
TOOLS = read_tools([{"type": "function", "function": one} for one in AGENT])
NAME = AGENT[0]["name"]
TASKS: dict[str, dict[str, Any]] = {
    "tools": {},
    "raw text": {"raw_text": True, "thoughts": Thoughts()},
    "thoughts": {"thoughts": Thoughts(unknown=True)},
    "thoughts alone": {"tools": None, "thoughts": Thoughts()},
    "in a thought": {"thoughts": Thoughts(begun="<think>")},
    "json": {"json_reply": True},
    "forced": {"forced": NAME},
    "hold": {"hold_broken": True, "ordered": True},
}
# Fields of a message and of its choice other than text, and finish reasons.
BESIDE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "empty": {"refusal": None, "tool_calls": None, "function_call": None, "reasoning_content": None, "audio": None},
    "an empty list": {"tool_calls": []},
    "reasoning": {"reasoning": "I look."},
    "a call": {"tool_calls": [{"id": "c", "type": "function", "function": {"name": NAME, "arguments": "{}"}}]},
}
FINISHES = ("stop", "length", "content_filter", "tool_calls", "eos", "repetition", "abort", "error", "", None)
PROSE = "It is done: 2 > 1, and f(x) is `x`."


def dialects() -> Iterator[Dialect]:
    yield ChatDialect(ChatOptions("m", True, StripFields(), parsed=True))
    yield MessagesDialect(ReplyOptions("m", frozenset(), "i"))
    yield ResponsesDialect(options())


def texts() -> list[str]:
    """Return the texts of the corpora, their lines, and their ends."""
    found: dict[str, None] = {}
    for path in sorted(CORPORA.glob("*/*.jsonl")):
        for line in path.read_text("utf-8").split("\n"):
            text = json.loads(line)["text"] if line else ""
            for each in (text, *text.splitlines()[:6], *(text[at:] for at in range(1, 4)), text.replace("<", "")):
                found[each] = None
    return [text for text in found if len(text) < 2000]


TEXTS = texts()


def answer(text: Any, finish: str | None = "stop", **beside: Any) -> bytes:
    message = {"role": "assistant", "content": text, **beside}
    choice = {"index": 0, "message": message, "finish_reason": finish, "stop_reason": None}
    usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    return json.dumps(body).encode()


def had(body: bytes, task: dict[str, Any], dialect: Dialect, *, looks: bool, stream: bool) -> tuple[object, ...]:
    """Return a client's view of a whole response, and its records; `looks`: read every response."""
    engine = (_Looking if looks else Engine)(Task(**{"tools": TOOLS, "seed": SEED, **task}))
    read, content = read_whole(body), ReplyContent()
    given: object
    try:
        if stream:
            given = answer_as_stream(read, engine, dialect.writer(expand=True), content)
        else:
            given = answer_as_answer(body, read, engine, dialect, content)
    except ProxyError as error:
        given = type(error), error.message
    known = (engine.audit, dict(engine.refusals), engine.calls, engine.thoughts, engine.broken_call)
    told = (content.level, content.answered, content.ended_without_answer(), content.used_without_a_word(5))
    return given, known, told


class _Looking(Engine):
    def _is_prose(self, choices: Any) -> bool:
        return False


def differences(text: Any, task: dict[str, Any], finish: str | None = "stop", **beside: Any) -> list[object]:
    """Return the client's views of the response when read and when passed on, where they differ."""
    body = answer(text, finish, **beside)
    ways = [(dialect, stream) for dialect in dialects() for stream in (False, True)]
    pairs = [[had(body, task, each, looks=looks, stream=stream) for looks in (True, False)] for each, stream in ways]
    return [pair for pair in pairs if pair[0] != pair[1]]


@pytest.mark.slow
@each_case("text", TEXTS, ids=map(str, range(len(TEXTS))), size=200)
def test_whatever_the_text_is_it_comes_as_if_it_had_been_looked_into(text: str) -> None:
    """Try an agent's request, and one other kind."""
    others = [*TASKS.values()]
    for task in (TASKS["tools"], others[len(text) % len(others)]):
        if passes(text, **task):
            assert not differences(text, task)


@pytest.mark.slow
@pytest.mark.parametrize("finish", FINISHES)
@pytest.mark.parametrize("beside", BESIDE)
def test_other_fields_are_as_if_it_had_been_read(beside: str, finish: str | None) -> None:
    for text in (PROSE, "", " \n", None, [{"type": "text", "text": PROSE}], NAME, "</think>", "<thi", "{", "functio"):
        for task in TASKS.values():
            assert not differences(text, task, finish, **BESIDE[beside])


@pytest.mark.slow
def test_only_prose_is_passed_unread() -> None:
    """Otherwise the tests above compare nothing."""
    assert sum(map(passes, TEXTS)) > len(TEXTS) / 10
    assert passes(PROSE) and not passes(f"{NAME}(") and not passes(" \n")


def passes(text: str, **task: Any) -> bool:
    """Return whether a whole response with this text is passed on unread."""
    engine = Engine(Task(**{"tools": TOOLS, "seed": SEED, **task}))
    answer_as_answer(body := answer(text), read_whole(body), engine, next(dialects()))
    return not engine._choices
