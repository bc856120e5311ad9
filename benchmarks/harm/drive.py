"""Driver of the proxy's engine: sends a reply, streamed in random pieces or whole, and collects the client's view."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from random import Random
from typing import Any

from benchmarks.harm.offers import Offer
from proxy.config.rules import parse_rules
from proxy.engine.engine import Engine
from proxy.engine.events import CallArguments, CallOpened, Chunk, Event, Failed, Finished, Text, Unchanged
from proxy.engine.task import Task
from proxy.notations.toolset import read_tools
from proxy.repair.policy import Policy

_MOST_PIECES = 12


@dataclass(frozen=True, slots=True)
class Reply:
    """A model server's reply: text, or structured calls (name and arguments as text), and the finish reason.

    `results` are the tool results before it. `numbers` are the indexes of the chunks with the calls' names, if they
    differ from the calls' own.
    """

    text: str
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = "stop"
    # Random source for splitting a stream; None for a whole response.
    cuts: Random | None = None
    results: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(slots=True)
class Left:
    """The proxy's output."""

    text: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    finish: str = ""
    failed: str = ""
    # Unexpected exception from the engine.
    crashed: str = ""
    repairs: tuple[str, ...] = ()

    @property
    def calls(self) -> list[tuple[str, str]]:
        """The calls: name and arguments as text."""
        return list(zip(self.names, self.arguments, strict=True))


@cache
def policy() -> Policy:
    """Return the policy of the built-in rules."""
    return parse_rules(files("proxy").joinpath("rules.yaml").read_bytes(), "built-in").policy("model")


def answered(offers: Sequence[Offer], reply: Reply) -> Left:
    """Return the client's view of the reply to a request with these tools."""
    tools = read_tools([offer.as_tool() for offer in offers])
    engine = Engine(Task(tools=tools, seed=b"harm", policy=policy(), sources=reply.results))
    left = Left()
    try:
        for event in _events(engine, reply):
            _note(left, event)
    except Exception as error:  # as at the proxy's own outermost boundary
        left.crashed = f"{type(error).__name__}: {error}"
    left.repairs = tuple(repair.id for repair in engine.audit)
    return left


def _events(engine: Engine, reply: Reply) -> Iterator[Event]:
    for body in _bodies(reply):
        if reply.cuts is None:
            given: Sequence[Event] = engine.feed(Chunk(body, b""))
        else:
            given = engine.feed(Chunk(body, b"data: " + json.dumps(body).encode() + b"\n\n"))
        yield from given
        if given and isinstance(given[-1], Failed):
            return
    yield from engine.finish(done=True)


def _bodies(reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a stream, or the single body of a whole response."""
    if reply.cuts is None:
        said: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            said["tool_calls"] = [_delta(at, name, text) for at, (name, text) in enumerate(reply.calls)]
        yield _body(said, reply.finish)
        return
    yield _body({"role": "assistant", "content": ""})
    yield from (_body({"content": piece}) for piece in _cut(reply.text, reply.cuts))
    for at, (name, text) in enumerate(reply.calls):
        yield _body({"tool_calls": [{**_delta(at, name, ""), "index": reply.numbers[at] if reply.numbers else at}]})
        for piece in _cut(text, reply.cuts):
            yield _body({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    yield _body({}, reply.finish)


def _delta(index: int, name: str, text: str) -> dict[str, Any]:
    return {
        "index": index,
        "id": f"call_{index}abcdefgh",
        "type": "function",
        "function": {"name": name, "arguments": text},
    }


def _body(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    entry = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "model", "choices": [entry]}


def _cut(text: str, rng: Random) -> Iterable[str]:
    """Return the text in pieces: by character, by token, or at random positions."""
    if not text:
        return []
    size = rng.choice((1, 3, 0, 0))
    if size and len(text) <= 400:
        return [text[at : at + size] for at in range(0, len(text), size)]
    places = sorted(rng.sample(range(1, len(text)), min(len(text) - 1, rng.randint(0, _MOST_PIECES))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def _note(left: Left, event: Event) -> None:
    match event:
        case Unchanged():
            for inner in event.events:
                _note(left, inner)
        case Text():
            left.text += event.text
        case CallOpened():
            left.names.append(event.name)
            left.arguments.append("")
        case CallArguments():
            left.arguments[event.index] += event.fragment
        case Finished():
            left.finish = event.reason
        case Failed():
            left.failed = str(event.error) or type(event.error).__name__
