"""Server-sent events without I/O: bytes to events and back.

The decoder follows the WHATWG rules (HTML standard, 9.2.6 "Interpreting an event stream"): lines end with LF, CR or
CRLF, one leading BOM is skipped, comment lines begin with a colon, several `data` lines are joined by LF. Beyond the
rules, an event at the end of the stream counts although its blank line is missing (F66), and every event keeps the
bytes that it came as, so that what nobody changes leaves as it came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from proxy.errors import LimitExceeded
from proxy.limits import MAX_EVENT
from proxy.transitions import next_state

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
# A blank line, as far as it can be told from the bytes alone: after CRLF or LF a lone CR may still turn out to be
# the first half of CRLF, so its next byte is awaited; after a lone CR it is taken for what it looks like, because a
# CR-only stream would otherwise always lag one event behind.
_BLANK_LINE = re.compile(rb"(?:\r\n|\n)(?:\r\n|\n|\r(?=[^\n]))|\r\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One block of the stream: `raw` as it came; `data` is None for a block of comments or empty lines only."""

    raw: bytes
    data: bytes | None
    name: str = ""


class DecoderState(Enum):
    """The stage of a stream's decoding."""

    # No event has come: a BOM may stand before it.
    FIRST = auto()
    # An event has come, or its beginning.
    LATER = auto()
    # An event was too long: where the next one begins is not known.
    TOO_LONG = auto()
    # The stream has ended.
    FINISHED = auto()


class DecoderStep(Enum):
    """A step of the decoding."""

    # An event is whole.
    EVENT = auto()
    # An event has more bytes than are allowed.
    OVERFLOW = auto()
    # The stream ends.
    END = auto()


TRANSITIONS: dict[DecoderState, dict[DecoderStep, DecoderState]] = {
    DecoderState.FIRST: {
        DecoderStep.EVENT: DecoderState.LATER,
        DecoderStep.OVERFLOW: DecoderState.TOO_LONG,
        DecoderStep.END: DecoderState.FINISHED,
    },
    DecoderState.LATER: {
        DecoderStep.OVERFLOW: DecoderState.TOO_LONG,
        DecoderStep.END: DecoderState.FINISHED,
    },
    DecoderState.TOO_LONG: {
        DecoderStep.END: DecoderState.TOO_LONG,
    },
    DecoderState.FINISHED: {
        DecoderStep.END: DecoderState.FINISHED,
    },
}


# Each event asks for these.
_FIRST, _LATER = DecoderState.FIRST, DecoderState.LATER


class Decoder:
    """Bytes in any cut to events; equal results at every cut.

    `max_event` limits the bytes of one event; a longer one raises LimitExceeded.
    """

    __slots__ = ("_buffer", "_line_feeds_only", "_max_event", "_searched", "_state")

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._state = _FIRST
        self._line_feeds_only = True
        self._max_event = max_event

    @property
    def waiting(self) -> int:
        """The bytes of an event that has not ended."""
        return len(self._buffer)

    @property
    def between_events(self) -> bool:
        """True if the next byte begins an event that is not the first one."""
        return self._state is _LATER and not self._buffer

    def feed(self, data: bytes) -> tuple[ServerSentEvent, ...]:
        """Take the next bytes; give the events that they complete."""
        if self._state is DecoderState.FINISHED:
            raise ValueError("feed after finish")
        if self._state is DecoderState.TOO_LONG:
            raise LimitExceeded("max_event", self._max_event)
        buffer = self._buffer
        buffer += data
        self._line_feeds_only = self._line_feeds_only and b"\r" not in data
        events = []
        start = 0
        while end := self._boundary():
            if end - start > self._max_event:
                break
            events.append(self._event(bytes(buffer[start:end])))
            start = self._searched = end
        if start:
            del buffer[:start]
        # Events that were whole before are given first; the next call says it.
        if end - start > self._max_event or len(buffer) > self._max_event:
            self._move(DecoderStep.OVERFLOW)
            if not events:
                raise LimitExceeded("max_event", self._max_event)
        # The longest boundary is four bytes: it may have begun in the last three.
        self._searched = max(0, len(buffer) - 3)
        return tuple(events)

    def finish(self) -> tuple[ServerSentEvent, ...]:
        """Say that the stream ended; give the event that lacked its blank line, if there is one, completed."""
        raw = bytes(self._buffer)
        self._buffer.clear()
        if self._state is DecoderState.TOO_LONG:
            raise LimitExceeded("max_event", self._max_event)
        events: tuple[ServerSentEvent, ...] = ()
        if raw.strip(b"\r\n"):
            # After a lone CR, one LF would only make a CRLF of it.
            ending = b"\n" if raw.endswith(b"\n") else b"\n\n"
            events = (self._event(raw + ending),)
        self._move(DecoderStep.END)
        return events

    def _move(self, step: DecoderStep) -> None:
        self._state = next_state(TRANSITIONS, self._state, step)

    def _boundary(self) -> int:
        """The position after the next blank line, or 0."""
        if self._line_feeds_only:
            at = self._buffer.find(b"\n\n", self._searched)
            return at + 2 if at >= 0 else 0
        match = _BLANK_LINE.search(self._buffer, self._searched)
        return match.end() if match else 0

    def _event(self, raw: bytes) -> ServerSentEvent:
        text = raw
        if self._state is _FIRST:
            self._move(DecoderStep.EVENT)
            text = raw.removeprefix(_BOM)
        # Nearly every event of every model server: one data line.
        simple = text.startswith(b"data: ") and text.find(b"\n") == len(text) - 2 and b"\r" not in text
        if simple and text.endswith(b"\n\n"):
            return ServerSentEvent(raw, text[6:-2])
        return _parse(raw, text)


def _parse(raw: bytes, text: bytes) -> ServerSentEvent:
    data: list[bytes] = []
    name = ""
    for line in _LINE_END.split(text):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return ServerSentEvent(raw, b"\n".join(data) if data else None, name)


def encode(data: bytes, name: str = "") -> bytes:
    """One event as bytes: `data` may hold line ends; `name` becomes its `event` field."""
    head = b""
    if name:
        head = f"event: {name}\n".encode()
    lines = b"".join(b"data: %b\n" % line for line in _LINE_END.split(data))
    return head + lines + b"\n"


def comment(text: str) -> bytes:
    """A comment, which every client skips: `text` must be one line."""
    return f": {text}\n\n".encode()
