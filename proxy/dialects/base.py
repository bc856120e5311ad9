"""The dialects that clients speak. Each turns its request into the internal one, and internal events into its wire.

`Dialect` is the seam: the reply (`exchange/reply_stream.py`) knows nothing of a dialect but this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from proxy.codec.json_text import JsonObject
from proxy.engine.events import Chunk, Event
from proxy.engine.lane import Lane
from proxy.errors import ProxyError


class LaneTeller(Protocol):
    """Writes the texts of a lane in a dialect that says everything anew: they go on what is being said."""

    def tell(self, texts: Sequence[bytes]) -> bytes | None:
        """Texts, as they stand in strings of JSON, as events of the dialect; None if they cannot leave so."""

    def record(self, events: Iterable[Event]) -> None:
        """Keep what these texts, joined, say."""


class Writer(Protocol):
    """Internal events to the bytes of one dialect's stream."""

    @property
    def verbatim(self) -> bool:
        """True if what the upstream wrote can leave as it came."""

    def observe_chunk(self, chunk: Chunk) -> None:
        """An upstream chunk came; what is written next carries its id, model and time."""

    def begin(self, choices: int) -> bytes:
        """The bytes that open a stream of so many choices that is made from a whole answer."""

    def write(self, event: Event) -> bytes:
        """One event of the engine, in this dialect; empty if it says nothing there."""

    def passes(self, around: bytes) -> bool:
        """True if events that say a text, or a fragment of a call, leave as they came; `around` is all else of them."""

    def teller(self, lane: Lane) -> LaneTeller | None:
        """The writer of a lane's texts, if events that do not leave as they came still differ by their text alone."""

    def comment(self, raw: bytes) -> bytes:
        """An upstream event without data (a comment), as it leaves."""

    def end(self) -> bytes:
        """The bytes behind the last event of a reply that was finished. Raises a ProxyError if it is no success."""

    def error(self, error: ProxyError) -> bytes:
        """The bytes that end a stream which cannot be finished; nothing follows them."""

    def heartbeat(self) -> bytes:
        """A sign of life that changes nothing for the client."""


class Dialect(Protocol):
    """The way of one request's reply to its client."""

    @property
    def verbatim(self) -> bool:
        """True if what the upstream wrote can leave as it came."""

    @property
    def keeps(self) -> bool:
        """True if a reply is kept in a file at its end, which may block."""

    def writer(self, *, expand: bool) -> Writer:
        """A writer for one stream. `expand`: what passes is no chunk of a stream, so it is said anew."""

    def complete_answer(self, body: bytes, answer: JsonObject, events: Iterable[Event]) -> bytes:
        """A whole answer (its bytes, and parsed) as the engine's events say it; raises the error of a `Failed`."""
