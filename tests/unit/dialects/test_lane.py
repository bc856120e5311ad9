"""By the lane a client of a translated dialect gets the events that it gets without one (C1, C5)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from proxy.dialects.messages.ids import signed_field
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.dialects.reply_parts import TranslatedWriter
from proxy.dialects.responses.writer import ResponsesWriter
from proxy.engine.engine import Engine
from proxy.errors import UpstreamBroken
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from tests.support import messages_checker, responses_checker
from tests.support.by_lane import FUNCTION, ByLane, Feed, batches, check_corpora, ended, ignore, new_engine, usually
from tests.support.helpers import calls, chunk, delta, ends, piece, says
from tests.support.responses_view import options
from tests.unit.exchange.test_lane import streams
from tests.unit.exchange.test_reply_stream import DONE, ROLE

PARTS = 8
BOTH = pytest.mark.parametrize("dialect", ["messages", "responses"])
RUN = {"tools": [{"type": "function", "function": {"name": "run"}}]}
BASH = {"tools": [FUNCTION]}


def new_reply(dialect: str, body: dict[str, Any]) -> StreamReply:
    return reply_of(dialect, new_engine(body))


def reply_of(dialect: str, engine: Engine) -> StreamReply:
    messages = dialect == "messages"
    writer: TranslatedWriter = MessagesWriter(ReplyOptions("m")) if messages else ResponsesWriter(options())
    return StreamReply(engine, writer, ignore)


def stream(dialect: str, body: dict[str, Any], parts: Iterable[bytes], feed: Feed = usually) -> bytes:
    return ended(new_reply(dialect, body), parts, feed)


def read(data: bytes) -> list[Any]:
    """The events, each as its name and its data."""
    found = [event.partition(b"\ndata: ")[::2] for event in data.split(b"\n\n") if event]
    return [(name, json.loads(said)) for name, said in found]


def texts(dialect: str, data: bytes) -> list[tuple[str, str]]:
    """The blocks of text and reasoning that a strict client has at the end."""
    if dialect == "messages":
        blocks = messages_checker.check_stream(data)["content"]
        return [(block["type"], block[block["type"]]) for block in blocks if block["type"] != "tool_use"]
    items = [item for item in responses_checker.check_stream(data)["output"] if item["type"] != "function_call"]
    kinds = {"message": "text", "reasoning": "thinking"}
    return [(kinds[item["type"]], item["content"][0]["text"]) for item in items]


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("part", range(PARTS))
def test_all_corpora_and_recordings_are_the_same_by_the_lane(dialect: str, part: int) -> None:
    chosen = streams()[2 * part + (dialect == "responses") :: 2 * PARTS]

    def given(engine: Engine, parts: Iterable[bytes], feed: Feed) -> bytes:
        return ended(reply_of(dialect, engine), parts, feed)

    check_corpora(random.Random(part), chosen, given, read)


def word(text: str, kind: str = "content", number: int = 0) -> bytes:
    """An event of text; with a number as vLLM writes it where tokens are counted with each."""
    return event(number, **{kind: text})


def event(number: int, **said: Any) -> bytes:
    body: dict[str, Any] = {"id": "c1", "choices": [delta(**said)]}
    if number:
        body["usage"] = {"prompt_tokens": 9, "total_tokens": 9 + number, "completion_tokens": number}
    return b"data: %b\n\n" % json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


WORDS = ("So", " it", " café", " a\nb", ' "x"', " \\ ", " 1 > 0", "😀", "  ", "\x7f", "\u2028", " end")


@BOTH
@pytest.mark.parametrize("counted", [True, False], ids=["counted", "uncounted"])
@pytest.mark.parametrize("kind", ["content", "reasoning", "reasoning_content"])
@pytest.mark.parametrize("body", [{}, RUN], ids=["nothing offered", "a tool"])
def test_words_take_the_lane_and_are_whole_at_the_end(
    dialect: str, counted: bool, kind: str, body: dict[str, Any]
) -> None:
    words = ["Well", " then", " but", *WORDS, "c", "d"]
    parts = [word(text, kind, counted * number) for number, text in enumerate(words, 1)]
    last = [chunk(delta(finish="stop"), usage={"prompt_tokens": 9, "completion_tokens": 99}).raw, DONE]
    parts = [ROLE.raw, *parts[:-2], parts[-2] + parts[-1], *last]
    lane = ByLane()
    data = stream(dialect, body, parts, lane)
    assert texts(dialect, data) == [("text" if kind == "content" else "thinking", "".join(words))]
    if dialect == "messages" and kind != "content":
        (block,) = messages_checker.check_stream(data)["content"]
        assert signed_field(block["signature"]) == kind
    # A backslash may begin a format where tools are offered; where nothing is looked for, no counts are learnt.
    assert lane.passed >= 8 * len(parts[1]) or (counted, body) == (True, {})
    assert read(data) == read(stream(dialect, body, parts))


IT = word(" it", number=3)
ODD = [
    IT.replace(b'"completion_tokens":3', b'"completion_tokens":null'),
    IT.replace(b"}}\n\n", b'},"x":1}\n\n'),
    *(IT[:-1], IT[1:], IT + b": ping\n\n", word("", number=3), says(" it").raw),
    *(IT.replace(b" it", odd) for odd in (b" \xff", b" \\u0041", b" \x01", b' i"t')),
]


@pytest.mark.parametrize("body", ODD)
def test_what_counts_in_another_shape_does_not_take_the_lane(body: bytes) -> None:
    one = new_reply("messages", RUN)
    one.receive(ROLE.raw)
    for number, text in enumerate(("Well", " then", " but"), 1):
        one.receive(word(text, number=number))
    assert one.open_lane()
    assert one.pass_by(body) is None
    assert one.pass_by(word(" it", number=3) + word(" is", number=4))


@BOTH
def test_reasoning_text_and_calls_in_turn_are_blocks_in_turn(dialect: str) -> None:
    kinds = ["reasoning"] * 5 + ["content"] * 5 + ["reasoning"] * 5 + ["content"] * 5
    parts = [ROLE.raw, *(word(f"{number} ", kind) for number, kind in enumerate(kinds))]
    parts += [calls(piece(0, '{"command": "ls"}', "run", "a")).raw, *parts[-5:], ends("tool_calls").raw, DONE]
    lane = ByLane()
    data = stream(dialect, RUN, parts, lane)
    assert [kind for kind, _ in texts(dialect, data)] == ["thinking", "text", "thinking", "text", "text"]
    assert lane.passed > 4 * len(parts[1])
    assert read(data) == read(stream(dialect, RUN, parts))


@BOTH
def test_heartbeats_and_failures_are_between_its_events(dialect: str) -> None:
    one = new_reply(dialect, {})
    data = b"".join(map(one.receive, (ROLE.raw, says("a").raw, says("b").raw)))
    assert one.open_lane()
    data += one.pass_by(says(" it").raw) or b""
    data += one.heartbeat()
    assert one.open_lane()
    data += one.pass_by(says(" is").raw) or b""
    data += one.fail(UpstreamBroken("gone"))
    deltas = [said["delta"] for _, said in read(data) if "delta" in said]
    assert [each if isinstance(each, str) else each["text"] for each in deltas] == ["a", "b", " it", " is"]
    if dialect == "responses":  # the numbers have no gaps
        assert texts(dialect, data) == [("text", "ab it is")]
    else:
        assert [name for name, _ in read(data)][-2:] == [b"event: content_block_stop", b"event: error"]
        assert data.count(b"event: ping") == 1


@BOTH
def test_a_long_text_is_told_in_time(dialect: str) -> None:
    """The engine is told of so many bytes at a time; nothing of them is lost."""
    parts = [ROLE.raw, says("a").raw, says("b").raw, *[says(" word").raw * 50] * (MAX_PASSED // 2_000)]
    lane = ByLane()
    data = stream(dialect, {}, [*parts, ends("stop").raw, DONE], lane)
    assert texts(dialect, data) == [("text", "ab" + " word" * 50 * (MAX_PASSED // 2_000))]
    assert lane.passed > 3 * MAX_PASSED


def call_event(fragment: str, number: int = 0) -> bytes:
    """The next piece of a call, as vLLM writes it, with counts or without."""
    return event(number, tool_calls=[{"index": 0, "function": {"arguments": fragment}}])


@BOTH
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("cut", [False, True])
def test_a_live_call_takes_the_lane_and_is_whole_at_the_end(dialect: str, counts: bool, cut: bool) -> None:
    words = ["l", "s ", "-l ", *(f"file{number} \\n" for number in range(40)), ' \\"x\\"', " é ", "; {} <tool_call>"]
    inside = [call_event(text, counts * number) for number, text in enumerate(words, 2)]
    ending = [] if cut else [call_event('"}', counts * 99)]
    finish = "length" if cut else "tool_calls"
    last = [chunk(delta(finish=finish), usage={"prompt_tokens": 9, "completion_tokens": 99}).raw, DONE]
    opened = calls(piece(0, '{"command": "', "bash", "a")).raw
    parts = [ROLE.raw, opened, *inside[:20], b"".join(inside[20:]), *ending, *last]
    lane = ByLane()
    data = stream(dialect, BASH, parts, lane)
    assert read(data) == read(stream(dialect, BASH, parts))
    deltas = [each["delta"] for _, each in read(data) if "delta" in each]
    said = "".join(each if isinstance(each, str) else each.get("partial_json", "") for each in deltas)
    assert said == '{"command": "' + "".join(words) + ("" if cut else '"}')
    assert lane.passed > 0.9 * sum(map(len, inside))


PIECES = (
    *("So", "\\n", '\\"', "\\\\", "\\u00e4", "\\ud83d", "\\ude00", "\\ud83d\\ude00", "\\ud83dx"),
    *("ä", "😀", "\\u0", "041", "//", " {"),
)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("part", range(5))
def test_calls_with_any_escapes_are_the_same_by_the_lane(dialect: str, part: int, counts: bool) -> None:
    lane = ByLane()
    for seed in range(20 * part, 20 * (part + 1)):
        rng = random.Random(seed)
        inside = [call_event(rng.choice(PIECES), counts * at) for at in range(rng.randrange(4, 40))]
        after = [says(" it").raw] if seed % 4 == 0 else []
        opened = calls(piece(0, '{"command": "', "bash", "a")).raw
        events = [ROLE.raw, opened, *inside, call_event('"}', counts * 99), *after, ends("tool_calls").raw, DONE]
        for parts in (events, list(batches(b"".join(events), rng))):
            assert read(stream(dialect, BASH, parts, lane)) == read(stream(dialect, BASH, parts))
    assert lane.passed > 3_000


def test_another_call_or_a_text_after_it_does_not_take_the_lane() -> None:
    one = new_reply("messages", BASH)
    one.receive(ROLE.raw + calls(piece(0, '{"command": "', "bash", "a")).raw)
    for _ in range(3):
        one.receive(call_event("x"))
    assert one.open_lane()
    other = call_event("x").replace(b'"index":0,"function"', b'"index":1,"function"')
    for body in (other, says("x").raw, call_event('"'), call_event("\\ud83d")):
        assert one.pass_by(body) is None
    assert one.pass_by(call_event("y") + call_event("z"))
