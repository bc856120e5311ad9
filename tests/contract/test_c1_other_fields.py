"""C1: additional fields of a chunk are sent exactly once, even if the chunk is repaired."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, as_chunk
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.reply_stream import StreamReply
from tests.support.answers import answer_as_stream
from tests.support.helpers import OFFERED, SEED, call_json, delta, event_bytes, offered, piece, random_cut

pytestmark = pytest.mark.slow

CALL = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"
LS = '{"command": "ls"}'
OPENER = piece(0, "", "bash", "call_1")
WHOLE = piece(0, LS, "bash", "call_1")
new_writer = partial(ChatWriter, ChatOptions("m", usage=True, clean=StripFields(), parsed=True))
# The first mark. No other number in a chunk is as large.
FIRST_MARK = 10**6
DONE = b"data: [DONE]\n\n"


class Marks:
    """Generator of fields with unique numbers."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def next(self) -> int:
        self.given.append(FIRST_MARK + len(self.given))
        return self.given[-1]

    def entry(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Return a `choices` entry with additional fields in it and in its delta."""
        around = {"logprobs": {"content": [{"token": self.next()}]}, "token_ids": [self.next()], "x": self.next()}
        said = {**entry["delta"], "x_delta": {"x": self.next()}}
        return {**entry, "delta": said, **around}

    def body(self, *entries: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk with additional fields."""
        top = {"usage": {"completion_tokens": self.next()}, "service_tier": self.next(), "x_top": [self.next()]}
        return {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [*entries], **top}


def marks_in(value: object) -> Iterator[int]:
    """Yield the marks in a JSON value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from marks_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from marks_in(inner)
    elif isinstance(value, int) and value >= FIRST_MARK:
        yield value


def read(sent: bytes) -> list[dict[str, Any]]:
    """Return the chunks that a client receives."""
    lines = [line.removeprefix(b"data: ") for line in sent.split(b"\n\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def reply(chunks: list[dict[str, Any]], *, ordered: bool = False, flush: bool = False) -> list[dict[str, Any]]:
    """Return the output chunks for a stream of these chunks."""
    stream = StreamReply(
        Engine(Task(tools=offered(*OFFERED), seed=SEED, ordered=ordered)), new_writer(), _crashed
    )
    sent = b""
    for body in chunks:
        sent += stream.receive(event_bytes(body))
        if flush:
            sent += stream.release()
    sent += stream.receive(DONE) + stream.finish()
    assert stream.failure is None
    return read(sent)


def _crashed(error: Exception) -> None:
    raise error


def entries_of(chunks: list[dict[str, Any]], number: int = 0) -> list[dict[str, Any]]:
    return [entry for body in chunks for entry in body["choices"] if entry["index"] == number]


def text_of(chunks: list[dict[str, Any]], number: int = 0) -> str:
    return "".join(entry["delta"].get("content") or "" for entry in entries_of(chunks, number))


def arguments_of(chunks: list[dict[str, Any]], number: int = 0) -> list[str]:
    found: dict[int, str] = {}
    for entry in entries_of(chunks, number):
        for call in entry["delta"].get("tool_calls", ()):
            found[call["index"]] = found.get(call["index"], "") + call["function"]["arguments"]
    return [found[index] for index in sorted(found)]


SPLIT = {
    "text and an opener": [delta(content="a", tool_calls=[OPENER]), delta(tool_calls=[piece(0, LS)])],
    "reasoning and an opener": [delta(reasoning="a", tool_calls=[OPENER]), delta(tool_calls=[piece(0, LS)])],
    "both and an opener": [delta(content="a", reasoning="b", tool_calls=[OPENER]), delta(tool_calls=[piece(0, LS)])],
    "text and a whole call": [delta(content="a", tool_calls=[WHOLE])],
    "a whole call and its echo": [delta(content=LS, tool_calls=[WHOLE])],
    "an echo after": [delta(tool_calls=[WHOLE]), delta(content=LS[:4]), delta(content=LS[4:])],
    "text, a call and the finish": [delta(0, "tool_calls", content="a", tool_calls=[WHOLE])],
    "text before a call in it": [delta(content=f"Look: {CALL}")],
    "text after a call in it": [delta(content=f"{CALL} So."), delta(content="Bye.")],
    "a call in pieces": [delta(content=part) for part in (CALL[:3], CALL[3:30], CALL[30:])],
    "a call and the finish": [delta(0, "stop", content=CALL)],
    "text of which only a part is decided": [delta(content="a <tool_"), delta(content="box> b")],
    "a finish that is not true": [delta(tool_calls=[WHOLE]), delta(0, "stop", content="a")],
    "two finishes": [delta(0, "stop", content="a"), delta(0, "stop", content="b")],
    "something after the finish": [delta(0, "stop", content="a"), delta(content="b")],
    "nothing after the finish": [delta(0, "stop", content="a"), delta()],
    "a sign of life": [delta(content="a"), delta(), delta(0, "stop")],
    "reasoning while text waits": [delta(content="<tool_"), delta(reasoning="so"), delta(content="box>")],
}


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("entries", SPLIT.values(), ids=SPLIT)
def test_other_fields_of_a_split_chunk_are_sent_once(entries: list[dict[str, Any]], ordered: bool, flush: bool) -> None:
    marks = Marks()
    bodies = [marks.body(marks.entry(entry)) for entry in entries]
    sent = reply(bodies, ordered=ordered, flush=flush)
    assert sorted(marks_in(sent)) == marks.given


@pytest.mark.parametrize("entries", SPLIT.values(), ids=SPLIT)
def test_nothing_follows_the_finish(entries: list[dict[str, Any]]) -> None:
    """C5: not even a chunk with only additional fields."""
    marks = Marks()
    sent = reply([marks.body(marks.entry(entry)) for entry in entries])
    assert [entry["finish_reason"] is not None for entry in entries_of(sent)].index(True) == len(entries_of(sent)) - 1


@pytest.mark.parametrize("field", ["service_tier", "x_top", "usage"])
def test_an_empty_chunk_with_a_field_is_sent(field: str) -> None:
    """Only empty chunks are dropped (F64)."""
    mark = {"completion_tokens": FIRST_MARK} if field == "usage" else FIRST_MARK
    alive = {"id": "c", "choices": [delta()], field: mark}
    assert [*marks_in(reply([alive, {"id": "c", "choices": [delta(0, "stop", content="a")]}]))] == [FIRST_MARK]


def test_fields_are_sent_with_the_first_rewritten_chunk() -> None:
    """A client thus receives the tokens of a text together with it."""
    marks = Marks()
    first = marks.body(marks.entry(delta(content="a", tool_calls=[OPENER])))
    sent = reply([first, Marks().body(delta(tool_calls=[piece(0, LS)]))])
    assert sent[0]["choices"][0]["delta"]["content"] == "a"
    assert sorted(marks_in(sent[0])) == marks.given


def script(rng: random.Random) -> list[dict[str, Any]]:
    """Return one choice in chunks: text with calls, reasoning, structured calls, several in one chunk."""
    said: list[dict[str, Any]] = []
    for text in rng.choices(["Let me look. ", "a < b <tool", "<tool_call>\n", CALL, f"{CALL}\nDone.", LS], k=2):
        said += [{"content": part} for part in random_cut(text, rng)]
    said += [{"reasoning": part} for part in random_cut("I think so.", rng)]
    if rng.random() < 0.7:
        fragments = random_cut(LS, rng)
        calls = [piece(0, fragments[0], "bash", "call_1"), *(piece(0, part) for part in fragments[1:])]
        said += [{"tool_calls": [call]} for call in calls]
    merged: list[dict[str, Any]] = []
    for each in said:
        if merged and not merged[-1].keys() & each.keys() and rng.random() < 0.4:
            merged[-1] |= each
        else:
            merged.append(dict(each))
    return merged


@pytest.mark.parametrize("seed", range(120))
def test_no_field_of_a_random_stream_is_lost_or_repeated(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([1, 1, 2, 3])
    marks = Marks()
    scripts = [script(rng) for _ in range(count)]
    bare: list[dict[str, Any]] = []
    bodies: list[dict[str, Any]] = []
    while any(scripts):
        entries = [delta(n, **said.pop(0)) for n, said in enumerate(scripts) if said and rng.random() < 0.7]
        if not entries:
            continue
        for entry in entries:
            if not scripts[entry["index"]]:
                entry["finish_reason"] = "stop"
        bare.append({"id": "c", "choices": entries})
        bodies.append(marks.body(*map(marks.entry, entries)))
    flush = rng.random() < 0.5
    sent = reply(bodies, flush=flush)
    assert sorted(marks_in(sent)) == marks.given
    without = reply(bare, flush=flush)
    for number in range(count):
        assert text_of(sent, number) == text_of(without, number)
        assert arguments_of(sent, number) == arguments_of(without, number)
        finishes = [entry["finish_reason"] for entry in entries_of(sent, number)]
        assert [bool(finish) for finish in finishes] == [False] * (len(finishes) - 1) + [True]


@pytest.mark.parametrize("content", ["a", CALL, f"Look: {CALL}"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_stream_created_from_a_whole_answer_has_its_other_fields(content: str, count: int) -> None:
    marks = Marks()
    entries = [marks.entry(delta(n, "stop", content=content)) for n in range(count)]
    answer = marks.body(*({**entry, "message": entry.pop("delta")} for entry in entries))
    engine = Engine(Task(tools=offered(*OFFERED), seed=SEED))
    sent = read(answer_as_stream(answer, engine, new_writer()))
    assert sorted(marks_in(sent)) == marks.given
    assert {body["object"] for body in sent} == {"chat.completion.chunk"}
    assert as_chunk(answer).body["choices"] != answer["choices"]
