"""Replies that are only observed: they leave as if the proxy were not there, while the engine reads along."""

from __future__ import annotations

from collections.abc import Callable

from proxy.codec import sse
from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.writer import DONE
from proxy.errors import LimitExceeded, ProxyError
from proxy.exchange.reply_stream import LONG, StreamReply, never_enough
from proxy.exchange.second_try import EarlierTry, Why
from proxy.exchange.whole_answer import unrepaired
from proxy.limits import MAX_EVENT


class VerbatimReply:
    """A streamed reply that leaves as it came, event by event, comments included.

    An event is given when it is whole, so that a heartbeat of the `writer` never falls into one.
    """

    held = False
    swallowed = False

    def __init__(self, writer: Writer, *, max_event: int = MAX_EVENT) -> None:
        self._writer = writer
        self._decoder = sse.Decoder(max_event)
        # True once an event was too long: from there on no ends of events are looked for.
        self._over = False
        self._pending = bytearray()
        self.done = False
        self.started = False
        self.failure: ProxyError | None = None

    def receive(self, data: bytes) -> bytes:
        """Bytes of the upstream's body to the same bytes, up to the end of an event."""
        self._pending += data
        end = self._end(data)
        events = bytes(self._pending[:end])
        del self._pending[:end]
        if events:
            self.started = True
        return events

    def finish(self) -> bytes:
        """The upstream's body ended properly: what is left of it, whatever it is."""
        rest = bytes(self._pending)
        self._pending.clear()
        return rest

    def release(self) -> bytes:
        """Nothing is ever held."""
        return b""

    def flush_prose(self) -> bytes:
        """Nothing is ever held."""
        return b""

    def let_go(self) -> bytes:
        """Nothing is ever held."""
        return b""

    def heartbeat(self) -> bytes:
        """A sign of life; none where it could fall into an event."""
        return b"" if self._over else self._writer.heartbeat()

    def fail(self, error: ProxyError) -> bytes:
        """The end of a stream that cannot be finished; half an event does not leave."""
        return self._writer.error(error)

    def _end(self, data: bytes) -> int:
        """The length of the pending bytes that are whole events."""
        try:
            events = () if self._over else self._decoder.feed(data)
        except LimitExceeded:
            self._over = True
        if self._over:
            return len(self._pending)
        if any(is_done(event) for event in events):
            self.done = True
        return sum(len(event.raw) for event in events)


class ObservedReply:
    """A streamed reply that leaves as `shown` gives it, while a `reader` reads along: what that one gives, and how it
    fails, changes nothing.
    """

    def __init__(
        self, shown: VerbatimReply | StreamReply, reader: StreamReply, on_crash: Callable[[Exception], None]
    ) -> None:
        self._shown = shown
        self._reader = reader
        self._on_crash = on_crash
        self._reads = True

    unread = False

    @property
    def held(self) -> bool:
        """True while text would wait that may become a call."""
        if not self._reads:
            return False
        return self._reader.held

    @property
    def done(self) -> bool:
        """True once the upstream said `[DONE]`."""
        return self._shown.done

    @property
    def started(self) -> bool:
        """True once something was given that the client must not get twice."""
        return self._shown.started

    @property
    def failure(self) -> ProxyError | None:
        """Why the reply cannot be finished, as it is shown."""
        return self._shown.failure

    @property
    def would_fail(self) -> ProxyError | None:
        """The error with which the reply would have ended, had it been repaired; None if it had none."""
        return self._reader.failure

    @property
    def swallowed(self) -> bool:
        """As `StreamReply` says it."""
        return self._reader.swallowed

    @property
    def silence(self) -> Why | None:
        """As `StreamReply` says it."""
        return self._reader.silence

    @property
    def handover(self) -> EarlierTry:
        """As `StreamReply` says it."""
        return self._reader.handover

    @property
    def cut(self) -> bool:
        """Nothing is cut."""
        return False

    @property
    def withheld(self) -> bool:
        """Nothing is kept back."""
        return False

    def takes_long(self, data: bytes) -> bool:
        """As `StreamReply` says it: all of the bytes are read at once."""
        return self._reads and (len(data) > LONG or self._reader.takes_long(data))

    @property
    def ends_long(self) -> bool:
        """As `StreamReply` says it."""
        return self._reads and self._reader.ends_long

    def receive(self, data: bytes, is_enough: Callable[[], bool] = never_enough) -> bytes:
        """Bytes of the upstream's body to bytes for the client."""
        self._read(lambda: self._reader.receive(data))
        return self._shown.receive(data)

    def finish(self) -> bytes:
        """The upstream's body ended properly."""
        self._read(self._reader.finish)
        return self._shown.finish()

    def release(self) -> bytes:
        """Let nothing go: the client has it already."""
        self._read(self._reader.release)
        return b""

    def flush_prose(self) -> bytes:
        """Let nothing go: the client has it already."""
        self._read(self._reader.flush_prose)
        return b""

    def heartbeat(self) -> bytes:
        """A sign of life."""
        return self._shown.heartbeat()

    def let_go(self) -> bytes:
        """What is held of a stream that cannot go on, as it is shown."""
        return self._shown.let_go()

    def fail(self, error: ProxyError) -> bytes:
        """The end of a stream that cannot be finished."""
        return self._shown.fail(error)

    def _read(self, step: Callable[[], bytes]) -> None:
        if self._reads:
            try:
                step()
            except Exception as error:  # the outermost boundary of the engine
                self._on_crash(error)
                self._reads = False


def observed(
    reader: StreamReply, dialect: Dialect, on_crash: Callable[[Exception], None], *, max_event: int = MAX_EVENT
) -> ObservedReply:
    """A reply that is only observed: the upstream's own bytes, or, in a dialect that the upstream does not speak, what
    it says, unrepaired.
    """
    writer = dialect.writer(expand=False)
    if dialect.verbatim:
        return ObservedReply(VerbatimReply(writer, max_event=max_event), reader, on_crash)
    return ObservedReply(StreamReply(unrepaired(), writer, on_crash, max_event=max_event), reader, on_crash)


def is_done(event: sse.ServerSentEvent) -> bool:
    """True for the event `data: [DONE]`, behind which nothing more comes."""
    return event.data is not None and event.data.strip() == DONE
