"""Events that continue a held call take the lane, and the client sees no difference."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.exchange.reply_stream import MAX_PASSED, StreamReply
from tests.support.by_lane import NAMES, ByLane, batches, new_writer
from tests.support.helpers import chunk, delta, ends, event_bytes, new_engine, says
from tests.support.rows import rows
from tests.unit.exchange.test_reply_stream import DONE, ROLE, Crashes, Raises

OPENING = ("<tool_call>", "\n", '{"name": "bash", ', '"arguments": {"command": "')
# Parts of a string as servers stream them: whole escapes, parts of escapes, and closing markup.
PIECES = (
    *("So", " it", " is,", " café", "\\n", '\\"', "\\\\", "\\t", " {x}", "[1]", "</tool_call>", "<tool_call>", "```"),
    *("\\u00e4", "\\u00", "\\", "n", "'", "\n", "\x7f", "ä", "→", "😀", "//", "<think>", "</think>"),
)
ENDS = (
    *('"}}\n</tool_call>', '"}}</tool_call>', '"}}', '"', "", '", "timeout": 5}}\n</tool_call>', '"}} and so on'),
    *('"}}{"name": "bash", "arguments": {"command": "ls"}}</tool_call>', '" and "so" on', '"}', '", "x": "'),
    *('"}}\n</tool_call>\n<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>',),
)
OPENINGS = (
    *(OPENING, ("Well", ", <tool_call>\n", *OPENING[2:]), ("`", *OPENING), ("> ", *OPENING)),
    *(OPENING[2:], ("```json\n", *OPENING[2:]), ('"', *OPENING)),
    ("<tool_call>", '{"name": "nothing", "arguments": {"command": "'),
    *(("[TOOL_CALLS]", "bash[ARGS]", '{"command": "'), ("<tool_call>", "{'name': 'bash', 'arguments': {'command': '")),
    *(("<tool_call>", '{"arguments": {"command": "'), ("<function=bash>", "<parameter=command>"), ('{"a": "',)),
    *(("<think>", "I ", *OPENING), ("<tool_call>", '{"name": "bash", "arguments": "{\\"command\\": \\"')),
)


def a_reply(engine: Engine, name: str = "chat", crashes: Crashes | None = None) -> StreamReply:
    reported = Crashes() if crashes is None else crashes
    return StreamReply(engine, new_writer(name), reported.append)


READ = ("content", "text", "thinking", "reasoning", "arguments", "partial_json", "delta", "name", "finish_reason")


def read(given: bytes) -> dict[str, str]:
    """Return what a client reads, regardless of where events begin and end."""
    found: dict[str, str] = {}

    def walk(value: Any) -> None:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            if key in READ and isinstance(each, str):
                found[key] = found.get(key, "") + each
            elif isinstance(each, dict | list):
                walk(each)

    for line in given.split(b"\n"):
        if line.startswith(b"data: {"):
            walk(json.loads(line[6:]))
    return found


def outcome(one: StreamReply, given: bytes) -> tuple[Any, ...]:
    """Return everything that is observable after a reply."""
    engine = one._engine
    given += one.finish()
    failure = None if one.failure is None else one.failure.message
    said = (one.started, one.done, one.swallowed, one.held, one.silence, dict(one._usage), one._envelope)
    counts = (engine.audit, dict(engine.refusals), engine.calls, engine.empty_calls, engine.broken_call, engine.size)
    return read(given), failure, said, counts, one._unsent.changed


Step = Callable[[StreamReply], bytes]


def check(parts: list[bytes], name: str = "chat", then: Step | None = None, **task: Any) -> int:
    """Feed a reply with and without the lane, with `then` in the middle. Return how many bytes the lane held."""
    lane = ByLane()
    seen = []
    for feed in (lane, StreamReply.receive):
        one = a_reply(new_engine(**task), name)
        given = b""
        for number, part in enumerate(parts, 1):
            given += feed(one, part)
            if then is not None and number == len(parts) // 2:
                given += then(one)
        seen.append(outcome(one, given))
    assert seen[0] == seen[1]
    return lane.held


def events(texts: Iterable[str]) -> list[bytes]:
    """Return one chunk per text, as vLLM writes it."""
    bodies = [{"id": "c1", "choices": [delta(content=text)]} for text in texts]
    return [b"data: %b\n\n" % json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode() for body in bodies]


def a_stream(rng: random.Random, *, size: int = 40, common: int = 3) -> list[bytes]:
    """Return the events of a reply with a call, or with text that looks like one."""
    opening = rng.choice((OPENING, *OPENINGS))
    inside = [rng.choice((*PIECES, *PIECES[:10] * common)) for _ in range(rng.randrange(size))]
    after = [rng.choice(("", " Done", ".", "\n"))] if rng.random() < 0.3 else []
    texts = [*opening, *inside, rng.choice(ENDS), *after]
    made = [says(each).raw for each in texts] if rng.random() < 0.3 else events(texts)
    finish = ends(rng.choice(("stop", "stop", "tool_calls", "length"))).raw
    return [ROLE.raw, *made, finish, DONE]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", range(2))
def test_printed_calls_are_equal_with_and_without_the_lane(part: int, name: str) -> None:
    held = 0
    for seed in range(60 * part, 60 * (part + 1)):
        rng = random.Random(seed)
        parts = a_stream(rng)
        task: dict[str, Any] = {"hold_broken": seed % 5 == 0, "ordered": name != "chat"}
        held += check(parts, name, **task)
        held += check(list(batches(b"".join(parts), rng)), name, **task)
    assert held > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("step", ["release", "heartbeat"])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_in_the_middle_of_the_lane_sees_every_event(name: str, step: str) -> None:
    """The hold times out, or a heartbeat is sent to the client."""
    held = sum(
        check(a_stream(random.Random(seed)), name, lambda one: bytes(getattr(one, step)())) for seed in range(60)
    )
    assert held > 5_000


@pytest.mark.parametrize("last", [[], [ends("length").raw]], ids=["broken off", "without [DONE]"])
def test_a_body_that_ends_within_a_string_loses_nothing(last: list[bytes]) -> None:
    parts = [ROLE.raw, *events((*OPENING, "l", "s", " -l"))]
    assert check([*parts, *last]) > 0
    one, lane = a_reply(new_engine()), ByLane()
    given = b"".join(lane(one, part) for part in [*parts, *last]) + one.finish()
    assert given.removesuffix(DONE) == b"".join([*parts, *last])


@pytest.mark.slow
@pytest.mark.parametrize("limit", [200, 300, 600])
def test_held_text_is_released_at_the_same_limit_with_and_without_the_lane(limit: int) -> None:
    """C7."""
    held = sum(check(a_stream(random.Random(seed), size=120), max_held=limit) for seed in range(60))
    assert held > 5_000


def held_reply(*more: str, crashes: Crashes | None = None, **task: Any) -> StreamReply:
    one = a_reply(new_engine(**task), crashes=crashes)
    for part in [ROLE.raw, *events((*OPENING, "l", *more))]:
        assert one.receive(part) in (b"", ROLE.raw)
    return one


def test_only_events_that_cannot_end_the_call_take_the_lane() -> None:
    one = held_reply("x" * 4_000)
    for plain in ("s -l; {pwd}", "\\n\\t", '\\"x\\"', "\\\\", "é→😀", "'", '"', "\n"):
        assert one.open_lane() and one.pass_by(events([plain])[0]) == b"", plain
    odd = events(["</", "", "a\x00", "]"])
    [event] = events(["x"])
    odd += [event.replace(b'"x"', each) for each in (b'"\xff"', b'"x","role":"user"', b'"x" ', b"null")]
    odd += [event.replace(b"c1", b"c2"), event[:-1], event[1:], b": ping\n\n", event + b": ping\n\n", ends().raw, DONE]
    odd += [says("x", choice=1).raw, chunk(delta(reasoning="x")).raw, event_bytes({"error": {"message": "no"}})]
    for each in odd:
        assert one.open_lane() and one.pass_by(each) is None, each
    assert one.pass_by(b"".join(events(["x", "\\n", "y"]))) == b""


def test_prose_opens_no_lane() -> None:
    one = a_reply(new_engine())
    for part in [ROLE.raw, *events(("So it", " is"))]:
        one.receive(part)
    assert not one.open_lane() or one.pass_by(events(["x"])[0]) != b""


@rows(__file__, "more")
@pytest.mark.parametrize("end", ['"}}\n</tool_call>', '" so'])
def test_chunks_with_more_than_text_do_not_take_the_lane(more: dict[str, Any], end: str) -> None:
    """C1: their other fields are forwarded."""
    event = event_bytes({"id": "c1", "choices": [delta(content="l")], **more})
    parts = [ROLE.raw, *events(OPENING), *[event] * 5, *events([end]), ends("stop").raw, DONE]
    assert check(parts) == 0


@pytest.mark.parametrize("end", ['"}}\n</tool_call>', '" so'])
def test_chunks_with_empty_token_counts_do_not_take_the_lane(end: str) -> None:
    """C1: the bytes of events with counts are not kept."""
    held = [event.replace(b"}\n\n", b',"usage":{}}\n\n') for event in events([*OPENING, *"lllll", end])]
    assert check([ROLE.raw, *held, ends("stop").raw, DONE]) == 0


@pytest.mark.parametrize("content", [delta(content="l", role="assistant"), delta(content="l", tool_calls=[])])
@pytest.mark.parametrize("end", ['"}}\n</tool_call>', '" so'])
def test_chunks_that_repeat_the_same_fields_take_the_lane(content: dict[str, Any], end: str) -> None:
    event = event_bytes({"id": "c1", "system_fingerprint": None, "choices": [content]})
    for first in ([ROLE.raw], []):
        parts = [*first, *events(OPENING), *[event] * 5, *events([end]), ends("stop").raw, DONE]
        assert check(parts) > 0


def test_a_refused_call_is_forwarded_in_its_original_events() -> None:
    """C1."""
    parts = [ROLE.raw, *events((*OPENING, "l", "s", " -l ", '\\"', "é", "\\n", 'x" and so on')), ends("stop").raw, DONE]
    lane = ByLane()
    one = a_reply(new_engine())
    given = b"".join(lane(one, part) for part in parts) + one.finish()
    assert lane.held and given == b"".join(parts)


@pytest.mark.parametrize("step", ["hold", "feed", "finish", "release"])
def test_after_a_crash_all_events_are_forwarded_unchanged(step: str) -> None:
    """C6: no event is lost, wherever the engine fails."""
    parts = [ROLE.raw, *events((*OPENING, *["l", "s", "\\n"] * 5, '"', "}}\n</tool_call>")), ends("stop").raw, DONE]
    for at in range(len(parts)):
        crashes = Crashes()
        one = a_reply(new_engine(), crashes=crashes)
        Raises(one._engine, step, at)
        lane = ByLane()
        given = b""
        for number, part in enumerate(parts):
            given += lane(one, part)
            if step == "release" and number == 15:
                given += one.release()
        given += one.finish()
        if one.failure is None and crashes:
            assert given == b"".join(parts)


def test_the_engine_catches_up_before_the_lane_holds_too_much() -> None:
    one = held_reply("x" * 100_000)
    event = events(["x" * 50])[0]
    taken = 0
    assert one.open_lane()
    while one.pass_by(event) == b"":
        taken += len(event)
    assert MAX_PASSED - len(event) < taken <= MAX_PASSED
    assert one.receive(event) == b""
    assert one._engine.size > 50 * (taken // len(event))
    assert one.open_lane() and one.pass_by(event) == b""
