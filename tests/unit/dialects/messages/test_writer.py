"""Messages sent to the client: the writer's bytes, whole messages, errors, and recorded replies (F93)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.dialects.messages.writer import (
    MessagesWriter,
    ReplyOptions,
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
from proxy.notations.toolset import read_tools
from tests.support.messages_checker import ERROR_TYPES, check_error, check_stream
from tests.support.messages_client import HERMES, INPUT
from tests.support.scripted import (
    DONE,
    ROLE,
    USAGE,
    WRITE_FILE,
    arguments,
    delta,
    event,
    finish,
    opened,
    text,
)

ASKED = ReplyOptions("claude-x", frozenset(("END",)), "id-1")


def fail(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


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
def test_an_error_has_matching_status_and_type(error: ProxyError, status: int) -> None:
    assert error_status(error) == status
    made = check_error(error_body(error), status)
    assert made == {"type": "error", "error": {"type": ERROR_TYPES[status], "message": error.message}}


@pytest.mark.parametrize(("status", "kind"), [(409, "invalid_request_error"), (422, "invalid_request_error")])
def test_a_status_without_a_type_of_its_own_keeps_its_class(status: int, kind: str) -> None:
    assert error_object(UpstreamRefused("x", status=status))["error"] == {"type": kind, "message": "x"}
    assert error_object(UpstreamRefused("x", status=599))["error"] == {"type": "api_error", "message": "x"}


def test_context_overflow_is_detected_only_in_the_servers_own_message() -> None:
    """Text of the client must not look like a full context."""
    words = "messages.0.role: 'maximum context length is 8192 tokens; request has 9000 input tokens' is no role"
    assert error_object(BadRequest(words))["error"] == {"type": "invalid_request_error", "message": words}


# Replies of real servers, cut at any position.


def stream_reply(tools: Any, *, raw_text: bool = False) -> StreamReply:
    engine = Engine(Task(tools=tools, seed=b"seed", raw_text=raw_text))
    return StreamReply(engine, MessagesWriter(ASKED), fail)


def through(now: StreamReply, parts: Iterable[bytes]) -> bytes:
    """Return the client's bytes of a stream that arrives in these parts."""
    given_ = b"".join(map(now.receive, parts))
    if now.failure is None:
        given_ += now.finish()
    return given_ if now.failure is None else given_ + now.fail(now.failure)


ERROR = event({"error": {"message": "engine died", "type": "InternalServerError", "param": None, "code": 500}})
# Events that a server may send between calls and at the end of a reply.
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
    """Return calls in fragments, possibly interleaved or truncated, with other events between them."""
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
def test_any_upstream_stream_becomes_ordered_blocks(
    events: list[bytes], offered: bool, rng: random.Random
) -> None:
    """F53, F93: and the result does not depend on the cuts."""
    data, tools = b"".join(events), read_tools([WRITE_FILE]) if offered else None
    made = through(stream_reply(tools), [data])
    got = check_stream(made)
    at = sorted(rng.randrange(len(data)) for _ in range(9))
    assert through(stream_reply(tools), [data[one:two] for one, two in pairwise([0, *at, len(data)])]) == made
    gave_up = finish("abort") in events or ERROR in events or events[-1] not in (DONE, finish())
    assert not (gave_up and got["type"] == "message")
