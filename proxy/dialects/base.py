"""The interface of the dialects. Each translates its requests to chat requests, and internal events to its own.

`exchange/reply_stream.py` knows nothing else of a dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from proxy.codec.json_text import JsonObject
from proxy.engine.events import Chunk, Event
from proxy.engine.lane import Lane
from proxy.errors import ProxyError


class LaneTeller(Protocol):
    """Writes the text of a lane in a dialect that encodes every event; it continues an open block or item."""

    def tell(self, texts: Sequence[bytes]) -> bytes | None:
        """Return texts, as they are in strings of JSON, as events of the dialect; None if they cannot be sent so."""

    def record(self, events: Iterable[Event]) -> None:
        """Keep what these texts, joined, say."""


class Writer(ABC):
    """Internal events to the bytes of one dialect's stream."""

    __slots__ = ()
    # Whether upstream events may be sent unchanged.
    verbatim: ClassVar[bool] = False

    @abstractmethod
    def observe_chunk(self, chunk: Chunk) -> None:
        """Take an upstream chunk: the next events have its id, model and time."""

    def begin(self, choices: int) -> bytes:
        """Return the start of a stream of this many choices that is made from a whole answer."""
        return b""

    @abstractmethod
    def write(self, event: Event) -> bytes:
        """Return one event of the engine in this dialect; empty if it has none for it."""

    def passes(self, around: bytes) -> bool:
        """Return whether events with text or arguments are sent unchanged; `around` is all else in them."""
        return False

    def teller(self, lane: Lane) -> LaneTeller | None:
        """Return the writer of a lane's text, or None if more than the text differs between encoded events."""
        return None

    def comment(self, raw: bytes) -> bytes:
        """Return an upstream comment as it is sent."""
        return b""

    @abstractmethod
    def end(self) -> bytes:
        """Return the end of a finished reply. Raises a ProxyError if it is not a success."""

    @abstractmethod
    def error(self, error: ProxyError) -> bytes:
        """Return the end of a stream that cannot be finished; nothing follows."""

    @abstractmethod
    def heartbeat(self) -> bytes:
        """Return a sign of life that changes nothing for the client."""


class Dialect(Protocol):
    """The dialect of one request's client."""

    @property
    def verbatim(self) -> bool:
        """Whether upstream events may be sent unchanged."""

    @property
    def keeps(self) -> bool:
        """Whether the reply is stored in a file at its end, which may block."""

    def writer(self, *, expand: bool) -> Writer:
        """Return a writer for one stream. `expand`: encode unchanged events, too; they did not arrive as chunks."""

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """Return a whole answer (its bytes, and parsed) with the engine's events; raise the error of a `Failed`."""
