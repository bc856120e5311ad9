"""Whole answers in the client's dialect, and the answer that ends a tool-call loop (A1).

The loop guard `max_tool_calls` counts the tool results of the whole history, as the OpenClaw proxy does. It is off by
default. Its answer is a stream if the client asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.answer import as_chunk
from proxy.dialects.chat.request import ChatRequest, count_tool_results
from proxy.engine.engine import Engine, says_usage, with_thought_tokens
from proxy.engine.events import Chunk, Event, Failed, Usage
from proxy.engine.task import Task
from proxy.json import JsonObject, as_object, dump_json
from proxy.notations.thoughts import Thoughts


class Listener(Protocol):
    """An observer of a reply's events."""

    def observe(self, events: Iterable[Event]) -> None:
        """Observe the next events of the engine."""


def read_events(
    answer: JsonObject, engine: Engine, listeners: Iterable[Listener], count: Callable[[str], int] = lambda _: 0
) -> tuple[JsonObject, tuple[Event, ...]]:
    """Return a whole answer and its events.

    Its usage includes the tokens of reasoning separated from the text. `count` returns their number, or 0 if unknown.
    """
    usage = as_object(answer.get("usage"))
    chunk = as_chunk({key: value for key, value in answer.items() if key != "usage"})
    events = (*engine.feed(chunk), *engine.finish(done=True))
    for each in listeners:
        each.observe(events)
    thoughts = engine.thoughts if says_usage(Chunk({"usage": usage}, b"")) else ""
    tokens = count(thoughts) if thoughts else 0
    return ({**answer, "usage": with_thought_tokens(usage, tokens)} if tokens else answer), events


def answer_as_answer(
    body: bytes, answer: JsonObject, engine: Engine, dialect: Dialect, *listeners: Listener
) -> bytes:
    """Return a whole answer in the client's dialect, and pass its events to `listeners`.

    Raises the error of a `Failed` event.
    """
    return dialect.complete_answer(body, *read_events(answer, engine, listeners))


def answer_as_stream(answer: JsonObject, engine: Engine, writer: Writer, *listeners: Listener) -> bytes:
    """Return a whole answer as a stream, and pass its events to `listeners`.

    Raises the error of a `Failed` event.
    """
    return as_stream(*read_events(answer, engine, listeners), writer)


def as_stream(answer: JsonObject, events: Iterable[Event], writer: Writer) -> bytes:
    """Return a whole answer with these events as a stream. Raises the error of a `Failed` event."""
    writer.observe_chunk(Chunk(answer, b"", streamed=False))
    for event in events:
        if isinstance(event, Failed):
            raise event.error
    usage = answer.get("usage")
    counts = (Usage(usage),) if isinstance(usage, dict) else ()
    begun = writer.begin(len(answer["choices"]) if isinstance(answer["choices"], list) else 1)
    return begun + b"".join(writer.write(event) for event in (*events, *counts)) + writer.end()


def in_dialect(
    body: bytes, answer: JsonObject, events: tuple[Event, ...], dialect: Dialect, *, stream: bool
) -> bytes:
    """Return a whole answer with these events for the client: as a stream, or as `body` if nothing differs."""
    if stream:
        return as_stream(answer, events, dialect.writer(expand=True))
    return dialect.complete_answer(body, answer, events)


def limit_answer(request: ChatRequest, limit: int, repeat: tuple[str, int], most: int) -> JsonObject | None:
    """Return the answer that ends a tool-call loop, or None if the conversation may continue.

    A loop has `limit` or more tool results, or a call that was repeated `most` or more times. `repeat` is the tool's
    name and the number of repetitions. A limit of 0 is off.
    """
    (name, times), body = repeat, request.body
    if limit and body.get("tools") and (results := count_tool_results(body.get("messages"))) >= limit:
        text = (
            f"Tool call safety limit reached ({results} tool results, the limit is {limit}). "
            "Please start a new conversation, or raise max_tool_calls in the proxy."
        )
    elif most and times >= most:  # F92
        text = f"The call of {name} was made {times} times with the same arguments and the same result."
    else:
        return None
    return {
        "id": "chatcmpl-loop-abort",
        "object": "chat.completion",
        "created": 0,
        "model": request.model,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "logprobs": None, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def render_limit_answer(answer: JsonObject, dialect: Dialect, *, stream: bool) -> bytes:
    """Return the loop guard's answer in the client's dialect, streamed or whole."""
    # For dialects with a separate field for reasoning.
    engine = Engine(Task(tools=None, seed=b"", ordered=True, thoughts=Thoughts()))
    answer, events = read_events(answer, engine, ())
    return in_dialect(dump_json(answer), answer, events, dialect, stream=stream)
