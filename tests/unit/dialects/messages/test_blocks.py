"""The engine's events as blocks of a Messages stream: in order, one open at a time (F53, F93), whatever comes."""

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
)
from proxy.errors import LimitExceeded, UpstreamBroken
from tests.support.messages_checker import check_stream

ASKED = ReplyOptions("claude-x", frozenset(("END", "\n\nHuman:")), "abc-1")


def opened(index: int, name: str = "f", id_: str | None = None) -> CallOpened:
    return CallOpened(0, index, f"call_{index}" if id_ is None else id_, name)


def stream(events: Iterable[Event]) -> bytes:
    """The bytes of a stream that the server finished."""
    writer = MessagesWriter(ASKED)
    writer.observe_chunk(Chunk({"id": "chatcmpl-42"}, b""))
    said = b"".join(map(writer.write, events))
    try:
        return said + writer.end()
    except UpstreamBroken as error:
        return said + writer.error(error)


def content(*events: Event) -> list[tuple[str, Any]]:
    """The blocks of a finished stream: kind and what is in it."""
    made = check_stream(stream(events))["content"]
    return [(block["type"], block[{"tool_use": "input"}.get(block["type"], block["type"])]) for block in made]


def test_calls_that_take_turns_are_not_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two long calls, fragment by fragment: what is read of them stays linear (C7)."""
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


def test_calls_that_wait_behind_another_are_limited() -> None:
    """Where nothing is repaired nobody else counts them."""
    blocks = MessagesWriter(ASKED)
    blocks.take(opened(0))
    with pytest.raises(LimitExceeded, match="max_calls"):
        for index in range(1, 3000):
            blocks.take(opened(index))
