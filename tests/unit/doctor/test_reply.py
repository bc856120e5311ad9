"""A reply as a probe reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.doctor.reply import Reply
from tests.support.scripted import DONE, ROLE, completion, event, finish, text


def whole(message: dict[str, Any] | None = None, **more: Any) -> Reply:
    choice = {"index": 0, "message": message or {"content": "Hi"}, "finish_reason": "stop"}
    return Reply(200, json.dumps({"choices": [choice], **more}).encode(), streamed=False)


def streamed(*events: bytes) -> Reply:
    return Reply(200, b"".join(events), streamed=True)


def called(**call: Any) -> bytes:
    made = {"id": "a", "function": {"name": "read", "arguments": "{}"}, **call}
    return event({"choices": [{"index": 0, "delta": {"tool_calls": [made]}, "finish_reason": None}]})


def test_a_whole_reply_and_a_stream_say_the_same() -> None:
    data = json.dumps(completion("Hi")).encode()
    for reply in (Reply(200, data, streamed=False), streamed(ROLE, text("H"), text("i"), finish(), DONE)):
        assert (reply.taken, reply.text, reply.finish, reply.is_silent, reply.calls) == (True, "Hi", "stop", False, [])


def test_calls_are_told_with_their_ids_and_those_without_an_index() -> None:
    reply = streamed(ROLE, called(index=0), called(), called(index=True), finish("tool_calls"), DONE)
    assert reply.bare_deltas == 2 and not reply.is_silent
    assert {*reply.ids} == {"a"} and reply.calls[0][0].startswith("read")


@pytest.mark.parametrize(("end", "done"), [(DONE, True), (b"data: [DONE]", True), (b"", False)])
def test_the_end_of_a_stream_is_seen(end: bytes, done: bool) -> None:
    assert streamed(ROLE, text("a"), finish(), end).done is done
    assert not whole().done


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_the_field_of_the_thoughts_is_told(field: str) -> None:
    reply = whole({"content": "Hi", field: "Hm."})
    assert (reply.reasoning_field, reply.reasoning) == (field, "Hm.")
    assert whole({"content": "Hi", field: " "}).reasoning_field == ""


def test_the_last_count_is_taken_and_only_a_number_is_one() -> None:
    counts = [event({"choices": [], "usage": {"prompt_tokens": number}}) for number in (3, 4)]
    reply = streamed(ROLE, *counts, event({"choices": [], "usage": {"prompt_tokens": "5"}}), DONE)
    assert (reply.prompt_tokens, reply.completion_tokens) == (4, None)
    assert whole(usage={"completion_tokens": True}).completion_tokens is None


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (400, b'{"error": {"message": "no"}}', "no"),
        (400, b'{"message": "flat"}', "flat"),
        (404, b'{"detail": "Not Found"}', "Not Found"),
        (500, b"Internal Server Error\n", "Internal Server Error"),
        (405, b"", "an empty error"),
    ],
)
def test_an_error_has_its_words_in_whatever_shape(status: int, body: bytes, error: str) -> None:
    for way in (True, False):
        reply = Reply(status, body, streamed=way)
        assert (reply.taken, reply.error, reply.text) == (False, error, "")


@pytest.mark.parametrize("body", [b"what?", b"[]", b'{"choices": []}', b'{"error": {"message": "gone"}}'])
def test_a_success_that_says_nothing_is_none(body: bytes) -> None:
    assert not Reply(200, body, streamed=False).taken
    assert not Reply(200, b"data: " + body + b"\n\n", streamed=True).taken or body == b'{"choices": []}'
    assert not Reply(0, b"", streamed=False, trouble="nobody").taken
