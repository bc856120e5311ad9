"""Events in the lane are forwarded unchanged, and the engine's state is the same afterwards (C1, C3)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from proxy.config.rules import ReasoningField, StripFields
from proxy.dialects.chat.request import read_chat
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import UpstreamBroken
from proxy.exchange.plan import Why, make_task
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from proxy.notations.thoughts import HARMONY, THINK, Thoughts
from tests.support.by_lane import NAMES, ByLane, batches, new_writer, usually
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
from tests.support.reply_cases import Case, cases
from tests.unit.exchange.test_reply_stream import DONE, ROLE, STRONG, Crashes, options, wire

# The cases are divided into this number of parts, so that none takes long.
PARTS = 16


@cache
def all_cases() -> tuple[Case, ...]:
    return tuple(cases())


def engine_of(case: Case, name: str) -> Engine:
    asked = read_chat(json.dumps(case.body).encode(), case.body)
    return Engine(replace(make_task(asked, thoughts=None), seed=SEED, ordered=name != "chat"))


def crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def a_reply(engine: Engine, name: str = "chat", **more: Any) -> StreamReply:
    return StreamReply(engine, new_writer(name, **more), crashed)


def usual_engine(name: str) -> Engine:
    return new_engine(ordered=name != "chat")


def outcome(engine: Engine, one: StreamReply, given: bytes, name: str) -> tuple[Any, ...]:
    """Return everything that is observable after a reply: chat as bytes, other dialects as events."""
    given += one.finish()
    failure = None if one.failure is None else one.failure.message
    given += b"" if one.failure is None else one.fail(one.failure)
    left = given if name == "chat" else read(given)
    said = (one.started, one.done, one.swallowed, one.held, engine.thoughts)
    return left, failure, said, engine.audit, dict(engine.refusals), engine.calls, engine.empty_calls


def read(data: bytes) -> list[Any]:
    """Return the name and data of each event."""
    found = [event.partition(b"\ndata: ")[::2] for event in data.split(b"\n\n") if event]
    return [(name, json.loads(said)) for name, said in found]


def two(number: int) -> tuple[str, str]:
    """Return chat and one of the translated dialects."""
    return "chat", NAMES[1 + number % 2]


def check(
    parts: list[bytes], names: Iterable[str] = ("chat",), engine_for: Callable[[str], Engine] = usual_engine
) -> int:
    """Assert that a reply is the same with and without the lane. Return the number of bytes that took the lane."""
    lane = ByLane()
    for name in names:
        seen = []
        for feed in (lane, usually):
            engine = engine_for(name)
            one = a_reply(engine, name)
            seen.append(outcome(engine, one, b"".join(feed(one, part) for part in parts), name))
        assert seen[0] == seen[1]
    return lane.passed


def check_both(data: bytes, rng: random.Random, names: Iterable[str]) -> int:
    """Check a reply event by event and in random pieces."""
    pieces = ([each + b"\n\n" for each in data.split(b"\n\n") if each], list(batches(data, rng)))
    return sum(check(parts, names) for parts in pieces)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_corpora_and_recordings_are_equal_with_and_without_the_lane(part: int) -> None:
    """The dialects take turns."""
    rng = random.Random(part)
    passed = 0
    for number, case in enumerate(all_cases()[part::PARTS]):
        names = ("chat", *NAMES)[number % 4 :][:1]
        passed += check(list(batches(case.stream, rng)), names, partial(engine_of, case))
    assert passed > 0


# A server that reports usage in every event sends the total at the end.
USAGE = chunk(usage={"prompt_tokens": 9, "completion_tokens": 99, "total_tokens": 108})
WORDS = ("So", " it", " is,", " Tom", " A", " café", " 1 > 0", " [x", " {y", "]", " <b", " a`", "```", "\n", '"', " T")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_random_words_are_equal_with_and_without_the_lane(part: int) -> None:
    """The words begin formats, end in marks, contain code, or are calls."""
    passed = sum(words_in_an_order(8 * part + number) for number in range(8))
    assert passed > 4_000


def counted(tokens: int, **said: Any) -> bytes:
    """Return an event with token counts, as vLLM writes it (`continuous_usage_stats`)."""
    usage = {"prompt_tokens": 9, "total_tokens": 9 + tokens, "completion_tokens": tokens}
    body = {"id": "c1", "choices": [delta(**said)], "usage": usage}
    return b"data: %b\n\n" % json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def words_in_an_order(seed: int) -> int:
    """Check random words with reasoning between them, plain or with token counts. Return the bytes in the lane."""
    rng = random.Random(seed)
    words = [rng.choice((*WORDS * 8, STRONG, "<tool_call>", "</tool_call>")) for _ in range(80)]
    kinds = ["reasoning" if seed % 4 == 1 and at % 20 < 5 else "content" for at in range(80)]
    said: list[dict[str, Any]] = [{kind: word} for kind, word in zip(kinds, words, strict=True)]
    entries = [chunk(delta(**each)).raw for each in said]
    if seed % 3 == 0:
        entries = [event_bytes({"choices": [delta(**each)]}) for each in said]
    elif seed % 3 == 1:
        entries = [counted(at, **each) for at, each in enumerate(said)]
    return check_both(b"".join([ROLE.raw, *entries, ends().raw, USAGE.raw, DONE]), rng, two(seed))


def test_only_events_of_plain_text_take_the_lane() -> None:
    lane, one = ByLane(), a_reply(new_engine())
    left = [lane(one, each.raw) for each in (ROLE, says("So"), says(" it"))]
    assert lane.passed == len(says(" it").raw) and left[-1] == says(" it").raw
    odd = [
        b": a comment\n\n",
        ends().raw,
        says(" \u00e4").raw,  # the escape may be any character
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
def test_the_lane_is_closed_while_text_or_a_call_waits(before: list[Any]) -> None:
    one = a_reply(new_engine())
    for each in before:
        one.receive(each.raw)
    assert not one.open_lane()
    assert not one.pass_by(says(" it").raw)


IT = counted(3, content=" it")


@pytest.mark.parametrize(
    "odd",
    [
        IT.replace(b'"completion_tokens":3', b'"completion_tokens":null'),
        IT.replace(b'"completion_tokens"', b'"prompt_tokens"'),
        IT.replace(b"}}\n\n", b'},"x":1}\n\n'),
        *(IT[:-1], IT[1:], IT + b": ping\n\n", counted(3, content=""), says(" it").raw),
        *(IT.replace(b" it", odd) for odd in (b" \xff", b" \\u0041", b" \x01", b' i"t')),
    ],
)
def test_token_counts_of_another_shape_do_not_take_the_lane(odd: bytes) -> None:
    one = a_reply(usual_engine("messages"), "messages")
    for at, text in enumerate(("So", " it", " is")):
        one.receive(counted(at, content=text))
    assert one.open_lane() and not one.pass_by(odd)
    assert one.pass_by(IT + counted(4, content=" is"))


def test_events_with_other_line_ends_have_no_lane() -> None:
    data = wire([ROLE, *map(says, ("So", " it", " is"))], done=False).replace(b"\n\n", b"\r\n\r\n")
    one = a_reply(new_engine())
    assert one.receive(data) == data and not one.open_lane()


def test_half_an_event_closes_the_lane() -> None:
    one = a_reply(new_engine())
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane()
    one.receive(b"data: ")
    assert not one.open_lane()


@pytest.mark.parametrize("reasoning", ["reasoning", "reasoning_content", "both"])
def test_events_that_the_writer_changes_do_not_take_the_lane(reasoning: ReasoningField) -> None:
    events = [chunk(delta(role="assistant", content="")), *(chunk(delta(reasoning=word)) for word in ("So", " it"))]
    one = a_reply(new_engine(), reasoning=reasoning)
    one.receive(wire(events, done=False))
    assert not one.open_lane()
    stripped = a_reply(new_engine(), clean=StripFields(top=("x",)))
    stripped.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert not stripped.open_lane()


def test_reasoning_takes_the_lane_and_a_call_at_its_end_is_found() -> None:
    """F70: the scanner reads the reasoning afterwards."""
    thought = f"I think so. {call_json('bash', command='ls')}"
    said = json.dumps(thought)[1:-1].replace('\\"', "'")
    events = [ROLE, *(chunk(delta(reasoning=said[at : at + 5])) for at in range(0, len(said), 5)), ends()]
    parts = [each.raw for each in events]
    assert check([*parts, DONE], NAMES)


def test_without_tools_any_text_takes_the_lane() -> None:
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
def test_separated_reasoning_is_equal_with_and_without_the_lane(given: Thoughts, tools: bool, ordered: bool) -> None:
    passed = 0
    for seed in range(15):
        rng = random.Random(seed)
        words = [rng.choice((*WORDS * 4, *MARKS)) for _ in range(80)]
        data = b"".join([ROLE.raw, *(says(word).raw for word in words), ends().raw, DONE])
        for parts in ([each + b"\n\n" for each in data.split(b"\n\n") if each], list(batches(data, rng))):
            names = NAMES[1 + seed % 2 :][:1] if ordered else ("chat",)
            passed += check(parts, names, lambda _: an_engine_that_tells(given, ordered=ordered, tools=tools))
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
def test_the_lane_is_closed_within_reasoning(given: Thoughts, words: list[str]) -> None:
    """Forwarded text would be reasoning, or the template's whitespace before the answer."""
    one = a_reply(an_engine_that_tells(given, ordered=False, tools=True))
    one.receive(wire([ROLE, *map(says, words)], done=False))
    assert not one.open_lane()


def test_reasoning_in_forwarded_text_is_recognized_as_reasoning() -> None:
    """F63: a reply of only reasoning is retried for the right reason, not because a parser swallowed a call. Here the
    reasoning is not separated from the text.
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


def test_the_engine_catches_up_before_the_lane_forwards_too_much() -> None:
    one = a_reply(new_engine())
    one.receive(wire([ROLE, says("So"), says(" it")], done=False))
    assert one.open_lane()
    passed = 0
    while passed < 3 * MAX_PASSED:
        assert one.pass_by(says(" it").raw * 10)
        passed += 10 * len(says(" it").raw)
        assert one._passed_size <= MAX_PASSED + 10 * len(says(" it").raw)


def test_a_failure_to_catch_up_ends_the_repair_and_not_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """C6: the remaining events are forwarded unchanged."""
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


def test_every_cut_of_a_text_is_equal_with_and_without_the_lane() -> None:
    data = wire([ROLE, *(says(word) for word in ("So", " it", " is,", " Tom", " <b> ", "and", " on")), ends()])
    for parts in all_cuts(data, 20):
        check(parts, NAMES)


FRAGMENTS = (
    *("So", " it", " is,", "\\n", '\\"', " {x}", " <tool_call>", "\\u00e4", "ä", "😀", "[1]", ": ", "\\\\", "//"),
    *("\\ud83d", "\\ude00", "\\ud83d\\ude00", "\\ud83dx", "\\u0", "041"),
)
ENDS = ('"}', '", "timeout": 10}', '", "timeout": "10"}', "", '"', "}", '"} and so on', '"}{"command": "pwd"}')


def a_call(rng: random.Random, index: int, *, counted_on: bool) -> list[bytes]:
    """Return a structured call with a string in random pieces and a valid, invalid or missing end."""
    first = calls(piece(index, '{"command": "', "bash", f"call_{index}")).raw
    fragments = [rng.choice(FRAGMENTS) for _ in range(rng.randrange(30))]
    inside = [calls(piece(index, text)).raw for text in fragments]
    if counted_on:
        inside = [counted(at, tool_calls=[piece(index, text)]) for at, text in enumerate(fragments)]
    return [first, *inside, calls(piece(index, rng.choice(ENDS))).raw]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_calls_are_equal_with_and_without_the_lane(part: int) -> None:
    passed = 0
    for seed in range(15 * part, 15 * (part + 1)):
        rng, counted_on = random.Random(seed), seed % 4 == 1
        events = [ROLE.raw, *a_call(rng, 0, counted_on=counted_on)]
        events += a_call(rng, rng.randrange(2), counted_on=counted_on)
        if seed % 3 == 0:
            events.insert(rng.randrange(len(events)), says(" it").raw)
        data = b"".join([*events, ends(rng.choice(("tool_calls", "length"))).raw, USAGE.raw, DONE])
        passed += check_both(data, rng, two(seed))
    assert passed > 20_000


@pytest.mark.parametrize("name", NAMES)
def test_heartbeats_and_failures_do_not_split_events_of_the_lane(name: str) -> None:
    lane = ByLane()
    seen = []
    for feed in (lane, usually):
        one = a_reply(Engine(Task(tools=None, seed=SEED, ordered=name != "chat")), name)
        given = b"".join(feed(one, part) for part in (ROLE.raw, says("a").raw, says("b").raw, says(" it").raw))
        given += one.heartbeat() + feed(one, says(" is").raw)
        seen.append(given + one.fail(UpstreamBroken("gone")))
    assert seen[0] == seen[1] and lane.passed >= len(says(" it").raw + says(" is").raw)


def a_live_string(**limits: Any) -> StreamReply:
    one = a_reply(new_engine(**limits))
    opened = calls(piece(0, '{"command": "l', "bash", "a"))
    one.receive(wire([ROLE, opened, calls(piece(0, "s -l")), calls(piece(0, " ."))], done=False))
    return one


def test_only_fragments_that_cannot_end_a_string_take_the_lane() -> None:
    one = a_live_string()
    for plain in ("; {pwd} <tool_call>", "\\n\\t", '\\"x\\"', "\\\\", "\\u00e4\\ud83d"):
        assert one.open_lane() and one.pass_by(calls(piece(0, plain)).raw), plain
    fragments = ['"', "\\", "\\u00e", "\\x", "\n", "", '"}', 'a\\\\"', "a\x00"]
    odd = [calls(piece(0, each)).raw for each in fragments]
    odd += [calls(piece(1, "x")).raw, calls(piece(0, "x", "bash")).raw, calls(piece(0, "x", id="a")).raw, says("x").raw]
    odd += [calls(piece(0, "x")).raw.replace(b'"x"', b'"\xff"')]
    for each in odd:
        assert one.open_lane() and not one.pass_by(each), each


def test_a_call_near_its_limit_does_not_take_the_lane() -> None:
    """C7."""
    assert not a_live_string(max_held=1000).open_lane()


@pytest.mark.parametrize(
    "fragments",
    [['{"command": "l'], ['{"command": "l', "s", '"'], ['{"timeout": 1', "0", "0"], ['{"command": "l', "\n", "s", "x"]],
    ids=["the first chunk", "what may be an end", "a number", "a broken string"],
)
def test_the_lane_of_a_call_is_closed_while_a_fragment_waits(fragments: list[str]) -> None:
    one = a_reply(new_engine())
    first, *others = fragments
    rest = [calls(piece(0, each)) for each in others]
    one.receive(wire([ROLE, calls(piece(0, first, "bash", "a")), *rest], done=False))
    assert not one.open_lane()
