"""The engine's events become ordered blocks of a Messages stream, with one open at a time (F53, F93)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.engine.events import (
    CallArguments,
    CallOpened,
    Chunk,
    Event,
    Text,
)
from proxy.errors import LimitExceeded, UpstreamBroken
from tests.support.messages_checker import check_stream

ASKED = ReplyOptions("claude-x", frozenset(("END", "\n\nHuman:")), "abc-1")


def opened(index: int, name: str = "f", id_: str | None = None) -> CallOpened:
    return CallOpened(0, index, f"call_{index}" if id_ is None else id_, name)


def stream(events: Iterable[Event]) -> bytes:
    """Return the bytes of a stream that the server finished."""
    writer = MessagesWriter(ASKED)
    writer.observe_chunk(Chunk({"id": "chatcmpl-42"}, b""))
    said = b"".join(map(writer.write, events))
    try:
        return said + writer.end()
    except UpstreamBroken as error:
        return said + writer.error(error)


def content(*events: Event) -> list[tuple[str, Any]]:
    """Return the kind and content of each block of a finished stream."""
    made = check_stream(stream(events))["content"]
    return [(block["type"], block[{"tool_use": "input"}.get(block["type"], block["type"])]) for block in made]


def test_interleaved_calls_are_read_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7: two long calls arrive in alternating fragments."""
    read: list[int] = []

    def counting(text: str) -> bool:
        read.append(len(text))
        return False

    monkeypatch.setattr("proxy.dialects.reply_parts.is_object_text", counting)
    blocks = MessagesWriter(ASKED)
    for index in (0, 1):
        blocks.take(opened(index))
    for _ in range(5000):
        for index in (0, 1):
            blocks.take(CallArguments(0, index, "0123456789" * 4))
    assert sum(read) < 20 * 5000 * 40


@pytest.mark.parametrize("arguments", ["{}", '{"a": "}"}', '{"a": 1, "a": 2}', '{"a": {"b": []}} '])
def test_text_does_not_wait_for_a_call_whose_object_has_ended(arguments: str) -> None:
    """C2: without tools in the request, the engine closes no call. JSON allows a repeated key."""
    blocks = MessagesWriter(ASKED)
    for event in (opened(0), CallArguments(0, 0, arguments[:3]), CallArguments(0, 0, arguments[3:])):
        blocks.take(event)
    assert [each["type"] for each in blocks.take(Text(0, "So"))] == [
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
    ]


def test_the_number_of_calls_that_wait_for_another_is_limited() -> None:
    """No other code counts these calls if nothing is repaired."""
    blocks = MessagesWriter(ASKED)
    blocks.take(opened(0))
    with pytest.raises(LimitExceeded, match="max_calls"):
        for index in range(1, 3000):
            blocks.take(opened(index))
