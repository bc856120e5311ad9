"""Responses for the client: streams and whole responses.

Source: OpenAI's API reference, "Create a model response", "Streaming events".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from proxy.dialects.reply_parts import encode
from proxy.dialects.responses.output import Output, ReplyOptions
from proxy.engine.events import Event
from proxy.errors import ProxyError
from proxy.json import JsonObject, as_object, dump_strict


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
        return dump_strict(as_object(ResponsesWriter(self.options).whole(answer, events)[-1]["response"]))


class ResponsesWriter(Output):
    """Encodes internal events as the bytes of a Responses stream."""

    def __init__(self, options: ReplyOptions) -> None:
        super().__init__(options)
        self._progress = options.progress
        self._sequence = 0
        self._has_spoken = False

    def error(self, error: ProxyError) -> bytes:
        """Return `response.failed`. No `error` event follows, because Codex ignores it."""
        return self.encode(self.fail(error))

    def heartbeat(self) -> bytes:
        """Return `response.created`, then `response.in_progress` repeatedly: comments do not reset clients' timers."""
        data = self.encode([self.progress_event()])
        if not self._has_spoken:
            self._progress.begun = True
            self._progress.sequence = self._sequence
        return data

    def encode(self, events: Iterable[JsonObject]) -> bytes:
        """Encode events with their names and consecutive numbers.

        The numbers continue those of the heartbeats until the reply starts, because another attempt may have sent more.
        """
        if not self._has_spoken:
            self._sequence = self._progress.sequence
            self._has_spoken = self.spoke
        written: list[bytes] = []
        for event in events:
            event["sequence_number"] = self._sequence  # each event belongs to this stream and is sent once
            self._sequence += 1
            written.append(encode(event))
        return b"".join(written)

    def encode_deltas(self, before: bytes, texts: Sequence[bytes], after: bytes) -> bytes:
        """Encode events that differ only in text and number."""
        first, after = self._sequence, after.removesuffix(b"}\n\n") + b',"sequence_number":'
        self._sequence += len(texts)
        return b"".join([b"%b%b%b%d}\n\n" % (before, text, after, at) for at, text in enumerate(texts, first)])
