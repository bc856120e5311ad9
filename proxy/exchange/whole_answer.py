"""A whole answer as the engine says it, in the client's dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject
from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.answer import as_chunk
from proxy.engine.engine import Engine, says_usage
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


def thoughts_to_count(answer: JsonObject, engine: Engine, new_engine: Callable[[], Engine]) -> str:
    """The thoughts of a whole answer, if its usage is to say how many tokens they were: it is read once more for that,
    by an engine of its own. "" if it says no usage, or none are told apart.
    """
    usage = Chunk({"usage": as_object(answer.get("usage"))}, b"")
    if not engine.may_tell(answer) or not says_usage(usage):
        return ""
    reader = new_engine()
    reader.feed(as_chunk(answer))
    reader.finish(done=True)
    return reader.thoughts


def answer_as_answer(body: bytes, answer: JsonObject, engine: Engine, dialect: Dialect, *listeners: Listener) -> bytes:
    """A whole answer as the engine says it, in the client's dialect; the `listeners` have its events.

    Raises the error of a `Failed`.
    """
    events = (*engine.feed(as_chunk(answer)), *engine.finish(done=True))
    for each in listeners:
        each.observe(events)
    return dialect.complete_answer(body, answer, events)


def answer_as_stream(answer: JsonObject, engine: Engine, writer: Writer, *listeners: Listener) -> bytes:
    """A whole answer as the stream that a client wants; the `listeners` have its events.

    Raises the error of a `Failed`.
    """
    usage = answer.get("usage")
    chunk = as_chunk({key: value for key, value in answer.items() if key != "usage"})
    writer.observe_chunk(Chunk(answer, b"", streamed=False))
    events = (*engine.feed(chunk), *engine.finish(done=True))
    for each in listeners:
        each.observe(events)
    for event in events:
        if isinstance(event, Failed):
            raise event.error
    counts = (Usage(usage),) if isinstance(usage, dict) else ()
    begun = writer.begin(len(answer["choices"]) if isinstance(answer["choices"], list) else 1)
    return begun + b"".join(writer.write(event) for event in (*events, *counts)) + writer.end()
