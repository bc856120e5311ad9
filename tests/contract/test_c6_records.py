"""Records (contract C6): every change has a record, and its id is in a table.

If the engine fails, the upstream's bytes are forwarded or the stream ends in an error.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from documentation.tables import REPAIRS
from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, read_whole
from proxy.dialects.chat.writer import ChatWriter
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.errors import InternalError
from proxy.exchange.reply_stream import StreamReply
from proxy.notations.toolset import read_tools
from proxy.repair.arguments import FORMS
from proxy.repair.schema_fixes import FIXES
from tests.contract.test_c1_valid_calls import ROWS as VALID
from tests.contract.test_c3_negative import ROWS as NO_CALLS
from tests.contract.test_c3_negative import TOOLS
from tests.contract.test_c9_slices import DAMAGE
from tests.failures.test_recordings import FOLDER, STREAMS, WHOLES, tools_for
from tests.failures.test_text_formats import ROWS as FORMATS
from tests.support.answers import answer_as_answer
from tests.support.client_view import ROLE, wire
from tests.support.each_case import each_case
from tests.support.helpers import calls, ends, new_engine, piece, random_cut, received, says
from tests.support.translated import TRANSLATING
from tests.unit.exchange.test_reply_stream import Crashes, Raises

# Every id has an entry in one of the tables.
KNOWN = {*(record[0] for record in REPAIRS["records"]), *(form.id for form in FORMS), *(fix.id for fix in FIXES)}
OPTIONS = ChatOptions("m", usage=True, clean=StripFields(), parsed=True)
# Maximum length of texts that are streamed by character.
SHORT = 80
SIZE = 100


@dataclass(frozen=True)
class Row:
    """A text of a corpus, its finish reason, and the tool results before it."""

    id: str
    text: str
    finish: str
    results: tuple[str, ...] = ()

    def engine(self) -> Engine:
        return new_engine(TOOLS, sources=self.results)

    def body(self, parts: Iterable[str]) -> bytes:
        """Return the stream of these parts. Empty parts are left out, because clients never receive them (F64)."""
        return wire([ROLE, *(says(part) for part in parts if part), ends(self.finish)])


ROWS = [
    *(Row(row.id, row.text, row.finish, row.results) for row in NO_CALLS),
    *(Row(row["id"], row["text"], row["finish"]) for row in FORMATS),
]
PROSE = [Row(row.id, row.text, row.finish, row.results) for row in NO_CALLS]


def name_of(row: Row) -> str:
    return row.id


def crashed(error: Exception) -> None:
    raise AssertionError("the engine raised") from error


def reply(engine: Engine, on_crash: Callable[[Exception], None] = crashed) -> StreamReply:
    return StreamReply(engine, ChatWriter(OPTIONS), on_crash)


def sent(data: bytes, one: Any) -> bytes:
    """Return everything that the client receives for a complete body."""
    given: bytes = one.receive(data)
    if one.failure is None:
        given += one.finish()
    return given if one.failure is None else given + one.fail(one.failure)


def ids(engine: Engine) -> list[str]:
    """Return the ids of the records. Each must be known and have a reason."""
    assert {repair.id for repair in engine.audit} <= KNOWN
    assert all(repair.why for repair in engine.audit)
    return [repair.id for repair in engine.audit]


def recorded(name: str) -> tuple[bytes, Engine]:
    task = Task(tools=tools_for(name), seed=b"seed", raw_text="-none-" in name)
    return (FOLDER / name).read_bytes(), Engine(task)


@each_case("row", [row for row in ROWS[::3] if len(row.text) <= SHORT], ids=name_of, size=SIZE)
def test_text_streamed_by_character_is_unchanged_or_has_a_record(row: Row) -> None:
    """No chunk mixes prose with held text, so a stream changes exactly if something was repaired."""
    engine, data = row.engine(), row.body(row.text)
    assert (sent(data, reply(engine)) == data) is (ids(engine) == [])


@each_case("row", ROWS[::3], ids=name_of, size=SIZE)
def test_a_reply_is_unchanged_or_has_a_record_at_any_cut(row: Row) -> None:
    """A partly held chunk may be rebuilt, but its content is the same (C1, C2)."""
    rng = random.Random(row.id)
    engine, data = row.engine(), row.body(random_cut(row.text, rng))
    came, got = received(data), received(sent(data, reply(engine)))
    assert (got == came) is (ids(engine) == [])
    assert bool(got[0].calls) is ("text_call" in ids(engine))
    # The record of a call in text also covers the finish reason `tool_calls`.
    told = "finish" in ids(engine) or bool(got[0].calls and got[0].finish == "tool_calls" != row.finish)
    assert (got[0].finish != came[0].finish) is told


@each_case("row", ROWS[1::3], ids=name_of, size=SIZE)
def test_a_whole_answer_is_unchanged_or_has_a_record(row: Row) -> None:
    entry = {"index": 0, "message": {"role": "assistant", "content": row.text}, "finish_reason": row.finish}
    body = json.dumps({"id": "w", "object": "chat.completion", "created": 7, "model": "m", "choices": [entry]}).encode()
    engine = row.engine()
    given = answer_as_answer(body, read_whole(body), engine, ChatWriter(OPTIONS))
    assert (given == body) is (ids(engine) == [])


@pytest.mark.parametrize("way", DAMAGE)
def test_a_structured_call_is_unchanged_or_has_a_record(way: str) -> None:
    """This holds for any damage. A call that cannot be finished ends in an error."""
    rng = random.Random(way)
    for row in rng.sample(VALID, 12):
        tools = read_tools([{"type": "function", "function": {"name": "tool", "parameters": row.schema}}])
        arguments = DAMAGE[way](row.arguments, rng.randrange(1000))
        parts = [calls(piece(0, part)) for part in random_cut(arguments, rng) if part]
        data = wire([ROLE, calls(piece(0, "", name="tool", id="call_1")), *parts, ends("tool_calls")])
        engine = new_engine(tools)
        got = received(sent(data, reply(engine)))
        assert got.error or (got == received(data)) is (ids(engine) == [])


@pytest.mark.parametrize("name", [*STREAMS, *WHOLES])
def test_a_recording_is_unchanged_or_has_a_record(name: str) -> None:
    data, engine = recorded(name)
    if name in WHOLES:
        given = answer_as_answer(data, read_whole(data), engine, ChatWriter(OPTIONS))
        assert (given == data) is (ids(engine) == [])
        return
    one = reply(engine)
    given = sent(data, one)
    if one.failure is None:
        # llama-cpp-python repeats the name with each delta, which strict clients reject.
        strict = "named-stream" not in name
        assert (strict and received(given) == received(data)) is (ids(engine) == [])


def check_crash(data: bytes, new: Callable[[], Engine], rng: random.Random) -> bool:
    """Make the engine raise at a random event. An unchanged reply must continue verbatim, any other end in an error.

    Return whether the reply continued.
    """
    blocks = [block + b"\n\n" for block in data.split(b"\n\n") if block]
    at = rng.randrange(len(blocks) + 1)
    engine, crashes = new(), Crashes()
    one = reply(engine, crashes.append)
    before = one.receive(b"".join(blocks[:at]))
    if one.failure is not None:
        return False
    for step in ("feed", "hold", "finish", "release"):
        Raises(engine, step, 0)
    unchanged = data.startswith(before)
    given = before + sent(b"".join(blocks[at:]), one)
    if one.failure is None:
        assert given == data
        return True
    assert isinstance(one.failure, InternalError) and len(crashes) == 1
    assert not unchanged
    got = received(given)
    assert got.error and not got.done and got[0].finish is None
    return False


@each_case("row", ROWS[3::4], ids=name_of, size=SIZE)
def test_a_crash_continues_or_is_an_error(row: Row) -> None:
    rng = random.Random(row.id)
    check_crash(row.body(random_cut(row.text, rng)), row.engine, rng)


@pytest.mark.slow
@each_case("row", PROSE[::3], ids=name_of, size=SIZE)
def test_a_crash_in_a_text_streamed_by_character_loses_nothing(row: Row) -> None:
    """The reply was not changed before the crash."""
    assert check_crash(row.body(row.text[:SHORT]), row.engine, random.Random(row.id))


@pytest.mark.parametrize("name", STREAMS)
def test_a_crash_in_a_recording_continues_or_is_an_error(name: str) -> None:
    rng = random.Random(name)
    for _ in range(3):
        check_crash(recorded(name)[0], lambda: recorded(name)[1], rng)


@pytest.mark.parametrize("each", TRANSLATING, ids=lambda each: each.name)
def test_a_translated_reply_ends_in_an_error_after_a_crash(each: Any) -> None:
    """The client could not read the upstream's bytes."""
    for row in PROSE[::40]:
        for step in ("feed", "finish"):
            engine, crashes = row.engine(), Crashes()
            Raises(engine, step, 1 if step == "feed" else 0)
            one = StreamReply(engine, each.writer(), crashes.append)
            told = each.client.stream(sent(row.body([row.text]), one))
            assert isinstance(one.failure, InternalError) and len(crashes) == 1
            assert told.failed
