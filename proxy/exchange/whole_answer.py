"""Whole answers in the client's dialect, and the answer that ends a tool-call loop (A1).

The loop guard `max_tool_calls` counts the tool results of the whole history, as the OpenClaw proxy does. It is off by
default. Its answer is a stream if the client asked for one.
"""

from __future__ import annotations

from collections.abc import Callable

from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.request import ChatRequest, count_tool_results
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk, Event, Unchanged, Usage
from proxy.engine.task import Task
from proxy.errors import ProxyError
from proxy.exchange.reply_stream import StreamReply
from proxy.json import JsonObject, dump_json
from proxy.notations.thoughts import Thoughts


class AnswerWriter(Writer):
    """Collects the events of a whole answer, and returns the answer in the client's dialect at the end."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._body, self._answer = b"", JsonObject()
        self._events: list[Event] = []

    def observe_chunk(self, chunk: Chunk) -> None:
        """Take the answer as the model server sent it."""
        self._body, self._answer = chunk.raw, chunk.body

    def write(self, event: Event) -> bytes:
        """Collect an event. Token counts replace those of the answer."""
        content = event.events[0] if isinstance(event, Unchanged) and event.events else event
        if not isinstance(content, Usage):
            self._events.append(event)
        elif content.usage != self._answer.get("usage"):
            self._answer = {**self._answer, "usage": {**content.usage}}
            self._body = dump_json(self._answer)
        return b""

    def end(self) -> bytes:
        """Return the answer. Raises the error of a reply that is not a success."""
        return self._writer.complete_answer(self._body, self._answer, self._events)

    def error(self, error: ProxyError) -> bytes:
        """Return b"": the error becomes an HTTP status."""
        return b""

    def heartbeat(self) -> bytes:
        """Return b"": nothing can be sent before the answer."""
        return b""


def write_answer(
    body: bytes, answer: JsonObject, engine: Engine, writer: Writer, on_crash: Callable[[Exception], None]
) -> bytes:
    """Return a whole answer as the writer encodes it. `body` are its bytes. Raises the error of a reply that failed."""
    reply = StreamReply(engine, writer, on_crash)
    reply.receive_answer(body, answer)
    written = reply.finish()
    if reply.failure is not None:
        raise reply.failure
    return written


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


def render_limit_answer(
    answer: JsonObject, dialect: Dialect, on_crash: Callable[[Exception], None], *, stream: bool
) -> bytes:
    """Return the loop guard's answer in the client's dialect, streamed or whole."""
    # For dialects with a separate field for reasoning.
    engine = Engine(Task(tools=None, ordered=True, thoughts=Thoughts()))
    writer = dialect.writer()
    return write_answer(dump_json(answer), answer, engine, writer if stream else AnswerWriter(writer), on_crash)
