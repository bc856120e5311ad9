"""Responses to the client: streams and whole responses.

Source: OpenAI's API reference, "Create a model response", "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_strict
from proxy.dialects.reply_parts import TranslatedWriter, may_hold_halves
from proxy.dialects.responses.output import CallItem, Output, ReplyOptions, TextItem
from proxy.engine.events import CallArguments, Event, Reasoning, Text
from proxy.engine.lane import CallTemplate, Lane
from proxy.errors import ProxyError


@dataclass(frozen=True, slots=True)
class ResponsesDialect:
    """Responses for one request."""

    options: ReplyOptions
    verbatim: ClassVar[bool] = False

    @property
    def keeps(self) -> bool:
        """Whether the response is stored."""
        return self.options.keep is not None

    def writer(self, *, expand: bool) -> ResponsesWriter:
        """Return a writer for one stream. `expand` has no effect: every event is encoded anyway."""
        return ResponsesWriter(self.options)

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer as a response. Raises the error of a `Failed` event."""
        output = Output(self.options)
        output.observe_body(answer)
        for event in events:
            output.take(event)
        return dump_strict(as_object(output.end()[-1]["response"]))


class ResponsesWriter(TranslatedWriter):
    """Internal events to the bytes of a Responses stream."""

    def __init__(self, options: ReplyOptions) -> None:
        self._output = Output(options)
        super().__init__(self._output)
        self._progress = options.progress
        self._sequence = 0
        self._has_spoken = False

    def teller(self, lane: Lane) -> ItemTeller | None:
        """Return the writer of a lane's texts, while they continue the open item."""
        template = lane.template
        if template.choice != 0:
            return None
        item: TextItem | CallItem | None
        if isinstance(template, CallTemplate):
            item = self._output.open_function(template.index)
        else:
            item = self._output.open_text(reasoning=template.reasoning)
        return None if item is None else ItemTeller(item, self)

    def error(self, error: ProxyError) -> bytes:
        """Return `response.failed`, and nothing after it: Codex ignores an `error` event."""
        return self.encode(self._output.fail(error))

    def heartbeat(self) -> bytes:
        """Return `response.created`, then `response.in_progress` repeatedly: comments reset no client's timer."""
        data = self.encode([self._output.heartbeat()])
        if not self._has_spoken:
            self._progress.begun = True
            self._progress.sequence = self._sequence
        return data

    def take_numbers(self, count: int) -> int:
        """Return the first of the next `count` sequence numbers."""
        first = self._sequence
        self._sequence += count
        return first

    def encode(self, events: Iterable[JsonObject]) -> bytes:
        """Return events with their names and numbers, without gaps.

        The numbers continue those of the heartbeats until the reply begins: another try may have sent more.
        """
        if not self._has_spoken:
            self._sequence = self._progress.sequence
            self._has_spoken = self._output.spoke
        written: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._sequence  # each event is made for this stream, and sent once
            self._sequence += 1
            written.append(b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), dump_strict(event)))
        return b"".join(written)


class ItemTeller:
    """Texts of a lane as deltas of the open item, which differ only in text and number."""

    def __init__(self, item: TextItem | CallItem, writer: ResponsesWriter) -> None:
        self._item = item
        self._writer = writer
        event = item.delta("")
        before, delta, after = dump_strict(event).partition(b'"delta":"')
        self._before = b"event: %b\ndata: %b%b" % (str(event["type"]).encode(), before, delta)
        self._after = after[:-1] + b',"sequence_number":'

    def tell(self, texts: Sequence[bytes]) -> bytes | None:
        """Return these texts, as they are in strings of JSON, as events.

        None if an escape in arguments may be half a character.
        """
        if isinstance(self._item, CallItem) and may_hold_halves(texts):
            return None
        first = self._writer.take_numbers(len(texts))
        before, after = self._before, self._after
        return b"".join([b"%b%b%b%d}\n\n" % (before, text, after, at) for at, text in enumerate(texts, first)])

    def record(self, events: Iterable[Event]) -> None:
        """Keep what these texts say, for the end of the item."""
        for event in events:
            if isinstance(event, Text | Reasoning):
                self._item.deltas.append(event.text)
            elif isinstance(event, CallArguments):
                self._item.deltas.append(event.fragment)
