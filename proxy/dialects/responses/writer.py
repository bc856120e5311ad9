"""Responses, to the client: the stream of events, and whole responses.

Source: OpenAI's API reference, "Create a model response", "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject, dump_strict
from proxy.dialects.responses.open_items import CallItem, TextItem
from proxy.dialects.responses.output import Output, ReplyOptions, call_delta_event, delta_event
from proxy.dialects.surrogates import may_hold_halves
from proxy.engine.events import CallArguments, Chunk, Event, Reasoning, Text
from proxy.engine.lane import CallTemplate, Lane
from proxy.errors import ProxyError


class _Names(dict[Json, bytes]):
    """The names of events as bytes."""

    def __missing__(self, name: Json) -> bytes:
        self[name] = encoded = str(name).encode()
        return encoded


_NAMES = _Names()


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """Responses for one request."""

    options: ReplyOptions
    verbatim: ClassVar[bool] = False

    @property
    def keeps(self) -> bool:
        """True if the response is to be kept."""
        return self.options.keep is not None

    def writer(self, *, expand: bool) -> ResponsesWriter:
        """A writer for one stream; `expand` makes no difference, for everything is said anew."""
        return ResponsesWriter(self.options)

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """A whole answer as a response; raises the error of a `Failed` event."""
        output = Output(self.options)
        output.observe_body(answer)
        for event in events:
            output.take(event)
        return dump_strict(as_object(output.end()[-1]["response"]))


class ResponsesWriter:
    """Internal events to the events of a Responses stream (dialects.Writer)."""

    verbatim = False

    def __init__(self, options: ReplyOptions) -> None:
        self._progress = options.progress
        self._sequence = 0
        self._output = Output(options)

    def observe_chunk(self, chunk: Chunk) -> None:
        """Keep the newest token counts."""
        self._output.observe_body(chunk.body)

    def passes(self, around: bytes) -> bool:
        """Nothing leaves as it came."""
        return False

    def teller(self, lane: Lane) -> ItemTeller | None:
        """The writer of a lane's texts, while they go on the item that is open."""
        template = lane.template
        if template.choice != 0:
            return None
        if isinstance(template, CallTemplate):
            call = self._output.open_function(template.index)
            return None if call is None else ItemTeller(call, call_delta_event(call, ""), self)
        item = self._output.open_text(reasoning=template.reasoning)
        return None if item is None else ItemTeller(item, delta_event(item, ""), self)

    def comment(self, raw: bytes) -> bytes:
        """Comments do not pass: this dialect has none."""
        return b""

    def begin(self, choices: int) -> bytes:
        """Nothing: the response starts with what it says."""
        return b""

    def write(self, event: Event) -> bytes:
        """One event of the engine as events of the stream."""
        if not self._output.spoke:
            self._go_on()
        return self._encode(self._output.take(event))

    def end(self) -> bytes:
        """The end of a response that was finished; a ProxyError if it cannot be one."""
        self._go_on()
        return self._encode(self._output.end())

    def error(self, error: ProxyError) -> bytes:
        """`response.failed`, and nothing behind it. An `error` event would be passed over by Codex."""
        self._go_on()
        return self._encode(self._output.fail(error))

    def heartbeat(self) -> bytes:
        """`response.created`, then `response.in_progress` again and again: comments reset no client's timer."""
        self._go_on()
        data = self._encode([self._output.heartbeat()])
        if not self._output.spoke:
            self._progress.begun = True
            self._progress.sequence = self._sequence
        return data

    def _go_on(self) -> None:
        """Until the reply speaks its numbers go on from the heartbeats of all tries: another one may have failed since
        this one's end was kept back.
        """
        if not self._output.spoke:
            self._sequence = self._progress.sequence

    def take_numbers(self, count: int) -> int:
        """The number of the first of so many events."""
        first = self._sequence
        self._sequence += count
        return first

    def _encode(self, events: Iterable[JsonObject]) -> bytes:
        """Events with their names and numbers, of which none is left out."""
        written: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._sequence  # each event is made for this stream, and said once
            written.append(b"event: %b\ndata: %b\n\n" % (_NAMES[event["type"]], dump_strict(event)))
            self._sequence += 1
        return b"".join(written)


class ItemTeller:
    """Texts of a lane as the deltas of an item that is open, which differ by text and number alone; `event` is one."""

    def __init__(self, item: TextItem | CallItem, event: JsonObject, writer: ResponsesWriter) -> None:
        self._item = item
        self._writer = writer
        before, delta, after = dump_strict(event).partition(b'"delta":"')
        self._before = b"event: %b\ndata: %b%b" % (_NAMES[event["type"]], before, delta)
        self._after = after[:-1] + b',"sequence_number":'

    def tell(self, texts: Sequence[bytes]) -> bytes | None:
        """These texts, as they stand in strings of JSON, as events; None where in arguments an escape may be half a
        character.
        """
        if isinstance(self._item, CallItem) and may_hold_halves(texts):
            return None
        first = self._writer.take_numbers(len(texts))
        before, after = self._before, self._after
        return b"".join([b"%b%b%b%d}\n\n" % (before, text, after, at) for at, text in enumerate(texts, first)])

    def record(self, events: Iterable[Event]) -> None:
        """Keep what these texts say, for the end of the item."""
        for event in events:
            match event:
                case Text() | Reasoning():
                    self._item.deltas.append(event.text)
                case CallArguments():
                    self._item.deltas.append(event.fragment)
