"""Server-sent events without I/O: bytes to events and back.

The decoder follows the WHATWG rules (HTML standard, 9.2.6 "Interpreting an event stream"): lines end with LF, CR or
CRLF, one leading BOM is skipped, comment lines begin with a colon, several `data` lines are joined by LF. Unlike the
standard, the decoder accepts a last event without its blank line (F66). Every event keeps its bytes, so that unmodified
events are forwarded verbatim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.errors import LimitExceeded
from proxy.limits import MAX_EVENT

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")
# A blank line. A CR after CRLF or LF may be the first half of a CRLF, so the next byte decides. A CR after a lone CR
# counts immediately, because a CR-only stream would otherwise lag one event behind.
_BLANK_LINE = re.compile(rb"(?:\r\n|\n)(?:\r\n|\n|\r(?=[^\n]))|\r\r")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One block of the stream: its bytes, and its `data`, which is None if it has only comments or empty lines."""

    raw: bytes
    data: bytes | None


class Decoder:
    """Incremental SSE decoder. The result does not depend on how the bytes are split.

    Raises LimitExceeded for an event of more than `max_event` bytes, and at every later call: that event stays in the
    buffer.
    """

    __slots__ = ("_buffer", "_is_first", "_line_feeds_only", "_max_event", "_searched")

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._buffer = bytearray()
        self._searched = 0
        # The first event may begin with a BOM.
        self._is_first = True
        self._line_feeds_only = True
        self._max_event = max_event

    @property
    def waiting(self) -> int:
        """The number of buffered bytes of an incomplete event."""
        return len(self._buffer)

    @property
    def between_events(self) -> bool:
        """Whether the next byte starts an event other than the first."""
        return not self._is_first and not self._buffer

    def feed(self, data: bytes) -> tuple[ServerSentEvent, ...]:
        """Return the events that the next bytes complete. Raises LimitExceeded."""
        buffer = self._buffer
        if len(buffer) > self._max_event:
            raise LimitExceeded("max_event", self._max_event)
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
        # Complete events are returned first; the next call raises.
        if len(buffer) > self._max_event and not events:
            raise LimitExceeded("max_event", self._max_event)
        # A boundary of up to four bytes may start in the last three.
        self._searched = max(0, len(buffer) - 3)
        return tuple(events)

    def finish(self) -> tuple[ServerSentEvent, ...]:
        """End the stream. Return its last event, completed, if only its blank line was missing."""
        raw = bytes(self._buffer)
        if len(raw) > self._max_event:
            raise LimitExceeded("max_event", self._max_event)
        self._buffer.clear()
        if not raw.strip(b"\r\n"):
            return ()
        # One LF after a lone CR would only turn it into CRLF.
        ending = b"\n" if raw.endswith(b"\n") else b"\n\n"
        return (self._event(raw + ending),)

    def _boundary(self) -> int:
        """Return the position after the next blank line, or 0."""
        if self._line_feeds_only:
            at = self._buffer.find(b"\n\n", self._searched)
            return at + 2 if at >= 0 else 0
        match = _BLANK_LINE.search(self._buffer, self._searched)
        return match.end() if match else 0

    def _event(self, raw: bytes) -> ServerSentEvent:
        text = raw
        if self._is_first:
            self._is_first = False
            text = raw.removeprefix(_BOM)
        # Fast path for nearly every event: one data line.
        simple = text.startswith(b"data: ") and text.find(b"\n") == len(text) - 2 and b"\r" not in text
        if simple and text.endswith(b"\n\n"):
            return ServerSentEvent(raw, text[6:-2])
        return _parse(raw, text)


def _parse(raw: bytes, text: bytes) -> ServerSentEvent:
    data: list[bytes] = []
    for line in _LINE_END.split(text):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
    return ServerSentEvent(raw, b"\n".join(data) if data else None)


def encode(data: bytes) -> bytes:
    """Return an event as bytes. `data` may have several lines."""
    return b"".join(b"data: %b\n" % line for line in _LINE_END.split(data)) + b"\n"
