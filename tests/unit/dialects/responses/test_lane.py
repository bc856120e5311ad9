"""By the lane a Responses client gets the events that it gets without one, and the response at their end (C1, C5)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.engine import Engine
from proxy.errors import UpstreamBroken
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from tests.support.by_lane import FUNCTION, ByLane, Feed, batches, check_corpora, ended, ignore, new_engine, usually
from tests.support.helpers import calls, chunk, delta, ends, piece, says
from tests.support.responses_checker import check_stream, events, text_of
from tests.support.responses_view import options
from tests.unit.exchange.test_lane import streams
from tests.unit.exchange.test_reply_stream import DONE, ROLE

PARTS = 8


def stream(engine: Engine, parts: Iterable[bytes], feed: Feed) -> bytes:
    return ended(StreamReply(engine, ResponsesWriter(options()), ignore), parts, feed)


def read(data: bytes) -> list[Any]:
    return [(name, json.loads(text)) for name, text in events(data)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_corpora_and_recordings_are_the_same_by_the_lane(part: int) -> None:
    check_corpora(random.Random(part), streams()[2 * part + 1 :: 2 * PARTS], stream, read)


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


PIECES = ("So", "\\n", '\\"', "\\\\", "\\u00e4", "\\ud83d", "\\ude00", "\\ud83dx", "ä", "😀", "\\u0", "041", "//", " {")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(6))
def test_calls_with_any_escapes_are_the_same_by_the_lane(part: int) -> None:
    lane = ByLane()
    body = {"tools": [FUNCTION]}
    for seed in range(20 * part, 20 * (part + 1)):
        rng = random.Random(seed)
        inside = [calls(piece(0, rng.choice(PIECES))).raw for _ in range(rng.randrange(4, 40))]
        opened = calls(piece(0, '{"command": "', "bash", "a")).raw
        behind = [says(" it").raw] if seed % 4 == 0 else []
        events = [ROLE.raw, opened, *inside, calls(piece(0, '"}')).raw, *behind, ends("tool_calls").raw, DONE]
        for parts in (events, list(batches(b"".join(events), rng))):
            assert read(stream(new_engine(body), parts, lane)) == read(stream(new_engine(body), parts, usually))
    assert lane.passed > 3_000


def test_a_live_call_takes_the_lane_and_is_whole_at_the_end() -> None:
    words = ["l", "s ", "-l ", *(f"file{number} \\n" for number in range(40)), ' \\"x\\"', "; {} <tool_call>"]
    inside = [calls(piece(0, word)).raw for word in words]
    opened = calls(piece(0, '{"command": "', "bash", "a")).raw
    parts = [
        ROLE.raw,
        opened,
        *inside[:20],
        b"".join(inside[20:]),
        calls(piece(0, '"}')).raw,
        ends("tool_calls").raw,
        DONE,
    ]
    lane = ByLane()
    data = stream(new_engine({"tools": [FUNCTION]}), parts, lane)
    assert read(data) == read(stream(new_engine({"tools": [FUNCTION]}), parts, usually))
    assert lane.passed > 0.9 * sum(map(len, inside))
