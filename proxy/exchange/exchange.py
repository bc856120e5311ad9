"""The way of one chat request's bytes: one generator for streamed and whole replies.

The 200 is held back until the upstream has said something or the first heartbeat is due: an error before that is
raised, and becomes a real status; one after it ends the stream with the dialect's error event. Whatever ends the
generator closes the upstream, by which the model server stops. A request that is only observed goes up and comes back
as the very bytes, while the engine reads along; its errors, heartbeats and times are those of any other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol

from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_json
from proxy.codec.redaction import redact_error
from proxy.dialects.base import Dialect
from proxy.dialects.chat.answer import as_chunk, read_whole, says_nothing
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine
from proxy.engine.events import Chunk
from proxy.engine.thought_tokens import says_usage, with_thought_tokens
from proxy.errors import ClientGone, InternalError, ProxyError, UpstreamBroken, UpstreamError
from proxy.exchange.capture import Capture, Recorder, is_stream
from proxy.exchange.observe import ObservedReply, observed
from proxy.exchange.outcome import Outcome
from proxy.exchange.plan import Plan, UpstreamRequest, upstream_request
from proxy.exchange.reply_stream import StreamReply, answer_as_answer, answer_as_stream, unrepaired
from proxy.exchange.retry import asks_for_proxy, second_plan
from proxy.limits import MAX_ERROR_BODY, RETRY_TOKENS
from proxy.upstream.client import ModelServer, UpstreamCall
from proxy.upstream.content_encoding import decoded
from proxy.upstream.pump import NEVER, Pump
from proxy.upstream.response_headers import REPLY, response_headers
from proxy.upstream.responses import error_of_response, read_body

log = logging.getLogger("proxy")

# The body should end right after `[DONE]`; a server that keeps the connection open is not waited for.
END_GRACE = 1.0
# Prose whose event ends with what may become a call waits so long, in seconds, to leave as it came.
HURRY = 0.05


class Upstream(Protocol):
    """The model server of one request, and what is known of it beyond this request."""

    @property
    def server(self) -> ModelServer:
        """Where the request goes; the same for all of its tries."""

    def kind(self) -> str:
        """What kind of server it is (vllm, llamacpp, …), or "" where it does not say; it may have to be asked."""

    def remember_parser_failure(self) -> None:
        """The server cannot find the calls of the request's model: from now on the proxy does."""


def no_count(text: str) -> int:
    """Nobody counts."""
    return 0


def log_crash(error: Exception) -> None:
    """Tell the log of a defect of the engine or of a writer: it never costs the reply."""
    log.error("the proxy failed while it read a reply", exc_info=error)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One chat request with everything that its way needs; `secrets` are what no error may quote.

    `upstream` is where it goes. `auto`: the profile lets the server show that it cannot parse. `engine` makes one for a
    try, for raw text if that is what comes back. `retry_tokens` must be left of the context for a try with fewer
    tokens. `capture` is where the answers are recorded, if they are; `observe` leaves the request and its answer as
    they are. `count` gives the number of tokens of a text, 0 if nobody knows.
    """

    upstream: Upstream
    path: str
    headers: Mapping[str, str]
    request: ChatRequest
    plan: Plan
    auto: bool
    pump: Pump
    engine: Callable[[bool], Engine]
    dialect: Dialect
    max_event: int
    hold_timeout: float
    retry_tokens: int = RETRY_TOKENS
    capture: Capture | None = None
    observe: bool = False
    count: Callable[[str], int] = no_count
    outcome: Outcome = field(default_factory=Outcome)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def second(self, plan: Plan, error: ProxyError) -> Plan | None:
        """The plan for one more try, or None (README: who parses)."""
        if not self.auto or not isinstance(error, UpstreamError):
            return None
        kind = plan.server
        if not kind and asks_for_proxy(error):
            kind = self.upstream.kind()
        again = second_plan(self.request, plan, error, kind, self.retry_tokens)
        if again is not None and again.parse != plan.parse:
            self.upstream.remember_parser_failure()
        return again


def run_exchange(exchange: Exchange) -> Generator[bytes, None, None]:
    """The bytes of the reply; a whole one in one piece. Raises a ProxyError only before it gave any."""
    plan, outcome = exchange.plan, exchange.outcome
    committed = False
    while True:
        outcome.tries += 1
        outcome.plan = plan
        attempt = _Attempt(exchange, plan)
        try:
            for part in attempt.run():
                committed = True
                yield part
            return
        except ClientGone:
            raise
        except ProxyError as error:
            # What the server has shown is remembered also where this request cannot go up again.
            again = exchange.second(plan, error)
            if again is None or attempt.spoke:
                redact_error(error, exchange.secrets)
                outcome.fail(error)
                tail = attempt.fail(error)
                if not committed and not (attempt.spoke and exchange.request.stream):
                    raise
                yield tail
                return
            plan = again
        except Exception as error:  # the outermost boundary: a stream that has begun can only end by its error event
            if not committed:
                raise
            log_crash(error)
            yield attempt.fail(InternalError("the proxy failed; its log says why"))
            return
        finally:
            attempt.note()


class _Attempt:
    """One try: the request goes up once. `spoke` is true once more than heartbeats went, or must go, to the client."""

    def __init__(self, exchange: Exchange, plan: Plan) -> None:
        self._exchange = exchange
        self._up = upstream_request(exchange.request, plan)
        if exchange.observe:
            self._up = UpstreamRequest(exchange.request.raw, self._up.raw_text)
        self._engine = exchange.engine(self._up.raw_text)
        self._reply = self._new_reply()
        self._unsent = b""
        self._held_since = NEVER
        self._swallowed = False
        self.spoke = False

    def _new_reply(self) -> StreamReply | ObservedReply:
        exchange = self._exchange
        writer = exchange.dialect.writer(expand=False)
        reply = StreamReply(self._engine, writer, log_crash, max_event=exchange.max_event)
        if not exchange.observe:
            return reply
        return observed(reply, exchange.dialect, log_crash, max_event=exchange.max_event)

    def run(self) -> Iterator[bytes]:
        """The bytes for the client."""
        exchange, request = self._exchange, self._exchange.request
        tape = Recorder(exchange.capture, request, exchange.outcome.later, raw_text=self._up.raw_text)
        with tape, exchange.upstream.server.open("POST", exchange.path, exchange.headers, self._up.body) as call:
            parts = tape.listen(call, decoded(call, exchange.pump.receive(call)))
            first = yield from self._head(parts, call)
            streamed = is_stream(call.header("Content-Type"))
            if streamed and not (request.stream or exchange.observe):
                raise UpstreamBroken("the model server answered with a stream that was not asked for")
            if streamed and request.stream:
                yield from self._live(chain((first,), parts))
                return
            whole = yield from self._beating(read_body(chain((first,), parts)))
        yield self._observed(whole) if exchange.observe else self._whole(whole)

    def fail(self, error: ProxyError) -> bytes:
        """How the stream ends if it cannot be finished; says by `spoke` whether there is anything but the error."""
        tail = self._unsent + self._reply.fail(error)
        self.spoke = self.spoke or self._reply.started
        return tail

    def note(self) -> None:
        """Tell the outcome what was done."""
        outcome = self._exchange.outcome
        outcome.audit, outcome.calls = (*outcome.asked, *self._engine.audit), self._engine.calls
        outcome.refusals, outcome.empty_calls = self._engine.refusals, self._engine.empty_calls
        outcome.swallowed = self._swallowed or self._reply.swallowed
        if isinstance(self._reply, ObservedReply) and self._reply.would_fail is not None:
            self._would_fail(self._reply.would_fail)

    def _head(self, parts: Iterator[bytes | None], call: UpstreamCall) -> Generator[bytes, None, bytes]:
        """Wait for the head, with heartbeats, and give the first part of the body; what is no success is raised."""
        first = b""
        for part in parts:
            if part is not None:
                first = part
                break
            yield from self._beat()
        if call.status != 200:
            body = yield from self._beating(read_body(chain((first,), parts), MAX_ERROR_BODY, strict=False))
            raise error_of_response(call, body, self._exchange.secrets)
        self._exchange.outcome.headers = response_headers(call, REPLY)
        as_it_came = self._exchange.observe and self._exchange.dialect.verbatim
        self._exchange.outcome.content_type = call.header("Content-Type") if as_it_came else ""
        return first

    def _live(self, parts: Iterator[bytes | None]) -> Iterator[bytes]:
        """A stream: everything that has arrived, decided and written at once."""
        reply, pump = self._reply, self._exchange.pump
        for part in parts:
            if part is None:
                yield from self._beat()
            else:
                self._unsent += reply.receive(part)
            if reply.held or self._held_since != NEVER:
                self._limit_hold()
            if reply.failure is not None:
                raise reply.failure
            if data := self._ready():
                yield data
            if reply.done:
                pump.expect_end(END_GRACE)
        if self._engine.wants_count and not self._exchange.observe:
            self._engine.counted(self._exchange.count(self._engine.thoughts))
        self._unsent += reply.finish()
        if reply.failure is not None:
            raise reply.failure
        yield self._ready(ended=True)

    def _ready(self, *, ended: bool = False) -> bytes:
        """What may go to the client now: a role-only chunk waits for what comes after it."""
        if not (self._unsent and (self._reply.started or ended)):
            return b""
        self.spoke = True
        data, self._unsent = self._unsent, b""
        self._exchange.pump.wrote()
        return data

    def _beat(self) -> Iterator[bytes]:
        pump = self._exchange.pump
        if pump.heartbeat_due:
            pump.wrote()
            self._exchange.outcome.heartbeats += 1
            yield self._reply.heartbeat()

    def _beating(self, whole: Generator[None, None, bytes]) -> Generator[bytes, None, bytes]:
        """Wait for something whole, with heartbeats."""
        while True:
            try:
                next(whole)
            except StopIteration as done:
                data: bytes = done.value
                return data
            yield from self._beat()

    def _limit_hold(self) -> None:
        """Let go what has been held for too long (contract C2), and sooner the prose before it."""
        reply, now, bound = self._reply, time.monotonic(), self._exchange.hold_timeout
        if not reply.held:
            self._held_since = NEVER
        elif self._held_since == NEVER:
            self._held_since = now
            bound = min(bound, HURRY)
        elif now >= self._held_since + bound:
            self._unsent += reply.release()
            self._held_since = NEVER
        elif now >= self._held_since + HURRY:
            self._unsent += reply.flush_prose()
        else:
            bound = HURRY
        self._exchange.pump.alarm(self._held_since + bound)

    def _whole(self, body: bytes) -> bytes:
        """A whole answer: as the stream that the client asked for, or whole."""
        exchange, request = self._exchange, self._exchange.request
        answer = read_whole(body)
        self._swallowed = says_nothing(answer)
        try:
            counted = self._counted(answer)
            return self._made(body if counted is answer else dump_json(counted), counted, self._engine)
        except ProxyError:
            raise
        except Exception as error:  # the outermost boundary of the engine (contract C6)
            log_crash(error)
            if request.stream or not exchange.dialect.verbatim:
                raise InternalError("the proxy failed while it read the answer; its log says why") from error
            return body

    def _counted(self, answer: JsonObject) -> JsonObject:
        """A whole answer whose usage says how many tokens were thoughts; the very same if there are none."""
        usage = as_object(answer.get("usage"))
        if not self._engine.may_tell(answer) or not says_usage(Chunk({"usage": usage}, b"")):
            return answer
        reader = self._exchange.engine(self._up.raw_text)
        reader.feed(as_chunk(answer))
        if not reader.thoughts:
            return answer
        tokens = self._exchange.count(reader.thoughts)
        if not tokens:
            return answer
        return {**answer, "usage": with_thought_tokens(usage, tokens)}

    def _observed(self, body: bytes) -> bytes:
        """A whole answer that leaves as it came, whatever it is; what would be made of it is only noted."""
        answer: JsonObject = {}
        try:
            answer = read_whole(body)
            self._swallowed = says_nothing(answer)
            self._made(body, answer, self._engine)
        except ProxyError as error:
            self._would_fail(error)
        except Exception as error:  # the outermost boundary of the engine
            log_crash(error)
        if self._exchange.dialect.verbatim:
            return body
        return self._made(body, answer or read_whole(body), unrepaired())

    def _would_fail(self, error: ProxyError) -> None:
        redact_error(error, self._exchange.secrets)
        self._exchange.outcome.would_fail(error)

    def _made(self, body: bytes, answer: JsonObject, engine: Engine) -> bytes:
        dialect = self._exchange.dialect
        if self._exchange.request.stream:
            return answer_as_stream(answer, engine, dialect.writer(expand=True))
        return answer_as_answer(body, answer, engine, dialect)
