"""Responses, to the client: the stream of events, and whole responses.

Source: OpenAI's API reference, "Create a model response", "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from proxy.codec.json_text import Json, JsonObject, dump_strict
from proxy.dialects.responses.output import Output, ReplyOptions
from proxy.engine.events import Chunk, Event
from proxy.errors import ProxyError


class _Names(dict[Json, bytes]):
    """The names of events as bytes."""

    def __missing__(self, name: Json) -> bytes:
        self[name] = known = str(name).encode()
        return known


_NAMES = _Names()


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """Responses for one request."""

    asked: ReplyOptions
    verbatim: ClassVar[bool] = False

    def writer(self, *, expand: bool) -> ResponsesWriter:
        """A writer for one stream; `expand` makes no difference, for everything is said anew."""
        return ResponsesWriter(self.asked)

    def whole(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """A whole answer as a response; raises the error of a `Failed` event, and NotKept."""
        output = Output(self.asked)
        output.see(answer)
        for event in events:
            output.take(event)
        response = output.end()[-1]["response"]
        if output.not_kept is not None:
            raise output.not_kept
        return dump_strict(response)


class ResponsesWriter:
    """Internal events to the events of a Responses stream (dialects.Writer)."""

    verbatim = False

    def __init__(self, asked: ReplyOptions) -> None:
        self._progress = asked.progress
        self._sequence = asked.progress.sequence
        self._output = Output(asked)

    def see(self, chunk: Chunk) -> None:
        """Keep the newest token counts."""
        self._output.see(chunk.body)

    def passes(self, around: bytes) -> bool:
        """Nothing leaves as it came."""
        return False

    def comment(self, raw: bytes) -> bytes:
        """Comments do not pass: this dialect has none."""
        return b""

    def begin(self, choices: int) -> bytes:
        """Nothing: the response starts with what it says."""
        return b""

    def write(self, event: Event) -> bytes:
        """One event of the engine as events of the stream."""
        return self._encode(self._output.take(event))

    def end(self) -> bytes:
        """The end of a response that was finished; a ProxyError if it cannot be one."""
        return self._encode(self._output.end())

    def error(self, error: ProxyError) -> bytes:
        """`response.failed`, and nothing behind it. An `error` event would be passed over by Codex."""
        return self._encode(self._output.fail(error))

    def heartbeat(self) -> bytes:
        """`response.created`, then `response.in_progress` again and again: comments reset no client's timer."""
        given = self._encode([self._output.heartbeat()])
        if not self._output.spoke:
            self._progress.begun = True
            self._progress.sequence = self._sequence
        return given

    def _encode(self, events: Iterable[JsonObject]) -> bytes:
        """Events with their names and numbers, of which none is left out."""
        given: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._sequence  # each event is made for this stream, and said once
            given.append(b"event: %b\ndata: %b\n\n" % (_NAMES[event["type"]], dump_strict(event)))
            self._sequence += 1
        return b"".join(given)
