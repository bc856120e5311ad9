"""Real servers' `/v1/messages`, byte for byte, read by the checker, which lists what they do otherwise than the API.

These are the servers' own Messages fronts; the proxy asks none of them, and its own is held to the API alone: below
that is done with all that the same servers answer to chat requests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from proxy.dialects.chat.answer import read_whole
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.writer import MessagesDialect
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import answer_as_answer
from tests.failures import test_recordings
from tests.failures.test_recordings import SAID, SWALLOWED, fail, gathered, through, tools_for
from tests.support.helpers import random_cut
from tests.support.messages_checker import (
    DEVIATIONS,
    Deviation,
    Reading,
    StreamReading,
    check_error,
    check_message,
    check_stream,
)

pytestmark = pytest.mark.once

FOLDER = Path(__file__).parents[1] / "recordings" / "messages"
NAMES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.glob("*/*.txt"))
STREAMS = [name for name in NAMES if name.endswith("-stream-200.txt")]
WHOLES = [name for name in NAMES if name.endswith("-plain-200.txt")]
ERRORS = [name for name in NAMES if not name.endswith("-200.txt")]
# What the servers' own parsers leave in the text: no call of these scripts comes out.
IN_TEXT = ("toolstag", "fence", "plain")


def read(name: str) -> tuple[Reading, dict[str, Any]]:
    """The reading of a recording, and what came of it: a message, or an error body."""
    data = (FOLDER / name).read_bytes()
    reading = StreamReading(reference=True)
    if name in STREAMS:
        return reading, reading.read(data)
    return reading, reading.read_message(data) if name in WHOLES else reading.read_error(data, status(name))


def server(name: str) -> str:
    return "vllm" if name.startswith("vllm") else "llama-server"


def script(name: str) -> str:
    return Path(name).name.split("-")[0]


def status(name: str) -> int:
    return int(Path(name).stem[-3:])


def test_the_recordings_are_here() -> None:
    """Six scripts, streamed and whole, of three servers, and a fourth that refuses them."""
    assert (len(STREAMS), len(WHOLES), len(ERRORS)) == (18, 17, 13)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_read(name: str) -> None:
    """F93: no other difference than those that are listed for the server."""
    reading, body = read(name)
    assert reading.met <= DEVIATIONS[server(name)]
    if body["type"] == "error":
        assert body["error"]["message"]
        return
    # vLLM's parser for hermes knows no call of another model's: a stream loses it, a whole answer has it as text.
    missed = Path(name).name.startswith("coder") and name.startswith("vllm-0.32.0-hermes")
    lost = (Path(name).parent.name, script(name), "stream") in SWALLOWED
    calls = [block["input"] for block in body["content"] if block["type"] == "tool_use"]
    assert calls == ([] if script(name) in IN_TEXT or missed or lost else SAID[script(name)])
    assert body["stop_reason"] == ("tool_use" if calls else "end_turn")


@pytest.mark.parametrize("deviation", Deviation, ids=lambda deviation: deviation.name)
def test_each_deviation_occurs_where_it_is_listed_and_nowhere_else(deviation: Deviation) -> None:
    met = {server(name) for name in NAMES if deviation in read(name)[0].met}
    assert met == {name for name, listed in DEVIATIONS.items() if deviation in listed}


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_no_answer_of_the_api(name: str) -> None:
    """Held to the API alone, none of them passes."""
    data = (FOLDER / name).read_bytes()
    with pytest.raises(AssertionError):
        if name in STREAMS:
            check_stream(data)
        elif name in WHOLES:
            check_message(data)
        else:
            check_error(data, status(name))


@pytest.mark.parametrize("script", SAID)
@pytest.mark.parametrize("folder", ["vllm-0.32.0-hermes", "vllm-0.32.0-qwen3_xml", "llama-server-xllamacpp"])
def test_a_stream_and_a_whole_answer_say_the_same(folder: str, script: str) -> None:
    """The reading of a stream gives the blocks that the whole answer has, but for the ids and what a server lost."""
    names = [f"{folder}/{script}-messages-{shape}-200.txt" for shape in ("stream", "plain")]
    if not all(name in NAMES for name in names):
        assert (folder, script) == ("llama-server-xllamacpp", "coder"), "of all others both are recorded"
        return
    streamed, whole = ([without_id(block) for block in read(name)[1]["content"]] for name in names)
    if (folder, script, "stream") in SWALLOWED and streamed != whole:
        assert streamed == [] and len(whole) == 1
        return
    assert streamed == whole


def without_id(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "id"}


# The chat recordings, as a Messages client gets them.


def engine_for(name: str) -> Engine:
    return Engine(Task(tools=tools_for(name), seed=b"seed", raw_text="-none-" in name))


def as_messages(name: str, parts: Iterable[bytes]) -> bytes:
    """What a Messages client gets of a recorded chat stream in these parts."""
    reply = StreamReply(engine_for(name), MessagesDialect(ReplyOptions("m")).writer(expand=False), fail)
    given = b"".join(reply.receive(part) for part in parts)
    given += b"" if reply.failure else reply.finish()
    return given + (reply.fail(reply.failure) if reply.failure else b"")


def calls_in(message: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(block["name"], block["input"]) for block in message["content"] if block["type"] == "tool_use"]


@pytest.mark.slow
@pytest.mark.parametrize("name", test_recordings.STREAMS)
def test_a_recorded_chat_stream_leaves_as_one_of_the_api(name: str) -> None:
    """F93: strictly, with the calls and the words that a chat client has, the same at every cut."""
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
    for _ in range(20):
        assert check_stream(as_messages(name, random_cut(data, rng))) == message


@pytest.mark.parametrize("name", test_recordings.WHOLES)
def test_a_recorded_whole_chat_answer_leaves_as_one_of_the_api(name: str) -> None:
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
