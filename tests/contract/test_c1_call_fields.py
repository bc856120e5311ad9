"""C1: additional fields of a `tool_calls` entry are sent exactly once, with their call, even if the call is repaired.

Gemini ties a call to its reasoning by a signature, and rejects the next request if it is missing:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"},
     "extra_content": {"google": {"thought_signature": "CtwB..."}}}
"""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from proxy.config.rules import StripFields
from proxy.dialects.chat.answer import ChatOptions, as_chunk, read_whole, rebuild
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.exchange.reply_stream import StreamReply
from tests.support.answers import answer_as_stream
from tests.support.each_case import each_case
from tests.support.helpers import OFFERED, SEED, delta, event_bytes, offered, piece, random_cut

LS, PWD = '{"command": "ls"}', '{"command": "pwd"}'
SIGNED = {"google": {"thought_signature": "CtwB"}}
OPTIONS = ChatOptions("m", usage=True, clean=StripFields(), parsed=True)
new_writer = partial(ChatWriter, OPTIONS)
DONE = b"data: [DONE]\n\n"
KNOWN = frozenset(("index", "id", "type", "function"))


def signed(*said: Any, mark: object = SIGNED, inside: object = None) -> dict[str, Any]:
    """Return a piece of a call with an additional field, and with `inside` in its function if given."""
    entry = {**piece(*said), "extra_content": mark}
    if inside is not None:
        entry["function"] = {**entry["function"], "x_inside": inside}
    return entry


def crashed(error: Exception) -> None:
    raise error


def bytes_that_came(entries: list[dict[str, Any]]) -> bytes:
    bodies = ({"id": "c", "object": "chat.completion.chunk", "created": 7, "choices": [each]} for each in entries)
    return b"".join(map(event_bytes, bodies)) + DONE


def relayed(entries: list[dict[str, Any]], *, flush: bool = False, **task: Any) -> bytes:
    """Return the output for a stream of these `choices` entries. With `flush`, nothing is held for long."""
    engine = Engine(Task(tools=offered(*OFFERED), seed=SEED, **task))
    stream = StreamReply(engine, new_writer(), crashed)
    sent = b""
    for entry in entries:
        sent += stream.receive(bytes_that_came([entry]).removesuffix(DONE))
        if flush:
            sent += stream.release()
    sent += stream.receive(DONE) + stream.finish()
    assert stream.failure is None
    return sent


def pieces_in(sent: bytes) -> list[dict[str, Any]]:
    """Return the `tool_calls` entries that a client receives, in order."""
    found: list[dict[str, Any]] = []
    for line in sent.split(b"\n\n"):
        data = line.removeprefix(b"data: ")
        if data in (b"", b"[DONE]") or data.startswith(b":"):
            continue
        for entry in json.loads(data)["choices"]:
            found += entry["delta"].get("tool_calls") or []
    return found


def fields_in(pieces: list[dict[str, Any]]) -> list[tuple[int, str, object]]:
    """Return call index, name and value of every additional field received."""
    found: list[tuple[int, str, object]] = []
    for each in pieces:
        found += [(each["index"], key, value) for key, value in each.items() if key not in KNOWN]
        inside = each.get("function", {})
        found += [(each["index"], key, value) for key, value in inside.items() if key not in ("name", "arguments")]
    return found


def calls_in(pieces: list[dict[str, Any]]) -> list[tuple[str, str]]:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for each in pieces:
        said = each["function"]
        names[each["index"]] = names.get(each["index"], "") + (said.get("name") or "")
        arguments[each["index"]] = arguments.get(each["index"], "") + said["arguments"]
    return [(names[index], arguments[index]) for index in sorted(names)]


ONE = [("bash", LS)]


def load() -> dict[str, tuple[list[dict[str, Any]], list[tuple[str, str]], list[tuple[int, str, object]]]]:
    """Return the cases: the input, and the expected calls and fields."""
    rows = map(json.loads, Path(__file__).with_name("call_fields.jsonl").read_text("utf-8").splitlines())
    return {row["name"]: (row["entries"], [*map(tuple, row["calls"])], [*map(tuple, row["fields"])]) for row in rows}


REPLIES = load()


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", REPLIES)
def test_the_fields_of_an_entry_are_sent_once_with_their_call(name: str, ordered: bool, flush: bool) -> None:
    entries, calls, fields = REPLIES[name]
    pieces = pieces_in(relayed(entries, flush=flush, ordered=ordered))
    assert (calls_in(pieces), fields_in(pieces)) == (calls, fields)


@pytest.mark.parametrize("name", REPLIES)
def test_strict_clients_accept_every_entry(name: str) -> None:
    """C5: name and id once, index and arguments text always."""
    seen: set[int] = set()
    for each in pieces_in(relayed(REPLIES[name][0])):
        assert isinstance(each["function"]["arguments"], str)
        assert ("name" in each["function"], "id" in each) == ((False, False) if each["index"] in seen else (True, True))
        seen.add(each["index"])


CLEAN = [
    [delta(tool_calls=[signed(0, LS, "bash", "a")]), delta(0, "tool_calls")],
    [delta(tool_calls=[signed(0, "", "bash", "a")]), delta(tool_calls=[piece(0, LS)]), delta(0, "tool_calls")],
    [
        delta(tool_calls=[signed(0, "", "bash", "a")]),
        *(delta(tool_calls=[signed(0, letter)]) for letter in LS),
        delta(tool_calls=[signed(0, "")]),
        delta(0, "tool_calls"),
    ],
    [delta(tool_calls=[signed(0, LS, "bash", "a"), signed(1, PWD, "bash", "b", inside=1)]), delta(0, "tool_calls")],
    [
        delta(tool_calls=[signed(0, '{"items": [', "typed", "a")]),
        *(delta(tool_calls=[signed(0, f'"{"x" * 40}", ', mark=n)]) for n in range(8)),
        delta(tool_calls=[piece(0, '"y"], "label": "z"}')]),
        delta(0, "tool_calls"),
    ],
]


@pytest.mark.parametrize("entries", CLEAN, ids=range(len(CLEAN)))
def test_a_clean_call_with_fields_is_unchanged(entries: list[dict[str, Any]]) -> None:
    """A field that the server repeats with each piece is sent once."""
    came, pieces = pieces_in(bytes_that_came(entries)), pieces_in(relayed(entries))
    assert calls_in(pieces) == calls_in(came)
    once = [field for at, field in enumerate(fields_in(came)) if field not in fields_in(came)[:at]]
    assert fields_in(pieces) == once


def test_a_field_larger_than_the_limit_is_sent() -> None:
    large = "x" * 5_000_000
    besides: list[dict[str, Any]] = [{}, {"content": "a"}]
    for beside in besides:
        pieces = pieces_in(relayed([delta(tool_calls=[signed(0, LS, "bash", "a", mark=large)], **beside)]))
        assert (calls_in(pieces), fields_in(pieces)) == (ONE, [(0, "extra_content", large)])


def test_a_field_is_sent_with_its_piece() -> None:
    """A client that shows a call live receives the field with its piece."""
    entries = [
        delta(content="a", tool_calls=[piece(0, LS[:14], "bash", "a")]),
        delta(content="b", tool_calls=[signed(0, LS[14:15])]),
        delta(content="c", tool_calls=[piece(0, LS[15:])]),
    ]
    _, second, *_ = pieces_in(relayed(entries))
    assert second == {"index": 0, "function": {"arguments": LS[14:15]}, "extra_content": SIGNED}


def test_fields_of_a_held_call_count_towards_the_limit() -> None:
    """C7: a server that only sends fields cannot exhaust the memory."""
    engine = Engine(Task(tools=offered(*OFFERED), seed=SEED, max_held=1000))
    stream = StreamReply(engine, new_writer(), crashed)
    for number in range(12):
        stream.receive(event_bytes({"choices": [delta(tool_calls=[signed(0, "", "", "a", mark=str(number) * 100)])]}))
    assert "max_held" in str(stream.failure)


@pytest.mark.parametrize(("begun", "end"), [(LS[:-2], LS[-2:]), ("{'command': '", "'}")])
def test_a_repeated_field_is_held_once(begun: str, end: str) -> None:
    """Both while the call is streamed and while it is held."""
    said = [delta(content="a", tool_calls=[piece(0, begun, "bash", "a")])]
    said += [delta(content="a", tool_calls=[signed(0, "x", mark="x" * 100)]) for _ in range(100)]
    pieces = pieces_in(relayed([*said, delta(content="b", tool_calls=[piece(0, end)])], max_held=1000))
    assert {value for _, _, value in fields_in(pieces)} == {"x" * 100}


def whole(entries: list[dict[str, Any]], **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, "tool_calls": entries, **message}
    return {"id": "w", "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}


def whole_entry(arguments: str, name: str = "bash", id_: str = "a", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}, **fields}


FIELDS: dict[str, Any] = {"extra_content": SIGNED, "x": None, "y": [1]}
WHOLE: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "clean": (whole([whole_entry(LS, **FIELDS)]), [whole_entry(LS, **FIELDS)]),
    "repaired": (whole([whole_entry("{'command': 'ls',}", **FIELDS)]), [whole_entry(LS, **FIELDS)]),
    "renamed": (whole([whole_entry(LS, "functions.bash", **FIELDS)]), [whole_entry(LS, **FIELDS)]),
    "beside a repaired one": (
        whole([whole_entry(LS, **FIELDS), whole_entry("{'command': 'pwd'}", id_="b")]),
        [whole_entry(LS, **FIELDS), whole_entry(PWD, id_="b")],
    ),
    "in the function": (
        whole([{"id": "a", "function": {"name": "bash", "arguments": LS[:-1], "x_inside": 7}}]),
        [{**whole_entry(LS), "function": {"name": "bash", "arguments": LS, "x_inside": 7}}],
    ),
    "in the legacy words": (
        whole([], function_call={"name": "bash", "arguments": LS, "x_inside": 7}),
        [{**whole_entry(LS), "function": {"name": "bash", "arguments": LS, "x_inside": 7}}],
    ),
    "arguments under another name too": (
        whole([{"id": "a", "function": {"name": "bash", "arguments": LS[:-1], "parsed_arguments": None}, **FIELDS}]),
        [whole_entry(LS, **FIELDS)],
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_fields_of_a_whole_answer_are_kept(name: str) -> None:
    answer, wanted = WHOLE[name]
    body = json.dumps(answer).encode()
    engine = Engine(Task(tools=offered(*OFFERED), seed=SEED))
    events = (*engine.feed(as_chunk(read_whole(body))), *engine.finish(done=True))
    made = rebuild(body, read_whole(body), events, OPTIONS)
    found = json.loads(made)["choices"][0]["message"]["tool_calls"]
    assert [{**each, "id": "a"} for each in found][:1] == wanted[:1]
    assert [{**each, "id": ""} for each in found] == [{**each, "id": ""} for each in wanted]
    assert (made == body) == (name == "clean")


@pytest.mark.parametrize("parsed", [False, True])
@pytest.mark.parametrize("name", ["clean", "repaired", "renamed", "in the function"])
def test_fields_in_a_stream_created_from_a_whole_answer_are_kept(name: str, parsed: bool) -> None:
    answer, wanted = WHOLE[name]
    engine = Engine(Task(tools=offered(*OFFERED) if parsed else None, seed=SEED))
    pieces = pieces_in(answer_as_stream(answer, engine, new_writer()))
    assert fields_in(pieces) == fields_in([{"index": 0, **each} for each in wanted])


@pytest.mark.parametrize("name", REPLIES)
def test_the_messages_dialect_drops_fields(name: str) -> None:
    """The Messages API has no field for them. Nothing else changes."""

    def sent(entries: list[dict[str, Any]]) -> bytes:
        writer = MessagesWriter(ReplyOptions("m"))
        stream = StreamReply(Engine(Task(tools=offered(*OFFERED), seed=SEED, ordered=True)), writer, crashed)
        given = stream.receive(bytes_that_came(entries)) + stream.finish()
        assert stream.failure is None
        return given

    entries = REPLIES[name][0]
    assert sent(entries) == sent([_bare(entry) for entry in entries])


def _bare(value: Any) -> Any:
    """Return the value without unknown fields."""
    if isinstance(value, dict):
        return {key: _bare(each) for key, each in value.items() if key not in ("extra_content", "x_inside", "x", "y")}
    if isinstance(value, list):
        return [_bare(each) for each in value]
    return value


def script(rng: random.Random, marks: list[int]) -> list[dict[str, Any]]:
    """Return one or two calls in pieces, clean or broken, each piece with an additional field."""
    said: list[dict[str, Any]] = []
    for index in range(rng.choice([1, 2])):
        text = rng.choice([LS, PWD, LS[:-1], "{'command': 'ls'}", '{"command": "a\nb"}'])
        for place, part in enumerate(random_cut(text, rng)):
            entry = piece(index, part, *(() if place else (rng.choice(["bash", "functions.bash"]), f"c{index}")))
            if rng.random() < 0.5:
                marks.append(len(marks))
                entry["x"] = {"n": marks[-1]}
            if rng.random() < 0.3:
                marks.append(len(marks))
                entry["function"]["x_inside"] = {"n": marks[-1]}
            beside: dict[str, Any] = {"content": "so"} if rng.random() < 0.2 else {}
            said.append(delta(tool_calls=[entry], **beside))
    return said


@each_case("seed", range(200))
def test_no_field_of_a_random_stream_is_lost_or_repeated(seed: int) -> None:
    rng = random.Random(seed)
    marks: list[int] = []
    entries = script(rng, marks)
    sent = relayed([*entries, delta(0, "tool_calls")], flush=rng.random() < 0.5)
    pieces = pieces_in(sent)
    assert sorted(value["n"] for _, _, value in fields_in(pieces)) == marks  # type: ignore[index]
    fields = [field for entry in entries for field in fields_in(entry["delta"]["tool_calls"])]
    wanted = {value["n"]: index for index, _, value in fields}  # type: ignore[index]
    assert {value["n"]: index for index, _, value in fields_in(pieces)} == wanted  # type: ignore[index]
    bare = pieces_in(relayed([*map(_bare, entries), delta(0, "tool_calls")]))
    assert calls_in(pieces) == calls_in(bare)
