"""One reply on its way: upstream bytes through decoder, engine and dialect to client bytes. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from proxy.codec import sse
from proxy.codec.json_text import JsonObject, load_chunk
from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.answer import as_chunk
from proxy.dialects.chat.writer import DONE
from proxy.engine.engine import Engine, Task
from proxy.engine.events import Chunk, Event, Failed, Finished, Rest, Unchanged, Usage
from proxy.errors import InternalError, ProxyError, UpstreamBroken
from proxy.formats.reasoning import Thoughts
from proxy.limits import MAX_EVENT

# Bytes of events that wait to leave as they came.
MAX_KEPT = 4 * 1024 * 1024


class StreamReply:
    """A streamed reply.

    `failure` is set when the reply cannot be finished: what was given until then is to be sent, then the error.
    `started` is true once something was given that the client must not get twice (content, a call, the finish).
    `on_crash` is told of an exception that the engine should never raise (contract C6).
    """

    def __init__(
        self, engine: Engine, writer: Writer, on_crash: Callable[[Exception], None], *, max_event: int = MAX_EVENT
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._on_crash = on_crash
        self._decoder = sse.Decoder(max_event)
        self._done = False
        self._crashed = False
        # True once the engine has said its last.
        self._ended = False
        # True once the rest of the reply could not leave as the upstream's own bytes any more.
        self._changed = not writer.verbatim
        # The number of the last event that was parsed; `Chunk.sequence` and `Unchanged.sequence` are such numbers.
        self._sequence = 0
        # Events not yet sent as they came, by number: what goes on if the engine fails (contract C6).
        self._unsent: dict[int, bytes] = {}
        self._kept = 0
        self._tokens = 0
        self._spoke = False
        self.started = False
        self.failure: ProxyError | None = None

    @property
    def held(self) -> bool:
        """True while text waits that may become a call."""
        return not self._crashed and self._engine.held

    @property
    def done(self) -> bool:
        """True once the upstream said `[DONE]`."""
        return self._done

    @property
    def swallowed(self) -> bool:
        """True for a finished reply that used tokens and said nothing: the server's parser may have eaten a call."""
        return self._done and self._tokens > 1 and not self._spoke

    def receive(self, data: bytes) -> bytes:
        """Bytes of the upstream's body to bytes for the client."""
        try:
            events = self._decoder.feed(data)
        except ProxyError as error:
            self.failure = error
            return b""
        given: list[bytes] = []
        try:
            given += map(self._event, events)
        except Exception as error:  # a defect of the writer; what was written before it is not lost
            self._on_crash(error)
            self.failure = InternalError("the proxy failed while it wrote the reply; its log says why")
        return b"".join(given)

    def finish(self) -> bytes:
        """The upstream's body ended properly."""
        given = b""
        try:
            given = b"".join(self._event(event, last=True) for event in self._decoder.finish())
        except ProxyError as error:
            self.failure = error
        if self.failure is None and not self._crashed:
            self._ended = True
            given += self._written(self._guarded(lambda: self._engine.finish(done=self._done)))
        # A reply that goes on as the upstream's own bytes ends as the upstream ended it.
        if self.failure is None and (self._done or not self._crashed):
            try:
                given += self._writer.end()
            except ProxyError as error:
                self.failure = error
        return given

    def release(self) -> bytes:
        """Let go what is held: it took too long."""
        return self._written(self._guarded(self._engine.release))

    def flush_prose(self) -> bytes:
        """Let the prose go that waits only to leave in the very event that it came in."""
        return self._written(self._guarded(self._engine.flush_prose))

    def heartbeat(self) -> bytes:
        """A sign of life."""
        return self._writer.heartbeat()

    def fail(self, error: ProxyError) -> bytes:
        """The end of a stream that cannot be finished: what is held goes first, as text."""
        held = b"" if self._crashed or self._ended else self.release()
        return held + self._writer.error(error)

    def _event(self, event: sse.ServerSentEvent, *, last: bool = False) -> bytes:
        """One upstream event; the `last` one lacked its blank line, so it may be cut."""
        if self.failure is not None or self._done:
            return b""
        if self._crashed:
            return event.raw
        if event.data is None:
            return self._writer.comment(event.raw)
        if event.data.strip() == DONE:
            self._done = True
            return b""
        try:
            passed = self._engine.fast_path(event.raw)
        except Exception as error:  # the outermost boundary of the engine
            self._keep(event.raw)
            return self._written(self._crash(error))
        if passed is not None:
            return self._written((passed,))
        sequence = self._keep(event.raw)
        try:
            body = load_chunk(event.data)
        except ValueError:
            body = None
        if body is None and last:
            self.failure = UpstreamBroken("the model server's reply ended in the middle of an event")
            return b""
        if not isinstance(body, dict):
            # Not ours to understand; it passes.
            return self._written((Unchanged(event.raw, (), sequence),))
        chunk = Chunk(body, event.raw, sequence)
        self._writer.see(chunk)
        self._count(body)
        return self._written(self._guarded(lambda: self._engine.feed(chunk)))

    def _keep(self, raw: bytes) -> int:
        """Number an event, and keep it until it has left. Where too many wait they are given up: then a crash ends in
        an error.
        """
        self._sequence += 1
        if self._changed:
            return self._sequence
        self._kept += len(raw)
        if self._kept > MAX_KEPT:
            self._changed = True
            self._unsent.clear()
        else:
            self._unsent[self._sequence] = raw
        return self._sequence

    def _count(self, body: JsonObject) -> None:
        usage = body.get("usage")
        tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
        self._tokens = tokens if isinstance(tokens, int) else self._tokens

    def _guarded(self, step: Callable[[], Iterable[Event]]) -> Iterable[Event]:
        """The events of an engine step. If it raises what it never should, the reply goes on as the upstream's own
        bytes from the first event not yet sent, if nothing of it was changed so far (contract C6).
        """
        try:
            return step()
        except ProxyError as error:
            return (Failed(error),)
        except Exception as error:  # the outermost boundary of the engine
            return self._crash(error)

    def _crash(self, error: Exception) -> Iterable[Event]:
        """What follows if the engine raised what it never should."""
        self._on_crash(error)
        if self._changed:
            return (Failed(InternalError("the proxy failed while it read the reply; its log says why")),)
        self._crashed = True
        self.started = True
        return tuple(Unchanged(raw, (), sequence) for sequence, raw in self._unsent.items())

    def _written(self, events: Iterable[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if isinstance(event, Failed):
                self.failure, self._ended = event.error, True
                break
            if isinstance(event, Unchanged):
                self._kept -= len(self._unsent.pop(event.sequence, b""))
            else:
                self._changed = True
                self._unsent.clear()
            try:
                given = self._writer.write(event)
            except ProxyError as error:
                self.failure, self._ended = error, True
                break
            for said in event.events if isinstance(event, Unchanged) else (event,):
                self.started = self.started or bool(given)
                self._spoke = self._spoke or not isinstance(said, Usage | Finished | Rest)
            out.append(given)
        return b"".join(out)


def unrepaired() -> Engine:
    """An engine that only says what the server says, for dialects in which thoughts stand apart."""
    return Engine(Task(tools=None, seed=b"", ordered=True, thoughts=Thoughts()))


def answer_as_answer(body: bytes, answer: JsonObject, engine: Engine, dialect: Dialect) -> bytes:
    """A whole answer as the engine says it, in the client's dialect; raises the error of a `Failed`."""
    return dialect.whole(body, answer, (*engine.feed(as_chunk(answer)), *engine.finish(done=True)))


def answer_as_stream(answer: JsonObject, engine: Engine, writer: Writer) -> bytes:
    """A whole answer as the stream that the client asked for; raises the error of a `Failed`."""
    usage = answer.get("usage")
    chunk = as_chunk({key: value for key, value in answer.items() if key != "usage"})
    writer.see(Chunk(answer, b"", streamed=False))
    events = (*engine.feed(chunk), *engine.finish(done=True))
    for event in events:
        if isinstance(event, Failed):
            raise event.error
    counts = (Usage(usage),) if isinstance(usage, dict) else ()
    begun = writer.begin(len(answer["choices"]) if isinstance(answer["choices"], list) else 1)
    return begun + b"".join(writer.write(event) for event in (*events, *counts)) + writer.end()
