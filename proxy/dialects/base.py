"""The interface of the dialects. Each translates its requests to chat requests, and internal events to its wire format.

`exchange/reply_stream.py` uses a dialect only through this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from proxy.engine.events import Chunk, Event
from proxy.engine.lane import Lane
from proxy.errors import ProxyError
from proxy.json import JsonObject

# The fields in which servers send reasoning (F73).
REASONING_FIELDS = ("reasoning", "reasoning_content")

# Encodes JSON-escaped texts of a lane as further events of the open block or item. Returns None if that is impossible.
LaneEncoder: TypeAlias = Callable[[Sequence[bytes]], bytes | None]


class Writer(ABC):
    """Encodes internal events as the bytes of one dialect: a stream, or a whole answer."""

    # Whether upstream events may be sent unchanged.
    verbatim: ClassVar[bool] = False

    @abstractmethod
    def observe_chunk(self, chunk: Chunk) -> None:
        """Receive an upstream chunk. The next events have its id, model and time."""

    def begin(self, choices: int) -> bytes:
        """Return the start of a stream with this many choices that is made from a whole answer."""
        return b""

    @abstractmethod
    def write(self, event: Event) -> bytes:
        """Return the bytes of an engine event; empty if the dialect does not send it."""

    def passes(self, around: bytes) -> bool:
        """Return whether events with text or arguments are sent unchanged; `around` is the rest of their bytes."""
        return False

    def lane_encoder(self, lane: Lane) -> LaneEncoder | None:
        """Return the encoder of a lane's text, or None if encoded events differ in more than the text."""
        return None

    def keep(self, event: Event) -> None:
        """Keep an event whose text the lane encoder has sent, in pieces."""
        raise NotImplementedError

    def comment(self, raw: bytes) -> bytes:
        """Return the bytes to send for an upstream comment."""
        return b""

    @abstractmethod
    def end(self) -> bytes:
        """Return the end of a finished reply. Raises a ProxyError if the reply is not a success."""

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer, changed by all of its events. `body` are its bytes, `answer` is the parsed body.

        Raises the error of a `Failed` event.
        """
        raise NotImplementedError

    @abstractmethod
    def error(self, error: ProxyError) -> bytes:
        """Return the end of a stream that cannot be finished. Nothing may follow."""

    @abstractmethod
    def heartbeat(self) -> bytes:
        """Return bytes that keep the connection alive without any effect on the client."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The dialect of one request's client.

    `writer` returns a writer for one reply. `verbatim`: upstream events may be sent unchanged. `keeps`: the finished
    reply is stored in a file, which may block.
    """

    writer: Callable[[], Writer]
    verbatim: bool = False
    keeps: bool = False
