"""The checker of Messages answers: good ones pass; with a part dropped, doubled, moved or of another type they fail.

A checker that lets a mutation pass would make every test that relies on it worth nothing (F93).
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.messages_checker import (
    check_message,
    check_stream,
)

Events = list[dict[str, Any]]
PING = {"type": "ping"}


def started(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    counted = {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 1, **usage}
    return {
        "type": "message_start",
        "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": counted},
    }


STARTS: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}


def opened(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **more, **STARTS[kind]}}


def said(index: int, kind: str, text: str) -> dict[str, Any]:
    key = {"text_delta": "text", "input_json_delta": "partial_json"}.get(kind, kind.removesuffix("_delta"))
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}}


def stopped(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str, sequence: str | None = None, **usage: Any) -> dict[str, Any]:
    delta = {"stop_reason": reason, "stop_sequence": sequence}
    return {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9, **usage}}


OVER = {"type": "message_stop"}
FAILED = {"type": "error", "error": {"type": "overloaded_error", "message": "Too much."}}
TEXT = [opened(0, "text"), said(0, "text_delta", "Hi"), stopped(0)]
GOOD: Events = [
    PING,
    started(),
    opened(0, "thinking"),
    said(0, "thinking_delta", "hm"),
    said(0, "signature_delta", "c2ln"),
    stopped(0),
    opened(1, "text"),
    said(1, "text_delta", "I will."),
    stopped(1),
    opened(2, "tool_use", id="toolu_a", name="write"),
    said(2, "input_json_delta", '{"path": '),
    PING,
    said(2, "input_json_delta", '"a"}'),
    stopped(2),
    opened(3, "tool_use", id="toolu_b", name="now"),
    said(3, "input_json_delta", "{}"),
    stopped(3),
    ended("tool_use", input_tokens=10),
    OVER,
]
PLAIN: Events = [started(), *TEXT, ended("end_turn"), OVER]
BROKEN: Events = [started(), opened(0, "text"), said(0, "text_delta", "Hi"), stopped(0), FAILED]
# Said twice, these are a longer text; a ping says nothing.
MAY_BE_TWICE = [said(0, "thinking_delta", "hm"), said(1, "text_delta", "I will."), PING]

ANSWER = {
    **started()["message"],
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "text", "text": "I will."},
        {"type": "tool_use", "id": "toolu_a", "name": "write", "input": {"path": "a"}},
    ],
    "stop_reason": "tool_use",
}


def encode(events: Events) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def refused(events: Events) -> str:
    """Why the stream is refused; fails if it is not."""
    with pytest.raises(AssertionError) as caught:
        check_stream(encode(events))
    return str(caught.value)


def test_a_good_stream_gives_its_message() -> None:
    message = check_stream(encode(GOOD))
    assert message["content"] == [
        *ANSWER["content"],
        {"type": "tool_use", "id": "toolu_b", "name": "now", "input": {}},
    ]
    assert (message["stop_reason"], message["stop_sequence"], message["id"]) == ("tool_use", None, "msg_1")
    assert message["usage"] == {"input_tokens": 10, "cache_read_input_tokens": 4, "output_tokens": 9}


@pytest.mark.parametrize(
    "events",
    [
        PLAIN,
        [started(), ended("end_turn"), OVER],
        [started(output_tokens=0, input_tokens=0), *TEXT, ended("end_turn", input_tokens=3), PING, OVER],
        [
            started(input_tokens=14, cache_read_input_tokens=None),
            *TEXT,
            ended("end_turn", input_tokens=10, cache_read_input_tokens=4),
            OVER,
        ],
        [started(), *TEXT, ended("stop_sequence", "END"), OVER],
        [started(), *TEXT, ended("max_tokens"), OVER],
        [started(), *TEXT, ended("refusal"), OVER],
        [started(), opened(0, "tool_use", id="toolu_a", name="f"), stopped(0), ended("max_tokens"), OVER],
        [*GOOD[1:11], stopped(2), ended("max_tokens"), OVER],
        [*GOOD[1:11], stopped(2), ended("refusal"), OVER],
    ],
)
def test_other_good_streams_pass(events: Events) -> None:
    check_stream(encode(events))


@pytest.mark.parametrize("stream", [GOOD, PLAIN, BROKEN], ids=["calls", "text", "error"])
def test_no_event_can_be_dropped(stream: Events) -> None:
    for number, event in enumerate(stream):
        if event is not PING:
            refused([*stream[:number], *stream[number + 1 :]])


@pytest.mark.parametrize("stream", [GOOD, PLAIN, BROKEN], ids=["calls", "text", "error"])
def test_no_event_can_be_there_twice(stream: Events) -> None:
    for number, event in enumerate(stream):
        if event not in MAY_BE_TWICE and event != said(0, "text_delta", "Hi"):
            refused([*stream[: number + 1], *stream[number:]])


@pytest.mark.parametrize("stream", [GOOD, PLAIN, BROKEN], ids=["calls", "text", "error"])
def test_no_two_events_can_change_places(stream: Events) -> None:
    told = [event for event in stream if event is not PING]
    check_stream(encode(told))
    for one in range(len(told)):
        for other in range(one + 1, len(told)):
            moved = [*told]
            moved[one], moved[other] = moved[other], moved[one]
            refused(moved)


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


WRITE = opened(0, "tool_use", id="toolu_a", name="write")
THOUGHT = [opened(0, "thinking"), said(0, "thinking_delta", "hm"), said(0, "signature_delta", "s")]
NEXT = [opened(1, "text"), said(1, "text_delta", "x"), stopped(1)]
INPUT = said(0, "input_json_delta", "{}")


def starting(**changed: Any) -> Events:
    """A stream of text whose message starts with something else."""
    start = started()
    return [{**start, "message": {**start["message"], **changed}}, *PLAIN[1:]]


def reply(*events: dict[str, Any], reason: str = "end_turn", sequence: str | None = None) -> Events:
    return [started(), *events, ended(reason, sequence), OVER]


def replied(index: int, *deltas: dict[str, Any], **start: Any) -> Events:
    """A reply of one text block that starts with something else."""
    first = {**opened(index, "text"), "content_block": {"type": "text", "text": "", **start}}
    return reply(first, *deltas, stopped(index))


def called(*fragments: str, reason: str = "tool_use", **start: Any) -> Events:
    """A reply of one call with these fragments, whose block starts with something else."""
    first = {**WRITE, "content_block": {**WRITE["content_block"], **start}}
    deltas = [said(0, "input_json_delta", fragment) for fragment in fragments]
    return reply(first, *deltas, stopped(0), reason=reason)


# What is wrong -> a stream in which it is, and a part of what the checker says.
WRONG: dict[str, tuple[Events, str]] = {
    "nothing": ([], "not complete"),
    "pings only": ([PING], "without message_stop and without an error"),
    "no end": (PLAIN[:-1], "without message_stop and without an error"),
    "id of a chat": (starting(id="chatcmpl-1"), "msg_"),
    "no model": (starting(model=" "), "without a model"),
    "role of a user": (starting(role="user"), "`role`"),
    "type of a chat": (starting(type="completion"), "`type`"),
    "content at the start": (starting(content=[{"type": "text", "text": "Hi"}]), "does not begin empty"),
    "reason at the start": (starting(stop_reason="end_turn"), "not null at the start"),
    "sequence at the start": (starting(stop_sequence="x"), "not null at the start"),
    "first index 1": (replied(1, said(1, "text_delta", "Hi")), "index 1, not 0"),
    "index stays": (reply(*TEXT, *TEXT), "index 0, not 1"),
    "index leaps": (reply(*TEXT, opened(2, "text"), said(2, "text_delta", "x"), stopped(2)), "index 2, not 1"),
    "index true": ([*GOOD[1:6], opened(True, "text"), *GOOD[7:]], "index True"),
    "two open": (reply(*TEXT[:2], *NEXT, stopped(0)), "another one is open"),
    "delta of the block before": (reply(*TEXT, NEXT[0], said(0, "text_delta", "x"), stopped(1)), "not open"),
    "delta without block": (reply(said(0, "text_delta", "Hi")), "not open"),
    "delta behind the stop": (reply(*TEXT, said(0, "text_delta", "Hi")), "not open"),
    "stop of another block": (reply(*TEXT[:2], stopped(1)), "not open"),
    "open at the end": (reply(*TEXT[:2]), "still open"),
    "open at an error": ([started(), *TEXT[:2], FAILED], "still open"),
    "text into a call": (reply(WRITE, said(0, "text_delta", "x"), stopped(0)), "into a tool_use block"),
    "json into text": (replied(0, INPUT), "into a text block"),
    "thinking into text": (replied(0, THOUGHT[1]), "into a text block"),
    "signature into text": (replied(0, said(0, "text_delta", "x"), THOUGHT[2]), "into a text block"),
    "text into thinking": (reply(*THOUGHT[:2], said(0, "text_delta", "x"), stopped(0)), "into a thinking block"),
    "no signature": (reply(*THOUGHT[:2], stopped(0)), "without its signature"),
    "no signature before an error": ([started(), *THOUGHT[:2], stopped(0), FAILED], "without its signature"),
    "two signatures": (reply(*THOUGHT, THOUGHT[2], stopped(0)), "behind the signature"),
    "signature first": (reply(THOUGHT[0], THOUGHT[2], THOUGHT[1], stopped(0)), "behind the signature"),
    "signature alone": (reply(THOUGHT[0], THOUGHT[2], stopped(0)), "without thinking"),
    "text in the start": (replied(0, said(0, "text_delta", "x"), text="Hi"), "starts with text"),
    "input in the start": (called("{}", input={"a": 1}), "starts with input"),
    "input as a string": (called("{}", input=""), "starts with input"),
    "id of a server": (called("{}", id="call_1"), "toolu_"),
    "id with a colon": (called("{}", id="toolu_f:0"), "toolu_"),
    "id without an end": (called("{}", id="toolu_"), "toolu_"),
    "id of nothing": (called("{}", id=""), "id of a call"),
    "an id twice": ([*GOOD[:14], opened(3, "tool_use", id="toolu_a", name="now"), *GOOD[15:]], "twice"),
    "no name": (called("{}", name=""), "name of a call"),
    "an empty text block": (replied(0), "without text"),
    "a block of blanks": (replied(0, said(0, "text_delta", " \n")), "without text"),
    "an empty block before an error": ([started(), TEXT[0], TEXT[2], FAILED], "without text"),
    "an empty delta": (replied(0, said(0, "text_delta", ""), said(0, "text_delta", "x")), "empty delta"),
    "an empty json delta": (called("", "{}"), "empty delta"),
    "an empty thinking delta": (reply(THOUGHT[0], said(0, "thinking_delta", ""), *THOUGHT[1:], stopped(0)), "empty"),
    "no json": (called(), "no JSON"),
    "json that is an array": (called("[]"), "no object"),
    "json that is cut": (called('{"a'), "no JSON"),
    "json that no error explains": (
        [started(), WRITE, said(0, "input_json_delta", "]"), stopped(0), FAILED],
        "no JSON",
    ),
    "json with more behind it": (called("{} {}"), "no JSON"),
    "json with a number of Python's": (called('{"a": NaN}'), "NaN is no JSON"),
    "no beginning of json": (called("{'a': 1", reason="max_tokens"), "no JSON"),
    "a cut array": (called("[1", reason="max_tokens"), "no object"),
    "tool_use without calls": (reply(*TEXT, reason="tool_use"), "there is no call"),
    "end_turn with calls": (called("{}", reason="end_turn"), "there are calls"),
    "stop_sequence with calls": (reply(WRITE, INPUT, stopped(0), reason="stop_sequence", sequence="x"), "are calls"),
    "a chat's reason": (reply(*TEXT, reason="stop"), "stop reason is 'stop'"),
    "no word on which sequence": (reply(*TEXT, reason="stop_sequence"), "not said which"),
    "a sequence too much": (reply(*TEXT, sequence="END"), "stop sequence is 'END'"),
    "fewer tokens out": ([started(output_tokens=10), *PLAIN[1:]], "less than at the start"),
    "fewer tokens in": ([*PLAIN[:-2], ended("end_turn", input_tokens=1), OVER], "less than at the start"),
    "an error behind the reason": ([*PLAIN[:-1], FAILED], "behind message_delta"),
    "an error behind the end": ([*PLAIN, FAILED], "follows message_stop"),
    "an end behind an error": ([*BROKEN, ended("end_turn"), OVER], "follows an error"),
    "a stop behind an error": ([*BROKEN, OVER], "follows an error"),
    "a stop without a reason": ([started(), *TEXT, OVER], "without message_delta"),
    "a second start": ([started(), *PLAIN], "once"),
    "a start behind the end": ([*PLAIN, started()], "follows message_stop"),
    "a block before the start": ([TEXT[0], *PLAIN], "comes first"),
    "a block behind the reason": ([*PLAIN[:-1], *NEXT, OVER], "follows message_delta"),
    "a ping that says more": ([{"type": "ping", "x": 1}, *PLAIN], "more than its type"),
    "an unknown event": ([started(), {"type": "message_note"}, *PLAIN[1:]], "no such event"),
    "an unknown block": (replied(0, type="image"), "unknown kind"),
    "an unknown delta": (replied(0, {**TEXT[1], "delta": {"type": "image_delta"}}), "unknown kind"),
    "an error of a chat server": ([{"type": "error", "error": {"type": "server_error", "message": "x"}}], "not have"),
    "an error without a message": ([{"type": "error", "error": {"type": "api_error", "message": ""}}], "a message"),
    "a bare error": ([{"type": "server_error", "message": "x", "code": 500}], "no such event"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_stream_is_refused_and_it_is_said_why(name: str) -> None:
    events, why = WRONG[name]
    assert why in refused(events)


CALL = ANSWER["content"][2]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stop_reason": "end_turn"}, "there are calls"),
        ({"stop_reason": "stop_sequence", "stop_sequence": "x"}, "there are calls"),
        ({"stop_reason": None}, "the stop reason is None"),
        ({"stop_sequence": "x"}, "the stop sequence is 'x'"),
        ({"content": ANSWER["content"][:2]}, "there is no call"),
        ({"content": [CALL, CALL]}, "is there twice"),
        ({"content": [{"type": "text", "text": " "}, CALL]}, "a text block without text"),
        ({"content": [{"type": "text", "text": None}, CALL]}, "`text` is None"),
        ({"content": [{"type": "text", "text": ["x"]}, CALL]}, "`text` is "),
        ({"content": [{"type": "thinking", "thinking": "", "signature": "s"}, CALL]}, "without thinking"),
        ({"content": [{"type": "thinking", "thinking": "x", "signature": ""}, CALL]}, "without a signature"),
        ({"content": [{**CALL, "id": "call_1"}]}, "toolu_"),
        ({"content": [{**CALL, "name": " "}]}, "the name of a call"),
        ({"content": [{**CALL, "input": '{"path": "a"}'}]}, "the input of a call is "),
        ({"content": [{"type": "image"}, CALL]}, "unknown kind"),
        ({"content": {}}, "the content is no list"),
        ({"id": "chatcmpl-1"}, "msg_"),
        ({"id": ""}, "without an id"),
        ({"model": " "}, "without a model"),
        ({"usage": None}, "usage: None is no object"),
        ({"usage": {"input_tokens": 1}}, "usage.output_tokens is None"),
        ({"usage": {**ANSWER["usage"], "output_tokens": -1}}, "usage.output_tokens is -1"),
        ({"usage": {**ANSWER["usage"], "cache_read_input_tokens": -1}}, "usage.cache_read_input_tokens is -1"),
        ({"usage": {**ANSWER["usage"], "total_tokens": 3}}, "has no field"),
    ],
)
def test_a_wrong_answer_is_refused_and_it_is_said_why(changed: dict[str, Any], why: str) -> None:
    check_message(ANSWER)
    with pytest.raises(AssertionError, match=why):
        check_message({**ANSWER, **changed})
