"""The judges of the fault matrix: what they take for a success, for a failure, and for neither."""

from __future__ import annotations

import json

import pytest

from tests.support.dialects import DIALECTS, Told, events
from tests.support.scripted import DONE, ROLE, USAGE, arguments, completion, event, finish, opened, text

FAILED = event({"error": {"message": "died", "type": "api_error", "param": None, "code": 502}})
CALL = [opened(0, "a", "write_file"), arguments(0, '{"path": "a"')]
CHAT = DIALECTS["chat"]


def named(type_: str, **more: object) -> bytes:
    """An event of a Messages stream."""
    return f"event: {type_}\ndata: {json.dumps({'type': type_, **more})}\n\n".encode()


def start() -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    envelope = {"id": "msg_1", "type": "message", "role": "assistant", "model": "tiny", "content": [], "usage": usage}
    return named("message_start", message={**envelope, "stop_reason": None, "stop_sequence": None})


def block(said: str) -> bytes:
    return (
        named("content_block_start", index=0, content_block={"type": "text", "text": ""})
        + named("content_block_delta", index=0, delta={"type": "text_delta", "text": said})
        + named("content_block_stop", index=0)
    )


END = named("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": 2})
STOP = named("message_stop")
ERROR = named("error", error={"type": "api_error", "message": "died"})


def test_a_finished_stream_is_a_success() -> None:
    told = CHAT.stream(b"".join([ROLE, text("a"), text("b"), finish(), USAGE, DONE]))
    assert (told.text, told.finish, told.failed) == ("ab", "stop", False)
    told = DIALECTS["messages"].stream(start() + block("ab") + END + STOP)
    assert (told.text, told.finish, told.failed) == ("ab", "stop", False)


def test_a_stream_with_an_error_is_a_failure_and_tells_how_far_it_came() -> None:
    told = CHAT.stream(b"".join([ROLE, text("a"), *CALL, FAILED]))
    assert told.failed and (told.text, told.calls, told.words) == ("a", [("write_file", '{"path": "a"')], "died")
    assert told.whole_calls == []
    told = DIALECTS["messages"].stream(start() + block("a") + ERROR)
    assert told.failed and (told.text, told.words) == ("a", "died")


def test_a_whole_call_is_one() -> None:
    told = CHAT.stream(b"".join([ROLE, *CALL, arguments(0, "}"), finish("tool_calls"), DONE]))
    assert told.whole_calls == [("write_file", {"path": "a"})] and told.finish == "calls"


@pytest.mark.parametrize(
    "data",
    [
        [ROLE, text("a")],
        [ROLE, text("a"), finish()],
        [ROLE, text("a"), DONE],
        [ROLE, text("a"), FAILED, DONE],
        [ROLE, text("a"), finish(), DONE, text("b")],
        [ROLE, text("a"), finish(), text("b"), DONE],
        [ROLE, arguments(1, "{"), finish(), DONE],
        [ROLE, *CALL, opened(0, "b", "write_file"), finish(), DONE],
        [ROLE, text("a"), finish(), DONE[:9]],
        [ROLE, text("a"), FAILED.rstrip(b"\n")],
        [ROLE, event({"error": "died"})],
    ],
)
def test_a_chat_stream_that_is_neither_is_refused(data: list[bytes]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        CHAT.stream(b"".join(data))


@pytest.mark.parametrize("data", [[], [END], [END, ERROR], [END, STOP, ERROR], [ERROR, STOP], [STOP]])
def test_a_messages_stream_that_is_neither_is_refused(data: list[bytes]) -> None:
    with pytest.raises(AssertionError):
        DIALECTS["messages"].stream(b"".join([start(), block("a"), *data]))


@pytest.mark.parametrize("body", [{"error": {"message": "x", "type": "y"}}, completion("a", "")])
def test_a_whole_answer_that_is_no_success_is_refused(body: object) -> None:
    with pytest.raises((AssertionError, KeyError)):
        CHAT.whole(json.dumps(body).encode())


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("body", [{"error": "died"}, {"error": {"message": ""}}, {"detail": "x"}])
def test_an_error_in_no_shape_is_refused(name: str, body: object) -> None:
    with pytest.raises((AssertionError, KeyError)):
        DIALECTS[name].error(json.dumps(body).encode(), 502)


def test_a_failure_that_also_finishes_is_none() -> None:
    assert not Told(error="api_error", finish="stop").failed


def test_events_are_read_as_the_standard_says() -> None:
    data = b"\xef\xbb\xbfdata: a\r\n\r\n: x\n\ndata:b\ndata: c\n\nid: 1\r\rdata\n\n"
    assert [*events(data)] == ["a", "b\nc"]
