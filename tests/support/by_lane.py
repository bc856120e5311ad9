"""Comparison of replies with and without the lane."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from proxy.config.rules import StripFields
from proxy.dialects.base import Writer
from proxy.dialects.chat.answer import ChatOptions
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.exchange.reply_stream import StreamReply
from tests.support.translated import response_options

NAMES = ("chat", "messages", "responses")


def new_writer(name: str, **more: Any) -> Writer:
    """Return the writer of a dialect; `more` are options of chat's writer."""
    if name == "chat":
        return ChatWriter(ChatOptions(**{"model": "m", "usage": True, "clean": StripFields(), "parsed": True, **more}))
    return MessagesWriter(ReplyOptions("m")) if name == "messages" else ResponsesWriter(response_options())


def usually(one: StreamReply, part: bytes) -> bytes:
    """Feed a reply without the lane."""
    return one.receive(part)


class ByLane:
    """Feed a reply as the pump does. `passed` counts bytes that took the lane, `held` bytes that it held back."""

    def __init__(self) -> None:
        self.passed = 0
        self.held = 0

    def __call__(self, one: StreamReply, part: bytes) -> bytes:
        given = one.pass_by(part) if one.open_lane() else None
        if given is None:
            return one.receive(part)
        self.passed += len(part)
        if not given:
            self.held += len(part)
        return given


def batches(data: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield the events of a body, some joined and some cut in two."""
    rest = data
    while rest:
        at = 0
        for _ in range(rng.randrange(1, 4)):
            at = rest.find(b"\n\n", at) + 2
            if at == 1:
                at = len(rest)
                break
        if rng.random() < 0.1:
            at = max(1, at - rng.randrange(20))
        yield rest[:at]
        rest = rest[at:]
