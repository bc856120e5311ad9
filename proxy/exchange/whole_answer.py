"""A whole answer as the engine says it, in the client's dialect; and the one that ends a loop (A1).

The loop guard of the OpenClaw proxy's users counts the tool results of the whole history, so it is off unless
`max_tool_calls` is set. Its answer comes in the client's own mode: as a stream if it asked for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_json
from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.answer import as_chunk
from proxy.dialects.chat.request import ChatRequest, count_tool_results
from proxy.engine.engine import Engine, says_usage, with_thought_tokens
from proxy.engine.events import Chunk, Event, Failed, Usage
from proxy.engine.task import Task
from proxy.notations.thoughts import Thoughts


class Listener(Protocol):
    """An observer of a reply's events."""

    def observe(self, events: Iterable[Event]) -> None:
        """Listen to what the engine says."""


def unrepaired() -> Engine:
    """An engine that only says what the server says, for dialects in which thoughts stand apart."""
    return Engine(Task(tools=None, seed=b"", ordered=True, thoughts=Thoughts()))


def _read(
    answer: JsonObject, engine: Engine, count: Callable[[str], int], listeners: Iterable[Listener]
) -> tuple[JsonObject, tuple[Event, ...]]:
    """Return a whole answer, whose usage includes the `count` of the reasoning that was in its text, and its events."""
    usage = as_object(answer.get("usage"))
    chunk = as_chunk({key: value for key, value in answer.items() if key != "usage"})
    events = (*engine.feed(chunk), *engine.finish(done=True))
    for each in listeners:
        each.observe(events)
    thoughts = engine.thoughts if says_usage(Chunk({"usage": usage}, b"")) else ""
    tokens = count(thoughts) if thoughts else 0
    return ({**answer, "usage": with_thought_tokens(usage, tokens)} if tokens else answer), events


def count_nothing(thoughts: str) -> int:
    """Count no tokens."""
    return 0


def answer_as_answer(
    body: bytes,
    answer: JsonObject,
    engine: Engine,
    dialect: Dialect,
    *listeners: Listener,
    count: Callable[[str], int] = count_nothing,
) -> bytes:
    """A whole answer as the engine says it, in the client's dialect; the `listeners` have its events.

    Raises the error of a `Failed`.
    """
    counted, events = _read(answer, engine, count, listeners)
    return dialect.complete_answer(body if counted is answer else dump_json(counted), counted, events)


def answer_as_stream(
    answer: JsonObject,
    engine: Engine,
    writer: Writer,
    *listeners: Listener,
    count: Callable[[str], int] = count_nothing,
) -> bytes:
    """A whole answer as the stream that a client wants; the `listeners` have its events.

    Raises the error of a `Failed`.
    """
    answer, events = _read(answer, engine, count, listeners)
    writer.observe_chunk(Chunk(answer, b"", streamed=False))
    for event in events:
        if isinstance(event, Failed):
            raise event.error
    usage = answer.get("usage")
    counts = (Usage(usage),) if isinstance(usage, dict) else ()
    begun = writer.begin(len(answer["choices"]) if isinstance(answer["choices"], list) else 1)
    return begun + b"".join(writer.write(event) for event in (*events, *counts)) + writer.end()


def limit_answer(
    request: ChatRequest, limit: int, repeat: tuple[str, int] = ("", 0), most: int = 0
) -> JsonObject | None:
    """The whole answer that ends the conversation, or None if it may go on: more than the `limit` of results, or a call
    (its tool's name, and how often it was made with this result) that repeats too often. 0 is off.
    """
    text = _too_many(request, limit) or _too_often(repeat, most)
    if not text:
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


def _too_many(request: ChatRequest, limit: int) -> str:
    if not limit or not request.body.get("tools"):
        return ""
    count = count_tool_results(request.body.get("messages"))
    if count < limit:
        return ""
    return (
        f"Tool call safety limit reached ({count} tool results, the limit is {limit}). "
        "Please start a new conversation, or raise max_tool_calls in the proxy."
    )


def _too_often(repeat: tuple[str, int], most: int) -> str:
    """The error message for a call that repeats (F92)."""
    name, count = repeat
    if not most or count < most:
        return ""
    return f"The call of {name} was made {count} times with the same arguments and the same result."


def render_limit_answer(answer: JsonObject, dialect: Dialect, *, stream: bool) -> bytes:
    """The guard's answer in the client's dialect, as the stream that it asked for, or whole."""
    if stream:
        return answer_as_stream(answer, unrepaired(), dialect.writer(expand=True))
    return answer_as_answer(dump_json(answer), answer, unrepaired(), dialect)
