"""Responses of real servers, without I/O: repaired if necessary, otherwise unchanged."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest

from proxy import sse
from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, as_chunk, read_whole, rebuild
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import UpstreamRefused
from proxy.exchange.reply_stream import StreamReply
from proxy.json import JsonObject
from proxy.notations.toolset import ToolSet, read_tools
from tests.demo.agents import OPENCLAW, OPENCODE, QWEN_CODE

FOLDER = Path(__file__).parents[1] / "recordings"
HI = {"path": "a.txt", "content": "hi\n"}
SHORT = {"path": "a.txt", "content": "hi"}
HO = {"path": "b.txt", "content": "ho"}
# The calls that must reach the client, by script.
SAID = {"hermes": [HI], "toolstag": [HI], "two": [HI, HO], "coder": [SHORT], "fence": [SHORT], "plain": []}
AGENTS = {"openclaw": OPENCLAW, "opencode": OPENCODE, "qwen": QWEN_CODE}
# Calls that a server's own parser swallowed, so that the proxy never received them.
SWALLOWED = {
    ("vllm-0.32.0-hermes", "coder", "stream"),
    ("vllm-0.32.0-qwen3_xml", "hermes", "stream"),
    ("vllm-0.32.0-qwen3_xml", "hermes", "plain"),
    ("vllm-0.32.0-qwen3_xml", "two", "stream"),
    ("vllm-0.32.0-qwen3_xml", "two", "plain"),
    ("vllm-0.32.0-qwen3_xml-none", "coder", "stream"),
    ("vllm-0.32.0-qwen3_xml-none", "coder", "plain"),
    ("vllm-0.32.0-qwen3_xml-none", "hermes", "stream"),
    ("vllm-0.32.0-qwen3_xml-none", "hermes", "plain"),
}
WRITE_FILE: JsonObject = {
    "type": "function",
    "function": {
        "name": "write_file",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}


def recorded(*patterns: str) -> list[str]:
    return sorted(str(path.relative_to(FOLDER)) for pattern in patterns for path in FOLDER.glob(pattern))


STREAMS = recorded("*/*-chat-stream*-200.txt", "*/named-[12].txt", "*/*-stream.txt")
WHOLES = recorded("*/*-chat-plain-200.txt", "*/named-[34].txt", "*/named-plain.txt")


@cache
def tools_for(name: str) -> ToolSet:
    if not name.startswith("llama-server-agents"):
        return read_tools([WRITE_FILE])
    prefix = Path(name).name.split("_")[0]
    agent = AGENTS.get(prefix, OPENCLAW)
    return read_tools(agent.body["tools"])


def reply_for(name: str) -> StreamReply:
    tools = tools_for(name)
    engine = Engine(Task(tools=tools, seed=b"seed", raw_text="-none-" in name))
    return StreamReply(engine, ChatWriter(ChatOptions("m", usage=True, clean=StripFields(), parsed=True)), fail)


def fail(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def through(name: str, parts: Iterable[bytes]) -> bytes:
    """Return the client's bytes for a recorded stream that arrives in these parts."""
    reply = reply_for(name)
    given = b"".join(reply.receive(part) for part in parts) + reply.finish()
    return given + reply.fail(reply.failure) if reply.failure else given


def events_of(data: bytes) -> tuple[sse.ServerSentEvent, ...]:
    decoder = sse.Decoder()
    return decoder.feed(data) + decoder.finish()


def gathered(data: bytes) -> tuple[str, list[tuple[str, str]], list[str], bool]:
    """Return a client's view of a stream: text, calls (name, joined arguments), finish reasons, and success."""
    text, finishes = "", []
    calls: dict[int, list[str]] = {}
    events = events_of(data)
    for event in events:
        body = json.loads(event.data) if event.data and event.data != b"[DONE]" else {}
        for choice in body.get("choices") or []:
            delta = choice["delta"]
            text += delta.get("content") or ""
            for call in delta.get("tool_calls") or []:
                mine = calls.setdefault(call["index"], ["", ""])
                mine[0] += call["function"].get("name") or ""
                mine[1] += call["function"].get("arguments") or ""
            finishes += [choice["finish_reason"]] if choice.get("finish_reason") else []
    joined = [(name, arguments) for name, arguments in calls.values()]
    return text, joined, finishes, bool(events) and events[-1].data == b"[DONE]"


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_stream_has_the_calls_that_the_model_made(name: str) -> None:
    server, _, file = name.partition("/")
    data = (FOLDER / name).read_bytes()
    if server == "llama-server-xllamacpp" and file.startswith("coder"):
        reply = reply_for(name)
        reply.receive(data)
        assert isinstance(reply.failure, UpstreamRefused) and not reply.started
        return
    text, calls, finishes, done = gathered(through(name, [data]))
    if b'"error"' in data:
        assert not done and not finishes
        return
    assert done and len(finishes) == 1
    script = file.split("-")[0]
    if script in SAID and server != "llama-server-agents":
        wanted = [] if (server, script, "stream") in SWALLOWED else SAID[script]
        assert [json.loads(arguments) for _, arguments in calls] == wanted
        assert all(called == "write_file" for called, _ in calls)
        assert finishes == ["tool_calls" if wanted else "stop"]
        assert "<tool" not in text and "```" not in text
    if server == "llama-server-agents" and script not in ("plain", "essay"):
        assert calls and finishes == ["tool_calls"] and "<tool" not in text


@pytest.mark.parametrize("name", STREAMS)
def test_a_clean_recording_is_unchanged(name: str) -> None:
    """Contract C1: text, reasoning, arguments and finish are unchanged, and so are the bytes of nearly all events."""
    data = (FOLDER / name).read_bytes()
    given = through(name, [data])
    if not clean(name, data):
        assert given != data
        return
    (text, calls, *ended), (same_text, same_calls, *same_end) = gathered(data), gathered(given)
    assert (text, [arguments for _, arguments in calls], ended) == (
        same_text,
        [arguments for _, arguments in same_calls],
        same_end,
    )
    received = [event.raw for event in events_of(data) if quiet(event)]
    same = {event.raw for event in events_of(given)}
    assert sum(raw not in same for raw in received) <= len(received) // 20 + 1


def test_log_probabilities_of_a_call_keep_the_order_of_its_tokens() -> None:
    """C1: vLLM sends those of unfinished tokens in chunks between the pieces of the call."""
    name = "vllm-0.32.0-hermes/hermes-chat-stream-logprobs-200.txt"
    data = (FOLDER / name).read_bytes()
    assert tokens(through(name, [data])) == tokens(data) != []


def tokens(data: bytes) -> list[str]:
    """Return the tokens of a stream, as its log probabilities name them."""
    events = [json.loads(event.data) for event in events_of(data) if event.data and event.data != b"[DONE]"]
    told = [choice.get("logprobs") or {} for body in events for choice in body.get("choices") or []]
    return [each["token"] for one in told for each in one.get("content") or ()]


def clean(name: str, data: bytes) -> bool:
    """Return whether nothing needs a repair: no call in the text, no error, and only objects as arguments."""
    script = Path(name).name.removeprefix("named-")[:1] if "named-" in name else Path(name).name.split("-")[0]
    plain = script in ("plain", "essay")
    in_text = script.endswith(("toolstag", "fence", "_tools", "_two")) or ("-none-" in name and not plain)
    swallowed_text = "<tool_call>" in gathered(data)[0]
    return not (in_text or swallowed_text or script in ("1", "2"))


def quiet(event: sse.ServerSentEvent) -> bool:
    """Return whether an event has no call."""
    body = json.loads(event.data) if event.data and event.data != b"[DONE]" else {}
    return not any(choice["delta"].get("tool_calls") for choice in body.get("choices") or [])


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_of_a_recorded_stream_has_the_same_output(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    whole = through(name, [data])
    assert through(name, [data[at : at + 1] for at in range(len(data))]) == whole
    rng = random.Random(name)
    for _ in range(15):
        assert through(name, cut(data, rng)) == whole


def cut(data: bytes, rng: random.Random) -> Sequence[bytes]:
    places = sorted(rng.randrange(len(data)) for _ in range(rng.randrange(1, 24)))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("name", WHOLES)
def test_a_recorded_whole_answer_has_the_calls_that_the_model_made(name: str) -> None:
    server, _, file = name.partition("/")
    data = (FOLDER / name).read_bytes()
    answer = read_whole(data)
    engine = Engine(Task(tools=tools_for(name), seed=b"seed"))
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    given = rebuild(data, answer, events, ChatOptions("m", True, StripFields(), parsed=True))
    choice = json.loads(given)["choices"][0]
    calls = choice["message"].get("tool_calls") or []
    script = file.split("-")[0]
    if script in SAID:
        wanted = [] if (server, script, "plain") in SWALLOWED else SAID[script]
        assert [json.loads(call["function"]["arguments"]) for call in calls] == wanted
        assert choice["finish_reason"] == ("tool_calls" if wanted else "stop")
    if json.loads(data)["choices"][0]["message"].get("tool_calls") or script == "plain":
        assert given == data
