"""One streamed reply: upstream bytes pass decoder, engine and dialect to become client bytes. No I/O, no clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from enum import Enum, auto

from proxy import sse
from proxy.dialects.base import LaneEncoder, Writer
from proxy.dialects.chat.answer import as_chunk
from proxy.dialects.chat.writer import DONE
from proxy.engine.engine import Engine
from proxy.engine.events import (
    Call,
    Chunk,
    Event,
    Failed,
    Text,
    Unchanged,
    is_end,
)
from proxy.engine.lane import Lane, unescaped
from proxy.errors import InternalError, ProxyError, UnreadableReply, UpstreamBroken
from proxy.exchange.outcome import tokens_of
from proxy.exchange.plan import Why
from proxy.exchange.second_try import EarlierTry, ReplyContent, envelope_of, events_instead
from proxy.json import JsonObject, as_object, dump_json, load_chunk, may_hold_text, objects_in, without
from proxy.limits import MAX_EVENT

# The maximum size of events in the lane that the engine has not been fed yet.
MAX_PASSED = 16 * 1024
# Reading more bytes than this in one step may take milliseconds.
LONG = 8 * 1024
# The maximum size of unsent events kept for forwarding them verbatim.
MAX_KEPT = 4 * 1024 * 1024
_WRITER_FAILED = "the proxy failed while it wrote the reply; its log says why"
# Another call or text ends a streamed call. This is only a hint for estimating time.
_ENDS_A_CALL = re.compile(rb'"name": ?"|"content": ?"[^"]')


class State(Enum):
    """How the upstream's next events are handled.

                 crash, nothing changed so far               fail, from any state
        READING ─────────> PASSING                          ───────> FAILED
           │ └── break off ──> BROKEN_OFF
           └──── end ────────> ENDED
    """

    # The engine reads them.
    READING = auto()
    # The engine crashed: events are forwarded verbatim (contract C6).
    PASSING = auto()
    # Events cannot be read, or the engine's events cannot be written. Text that the engine holds may still be sent.
    BROKEN_OFF = auto()
    # The engine has finished.
    ENDED = auto()
    # The reply cannot continue, and the engine is not used again.
    FAILED = auto()


# Checked for every event: a global is faster to look up than an enum member.
_READING, _PASSING = State.READING, State.PASSING


class UnsentEvents:
    """The upstream's events that have not been sent, by number (`kept`). `sequence` is the number of the latest event.

    `changed`: the reply can no longer be continued with the upstream's own bytes, so no events are kept.
    """

    def __init__(self, *, changed: bool) -> None:
        self.changed = changed
        self.sequence = 0
        self.kept: dict[int, bytes] = {}
        self._size = 0

    def keep(self, raw: bytes) -> int:
        """Number an event and keep it until it is sent. Beyond MAX_KEPT, drop all: a crash then ends in an error."""
        self.sequence += 1
        if self.changed:
            return self.sequence
        self._size += len(raw)
        if self._size > MAX_KEPT:
            self.change()
        else:
            self.kept[self.sequence] = raw
        return self.sequence

    def leave(self, sequence: int) -> None:
        """Forget an event because it is sent verbatim."""
        self._size -= len(self.kept.pop(sequence, b""))

    def change(self) -> None:
        """Drop all kept events: something was sent in changed form, or too much is waiting."""
        self.changed = True
        self.kept.clear()


def _read_event(event: sse.ServerSentEvent, data: bytes, *, last: bool) -> tuple[JsonObject, bytes]:
    """Return the object of an event, empty if it has no content, and the bytes to forward for it.

    The bytes are the event's own unless they are not strict JSON: `{"choices": [...], "logprobs": NaN}` is rewritten.
    The `last` event lacked its blank line, so it may be cut. Raises UpstreamBroken if the event cannot be read.
    """
    if not data.strip() and not last:
        return {}, event.raw
    raw = event.raw
    try:
        body, is_strict = load_chunk(data)
        if not is_strict:
            raw = sse.encode(dump_json(body))
    except (ValueError, RecursionError):
        if last:
            raise UpstreamBroken("the model server's reply ended in the middle of an event") from None
        raise UnreadableReply("an event is not JSON") from None
    if isinstance(body, dict):
        return body, raw
    if isinstance(body, str | list) and any(map(may_hold_text, body)):
        raise UnreadableReply("an event is not a JSON object")
    return {}, raw


def _detached(error: ProxyError) -> ProxyError:
    """Return the error without its traceback and context: their frames would keep the stream that stores it alive."""
    error.__context__ = None
    return error.with_traceback(None)


def never_enough() -> bool:
    """Never stop reading: the default for `is_enough`."""
    return False


class StreamReply:
    """A reply: a stream in parts (`receive`), or a whole answer (`receive_answer`). `finish` ends both.

    `failure` is set if the reply cannot be finished: send the bytes returned so far, then the error. `started`: bytes
    were returned that the client must not get twice (content, a call, the finish). `on_crash` is called with an
    unexpected exception of the engine or the writer (contract C6). `silence` is the reason for another try, set at the
    end; if it is in `keep_back`, the end is `withheld`. `earlier` holds facts of the earlier try that this one
    continues. `listener` gets each written event, except for text that passed the lane.
    """

    def __init__(
        self,
        engine: Engine,
        writer: Writer,
        on_crash: Callable[[Exception], None],
        *,
        keep_back: Collection[Why] = (),
        earlier: EarlierTry | None = None,
        listener: Callable[[Iterable[Event]], None] | None = None,
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._on_crash = on_crash
        self._decoder = sse.Decoder(MAX_EVENT)
        self._state = _READING
        self._all_came = False
        # Events that have arrived but were not read yet, newest first.
        self._events: list[sse.ServerSentEvent] = []
        # The open lane, the texts that passed it and are not in the engine yet, the size of their events, and the
        # room that is left if the lane is that of a held call.
        self._lane: Lane | None = None
        self._lane_encoder: LaneEncoder | None = None
        self._passed: list[bytes] = []
        self._passed_size = self._room = 0
        # `Chunk.sequence` and `Unchanged.sequence` are numbers of these events.
        self._unsent = UnsentEvents(changed=not writer.verbatim or earlier is not None)
        # The server's token counts for this reply, and the members that all its chunks share.
        self._usage: JsonObject = {}
        self._envelope: JsonObject = {}
        self._content = ReplyContent()
        self._keep_back = keep_back
        self._earlier = earlier
        self._listener = listener
        self._ending: tuple[Event, ...] = ()
        # The events of a whole answer, or None for a stream, and the start of a stream made from it.
        self._answered: tuple[Event, ...] | None = None
        self._begun = b""
        self.silence: Why | None = None
        self.started = False
        self.failure: ProxyError | None = None

    @property
    def held(self) -> bool:
        """True while text is held that may become a call."""
        return self._state in (_READING, State.BROKEN_OFF) and self._engine.held

    @property
    def done(self) -> bool:
        """True once the upstream has sent `[DONE]`, unless the reply has failed."""
        return self._all_came and self._state not in (State.BROKEN_OFF, State.FAILED)

    @property
    def is_whole(self) -> bool:
        """True if the reply is a whole answer."""
        return self._answered is not None

    @property
    def swallowed(self) -> bool:
        """True for a finished reply that used tokens but has no content: the server may have swallowed a call."""
        return self.done and self._content.used_without_a_word(tokens_of(self._usage).get("completion", 0))

    @property
    def withheld(self) -> bool:
        """True if the end of the reply is withheld because another try may follow."""
        return self.silence in self._keep_back

    @property
    def handover(self) -> EarlierTry:
        """The facts that the next try needs."""
        if not self.started:
            return EarlierTry(self._usage)
        return EarlierTry(self._usage, self._envelope, thought=self.silence is Why.THOUGHT)

    @property
    def unread(self) -> bool:
        """True while events that have arrived are unread because `is_enough` stopped `receive`."""
        return bool(self._events)

    @property
    def ends_long(self) -> bool:
        """True if ending the reply may take milliseconds because much text is read again."""
        if self._state is _PASSING:
            return False
        return self._size > LONG

    @property
    def _size(self) -> int:
        """The number of bytes that may be read again, in the engine and in the lane of a held call."""
        lane = self._lane
        return self._engine.size + (lane.room - self._room if lane is not None and lane.held is not None else 0)

    def takes_long(self, data: bytes) -> bool:
        """Return whether receiving these bytes may take milliseconds that cannot be split between two events."""
        if self._state is _PASSING:
            return False
        if self._decoder.waiting > LONG:
            return True
        if len(data) > LONG and data.count(b"\n\n") < len(data) // LONG:
            return True
        if self._size <= LONG:
            return False
        return self._engine.held or _ENDS_A_CALL.search(data) is not None

    def open_lane(self) -> bool:
        """Open the lane for `pass_by` if possible, and return whether it is open.

        It opens in two cases: plain text would be forwarded unchanged and no text is held, or events only continue a
        string in a held call and nothing can be sent.
        """
        if self._lane is None or self._lane.held is None:
            self._leave_lane()
        if not self._is_between_events or (self._earlier is not None and self._earlier.thought):
            return False
        if self._engine.held:
            return self._lane is not None
        if self._unsent.kept or not self.started:
            return False
        lane = self._engine.lane()
        if lane is None:
            return False
        template = lane.template
        if template.counted is not None or not self._writer.passes(template.before + template.after):
            self._lane_encoder = self._writer.lane_encoder(lane)
            if self._lane_encoder is None:
                return False
        self._lane = lane
        return True

    @property
    def _is_between_events(self) -> bool:
        """True between two events of a reply that is being read."""
        if self._state is not _READING or self._all_came or self._events:
            return False
        return self._decoder.between_events

    def pass_by(self, body: bytes) -> bytes | None:
        """Pass the next bytes of the body through the lane.

        Return the bytes for the client (b"" while a call is held), or None if the lane cannot take the bytes.
        """
        lane = self._lane
        if lane is not None and lane.held is None and self._passed_size > MAX_PASSED:
            lane = self._lane if self.open_lane() else None
        texts = None if lane is None else lane.texts(body)
        if lane is None or texts is None:
            return None
        if lane.held is not None:
            room = self._room - sum(map(len, texts))
            if room < 0 or self._passed_size + len(body) > MAX_PASSED:
                return None
            self._room = room
            self._passed += texts
            self._passed_size += len(body)
            return b""
        leaving = body if self._lane_encoder is None else self._lane_encoder(texts)
        if leaving is not None:
            self._passed += texts
            self._passed_size += len(body)
        return leaving

    def _takes(self, body: bytes) -> bool:
        """Take the next bytes of the body if they only continue a held call; return whether they do."""
        lane = self._lane
        return lane is not None and lane.held is not None and self.pass_by(body) is not None

    def _leave_lane(self) -> bytes:
        """Close the lane and feed the engine the texts that passed it.

        Return the bytes released from a held call, usually none.
        """
        lane, self._lane, texts, self._passed = self._lane, None, self._passed, []
        encoder, self._lane_encoder, self._passed_size = self._lane_encoder, None, 0
        if lane is None or not texts or self._state is _PASSING:
            return b""
        if lane.held is not None:
            chunks: list[tuple[str, Chunk]] = []
            for text in texts:
                # These chunks differ only in their text, so the body of the learned one serves for all.
                raw = lane.template.before + text + lane.template.after
                chunks.append((unescaped(text), Chunk(lane.held.body, raw, self._unsent.keep(raw))))
            self._writer.observe_chunk(lane.held)
            return self._written(self._guarded(lambda: self._engine.hold(lane, chunks)))
        text = b"".join(texts)
        if not self._content.answered:
            self._content.observe(lane.events(text))
        if encoder is not None:
            for event in lane.events(text):
                self._writer.keep(event)
        return self._written(self._guarded(lambda: self._engine.catch_up(lane, text)))

    def receive(self, data: bytes, is_enough: Callable[[], bool] = never_enough) -> bytes:
        """Convert bytes of the upstream's body to bytes for the client.

        `is_enough` is called after each event. If it returns True, the remaining events are `unread`; call again with
        b"" to continue with them.
        """
        if self._lane is not None:
            if self._is_between_events and self._takes(data):
                return b""
            if self._lane.held is None:
                self._leave_lane()
        if data:
            try:
                self._events[:0] = reversed(self._decoder.feed(data))
            except ProxyError as error:
                self._break_off(error)
                return b""
        written: list[bytes] = []
        try:
            while self._events:
                written.append(self._event(self._events.pop()))
                if is_enough():
                    break
        except Exception as error:  # a defect of the writer; keep what was written before
            self._on_crash(error)
            self._break_off(InternalError(_WRITER_FAILED))
        return b"".join(written)

    def receive_answer(self, body: bytes, answer: JsonObject) -> None:
        """Take a whole answer and its bytes. `finish` returns the reply, because all of it may be withheld."""
        self._all_came = True
        self._unsent.change()
        self._usage = as_object(answer.get("usage"))
        joined = None if self._earlier is None else self._earlier.joined(answer)
        if joined is not None:
            body, answer = dump_json(joined), joined
        self._content.observe_body(answer)
        self._writer.observe_chunk(Chunk(answer, body, streamed=False))
        self._begun = self._writer.begin(len(objects_in(answer["choices"])))
        usage = as_object(answer.get("usage"))

        def fed() -> Iterable[Event]:
            events = self._engine.feed(as_chunk(without(answer, "usage")))
            counts = Chunk({"choices": [], "usage": usage}, b"", streamed=False)
            return (*events, *self._engine.feed(counts)) if usage else events

        events = tuple(self._guarded(fed))
        if events and isinstance(events[-1], Failed):
            self._fail(events[-1].error)
        self._answered = events

    def finish(self) -> bytes:
        """Take the proper end of the upstream's body and return the end of the reply, unless it is withheld."""
        written = self._leave_lane() + self._rest()
        if self.failure is not None:
            return written
        if self._state is _READING:
            written += self._begun + self._written(self._last_events())
        if self.withheld:
            return written
        written += self._end()
        if self._answered is not None and self._state is State.FAILED:
            # Nothing of the answer was sent, so its error can become an HTTP status.
            self.started = False
            return b""
        return written

    def _rest(self) -> bytes:
        """Return the client's bytes for an event that the end of the body completes."""
        try:
            return b"".join(self._event(event, last=True) for event in self._decoder.finish())
        except ProxyError as error:
            self._break_off(error)
            return b""

    def end_after_all(self) -> bytes:
        """Return the withheld end, because no other try replaced this reply."""
        return self._written(self._ending) + self._end()

    def end_with(self, call: Call, usage: JsonObject) -> bytes:
        """Return the withheld end, with `call` in place of the broken call."""
        broken = self._engine.broken_call
        assert broken is not None, "only a broken call is replaced"
        kept = self._ending[: _first_end(self._ending)]
        return self._written((*kept, *events_instead(broken, call, usage))) + self._end()

    def _end(self) -> bytes:
        """Return the end of the reply. A reply in PASSING ends the way the upstream ended it."""
        if self._state is State.FAILED or (self._state is _PASSING and not self._all_came):
            return b""
        try:
            return self._writer.end()
        except ProxyError as error:
            self._fail(error)
        except Exception as error:  # a defect of the writer
            self._on_crash(error)
            self._fail(InternalError(_WRITER_FAILED))
        return b""

    def _last_events(self) -> tuple[Event, ...]:
        """Return the engine's last events, without the withheld ones."""
        events = (*(self._answered or ()), *self._guarded(lambda: self._engine.finish(done=self.done)))
        self._content.observe(events)
        if self._state is _READING:
            self._state = State.ENDED
            tokens, engine = tokens_of(self._usage).get("completion", 0), self._engine
            self.silence = self._content.why_again(tokens, engine.broken_call, in_thought=engine.ends_in_thought)
        if self.withheld:
            return self._without_end(events)
        return events

    def _without_end(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Keep the end in `_ending` and return the events before it.

        All of a whole answer is kept. Reasoning that is still open in the text is closed, because another try's text
        may follow. After a broken call only a call or the withheld end follows.
        """
        if self._answered is not None:
            self._ending = events
            return ()
        at = _first_end(events)
        self._ending = events[at:]
        if self.silence is Why.BROKEN:
            return events[:at]
        if self._content.open_thought:
            return (*events[:at], Text(0, f"{self._content.open_thought}\n\n"))
        return events[:at]

    def release(self) -> bytes:
        """Release held text because it was held for too long."""
        return self._leave_lane() + self._written(self._guarded(self._engine.release))

    def heartbeat(self) -> bytes:
        """Return a heartbeat in the client's dialect."""
        return self._writer.heartbeat()

    def fail(self, error: ProxyError) -> bytes:
        """Return the end of a failed stream: held text, then the error."""
        return self.let_go() + self._writer.error(error)

    def let_go(self) -> bytes:
        """Release held text of a stream that cannot continue. The engine is not used afterwards."""
        if self._state not in (_READING, State.BROKEN_OFF):
            return b""
        held = self.release()
        self._state = State.FAILED
        return held

    def _event(self, event: sse.ServerSentEvent, *, last: bool = False) -> bytes:
        """Return the client's bytes for one event. The `last` event lacked its blank line, so it may be cut."""
        if self._state is not _READING or self._all_came:
            return event.raw if self._state is _PASSING and not self._all_came else b""
        if self._lane is not None:
            if self._takes(event.raw):
                return b""
            return self._leave_lane() + self._event(event, last=last)
        if event.data is None:
            return self._writer.comment(event.raw)
        if event.data.strip() == DONE:
            self._all_came = True
            return b""
        return self._parsed(event, event.data, last=last)

    def _parsed(self, event: sse.ServerSentEvent, data: bytes, *, last: bool) -> bytes:
        """Return the client's bytes for an event that must be parsed."""
        try:
            body, raw = _read_event(event, data, last=last)
        except UpstreamBroken as error:
            self._break_off(error)
            return b""
        sequence = self._unsent.keep(raw)
        if not body:
            return self._written((Unchanged(raw, (), sequence),))
        self._usage = as_object(body.get("usage")) or self._usage
        self._envelope = self._envelope or envelope_of(body)
        if not self._content.answered:
            self._content.observe_body(body)
        chunk = Chunk(body, raw, sequence)
        if self._earlier is not None:
            chunk = self._earlier.joined_chunk(chunk)
        self._writer.observe_chunk(chunk)
        written = self._written(self._guarded(lambda: self._engine.feed(chunk)))
        if not written and self._earlier is None and self._state is _READING:
            # If the next events only continue a held call, they can wait in the lane unparsed.
            lane = self._engine.held_lane()
            if lane is not None:
                self._lane, self._room = lane, lane.room
        return written

    def _guarded(self, step: Callable[[], Iterable[Event]]) -> Iterable[Event]:
        """Return the events of an engine step.

        If the engine crashes and nothing has been changed so far, the reply continues verbatim from the first unsent
        event (contract C6).
        """
        try:
            return step()
        except ProxyError as error:
            return (Failed(error),)
        except Exception as error:  # the outermost boundary of the engine
            return self._crash(error)

    def _crash(self, error: Exception) -> Iterable[Event]:
        """Report a defect of the engine and return the unsent events verbatim, or a failure if some were changed."""
        self._on_crash(error)
        if self._unsent.changed:
            return (Failed(InternalError("the proxy failed while it read the reply; its log says why")),)
        self._state = _PASSING if self._state in (_READING, _PASSING) else State.FAILED
        self.started = True
        return tuple(Unchanged(raw, (), sequence) for sequence, raw in self._unsent.kept.items())

    def _written(self, events: Iterable[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if isinstance(event, Failed):
                self._fail(event.error)
                break
            if isinstance(event, Unchanged):
                self._unsent.leave(event.sequence)
            else:
                self._unsent.change()
            try:
                data = self._write(event)
            except ProxyError as error:
                self._fail(error)
                break
            if data and not self.started:
                self.started = not isinstance(event, Unchanged) or bool(event.events)
            if not (self._content.answered or self._state in (State.ENDED, State.FAILED)):
                self._content.observe((event,))
            if self._listener is not None:
                self._listener((event,))
            out.append(data)
        return b"".join(out)

    def _write(self, event: Event) -> bytes:
        if self._earlier is None:
            return self._writer.write(event)
        return b"".join(map(self._writer.write, self._earlier.unsaid(event)))

    def _fail(self, error: ProxyError) -> None:
        """End the reply with an error."""
        self.failure = _detached(error)
        self._events.clear()
        self._state = State.FAILED

    def _break_off(self, error: ProxyError) -> None:
        """Stop reading events because of an error. Text that the engine holds can still be released."""
        self.failure = _detached(error)
        self._events.clear()
        self._state = State.FAILED if self._state is _PASSING or self._state is State.FAILED else State.BROKEN_OFF


def _first_end(events: tuple[Event, ...]) -> int:
    """Return the position of the first event of a reply's end, or the number of events if there is no end."""
    return next((at for at, event in enumerate(events) if is_end(event)), len(events))
