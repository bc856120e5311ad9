"""Helpers of the parser tests: tools, cuts, chunks, and a client's view of events and bytes."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from proxy.dialects.chat.client_view import CallView, ChoiceView
from proxy.engine.engine import Engine
from proxy.engine.events import (
    CallArguments,
    CallClosed,
    CallOpened,
    Chunk,
    Event,
    Failed,
    Finished,
    Reasoning,
    Rest,
    Text,
    Unchanged,
    Usage,
)
from proxy.engine.task import Task
from proxy.json import dump
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.stream import Piece
from proxy.notations.toolset import ToolSet, read_tools
from tests.support.each_case import current
from tests.support.translated import ClientReply, check_streams, value_of

RECORDINGS = Path(__file__).parents[1] / "recordings"
SEED = b"seed"
# Random cuts for each case, in addition to the whole text and all single characters. There are thousands of cases, and
# a case's length seeds its cuts.
CUTS = 2
# Units of a text that are fed one by one, and the length of the pieces around them.
STRETCH = 50
PIECE = 10

AnyText = TypeVar("AnyText", str, bytes)


def function(name: str, properties: dict[str, Any] | None = None, *required: str, **schema: Any) -> dict[str, Any]:
    """Return a tool as a request offers it."""
    parameters = {"type": "object", "properties": properties or {}, "required": list(required), **schema}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


OFFERED = (
    function(
        "bash",
        {"command": {"type": "string"}, "timeout": {"type": "integer"}, "background": {"type": "boolean"}},
        "command",
    ),
    function("read", {"path": {"type": "string"}, "limit": {"type": "integer"}}, "path"),
    function("write_file", {"path": {"type": "string"}, "content": {"type": "string"}}, "path", "content"),
    function("now"),
    function(
        "typed",
        {
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "flag": {"type": "boolean"},
            "items": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object"},
            "maybe": {"type": ["integer", "null"]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "label": {"type": "string"},
            "free": {},
        },
    ),
)


def offered(*functions: dict[str, Any]) -> ToolSet:
    """Return a set of these tools, or of the tools above if none are given."""
    return read_tools(list(functions or OFFERED))


def call_json(name: str, **arguments: Any) -> str:
    """Return a call as a JSON object."""
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def random_cut(data: AnyText, rng: random.Random) -> list[AnyText]:
    """Return the data cut at random places; some pieces may be empty."""
    places: list[int] = sorted(rng.choices(range(len(data) + 1), k=rng.randint(0, min(12, len(data) + 1))))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


def units(data: AnyText) -> list[AnyText]:
    """Return the data unit by unit. Long data is split so only in a stretch that its length chooses, to save time.

    The rest is in short pieces. With the variable TESTS_CUTS, all data is split into units.
    """
    size: int = len(data)
    stretch: range = range(size)
    if size > STRETCH and not os.environ.get("TESTS_CUTS"):
        start: int = random.Random(size).randrange(size - STRETCH)
        stretch = range(start, start + STRETCH)
    places: list[int] = [*range(0, stretch.start, PIECE), *stretch, *range(stretch.stop, size, PIECE)]
    return [data[at:to] for at, to in zip(places, [*places[1:], size], strict=False)]


def all_cuts(data: AnyText, count: int = CUTS) -> Iterator[list[AnyText]]:
    """Yield the data whole, unit by unit, and at `count` random cuts, which are the same in each run."""
    yield [data]
    yield units(data)
    rng = random.Random(len(data))
    for _ in range(count):
        yield random_cut(data, rng)


@dataclass(frozen=True)
class Scanned:
    """The result of scanning a text: its pieces with neighbouring prose joined, the prose, the calls."""

    pieces: tuple[tuple[str, object], ...]
    text: str
    calls: tuple[tuple[str, str], ...]

    @property
    def parsed(self) -> list[tuple[str, Any]]:
        """Return the calls with their arguments parsed."""
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


def new_scanner(tools: ToolSet | None = None, *, results: tuple[str, ...] = (), **options: Any) -> Reader:
    """Return a reader of replies for the offered tools. `results` are texts from which the model may copy calls."""
    tools = offered() if tools is None else tools
    return Reader(tools, Copies(tools, results), **options)


def scan(cut: Sequence[str], scanner: Reader | None = None, *, stopped: bool = True) -> Scanned:
    """Feed the pieces of a text, finish, and check that every character is in exactly one piece, in order."""
    scanner = scanner or new_scanner()
    pieces: list[Piece] = []
    for part in cut:
        pieces += scanner.feed(part)
    pieces += scanner.finish(stopped=stopped)
    return merged(pieces, "".join(cut))


def merged(pieces: Iterable[Piece], text: str) -> Scanned:
    """Join neighbouring prose. Check that the pieces make up the text, each character once and in order."""
    at, joined, prose, calls = 0, list[tuple[str, object]](), "", list[tuple[str, str]]()
    for piece in pieces:
        start, at = at, at + len(piece.text)
        assert text[start:at] == piece.text
        if piece.calls is not None:
            found = tuple((call.name, dump(call.arguments)) for call in piece.calls)
            calls += found
            joined.append((piece.row, (start, at, found)))
            continue
        assert piece.mark is None
        if not piece.text:
            continue
        prose += piece.text
        before = str(joined.pop()[1]) if joined and joined[-1][0] == "prose" else ""
        joined.append(("prose", before + piece.text))
    assert at == len(text)
    return Scanned(tuple(joined), prose, tuple(calls))


def chunk(*entries: dict[str, Any], **top: Any) -> Chunk:
    """Return an upstream chunk with these `choices`, and the bytes of its event."""
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [*entries], **top}
    return Chunk(body, event_bytes(body))


def event_bytes(body: object) -> bytes:
    """Return an event with blanks, which a re-serialized event would lack."""
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def delta(index: int = 0, finish: str | None = None, **said: Any) -> dict[str, Any]:
    """Return an entry of `choices`."""
    return {"index": index, "delta": said, "finish_reason": finish}


def says(text: str, *, choice: int = 0) -> Chunk:
    return chunk(delta(choice, content=text))


def calls(*deltas: dict[str, Any], choice: int = 0, **said: Any) -> Chunk:
    return chunk(delta(choice, tool_calls=[*deltas], **said))


def ends(reason: str | None = "stop", *, choice: int = 0) -> Chunk:
    """Return a chunk with a finish reason."""
    return chunk(delta(choice, reason))


def piece(index: int | None = 0, arguments: Any = ..., name: Any = ..., id: Any = ...) -> dict[str, Any]:
    """Return a call delta; fields that are not given are left out."""
    inside = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not ...}
    outside = {key: value for key, value in (("index", index), ("id", id)) if value is not ... and value is not None}
    return {**outside, "type": "function", "function": inside} if name is not ... else {**outside, "function": inside}


@dataclass
class Views:
    """A client's view of all choices, the end, and the usage."""

    choices: dict[int, ChoiceView] = field(default_factory=dict)
    failed: Failed | None = None
    usage: list[dict[str, Any]] = field(default_factory=list)

    def __getitem__(self, choice: int) -> ChoiceView:
        return self.choices.setdefault(choice, ChoiceView())


def flat(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events; those that passed unchanged are unpacked."""
    for event in events:
        if isinstance(event, Unchanged):
            yield from event.events
        else:
            yield event


def view(events: Iterable[Event]) -> Views:
    """Read the events as a strict client does: indexes in order, nothing after the finish (contract C5)."""
    views = Views()
    for event in flat(events):
        assert views.failed is None, f"{event} after the failure"
        if isinstance(event, Failed):
            views.failed = event
        elif isinstance(event, Usage):
            views.usage.append(dict(event.usage))
        else:
            assert not isinstance(event, Unchanged), "unchanged events cannot be nested"
            _note(views[event.choice], event)
    return views


def _note(seen: ChoiceView, event: Event) -> None:
    assert seen.finish is None, f"{event} after the finish"
    match event:
        case Text():
            seen.text += event.text
        case Reasoning():
            seen.reasoning += event.text
        case CallOpened():
            assert event.index == len(seen.tool_calls)
            assert isinstance(event.id, str) and event.id
            seen.tool_calls[event.index] = CallView(event.id, event.name)
        case CallArguments():
            seen.tool_calls[event.index].arguments += event.fragment
        case CallClosed():
            assert seen.tool_calls[event.index] == CallView(event.call.id, event.call.name, event.call.arguments)
        case Finished():
            seen.finish = event.reason
        case Rest():
            pass
        case _:
            raise AssertionError(event)


def new_engine(tools: ToolSet | None = None, **task: Any) -> Engine:
    """Return an engine with the offered tools."""
    return Engine(Task(tools=tools if tools is not None else offered(), seed=SEED, **task))


def run(chunks: Iterable[Chunk], engine: Engine | None = None, *, done: bool = True) -> list[Event]:
    """Return all events of a reply.

    For the first replies of each test, check that clients of the translating dialects get the same result
    (`translated`). The other replies are usually the same ones at other cuts.
    """
    chunks, engine = list(chunks), engine or new_engine()
    test = current()
    _SEEN[test] += 1
    if _SEEN[test] > TRANSLATED or engine._choices:  # the engine is in the middle of a reply
        return _events(chunks, engine, done)
    task = engine._task
    events = _events(chunks, engine, done)
    data = b"".join(event_bytes(each.body) for each in chunks) + (b"data: [DONE]\n\n" if done else b"")
    check_streams(data, lambda: Engine(task), _reply(events))
    return events


# The number of replies per test that are also read in the other dialects.
TRANSLATED = 1
_SEEN: Counter[str] = Counter()


def _events(chunks: Iterable[Chunk], engine: Engine, done: bool) -> list[Event]:
    events: list[Event] = []
    for each in chunks:
        events += engine.feed(each)
        if events and isinstance(events[-1], Failed):
            return events
    return [*events, *engine.finish(done=done)]


def _reply(events: list[Event]) -> ClientReply:
    views = view(events)
    only = views[0]
    calls = [(call.name, value_of(call.arguments)) for call in only.tool_calls.values()]
    return ClientReply(only.text, calls, None if views.failed else only.finish, bool(only.reasoning))


def bodies(data: bytes) -> list[Any]:
    """Return the events of a stream as a strict client reads them, with `[DONE]` as a string."""
    assert data.endswith(b"\n\n") or not data
    found = []
    for block in data.split(b"\n\n"):
        lines = [line for line in block.split(b"\n") if line and not line.startswith(b":")]
        if lines:
            (line,) = lines
            assert line.startswith(b"data: ")
            found.append("[DONE]" if line == b"data: [DONE]" else json.loads(line[6:]))
    return found


@dataclass
class Received(Views):
    """A client's view of a stream's bytes."""

    done: bool = False
    error: dict[str, Any] | None = None
    roles: int = 0


def received(data: bytes) -> Received:
    """Read a chat stream as the SDKs do; nothing may follow a finish, an error or `[DONE]` (contract C5)."""
    got = Received()
    for body in bodies(data):
        assert not got.done and got.error is None, f"{body} after the end"
        if body == "[DONE]":
            got.done = True
            continue
        got.error = body.get("error")
        if body.get("usage"):
            got.usage.append(body["usage"])
        for entry in body.get("choices", ()):
            _receive(got, entry)
    return got


def _receive(got: Received, entry: dict[str, Any]) -> None:
    seen, said = got[entry["index"]], entry["delta"]
    assert seen.finish is None, f"{entry} after the finish"
    got.roles += "role" in said
    count = len(seen.tool_calls)
    for one in said.get("tool_calls") or ():
        inside = one["function"]
        if one["index"] == count:
            assert isinstance(one["id"], str) and isinstance(inside["name"], str)
            count += 1
        else:
            assert 0 <= one["index"] < count and not one.get("id") and not inside.get("name")
        assert inside.get("arguments") is None or isinstance(inside["arguments"], str)
    assert all(isinstance(said.get(name), str | None) for name in ("content", "reasoning", "reasoning_content"))
    seen.add(said)
    seen.finish = entry.get("finish_reason") or seen.finish


def recording(name: str) -> bytes:
    """Return the bytes that a real server sent."""
    return (RECORDINGS / name).read_bytes()
