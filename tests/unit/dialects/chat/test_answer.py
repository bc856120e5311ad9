"""Whole answers: they take the way of a stream of one chunk, and only what the engine says otherwise is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatDialect, as_chunk, read_whole, rebuild
from proxy.dialects.chat.writer import ChatOptions
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import UpstreamBroken, UpstreamRefused
from proxy.exchange.reply_stream import StreamReply
from proxy.exchange.whole_answer import AnswerWriter
from tests.support.helpers import RECORDINGS, SEED, call_json, new_engine, offered

LS = '{"command": "ls"}'
WEAK = call_json("bash", command="ls")
STRONG = f"<tool_call>\n{WEAK}\n</tool_call>"
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
    """The answer as it goes to the client."""
    engine = Engine(Task(tools=offered() if parsed else None, seed=SEED, **task))
    read = read_whole(body)
    events = (*engine.feed(as_chunk(read)), *engine.finish(done=True))
    return rebuild(body, read, events, clean or StripFields(), parsed=parsed, reasoning=reasoning)


def first(body: bytes) -> tuple[Any, list[tuple[str, str]], str]:
    """Content, calls and finish of the first choice."""
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
    "a call with blanks around its arguments": answer(
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
def test_an_answer_that_needs_no_repair_leaves_as_the_very_bytes(name: str) -> None:
    """C1: a body that was not changed is never re-serialised."""
    assert rebuilt(UNCHANGED[name]) == UNCHANGED[name]
    assert rebuilt(UNCHANGED[name], parsed=False) == UNCHANGED[name]


@pytest.mark.parametrize("path", sorted(RECORDINGS.glob("*/*plain-200.txt")), ids=lambda path: path.stem)
def test_recorded_answers_of_other_tools_leave_as_they_came(path: Any) -> None:
    """C1: `write_file` is offered here; what its recordings hold as text becomes calls, the rest stays."""
    body = path.read_bytes()
    assert rebuilt(body, parsed=False) == body
    content, calls, finish = first(rebuilt(body))
    assert finish == ("tool_calls" if calls else "stop")
    if json.loads(body)["choices"][0]["message"].get("tool_calls"):
        assert rebuilt(body) == body
    elif path.stem.startswith(("toolstag", "fence")):
        assert [name for name, _ in calls] == ["write_file"]
        assert content in (None, "I will write it.\n")


@pytest.mark.parametrize("text", [STRONG, f"\n{STRONG}\n", WEAK])
def test_content_is_null_where_nothing_but_the_call_was_said(text: str) -> None:
    assert first(rebuilt(answer(message(content=text)))) == (None, [("bash", LS)], "tool_calls")


def test_of_a_changed_answer_all_else_stays() -> None:
    body = answer(message(content=STRONG, reasoning="so", refusal=None), usage=COUNTS, service_tier=None)
    found = json.loads(rebuilt(body))
    assert (found["usage"], found["id"], found["service_tier"]) == (COUNTS, "w", None)
    assert found["choices"][0]["message"]["reasoning"] == "so"
    assert found["choices"][0]["message"]["role"] == "assistant"


def test_a_call_that_cannot_be_finished_is_text() -> None:
    """C4: nothing of it has left, and the other call stays."""
    call = {**TOOL_CALL, "function": {"name": "bash", "arguments": '{"command": "l'}}
    half: tuple[str, list[Any], str] = ('bash{"command": "l', [], "stop")
    assert first(rebuilt(answer(message(0, "tool_calls", tool_calls=[call])))) == half
    both = answer(message(0, "tool_calls", tool_calls=[call, TOOL_CALL]))
    assert first(rebuilt(both)) == ('bash{"command": "l', [("bash", LS)], "tool_calls")


@pytest.mark.parametrize(
    ("finish", "calls", "expected"),
    [
        ("stop", [TOOL_CALL], "tool_calls"),
        ("tool_calls", [], "stop"),
        (None, [], "stop"),
        ("length", [TOOL_CALL], "length"),
    ],
)
def test_the_finish_is_true(finish: str | None, calls: list[Any], expected: str) -> None:
    """C4, F54, F55."""
    assert first(rebuilt(answer(message(0, finish, content="a", tool_calls=calls))))[2] == expected


def test_each_choice_is_read_by_itself() -> None:
    body = answer(message(0, content="a"), message(1, content=STRONG))
    one, two = json.loads(rebuilt(body))["choices"]
    assert (one["message"]["content"], one["finish_reason"]) == ("a", "stop")
    assert (two["message"]["content"], two["finish_reason"]) == (None, "tool_calls")


def test_fields_that_the_client_does_not_expect_are_removed() -> None:
    clean = StripFields(top=("service_tier",), message=("refusal",), usage=("prompt_tokens_details",))
    body = answer(message(content="a", refusal=None), usage=COUNTS, service_tier=None)
    for parsed in (True, False):
        found = json.loads(rebuilt(body, clean=clean, parsed=parsed))
        assert "service_tier" not in found
        assert "prompt_tokens_details" not in found["usage"]
        assert found["choices"][0]["message"] == {"role": "assistant", "content": "a"}


@pytest.mark.parametrize("body", [b"", b"x", b"[]", b'"a"', b"{}", b'{"choices": {}}', b'{"choices": null}', b"\xff"])
def test_a_body_that_is_no_answer_is_an_upstream_that_broke(body: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        read_whole(body)


@pytest.mark.parametrize("error", [{"message": "no", "code": 404}, "no"])
def test_an_error_in_the_body_is_the_upstream_s_own(error: Any) -> None:
    with pytest.raises(UpstreamRefused, match="no"):
        read_whole(json.dumps({"error": error, "choices": []}).encode())


@pytest.mark.parametrize("entry", [{"message": None, "finish_reason": "stop"}, {"message": "x"}, {"text": None}])
def test_a_choice_without_a_message_is_no_answer(entry: dict[str, Any]) -> None:
    """Every SDK fails on it, and nothing tells its user why."""
    with pytest.raises(UpstreamBroken, match="without a message"):
        read_whole(answer({"index": 0, **entry}))


def test_the_one_chunk_says_all_of_the_answer() -> None:
    odd = [TOOL_CALL, 7, {**TOOL_CALL, "id": "b"}]
    made = as_chunk(json.loads(answer(message(3, "stop", content="a", tool_calls=odd), usage=COUNTS)))
    body: dict[str, Any] = made.body
    (entry,) = body["choices"]
    assert made.raw == b""
    assert entry["index"] == 0
    assert [call["id"] for call in entry["delta"]["tool_calls"] if call != 7] == ["a", "b"]


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
def test_an_answer_that_used_tokens_and_holds_nothing_is_told_from_others(body: bytes, nothing: bool) -> None:
    writer = AnswerWriter(ChatDialect(ChatOptions("m", True, StripFields(), parsed=True)))
    reply = StreamReply(new_engine(), writer, lambda error: pytest.fail(repr(error)))
    reply.receive_answer(body, read_whole(body))
    reply.finish()
    assert reply.swallowed is nothing


@pytest.mark.parametrize("parsed", [True, False])
@pytest.mark.parametrize("server", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("wanted", ["reasoning", "reasoning_content", "both"])
def test_reasoning_comes_under_the_names_that_the_client_reads(wanted: str, server: str, parsed: bool) -> None:
    """F73."""
    names = ("reasoning", "reasoning_content") if wanted == "both" else (wanted,)
    body = answer(message(0, "stop", content="a", **{server: "so"}), usage=COUNTS)
    got = json.loads(rebuilt(body, reasoning=wanted, parsed=parsed))
    assert got["choices"][0]["message"] == {"role": "assistant", "content": "a", **dict.fromkeys(names, "so")}
    assert got["usage"] == COUNTS
    assert rebuilt(body, parsed=parsed) == body
