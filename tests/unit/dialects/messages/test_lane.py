"""By the lane a Messages client gets the events that it gets without one (C1, C5), and its thoughts are signed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest

from proxy.dialects.messages.blocks import Blocks, ReplyOptions
from proxy.dialects.messages.ids import signed_field
from proxy.dialects.messages.writer import MessagesWriter
from proxy.engine.engine import Engine
from proxy.errors import UpstreamBroken
from proxy.exchange.reply_stream import StreamReply
from tests.support.by_lane import FUNCTION, ByLane, Feed, batches, check_corpora, ended, ignore, new_engine, usually
from tests.support.helpers import all_cuts, calls, chunk, delta, ends, piece, says
from tests.support.messages_checker import check_stream
from tests.unit.exchange.test_lane import streams
from tests.unit.exchange.test_reply_stream import DONE, ROLE

PARTS = 8


def new_reply(engine: Engine) -> StreamReply:
    return StreamReply(engine, MessagesWriter(Blocks(ReplyOptions("m"))), ignore)


def stream(engine: Engine, parts: Iterable[bytes], feed: Feed) -> bytes:
    return ended(new_reply(engine), parts, feed)


def read(data: bytes) -> list[Any]:
    """The events, each as its name and its data."""
    found = [event.partition(b"\ndata: ")[::2] for event in data.split(b"\n\n") if event]
    return [(name, json.loads(said)) for name, said in found]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_corpora_and_recordings_are_the_same_by_the_lane(part: int) -> None:
    check_corpora(random.Random(part), streams()[2 * part :: 2 * PARTS], stream, read)


def event_of(word: str, kind: str, **more: Any) -> bytes:
    said: Any = {kind: word}
    body = {"id": "c1", "choices": [delta(**said)], **more}
    return b"data: %b\n\n" % json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def counted(word: str, kind: str, number: int) -> bytes:
    """An event as vLLM writes it where tokens are counted with each."""
    counts = {"prompt_tokens": 9, "total_tokens": 9 + number, "completion_tokens": number}
    return event_of(word, kind, usage=counts)


def uncounted(word: str, kind: str, number: int) -> bytes:
    return event_of(word, kind)


WORDS = ("So", " it", " café", " a\nb", ' "x"', " \\ ", " 1 > 0", "😀", "  ", "\x7f", "\u2028", " end")
SHAPES = {"counted": counted, "uncounted": uncounted}
OFFERED = {"tools": [{"type": "function", "function": {"name": "run"}}]}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["content", "reasoning", "reasoning_content"])
@pytest.mark.parametrize("body", [{}, OFFERED], ids=["nothing offered", "a tool"])
def test_words_take_the_lane_and_are_whole_at_the_end(shape: str, kind: str, body: dict[str, Any]) -> None:
    event = SHAPES[shape]
    words = ["Well", " then", " but", *WORDS, "c", "d"]
    parts = [event(word, kind, number) for number, word in enumerate(words, 1)]
    last = [chunk(delta(finish="stop"), usage={"prompt_tokens": 9, "completion_tokens": 99}).raw, DONE]
    parts = [ROLE.raw, *parts[:-2], parts[-2] + parts[-1], *last]
    lane = ByLane()
    data = stream(new_engine(body), parts, lane)
    message = check_stream(data)
    [block] = message["content"]
    said = block["text"] if kind == "content" else block["thinking"]
    assert said == "".join(words)
    if kind != "content":
        assert signed_field(block["signature"], said) == kind
    assert message["usage"]["output_tokens"] == 99
    # A backslash may begin a format where tools are offered; where nothing is looked for, no counts are learnt.
    assert lane.passed >= 8 * len(parts[1]) or (shape, body) == ("counted", {})
    assert read(data) == read(stream(new_engine(body), parts, usually))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_that_is_cut_anywhere_is_the_same(shape: str) -> None:
    event = SHAPES[shape]
    words = b"".join(event(word, "content", number) for number, word in enumerate(("So", " it", " is"), 3))
    before = [ROLE.raw, *(event(word, "content", number) for number, word in enumerate(("Well", " then", " but"), 1))]
    whole = read(stream(new_engine(OFFERED), [*before, words, ends("stop").raw, DONE], usually))
    for parts in all_cuts(words):
        by = stream(new_engine(OFFERED), [*before, *parts, ends("stop").raw, DONE], ByLane())
        assert read(by) == whole


ODD = [
    counted(" it", "content", 3).replace(b'"completion_tokens":3', b'"completion_tokens":null'),
    counted(" it", "content", 3).replace(b"}}\n\n", b'},"x":1}\n\n'),
    counted(" it", "content", 3)[:-1],
    counted(" it", "content", 3)[1:],
    counted(" it", "content", 3).replace(b" it", b" \xff"),
    counted(" it", "content", 3).replace(b" it", b" \\u0041"),
    counted(" it", "content", 3).replace(b" it", b" \x01"),
    counted(" it", "content", 3).replace(b" it", b' i"t'),
    counted("", "content", 3),
    counted(" it", "content", 3) + b": ping\n\n",
    says(" it").raw,
]


@pytest.mark.parametrize("body", ODD)
def test_what_counts_in_another_shape_does_not_take_the_lane(body: bytes) -> None:
    one = new_reply(new_engine(OFFERED))
    one.receive(ROLE.raw)
    for number, word in enumerate(("Well", " then", " but")):
        one.receive(counted(word, "content", number))
    assert one.open_lane()
    assert one.pass_by(body) is None
    assert one.pass_by(counted(" it", "content", 3) + counted(" is", "content", 4))


def test_thoughts_and_text_in_turn_are_blocks_in_turn() -> None:
    kinds = ["reasoning"] * 5 + ["content"] * 5 + ["reasoning"] * 5 + ["content"] * 5
    parts = [ROLE.raw, *(uncounted(f"{number} ", kind, number) for number, kind in enumerate(kinds))]
    parts += [ends("stop").raw, DONE]
    lane = ByLane()
    data = stream(new_engine({}), parts, lane)
    assert [block["type"] for block in check_stream(data)["content"]] == ["thinking", "text"] * 2
    assert lane.passed > 4 * len(parts[1])
    assert read(data) == read(stream(new_engine({}), parts, usually))


def test_behind_a_call_text_is_a_block_of_its_own() -> None:
    call = calls(piece(0, '{"command": "ls"}', "run", "a"))
    words = [says(f"{number} ").raw for number in range(6)]
    parts = [ROLE.raw, *words, call.raw, *words, ends("tool_calls").raw, DONE]
    lane = ByLane()
    data = stream(new_engine(OFFERED), parts, lane)
    assert read(data) == read(stream(new_engine(OFFERED), parts, usually))
    assert lane.passed > 2 * len(words[0])


def test_heartbeats_and_failures_stand_between_its_events() -> None:
    one = new_reply(new_engine({}))
    data = b"".join(map(one.receive, (ROLE.raw, says("a").raw, says("b").raw)))
    assert one.open_lane()
    data += one.pass_by(says(" it").raw) or b""
    data += one.heartbeat()
    assert one.open_lane()
    data += one.pass_by(says(" is").raw) or b""
    data += one.fail(UpstreamBroken("gone"))
    names = [name.decode() for name, _ in read(data)]
    deltas = [said["delta"]["text"] for _, said in read(data) if "delta" in said]
    assert deltas == ["a", "b", " it", " is"]
    assert names[-3:] == ["event: content_block_delta", "event: content_block_stop", "event: error"]
    assert names.count("event: ping") == 1


def call_event(fragment: str, number: int, *, counts: bool) -> bytes:
    """The next piece of a call, as vLLM writes it, with or without counts."""
    body: dict[str, Any] = {
        "id": "c1",
        "choices": [delta(tool_calls=[{"index": 0, "function": {"arguments": fragment}}])],
    }
    if counts:
        body["usage"] = {"prompt_tokens": 9, "total_tokens": 9 + number, "completion_tokens": number}
    return b"data: %b\n\n" % json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("cut", [False, True])
def test_a_live_call_takes_the_lane_and_is_whole_at_the_end(counts: bool, cut: bool) -> None:
    words = ["l", "s ", "-l ", *(f"file{number} \\n" for number in range(40)), ' \\"x\\"', " é ", "; {} <tool_call>"]
    opened = calls(piece(0, '{"command": "', "bash", "a")).raw
    inside = [call_event(word, number, counts=counts) for number, word in enumerate(words, 2)]
    ending = [] if cut else [call_event('"}', 99, counts=counts)]
    finish = "length" if cut else "tool_calls"
    last = [chunk(delta(finish=finish), usage={"prompt_tokens": 9, "completion_tokens": 99}).raw, DONE]
    parts = [ROLE.raw, opened, *inside[:20], b"".join(inside[20:]), *ending, *last]
    lane = ByLane()
    data = stream(new_engine(BASH), parts, lane)
    assert read(data) == read(stream(new_engine(BASH), parts, usually))
    said = "".join(each["delta"]["partial_json"] for _, each in read(data) if each.get("delta", {}).get("partial_json"))
    assert said == '{"command": "' + "".join(words) + ("" if cut else '"}')
    assert lane.passed > 0.9 * sum(map(len, inside))


BASH = {"tools": [FUNCTION]}
PIECES = (
    "So",
    "\\n",
    '\\"',
    "\\\\",
    "\\u00e4",
    "\\ud83d",
    "\\ude00",
    "\\ud83d\\ude00",
    "\\ud83dx",
    "ä",
    "😀",
    "\\u0",
    "041",
    "//",
    " {",
)


@pytest.mark.slow
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("part", range(10))
def test_calls_with_any_escapes_are_the_same_by_the_lane(part: int, counts: bool) -> None:
    lane = ByLane()
    for seed in range(20 * part, 20 * (part + 1)):
        rng = random.Random(seed)
        inside = [call_event(rng.choice(PIECES), at, counts=counts) for at in range(rng.randrange(4, 40))]
        behind = [says(" it").raw] if seed % 4 == 0 else []
        opened = calls(piece(0, '{"command": "', "bash", "a")).raw
        events = [ROLE.raw, opened, *inside, call_event('"}', 99, counts=counts), *behind, ends("tool_calls").raw, DONE]
        for parts in (events, list(batches(b"".join(events), rng))):
            assert read(stream(new_engine(BASH), parts, lane)) == read(stream(new_engine(BASH), parts, usually))
    assert lane.passed > 3_000


def test_another_call_or_a_text_behind_it_does_not_take_the_lane() -> None:
    one = new_reply(new_engine(BASH))
    one.receive(ROLE.raw + calls(piece(0, '{"command": "', "bash", "a")).raw)
    for number in range(3):
        one.receive(call_event("x", number, counts=False))
    assert one.open_lane()
    other = call_event("x", 3, counts=False).replace(b'"index":0,"function"', b'"index":1,"function"')
    for body in (other, says("x").raw, call_event('"', 3, counts=False), call_event("\\ud83d", 3, counts=False)):
        assert one.pass_by(body) is None
    assert one.pass_by(call_event("y", 3, counts=False) + call_event("z", 4, counts=False))
