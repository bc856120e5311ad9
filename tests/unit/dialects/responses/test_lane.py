"""By the lane a Responses client gets the events that it gets without one, and the response at their end (C1, C5)."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from proxy.dialects.chat.request import read_chat
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.engine import Engine
from proxy.errors import UpstreamBroken
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from proxy.exchange.task import make_task
from proxy.repair.policy import Policy
from tests.same.cases import Case
from tests.support.helpers import SEED, chunk, delta, ends, says
from tests.support.responses_checker import check_stream, events, text_of
from tests.support.responses_view import options
from tests.unit.exchange.test_lane import batches, streams
from tests.unit.exchange.test_reply_stream import DONE, ROLE

PARTS = 8
Feed = Callable[[StreamReply, bytes], bytes]


def new_engine(body: dict[str, Any]) -> Engine:
    asked = read_chat(json.dumps(body).encode(), body)
    return Engine(make_task(asked, Policy(), seed=SEED, raw_text=False, ordered=True))


def engine_of(case: Case) -> Engine:
    return new_engine(case.body)


def usually(one: StreamReply, part: bytes) -> bytes:
    return one.receive(part)


class ByLane:
    """As the pump feeds a reply; `passed` counts the bytes that took the lane."""

    def __init__(self) -> None:
        self.passed = 0

    def __call__(self, one: StreamReply, part: bytes) -> bytes:
        given = one.pass_by(part) if one.open_lane() else None
        if given is None:
            return one.receive(part)
        self.passed += len(part)
        return given


def ignore(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def stream(engine: Engine, parts: Iterable[bytes], feed: Feed) -> bytes:
    one = StreamReply(engine, ResponsesWriter(options()), ignore)
    given = b"".join(feed(one, part) for part in parts)
    given += one.finish()
    return given if one.failure is None else given + one.fail(one.failure)


def read(data: bytes) -> list[Any]:
    return [(name, json.loads(text)) for name, text in events(data)]


@pytest.mark.parametrize("part", range(PARTS))
def test_all_corpora_and_recordings_are_the_same_by_the_lane(part: int) -> None:
    rng = random.Random(part)
    lane = ByLane()
    for case in streams()[part::PARTS]:
        parts = list(batches(base64.b64decode(case.answer), rng))
        by = stream(engine_of(case), parts, lane)
        assert read(by) == read(stream(engine_of(case), parts, usually)), case.name
    assert lane.passed > 0


WORDS = ("So", " it", " café", " a\\nb", ' \\"x\\"', " \\\\ ", " 1 > 0", "😀", "  ", "\x7f", "\u2028")


@pytest.mark.parametrize("kind", ["content", "reasoning"])
@pytest.mark.parametrize("tools", [[], [{"type": "function", "function": {"name": "run"}}]])
def test_words_take_the_lane_and_are_whole_at_the_end(kind: str, tools: list[Any]) -> None:
    def event(word: str) -> bytes:
        template = says("@") if kind == "content" else chunk(delta(reasoning="@"))
        return template.raw.replace(b"@", word.encode())

    parts = [ROLE.raw, event("a"), event("b"), *map(event, WORDS), event("c") + event("d")]
    lane = ByLane()
    engine = new_engine({"tools": tools} if tools else {})
    data = stream(engine, [*parts, ends("stop").raw, DONE], lane)
    said = "ab" + "".join(json.loads(f'"{word}"', strict=False) for word in WORDS) + "cd"
    response = check_stream(data)
    assert text_of(response, "message" if kind == "content" else "reasoning") == said
    assert lane.passed >= 8 * len(parts[1])  # a backslash may begin a format where tools are offered
    assert read(data) == read(stream(new_engine({}), [*parts, ends("stop").raw, DONE], usually))


def test_a_long_text_is_told_in_time() -> None:
    """The engine is told of so many bytes at a time; nothing of them is lost."""
    parts = [ROLE.raw, says("a").raw, says("b").raw, *[says(" word").raw * 50] * (MAX_PASSED // 2_000)]
    lane = ByLane()
    response = check_stream(stream(new_engine({}), [*parts, ends("stop").raw, DONE], lane))
    assert text_of(response) == "ab" + " word" * 50 * (MAX_PASSED // 2_000)
    assert lane.passed > 3 * MAX_PASSED


def test_heartbeats_and_failures_go_on_in_its_numbers() -> None:
    writer = ResponsesWriter(options())
    one = StreamReply(new_engine({}), writer, ignore)
    data = b"".join(map(one.receive, (ROLE.raw, says("a").raw, says("b").raw)))
    assert one.open_lane()
    data += one.pass_by(says(" it").raw) or b""
    data += one.heartbeat()
    assert one.open_lane()
    data += one.pass_by(says(" is").raw) or b""
    response = check_stream(data + one.fail(UpstreamBroken("gone")))
    assert text_of(response) == "ab it is"
