"""The lane changes nothing: the same bytes leave, and the engine is the same afterwards (C1, C3)."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from proxy.config.rules import ReasoningField, StripFields
from proxy.dialects.chat.request import read_chat
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.plan import Why, make_task
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from proxy.notations.thoughts import HARMONY, THINK, Thoughts
from proxy.repair.policy import Policy
from tests.same.cases import Case, cases
from tests.support.by_lane import ByLane, batches, usually
from tests.support.helpers import (
    SEED,
    all_cuts,
    call_json,
    calls,
    chunk,
    delta,
    ends,
    event_bytes,
    new_engine,
    offered,
    piece,
    says,
)
from tests.unit.exchange.test_reply_stream import DONE, ROLE, STRONG, Crashes, options, wire

# The parts into which the cases are divided, so that none takes long.
PARTS = 16


@cache
def streams() -> tuple[Case, ...]:
    """Each line of the corpora and each recording, as a stream."""
    return tuple(case for case in cases() if case.stream)


def engine_of(case: Case) -> Engine:
    asked = read_chat(json.dumps(case.body).encode(), case.body)
    return Engine(make_task(asked, Policy(), seed=SEED, raw_text=False))


def a_reply(engine: Engine, **more: Any) -> StreamReply:
    return StreamReply(engine, ChatWriter(options(parsed=True, **more)), Crashes().append)


def outcome(engine: Engine, one: StreamReply, given: bytes) -> tuple[Any, ...]:
    """All that is left of a reply."""
    given += one.finish()
    failure = None if one.failure is None else one.failure.message
    said = (one.started, one.done, one.swallowed, one.held)
    return given, failure, said, engine.audit, dict(engine.refusals), engine.calls, engine.empty_calls


def usual(engine: Engine, parts: Iterable[bytes]) -> tuple[Any, ...]:
    one = a_reply(engine)
    return outcome(engine, one, b"".join(map(one.receive, parts)))


def by_lane(engine: Engine, parts: Iterable[bytes]) -> tuple[int, tuple[Any, ...]]:
    lane, one = ByLane(), a_reply(engine)
    given = b"".join(lane(one, part) for part in parts)
    return lane.passed, outcome(engine, one, given)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_corpora_and_recordings_are_the_same_by_the_lane(part: int) -> None:
    rng = random.Random(part)
    passed = 0
    for case in streams()[part::PARTS]:
        data = base64.b64decode(case.answer)
        parts = list(batches(data, rng))
        by, seen = by_lane(engine_of(case), parts)
        assert seen == usual(engine_of(case), parts), case.name
        passed += by
    assert passed > 0


WORDS = ("So", " it", " is,", " Tom", " A", " café", " 1 > 0", " [x", " {y", "]", " <b", " a`", "```", "\n", '"', " T")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_words_in_any_order_are_the_same_by_the_lane(part: int) -> None:
    """Letters that begin formats, marks at the ends of texts, code, calls in between."""
    passed = sum(words_in_an_order(8 * part + number) for number in range(8))
    assert passed > 4_000


def words_in_an_order(seed: int) -> int:
    """How many bytes have passed."""
    rng = random.Random(seed)
    passed = 0
    words = [rng.choice((*WORDS * 8, STRONG, "<tool_call>", "</tool_call>")) for _ in range(80)]
    entries = [says(word).raw for word in words]
    if seed % 3 == 0:
        entries = [event_bytes({"choices": [delta(content=word)]}) for word in words]
    data = b"".join([ROLE.raw, *entries, ends().raw, DONE])
    for parts in ([each + b"\n\n" for each in data.split(b"\n\n") if each], list(batches(data, rng))):
        by, seen = by_lane(new_engine(), parts)
        assert seen == usual(new_engine(), parts)
        passed += by
    return passed


def test_what_passes_is_what_says_nothing_but_text() -> None:
    lane, one = ByLane(), a_reply(new_engine())
    left = [lane(one, each.raw) for each in (ROLE, says("So"), says(" it"))]
    assert lane.passed == len(says(" it").raw) and left[-1] == says(" it").raw
    odd = [
        b": a comment\n\n",
        ends().raw,
        says(" \u00e4").raw,  # an escape that could stand for anything
        says(" {\n").raw,
        says(" <tool").raw,
        says(" it", choice=1).raw,
        calls(piece(0, "{}", "bash", "a")).raw,
        event_bytes({"error": {"message": "no"}}),
        event_bytes({"choices": [delta(content=" it", role="user")]}),
        says(" it").raw + says(" is").raw[:-1],
        says(" it").raw[1:],
        b"\xef\xbb\xbf" + says(" it").raw,
        b"",
        says("").raw,
        says(" it").raw + b": ping\n\n" + says(" is").raw,
        *(says(" it").raw.replace(b" it", other) for other in (b'"', b'a","tool_calls":"b', b"\\", rb"\x", rb"\ud83d")),
        *(says(" it").raw.replace(b" it", other) for other in (b"x\x00y", b"x\x1fy", b"\xff")),
        says(" it").raw.replace(b" it", b"\xc3") + says(" it").raw.replace(b" it", b"\xbc"),
        event_bytes({"choices": [{**delta(content=" it"), "logprobs": {"content": [{"token": " it"}]}}]}),
        chunk(delta(content=" it"), usage={"completion_tokens": 1}).raw,
    ]
    for other in odd:
        assert one.open_lane() and not one.pass_by(other), other
    assert one.pass_by(says(" it").raw + says(" is").raw)


@pytest.mark.parametrize(
    "before",
    [
        [],
        [ROLE],
        [ROLE, says("So"), says(" <")],
        [ROLE, says("So"), ends()],
        [ROLE, says("So"), calls(piece(0, '{"command": "l', "bash", "a"))],
        [ROLE, says(STRONG)],
    ],
    ids=["nothing", "a role", "a text that waits", "the finish", "a call", "a call in the text"],
)
def test_the_lane_is_closed_while_something_waits(before: list[Any]) -> None:
    one = a_reply(new_engine())
    for each in before:
        one.receive(each.raw)
    assert not one.open_lane()
    assert not one.pass_by(says(" it").raw)


def test_half_an_event_closes_the_lane() -> None:
    one = a_reply(new_engine())
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane()
    one.receive(b"data: ")
    assert not one.open_lane()


@pytest.mark.parametrize("reasoning", ["reasoning", "reasoning_content", "both"])
def test_what_the_writer_says_anew_does_not_pass(reasoning: ReasoningField) -> None:
    events = [chunk(delta(role="assistant", content="")), *(chunk(delta(reasoning=word)) for word in ("So", " it"))]
    one = a_reply(new_engine(), reasoning=reasoning)
    one.receive(wire(events, done=False))
    assert not one.open_lane()
    stripped = a_reply(new_engine(), clean=StripFields(top=("x",)))
    stripped.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert not stripped.open_lane()


def test_reasoning_passes_and_the_call_at_its_end_is_found() -> None:
    """F70: the scanner sees afterwards what has passed."""
    thought = f"I think so. {call_json('bash', command='ls')}"
    said = json.dumps(thought)[1:-1].replace('\\"', "'")
    events = [ROLE, *(chunk(delta(reasoning=said[at : at + 5])) for at in range(0, len(said), 5)), ends()]
    parts = [each.raw for each in events]
    by, seen = by_lane(new_engine(), [*parts, DONE])
    assert by and seen == usual(new_engine(), [*parts, DONE])


def test_without_tools_any_text_passes() -> None:
    one = a_reply(Engine(Task(tools=None, seed=SEED)))
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane() and one.pass_by(says(' <tool_call>\n"{"').raw)


THOUGHTS = (
    Thoughts(),
    Thoughts(unknown=True),
    Thoughts(begun=THINK.opener),
    Thoughts(HARMONY, begun=HARMONY[0].opener),
)
MARKS = ("<think>", "</think>", "<thi", "nk>", "\n\n", "<|channel|>analysis<|message|>", "<|end|>", STRONG)


def an_engine_that_tells(given: Thoughts, *, ordered: bool, tools: bool) -> Engine:
    return Engine(Task(tools=offered() if tools else None, seed=SEED, ordered=ordered, thoughts=given))


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [False, True], ids=["chat", "blocks"])
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize("given", THOUGHTS, ids=["marked", "unknown", "in the prompt", "gpt-oss"])
def test_thoughts_told_from_the_text_are_the_same_by_the_lane(given: Thoughts, tools: bool, ordered: bool) -> None:
    passed = 0
    for seed in range(15):
        rng = random.Random(seed)
        words = [rng.choice((*WORDS * 4, *MARKS)) for _ in range(80)]
        data = b"".join([ROLE.raw, *(says(word).raw for word in words), ends().raw, DONE])
        for parts in ([each + b"\n\n" for each in data.split(b"\n\n") if each], list(batches(data, rng))):
            engines = [an_engine_that_tells(given, ordered=ordered, tools=tools) for _ in range(2)]
            by, seen = by_lane(engines[0], parts)
            assert seen == usual(engines[1], parts)
            assert engines[0].thoughts == engines[1].thoughts
            passed += by
    assert passed > 4_000


@pytest.mark.parametrize(
    "given,words",
    [
        (Thoughts(begun=THINK.opener), ["So", " it"]),
        (Thoughts(), ["<think>", "So", " it"]),
        (Thoughts(), ["<think>So", " it", "</think>"]),
        (Thoughts(), ["<think>So", "</think>", "\n\n"]),
    ],
    ids=["in the prompt", "in a thought", "behind it", "blanks behind it"],
)
def test_the_lane_is_closed_where_text_is_no_text(given: Thoughts, words: list[str]) -> None:
    """What leaves there as it came would be a thought in the text, or the template's blanks before it."""
    one = a_reply(an_engine_that_tells(given, ordered=False, tools=True))
    one.receive(wire([ROLE, *map(says, words)], done=False))
    assert not one.open_lane()


def test_a_thought_in_the_text_that_passed_is_none_the_less_one() -> None:
    """Where nobody tells it from the text: what a reply of thoughts alone is asked again for is not that a parser has
    swallowed a call (F63).
    """
    usage = chunk(usage={"completion_tokens": 9})
    parts = [ROLE, *map(says, ("<think>", "So", " it", "</think>")), ends()]
    seen = []
    for feed in (usually, ByLane()):
        one = a_reply(new_engine())
        for part in (*(each.raw for each in parts), usage.raw, DONE):
            feed(one, part)
        one.finish()
        seen.append((one.silence, one.swallowed))
    assert seen == [(Why.THOUGHT, False)] * 2


def test_the_engine_is_told_before_too_much_has_passed() -> None:
    one = a_reply(new_engine())
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane()
    passed = 0
    while passed < 3 * MAX_PASSED:
        assert one.pass_by(says(" it").raw * 10)
        passed += 10 * len(says(" it").raw)
        assert one._passed_size <= MAX_PASSED + 10 * len(says(" it").raw)


def test_a_defect_that_shows_afterwards_ends_the_repair_and_not_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: what has left has left, and the rest goes on as the upstream's own bytes."""
    engine, crashes = new_engine(), Crashes()
    one = StreamReply(engine, ChatWriter(options(parsed=True)), crashes.append)
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane() and one.pass_by(says(" is").raw)

    def fails(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(engine, "catch_up", fails)
    rest = says(" so").raw + ends().raw + DONE
    assert one.receive(rest) + one.finish() == rest
    assert len(crashes) == 1


def test_each_cut_of_a_text_is_the_same_by_the_lane() -> None:
    data = wire([ROLE, *(says(word) for word in ("So", " it", " is,", " Tom", " <b> ", "and", " on")), ends()])
    for parts in all_cuts(data, 20):
        _, seen = by_lane(new_engine(), parts)
        assert seen == usual(new_engine(), parts)


FRAGMENTS = ("So", " it", " is,", "\\n", '\\"', " {x}", " <tool_call>", "\\u00e4", "ä", "[1]", ": ", "\\\\", "//")
ENDS = ('"}', '", "timeout": 10}', '", "timeout": "10"}', "", '"', "}", '"} and so on', '"}{"command": "pwd"}')


def a_call(rng: random.Random, index: int, name: str = "bash") -> list[bytes]:
    """A structured call in any cut of its string, that ends as calls end, or do not."""
    first = calls(piece(index, '{"command": "', name, f"call_{index}")).raw
    inside = [calls(piece(index, rng.choice(FRAGMENTS))).raw for _ in range(rng.randrange(30))]
    return [first, *inside, calls(piece(index, rng.choice(ENDS))).raw]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_calls_are_the_same_by_the_lane(part: int) -> None:
    passed = 0
    for seed in range(15 * part, 15 * (part + 1)):
        rng = random.Random(seed)
        events = [ROLE.raw, *a_call(rng, 0), *a_call(rng, rng.randrange(2))]
        if seed % 3 == 0:
            events.insert(rng.randrange(len(events)), says(" it").raw)
        data = b"".join([*events, ends(rng.choice(("tool_calls", "length"))).raw, DONE])
        for parts in ([each + b"\n\n" for each in data.split(b"\n\n") if each], list(batches(data, rng))):
            by, seen = by_lane(new_engine(), parts)
            assert seen == usual(new_engine(), parts)
            passed += by
    assert passed > 20_000


def a_live_string(**limits: Any) -> StreamReply:
    one = a_reply(new_engine(**limits))
    opened = calls(piece(0, '{"command": "l', "bash", "a"))
    one.receive(wire([ROLE, opened, calls(piece(0, "s -l")), calls(piece(0, " ."))], done=False))
    return one


def test_what_goes_on_a_live_string_passes_and_what_may_end_it_does_not() -> None:
    one = a_live_string()
    for plain in ("; {pwd} <tool_call>", "\\n\\t", '\\"x\\"', "\\\\", "\\u00e4\\ud83d"):
        assert one.open_lane() and one.pass_by(calls(piece(0, plain)).raw), plain
    fragments = ['"', "\\", "\\u00e", "\\x", "\n", "", '"}', 'a\\\\"', "a\x00"]
    odd = [calls(piece(0, each)).raw for each in fragments]
    odd += [calls(piece(1, "x")).raw, calls(piece(0, "x", "bash")).raw, calls(piece(0, "x", id="a")).raw, says("x").raw]
    odd += [calls(piece(0, "x")).raw.replace(b'"x"', b'"\xff"')]
    for each in odd:
        assert one.open_lane() and not one.pass_by(each), each


def test_near_its_limit_a_call_does_not_pass() -> None:
    """C7."""
    assert not a_live_string(max_held=1000).open_lane()


@pytest.mark.parametrize(
    "fragments",
    [['{"command": "l'], ['{"command": "l', "s", '"'], ['{"timeout": 1', "0", "0"], ['{"command": "l', "\n", "s", "x"]],
    ids=["the first chunk", "what may be an end", "a number", "a broken string"],
)
def test_the_lane_of_a_call_is_closed_where_something_waits(fragments: list[str]) -> None:
    one = a_reply(new_engine())
    first, *others = fragments
    rest = [calls(piece(0, each)) for each in others]
    one.receive(wire([ROLE, calls(piece(0, first, "bash", "a")), *rest], done=False))
    assert not one.open_lane()
