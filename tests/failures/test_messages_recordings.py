"""Real servers' responses to chat requests, as a Messages client receives them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from proxy.dialects.chat.answer import read_whole
from proxy.dialects.messages.writer import MessagesDialect, ReplyOptions
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.reply_stream import StreamReply
from tests.failures import test_recordings
from tests.failures.test_recordings import SAID, SWALLOWED, fail, gathered, through, tools_for
from tests.support.answers import answer_as_answer
from tests.support.helpers import random_cut
from tests.support.messages_checker import check_message, check_stream

pytestmark = pytest.mark.once


def script(name: str) -> str:
    return Path(name).name.split("-")[0]


def engine_for(name: str) -> Engine:
    return Engine(Task(tools=tools_for(name), seed=b"seed", raw_text="-none-" in name))


def as_messages(name: str, parts: Iterable[bytes]) -> bytes:
    """Return a Messages client's bytes for a recorded chat stream that arrives in these parts."""
    reply = StreamReply(engine_for(name), MessagesDialect(ReplyOptions("m")).writer(), fail)
    given = b"".join(reply.receive(part) for part in parts)
    given += b"" if reply.failure else reply.finish()
    return given + (reply.fail(reply.failure) if reply.failure else b"")


def calls_in(message: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]


@pytest.mark.slow
@pytest.mark.parametrize("name", test_recordings.STREAMS)
def test_a_recorded_chat_stream_becomes_a_messages_stream(name: str) -> None:
    """F93: it is valid, has a chat client's calls and text, and is the same at every cut."""
    data = (test_recordings.FOLDER / name).read_bytes()
    given = as_messages(name, [data])
    message = check_stream(given)
    text, calls, finishes, done = gathered(through(name, [data]))
    assert (message["type"] == "message") is done
    if done:
        assert calls_in(message) == [(called, json.loads(said)) for called, said in calls]
        assert (
            message["stop_reason"]
            == {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[finishes[0]]
        )
        said = "".join(block["text"] for block in message["content"] if block["type"] == "text")
        assert said.split() == text.split()
    assert check_stream(as_messages(name, [data[at : at + 1] for at in range(len(data))])) == message
    rng = random.Random(name)
    for _ in range(6):
        assert check_stream(as_messages(name, random_cut(data, rng))) == message


@pytest.mark.parametrize("name", test_recordings.WHOLES)
def test_a_recorded_whole_chat_answer_becomes_a_message(name: str) -> None:
    data = (test_recordings.FOLDER / name).read_bytes()
    answer = read_whole(data)
    message = check_message(answer_as_answer(data, answer, engine_for(name), MessagesDialect(ReplyOptions("m"))))
    counted = answer["usage"]
    assert isinstance(counted, dict)
    assert message["usage"]["output_tokens"] == counted["completion_tokens"]
    if script(name) in SAID:
        lost = (Path(name).parent.name, script(name), "plain") in SWALLOWED
        assert [given for _, given in calls_in(message)] == ([] if lost else SAID[script(name)])
        assert message["stop_reason"] == ("tool_use" if calls_in(message) else "end_turn")
