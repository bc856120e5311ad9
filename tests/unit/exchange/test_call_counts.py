"""What an event costs, as a count of calls of the proxy's own Python functions: it is the same on each machine.

A figure may shrink, and is then to be written anew here; one that grows is a regression.
"""

from __future__ import annotations

import gc
import json
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import proxy
from proxy.dialects.messages.blocks import Blocks, ReplyOptions
from proxy.dialects.messages.writer import MessagesWriter
from proxy.exchange.reply_stream import StreamReply
from proxy.parsing.buffer import TextBuffer
from proxy.parsing.cursor import Context, Cursor, Parsing
from tests.support.helpers import calls, chunk, delta, new_engine, offered, piece, says
from tests.unit.exchange.test_reply_stream import ROLE, Crashes, reply

FOLDER = str(Path(proxy.__file__).parent)
EVENTS = 500
WORDS = ("So", " it", " is,", " Tom", " said", " and", " went", " on", " to", " `", "x", "` (1)", ":", " the", " end.")
# Calls for each event. Python 3.12 calls no function for a list comprehension.
FIGURES = {
    "text by the lane": 14.4,
    "text by the lane, in Messages": 17.5,
    "text": 30.4,
    "text with line ends": 72.0,
    "reasoning": 29.0,
    "a live string": 108.2,
    "a live string by the lane": 4.5,
    "a live string by the lane, in Messages": 9.8,
    "a call in the text": 25.0,
}


@contextmanager
def counted() -> Iterator[list[int]]:
    """The number of calls of the proxy's functions."""
    count = [0]

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(FOLDER):
            count[0] += 1

    before = sys.getprofile()
    # A parser that another test has left in its midst is called once more when it is collected.
    gc.disable()
    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(before)
        gc.enable()


def words() -> list[str]:
    rng = random.Random(1)
    return [rng.choice(WORDS) for _ in range(EVENTS)]


def in_pieces(said: str) -> list[str]:
    size = len(said) // EVENTS + 1
    return [said[at : at + size] for at in range(0, len(said), size)]


def texts() -> list[bytes]:
    return [says(word).raw for word in words()]


def lines() -> list[bytes]:
    return [says(f"{word}\n").raw for word in words()]


def thoughts() -> list[bytes]:
    return [chunk(delta(reasoning=word)).raw for word in words()]


def live() -> list[bytes]:
    """A string of a call that goes out while it is written."""
    return [calls(piece(0, word)).raw for word in words()]


def found() -> list[bytes]:
    """A call that the model writes as text."""
    inside = json.dumps({"name": "bash", "arguments": {"command": "".join(words())}})
    return [says(each).raw for each in in_pieces(f"<tool_call>\n{inside}\n</tool_call>")]


OPENED = calls(piece(0, '{"command": "', "bash", "a")).raw
BEGUN = ROLE.raw + says("Well").raw + says(" then").raw
CASES: dict[str, tuple[bytes, Callable[[], list[bytes]]]] = {
    "text by the lane": (BEGUN, texts),
    "text by the lane, in Messages": (BEGUN, texts),
    "text": (BEGUN, texts),
    "text with line ends": (BEGUN, lines),
    "reasoning": (ROLE.raw, thoughts),
    "a live string": (ROLE.raw + OPENED, live),
    "a live string by the lane": (ROLE.raw + OPENED, live),
    "a live string by the lane, in Messages": (ROLE.raw + OPENED, live),
    "a call in the text": (BEGUN, found),
}


def leave() -> None:
    """Leave a parser in its midst, in a circle that the collector alone finds."""
    ring: list[object] = []

    def waits() -> Parsing[None]:
        yield
        assert ring

    parsing = Cursor(TextBuffer(), 0, Context(offered())).ahead(waits())
    next(parsing)
    ring.append(parsing)


def test_what_other_tests_have_left_does_not_count() -> None:
    leave()
    with counted() as count:
        made = [[each] for each in range(2 * gc.get_threshold()[0])]
    assert made and count == [0]


@pytest.mark.parametrize("name", CASES)
def test_an_event_costs_no_more_calls_than_it_did(name: str) -> None:
    begun, events_of = CASES[name]
    feed = by_lane if "lane" in name else without_lane
    events = events_of()
    one = in_messages() if "Messages" in name else reply()
    one.receive(begun)
    with counted() as count:
        for event in events:
            feed(one, event)
    assert FIGURES[name] * 0.8 <= count[0] / len(events) <= FIGURES[name]


def in_messages() -> StreamReply:
    return StreamReply(new_engine(), MessagesWriter(Blocks(ReplyOptions("m"))), Crashes().append)


def without_lane(one: StreamReply, event: bytes) -> None:
    one.receive(event)


def by_lane(one: StreamReply, event: bytes) -> None:
    if not one.pass_by(event):
        one.receive(event)
        one.open_lane()
