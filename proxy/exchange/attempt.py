"""One try of a chat request: send it upstream and convert the response to the client's bytes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain

from proxy.dialects.base import Dialect, Writer
from proxy.dialects.chat.answer import read_answer, read_whole
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine
from proxy.engine.events import Call
from proxy.errors import InternalError, ProxyError, UpstreamBroken
from proxy.exchange.capture import is_stream
from proxy.exchange.outcome import CallTally, Outcome, tokens_of
from proxy.exchange.plan import Plan, Retries, UpstreamRequest, Why, upstream_request
from proxy.exchange.recording import Excerpt, Recording
from proxy.exchange.reply_stream import StreamReply, never_enough
from proxy.exchange.second_try import EarlierTry, guided_call, summed
from proxy.exchange.whole_answer import AnswerWriter
from proxy.healing.heal import NO_HEALING
from proxy.json import JsonObject, as_object
from proxy.limits import MAX_ERROR_BODY
from proxy.repair.record import Repair
from proxy.upstream.answer_wait import NEVER, AnswerWait
from proxy.upstream.api import CHAT_COMPLETIONS, REPLY, response_headers
from proxy.upstream.client import ModelServer, UpstreamCall
from proxy.upstream.responses import decoded, error_of_response, read_body

log = logging.getLogger("proxy")

# The id under which the audit records another try.
FIX = "second_try"
# Seconds to wait for the end of the body after `[DONE]`: some servers keep the connection open.
END_GRACE = 1.0
# Seconds spent on the events of one stream before other streams get their turn.
SLICE = 0.002


class Said(IntEnum):
    """What the client has received of a reply.

    While it is NOTHING, an error can still become an HTTP status. Until it is CONTENT, another try may follow.
    """

    NOTHING = 0
    HEARTBEAT = 1
    CONTENT = 2


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat request with everything its tries need.

    `kind` returns the kind of the `server` (vllm, llamacpp, …), or "" if unknown; it may send a request to it.
    `learn` remembers what the server has shown about the model: the ids of healings that its requests need, or
    PROXY_PARSES.

    `plan` is the plan of the first try, and `retries` limits the others. `engine` creates the engine of one try from
    two arguments: whether the server returns raw text, and the forced tool or "". `recording` records the tries, or is
    None. `count` returns the number of tokens in a text, or 0 if it is unknown. `secrets` are masked in every error.
    """

    server: ModelServer
    kind: Callable[[], str]
    learn: Callable[[tuple[str, ...]], None]
    headers: Mapping[str, str]
    request: ChatRequest
    plan: Plan
    wait: AnswerWait
    engine: Callable[[bool, str], Engine]
    dialect: Dialect
    hold_timeout: float
    retries: Retries
    recording: Recording | None
    count: Callable[[str], int]
    outcome: Outcome
    secrets: tuple[str, ...] = field(repr=False)


def log_crash(error: Exception) -> None:
    """Log a defect of the engine or of a writer."""
    log.error("the proxy failed while it read a reply", exc_info=error)


def _slice() -> Callable[[], bool]:
    """Start a time slice. The returned function reports whether the slice is over."""
    end = time.monotonic() + SLICE
    return lambda: time.monotonic() >= end


def _sent_upstream(request: ChatRequest, plan: Plan) -> UpstreamRequest:
    """Return the request to send. If healing crashes, it is sent without healing (contract C6)."""
    try:
        return upstream_request(request, plan)
    except Exception as error:  # the outermost boundary of the healing
        log_crash(error)
        return upstream_request(request, replace(plan, heal=NO_HEALING))


class Attempt:
    """One try of a request.

    `said` is what the client has received of this try. If the client has received content from `earlier`, this try
    continues the same reply.
    """

    def __init__(self, exchange: Exchange, plan: Plan, earlier: Attempt | None = None) -> None:
        self.said = Said.NOTHING
        self._exchange = exchange
        self._plan = plan
        self._up = _sent_upstream(exchange.request, plan)
        self.engine = exchange.engine(self._up.raw_text, plan.guided)
        self._tally = CallTally(exchange.request.tools)
        self._earlier = earlier
        # The reasoning of earlier tries: the usage of this try includes its tokens.
        self._thoughts_before: str = "" if earlier is None else earlier._thoughts_before + earlier.engine.thoughts
        goes_on = earlier is not None and earlier.said is Said.CONTENT
        new = exchange.dialect.writer()
        if not exchange.request.stream:
            new = AnswerWriter(new)
        self._writer: Writer = earlier._writer if goes_on and earlier else new
        self.reply = StreamReply(
            self.engine,
            self._writer,
            log_crash,
            keep_back=self._followed(),
            earlier=None if earlier is None else earlier.handover_of_all,
            listener=self._tally.observe,
        )
        self._unsent = b""
        self._call: Call | None = None
        self.handover = EarlierTry()

    def _followed(self) -> frozenset[Why]:
        """Return the reasons for which another try may follow this one.

        After the first try, every allowed reason counts. After a second try for an empty reply, only SWALLOWED does,
        provided the client has received nothing: the second try is the first one that asks for token counts.
        """
        allowed = self._exchange.retries.again
        if self._earlier is None:
            return allowed
        if self._earlier.said is Said.CONTENT or self._plan.again is not Why.EMPTY:
            return frozenset()
        return allowed & {Why.SWALLOWED}

    @property
    def begun(self) -> bool:
        """True if the client has content, or is about to get content, that another try must not repeat."""
        return self.said is Said.CONTENT or self.reply.started

    def run(self) -> Iterator[bytes]:
        """Yield the bytes for the client."""
        exchange, request = self._exchange, self._exchange.request
        exchange.wait.start_over()
        recording, up = exchange.recording, self._up
        seen = None if recording is None else recording.begin_try(up.body, raw_text=up.raw_text)
        sent = time.monotonic()
        exchange.wait.give_way()
        with exchange.server.open("POST", CHAT_COMPLETIONS, exchange.headers, up.body) as call:
            parts = decoded(call, exchange.wait.receive(call), lambda: self.reply.done)
            if seen is not None:
                parts = seen.listen(call, parts)
            first = yield from self._head(parts, call)
            parts = chain((first,), parts)
            # Otherwise this frame keeps the bytes until the stream ends.
            del first
            streamed = is_stream(call.header("Content-Type"))
            if streamed and (self._plan.guided or not request.stream):
                raise UpstreamBroken("the model server answered with a stream that was not asked for")
            if streamed:
                lane = ReplyLane(call, exchange.wait, self.reply, None if seen is None else seen.answer)
                yield from self._live(parts, sent, lane)
                return
            if self._earlier is not None and not self._plan.guided and self._earlier.said is Said.CONTENT:
                raise UpstreamBroken("the model server streamed the first reply, but not the second")
            whole = yield from read_body(parts, beat=self._beat)
        # The steps below may block: repairing a long answer, counting reasoning tokens on the server, storing it.
        yield from self._exchange.wait.on_a_thread()
        if self._plan.guided:
            yield self._instead(whole)
            return
        answer, body = read_answer(whole)
        try:
            self.reply.receive_answer(body, answer)
            yield from self._ended()
        except InternalError:  # a crash never loses an answer (contract C6)
            if request.stream or not exchange.dialect.verbatim:
                raise
            yield body

    def _instead(self, body: bytes) -> bytes:
        """Return the end of the earlier reply, with its broken call replaced by the call in this answer."""
        assert self._earlier is not None, "a guided try follows an earlier one"
        answer = read_whole(body)
        usage = as_object(answer.get("usage"))
        self.handover = EarlierTry(usage)
        self._call = guided_call(answer, self.engine, self._plan.guided)
        return self._earlier.end_with(self._call, usage)

    @property
    def handover_of_all(self) -> EarlierTry:
        """The facts that the next try needs, with the token counts of all tries so far."""
        if self._earlier is None:
            return self.handover
        return replace(self.handover, usage=summed(self._earlier.handover_of_all.usage, self.handover.usage))

    def end_after_all(self) -> bytes:
        """Return the withheld end of the reply: no other try replaced it."""
        return self._with_end(self.reply.end_after_all() if self.reply.withheld else b"")

    def _with_end(self, end: bytes) -> bytes:
        """Return all unsent bytes. Raises the error if the end could not be written."""
        if self.reply.failure is not None:
            raise self.reply.failure
        return self._unsent + end

    def end_with(self, call: Call, usage: JsonObject) -> bytes:
        """Return the end of the reply with `call` in place of the broken call. `usage` is that of the second try."""
        return self._with_end(self.reply.end_with(call, summed(self.handover.usage, usage)))

    def let_go(self) -> None:
        """Release all held text as text."""
        self._unsent += self.reply.let_go()

    def fail(self, error: ProxyError) -> bytes:
        """Return the end of a stream that failed: unsent bytes, held text and the error event.

        Of a whole answer nothing but heartbeats was sent. The writer may have encoded events that never are, so a new
        one writes the error.
        """
        if self.reply.is_whole and not self.begun:
            return self._exchange.dialect.writer().error(error)
        return self._unsent + self.reply.fail(error)

    def note(self) -> None:
        """Record the results of this try in the outcome."""
        outcome = self._exchange.outcome
        engine, tally, refusals = self.engine, self._tally, self.engine.refusals
        before, again = tuple[Repair, ...](), tuple[Repair, ...]()
        if outcome.again is not None:
            record = Repair(FIX, "", "", f"{outcome.again.value}; the request was sent again")
            if outcome.again is Why.BROKEN:
                before = () if self._earlier is None else self._earlier.engine.audit
                broken = (self._earlier or self).engine.broken_call
                if broken is not None:
                    arguments = "" if self._call is None else self._call.arguments
                    record = replace(record, before=broken.text, after=arguments, tool=broken.broken)
            again = (record,)
        outcome.healed = self._up.healed
        outcome.audit = (*outcome.request_audit, *self._up.healed, *before, *again, *engine.audit)
        outcome.calls, outcome.refusals, outcome.empty_calls = engine.calls, refusals, engine.empty_calls
        outcome.notations, outcome.invalid, outcome.cut = tally.notations, tally.invalid, tally.cut(refusals)
        outcome.called = tally.called
        outcome.tokens = tokens_of(self.handover_of_all.usage)
        outcome.swallowed = self.reply.swallowed

    def _head(self, parts: Iterator[bytes | None], call: UpstreamCall) -> Generator[bytes, None, bytes]:
        """Wait for the response head, yielding heartbeats, and return the first part of the body.

        Raises the server's error if the status is not 200.
        """
        first = b""
        for part in parts:
            if part is not None:
                first = part
                break
            yield self._beat()
        if call.status != 200:
            parts = chain((first,), parts)
            body = yield from read_body(parts, MAX_ERROR_BODY, strict=False, beat=self._beat)
            raise error_of_response(call, body, self._exchange.secrets)
        if self._plan.learnt:
            # Another worker may hold the lock of the shared state.
            yield from self._exchange.wait.on_a_thread()
            self._exchange.learn(self._plan.learnt)
        self._exchange.outcome.headers = response_headers(call, REPLY)
        return first

    def _live(self, parts: Iterator[bytes | None], sent: float, lane: ReplyLane) -> Iterator[bytes]:
        """Yield the client's bytes for a stream as its parts arrive. `sent` is the time the request was sent."""
        reply, wait, arrived = self.reply, self._exchange.wait, False
        for part in parts:
            beat = b""
            if part and not arrived:
                arrived = True
                self._exchange.outcome.first_event = time.monotonic() - sent
            if part is None:
                beat = self._beat()
            else:
                yield from self._read(part)
                del part
            if reply.held or wait.held_since != NEVER:
                self._limit_hold()
            if reply.failure is not None:
                raise reply.failure
            if reply.done:
                wait.expect_end(END_GRACE)
            ready = self._ready()
            wait.lane = lane if lane.open() else None
            yield beat + ready
        yield from self._ended()

    def _ended(self) -> Iterator[bytes]:
        """Yield the end of the client's bytes, unless it is withheld, after all of the reply has arrived."""
        reply, wait = self.reply, self._exchange.wait
        if self.engine.wants_count:
            yield from wait.on_a_thread()
            self.engine.thought_tokens = self._exchange.count(self._thoughts_before + self.engine.thoughts)
        if reply.ends_long:
            yield from wait.on_a_long_step()
        yield from self.before_it_is_stored()
        self._unsent += reply.finish()
        self.handover = reply.handover
        if reply.failure is not None:
            raise reply.failure
        if reply.started or not reply.withheld:
            yield self._ready(ended=True)

    def before_it_is_stored(self) -> Iterator[bytes]:
        """Move to a thread if the dialect stores replies: writing the end may wait for a file."""
        if self._exchange.dialect.keeps:
            yield from self._exchange.wait.on_a_thread()

    def _read(self, part: bytes) -> Iterator[bytes]:
        """Read one part of the body in time slices, so that other streams get their turn in between."""
        reply = self.reply
        if reply.takes_long(part):
            yield from self._exchange.wait.on_a_long_step()
            self._unsent += reply.receive(part, never_enough)
            return
        while True:
            self._unsent += reply.receive(part, _slice())
            if not reply.unread:
                return
            # Events written so far may have sequence numbers, so the heartbeat must follow them.
            yield self._ready() + self._beat()
            part = b""

    def _ready(self, *, ended: bool = False) -> bytes:
        """Return the bytes to send to the client now. A role-only chunk waits for the next chunk."""
        if not (self._unsent and (self.reply.started or ended)):
            return b""
        self.said = Said.CONTENT
        data, self._unsent = self._unsent, b""
        self._exchange.wait.wrote()
        return data

    def _beat(self) -> bytes:
        """Return a heartbeat if one is due, else b""."""
        wait = self._exchange.wait
        if not wait.heartbeat_due:
            return b""
        wait.wrote()
        self.said = max(self.said, Said.HEARTBEAT)
        self._exchange.outcome.heartbeats += 1
        return self.reply.heartbeat()

    def _limit_hold(self) -> None:
        """Release text that has been held for longer than `hold_timeout` (contract C2)."""
        reply, wait, now, bound = self.reply, self._exchange.wait, time.monotonic(), self._exchange.hold_timeout
        if not reply.held:
            wait.held_since = NEVER
        elif wait.held_since == NEVER:
            wait.held_since = now
        elif now >= wait.held_since + bound:
            self._unsent += reply.release()
            wait.held_since = NEVER
        wait.alarm(wait.held_since + bound)


class ReplyLane:
    """Fast lane of one reply: copies plain text from the upstream's socket to the client in one step.

    The lane is open while the reply's generator waits for the upstream and nothing else is due. The driver of the
    generator then calls the lane instead (`AnswerWait.lane`). Bytes that the lane cannot take stay in the socket's
    buffer for the generator. `excerpt` records all bytes that pass.
    """

    def __init__(self, call: UpstreamCall, wait: AnswerWait, reply: StreamReply, excerpt: Excerpt | None) -> None:
        self._call = call
        self._wait = wait
        self.reply = reply
        self._excerpt = excerpt
        self._is_compressed = bool(call.coding)

    def open(self) -> bool:
        """Open the lane and return True if text may now pass unread, or wait with a held call."""
        if self._is_compressed or not self._wait.may_pass:
            return False
        return self.reply.open_lane()

    def __call__(self) -> bytes | None:
        """Return the next bytes for the client: b"" if there are none, None if the generator must read them."""
        body = self._call.look()
        if not body:
            return body
        leaving = self.reply.pass_by(body)
        if leaving is None:
            return None
        self._call.take()
        if self._excerpt is not None:
            self._excerpt.add(body)
        return self._wait.passed(leaving)
