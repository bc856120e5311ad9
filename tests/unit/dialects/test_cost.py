"""What an event of text costs in the dialects that are translated, beside chat: in calls of functions, which no other
load of the machine changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.base import Writer
from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.writer import ChatOptions
from proxy.dialects.messages.writer import MessagesWriter
from proxy.dialects.messages.writer import ReplyOptions as MessagesOptions
from proxy.dialects.responses.writer import ReplyOptions as ResponsesOptions
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.exchange.reply_stream import StreamReply
from tests.support.helpers import new_engine, offered

EVENTS = 300
WRITERS: dict[str, Callable[[], Writer]] = {
    "chat": lambda: ChatDialect(ChatOptions("m", usage=True, clean=StripFields())).writer(),
    "messages": lambda: MessagesWriter(MessagesOptions("m")),
    "responses": lambda: ResponsesWriter(ResponsesOptions("a" * 24, {"model": "m"})),
}


def _fail(error: Exception) -> None:
    raise error


def chunk(number: int) -> bytes:
    """An event of a model server with a word."""
    choice = {"index": 0, "delta": {"content": f" word {number}"}, "finish_reason": None}
    body = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def calls(writer: Writer) -> float:
    """How many functions are called for an event, Python's own among them, behind the first ones."""
    reply = StreamReply(new_engine(offered()), writer, _fail)
    for number in range(20):
        reply.receive(chunk(number))
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        for number in range(20, 20 + EVENTS):
            reply.receive(chunk(number))
    finally:
        sys.setprofile(before)
    return count / EVENTS


@pytest.mark.parametrize("dialect", ["messages", "responses"])
def test_an_event_costs_little_more_than_in_chat(dialect: str) -> None:
    """In chat it leaves as the bytes that came, in the others it is written anew."""
    assert calls(WRITERS[dialect]()) <= 1.3 * calls(WRITERS["chat"]())
