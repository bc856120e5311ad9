"""The strict readers of the fault matrix reject streams that are neither a success nor a failure."""

from __future__ import annotations

import json

import pytest

from tests.support.dialects import DIALECTS
from tests.support.scripted import DONE, ROLE, arguments, event, finish, opened, text

FAILED = event({"error": {"message": "died", "type": "api_error", "param": None, "code": 502}})
CALL = [opened(0, "a", "write_file"), arguments(0, '{"path": "a"')]
CHAT = DIALECTS["chat"]


def named(type_: str, **more: object) -> bytes:
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
def test_malformed_chat_stream_is_rejected(data: list[bytes]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        CHAT.stream(b"".join(data))


@pytest.mark.parametrize("data", [[], [END], [END, ERROR], [END, STOP, ERROR], [ERROR, STOP], [STOP]])
def test_malformed_messages_stream_is_rejected(data: list[bytes]) -> None:
    with pytest.raises(AssertionError):
        DIALECTS["messages"].stream(b"".join([start(), block("a"), *data]))
