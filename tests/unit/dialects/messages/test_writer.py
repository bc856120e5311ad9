"""Messages to the client: the writer's bytes, whole messages, errors; and recorded replies in this dialect (F93)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.chat.answer import read_whole
from proxy.dialects.messages.blocks import Blocks, ReplyOptions
from proxy.dialects.messages.writer import (
    MessagesDialect,
    MessagesWriter,
    error_body,
    error_object,
    error_status,
)
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import (
    BadRequest,
    BodyTooLarge,
    InternalError,
    LimitExceeded,
    MethodNotAllowed,
    NotFound,
    ProxyError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamSlow,
    UpstreamUnreachable,
)
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import answer_as_answer
from proxy.tools.toolset import read_tools
from tests.support.messages_checker import ERROR_TYPES, check_error, check_message, check_stream
from tests.support.messages_client import HERMES, INPUT, PING
from tests.support.scripted import (
    DONE,
    ROLE,
    USAGE,
    WRITE_FILE,
    arguments,
    completion,
    delta,
    event,
    finish,
    opened,
    text,
)

ASKED = ReplyOptions("claude-x", frozenset(("END",)), "id-1")
DIALECT = MessagesDialect(ASKED)


def writer() -> MessagesWriter:
    return DIALECT.writer(expand=False)


def fail(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


# The writer.


def test_a_heartbeat_is_a_ping() -> None:
    """F75: clients count it as a sign of life."""
    assert writer().heartbeat() == PING


# Errors.


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadRequest("x"), 400),
        (NotFound("x"), 404),
        (MethodNotAllowed("x"), 405),
        (BodyTooLarge("x"), 413),
        (InternalError("x"), 500),
        (UpstreamUnreachable("x"), 502),
        (UpstreamBroken("x"), 502),
        (LimitExceeded("max_event", 1), 502),
        (UpstreamSlow("x"), 504),
        *((UpstreamRefused("x", status=status), status) for status in (400, 401, 403, 404, 413, 429, 500, 502, 504)),
        (UpstreamRefused("x", status=503), 529),
        (UpstreamRefused("x", status=529), 529),
    ],
    ids=lambda each: f"{type(each).__name__} {each.status}" if isinstance(each, ProxyError) else "",
)
def test_an_error_has_the_status_and_the_type_that_the_api_pairs(error: ProxyError, status: int) -> None:
    assert error_status(error) == status
    made = check_error(error_body(error), status)
    assert made == {"type": "error", "error": {"type": ERROR_TYPES[status], "message": error.message}}


@pytest.mark.parametrize(("status", "kind"), [(409, "invalid_request_error"), (422, "invalid_request_error")])
def test_a_status_that_the_api_does_not_name_keeps_its_side(status: int, kind: str) -> None:
    assert error_object(UpstreamRefused("x", status=status))["error"] == {"type": kind, "message": "x"}
    assert error_object(UpstreamRefused("x", status=599))["error"] == {"type": "api_error", "message": "x"}


VLLM = (
    "This model's maximum context length is 8192 tokens. However, you requested {} output tokens and your prompt "
    "contains {} input tokens, for a total of more. Please reduce the length of the input prompt or the number of "
    "requested output tokens."
)
NUMBERS = {"n_prompt_tokens": 9000, "n_ctx": 4096}
LLAMA = {"code": 400, "message": "the request exceeds the available context size", "type": "x", **NUMBERS}
BOTH = "input length and `max_tokens` exceed context limit: {} + {} > 8192, decrease input length or `max_tokens`"
CONTEXT = [
    (VLLM.format(0, "at least 8193"), None, "prompt is too long: 8193 tokens > 8192 maximum"),
    (VLLM.format(1000, "at least 7193"), None, BOTH.format(7193, 1000)),
    (
        "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens.",
        None,
        "prompt is too long: 9000 tokens > 8192 maximum",
    ),
    (
        "This model's maximum context length is 8192 tokens. However, your request has 8192 input tokens.",
        None,
        "prompt is too long: 8193 tokens > 8192 maximum",
    ),
    (LLAMA["message"], LLAMA, "prompt is too long: 9000 tokens > 4096 maximum"),
]


@pytest.mark.parametrize(("message", "body", "words"), CONTEXT)
def test_a_context_that_is_too_small_is_told_in_the_words_that_clients_know(
    message: str, body: object, words: str
) -> None:
    """F95: Claude Code compacts the conversation by them."""
    raw = None if body is None else json.dumps({"error": body}).encode()
    made = check_error(error_body(UpstreamRefused(message, status=400, body=raw)), 400)
    assert made["error"]["message"].startswith(words)


def test_only_the_server_s_own_words_are_read_for_it() -> None:
    """What a client sends must not look like a full context."""
    words = "messages.0.role: 'maximum context length is 8192 tokens; request has 9000 input tokens' is no role"
    assert error_object(BadRequest(words))["error"] == {"type": "invalid_request_error", "message": words}


# Replies as the real servers send them, in any cut.


def stream_reply(tools: Any, *, raw_text: bool = False) -> StreamReply:
    engine = Engine(Task(tools=tools, seed=b"seed", raw_text=raw_text))
    return StreamReply(engine, MessagesWriter(Blocks(ASKED)), fail)


def through(now: StreamReply, parts: Iterable[bytes]) -> bytes:
    """What the client gets of a stream in these parts."""
    given_ = b"".join(map(now.receive, parts))
    if now.failure is None:
        given_ += now.finish()
    return given_ if now.failure is None else given_ + now.fail(now.failure)


def cuts(data: bytes, count: int = 4) -> Iterable[list[bytes]]:
    """Byte by byte, and some cuts at random."""
    yield [data[at : at + 1] for at in range(len(data))]
    rng = random.Random(len(data))
    for _ in range(count):
        places = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.randrange(1, 40)))})
        yield [data[one:two] for one, two in pairwise(places)]


def calls_of(made: dict[str, Any]) -> list[Any]:
    return [block["input"] for block in made["content"] if block["type"] == "tool_use"]


LEGACY = {"name": "write_file", "arguments": json.dumps(INPUT)}
ERROR = event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}})
OPEN = [opened(0, "call_1", "write_file"), arguments(0, '{"path": "a')]
REPLIES: dict[str, tuple[list[bytes], bool]] = {
    "text": ([ROLE, text("Hé"), text("llo"), finish(), USAGE, DONE], True),
    "reasoning": ([ROLE, delta({"reasoning": "h"}), delta({"reasoning": "m"}), text("\n\na"), finish(), DONE], True),
    "thinking in the text": ([text("<thi"), text("nk>\nhm</think"), text(">\n\na"), finish(), DONE], True),
    "a call in the text": ([text(HERMES[at : at + 7]) for at in range(0, len(HERMES), 7)] + [finish(), DONE], True),
    "a call and text": ([*OPEN, arguments(0, '", "content": "b"}'), text("So."), finish("tool_calls"), DONE], True),
    "nothing": ([ROLE, finish(), USAGE, DONE], True),
    "an error event": ([ROLE, text("a"), ERROR, DONE], False),
    "an error event in a call": ([ROLE, *OPEN, ERROR, DONE], False),
    "an end without a finish": ([ROLE, text("a")], False),
    "an end in a call": ([ROLE, *OPEN], False),
    "an end in a held call": ([ROLE, text(HERMES[:40])], False),
    "half an event": ([ROLE, text("a"), b'data: {"choi'], False),
    "a generation given up": ([ROLE, text("a"), finish("abort"), DONE], False),
    "a call cut by length": ([ROLE, *OPEN, finish("length"), DONE], True),
}


@pytest.mark.parametrize("name", REPLIES)
@pytest.mark.parametrize("offered", [True, False], ids=["tools", "no tools"])
def test_a_reply_is_the_same_at_every_cut_and_only_a_finished_one_looks_so(name: str, offered: bool) -> None:
    events, well = REPLIES[name]
    data, tools = b"".join(events), read_tools([WRITE_FILE]) if offered else None
    made = through(stream_reply(tools), [data])
    assert all(through(stream_reply(tools), cut) == made for cut in cuts(data))
    got = check_stream(made)
    assert (got["type"] == "message") is well and made.endswith(b'{"type":"message_stop"}\n\n') is well


def partial_json(data: bytes) -> str:
    """What of the arguments of a stream's calls has left."""
    events = [json.loads(block.partition(b"data: ")[2]) for block in data.split(b"\n\n") if block]
    return "".join(each["delta"].get("partial_json", "") for each in events if each["type"] == "content_block_delta")


@pytest.mark.parametrize("ending", [[ERROR, DONE], [], [finish("length"), DONE]], ids=["error", "end", "length"])
@pytest.mark.parametrize("size", range(len(json.dumps(INPUT))))
def test_a_call_that_was_not_finished_never_looks_whole(size: int, ending: list[bytes]) -> None:
    """C4: at every place where its arguments may break off."""
    events = [ROLE, opened(0, "call_1", "write_file"), arguments(0, json.dumps(INPUT)[:size]), *ending]
    data = through(stream_reply(read_tools([WRITE_FILE])), events)
    got = check_stream(data)
    if b"tool_use" in data:
        with pytest.raises(json.JSONDecodeError):
            json.loads(partial_json(data))
    assert got.get("stop_reason") == ("max_tokens" if ending[-1:] == [DONE] and ERROR not in ending else None)


# What a server may send between the calls, and what may end a reply.
BETWEEN = [
    *(text(each) for each in ("a", "Hi ", "\n", "<think>", "</think>", "<thi", HERMES, HERMES[:30], HERMES[30:], "é")),
    *(text(each) for each in ("<tool_call>", "[THINK]", "```json\n", "<|channel|>final<|message|>")),
    *(delta({"reasoning": each}) for each in ("hm", "\n", HERMES, "</think>")),
    *(delta({"reasoning": "hm", "content": "Hi "}), delta({"tool_calls": []})),
    *(USAGE, ROLE, b": hello\n\n", event({"choices": []}), event({"choices": [{"index": 0, "delta": None}]})),
]
ENDS = [
    *([finish(reason), USAGE, DONE] for reason in ("stop", "tool_calls", "length", "content_filter", "abort")),
    *([DONE], [finish()], [], [ERROR, DONE], [b'data: {"choi']),
]


@st.composite
def replies(draw: st.DrawFn) -> list[bytes]:
    """Calls in fragments that may take turns, and be cut, with other things between them."""
    said_ = json.dumps(INPUT)
    places = dict.fromkeys(range(draw(st.integers(0, 3))), 0)
    events = [ROLE]
    for _ in range(draw(st.integers(0, 12))):
        index = draw(st.sampled_from([*places, -1, -1]))
        if index < 0:
            events.append(draw(st.sampled_from(BETWEEN)))
            continue
        if not places[index]:
            events.append(opened(index, f"functions.write_file:{index}", "write_file"))
        size = draw(st.integers(1, len(said_)))
        events.append(arguments(index, said_[places[index] : places[index] + size]))
        places[index] += size
    return [*events, *draw(st.sampled_from(ENDS))]


@pytest.mark.slow
@settings(max_examples=300)
@given(replies(), st.booleans(), st.randoms(use_true_random=False))
def test_whatever_a_server_streams_the_client_gets_blocks_in_order(
    events: list[bytes], offered: bool, rng: random.Random
) -> None:
    """F53, F93: and the same at every cut."""
    data, tools = b"".join(events), read_tools([WRITE_FILE]) if offered else None
    made = through(stream_reply(tools), [data])
    got = check_stream(made)
    at = sorted(rng.randrange(len(data)) for _ in range(9))
    assert through(stream_reply(tools), [data[one:two] for one, two in pairwise([0, *at, len(data)])]) == made
    gave_up = finish("abort") in events or ERROR in events or events[-1] not in (DONE, finish())
    assert not (gave_up and got["type"] == "message")


# Older servers.


def test_a_server_that_only_knows_function_call_is_understood() -> None:
    """F46 and others: the field that `tool_calls` replaced, streamed and whole."""
    halves = ({"name": "write_file", "arguments": ""}, {"arguments": LEGACY["arguments"][:9]})
    events = [ROLE, *(delta({"function_call": half}) for half in halves)]
    events += [delta({"function_call": {"arguments": LEGACY["arguments"][9:]}}), finish("function_call"), DONE]
    tools = read_tools([WRITE_FILE])
    streamed = check_stream(through(stream_reply(tools), events))
    answer = completion({"role": "assistant", "content": None, "function_call": LEGACY}, "function_call")
    body = json.dumps(answer).encode()
    made = check_message(answer_as_answer(body, read_whole(body), Engine(Task(tools=tools, seed=b"s")), DIALECT))
    for each in (streamed, made):
        assert calls_of(each) == [INPUT] and each["stop_reason"] == "tool_use"
