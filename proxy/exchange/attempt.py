"""One try: the request goes up once, and what comes back becomes the client's bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import ParamSpec

from proxy.activity.recording import begin_try, listened
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_json
from proxy.dialects.base import Writer
from proxy.dialects.chat.answer import read_answer, read_whole, says_nothing
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine, with_thought_tokens
from proxy.engine.events import Call, Text
from proxy.errors import InternalError, ProxyError, UpstreamBroken
from proxy.exchange.capture import Recorder, is_stream
from proxy.exchange.exchange import Exchange, log_crash
from proxy.exchange.guided import answer_instead, guided_call
from proxy.exchange.lane import ReplyLane, notes_of
from proxy.exchange.outcome import ReplyFacts
from proxy.exchange.plan import Plan, UpstreamRequest, upstream_request
from proxy.exchange.repetition import RepetitionWatch
from proxy.exchange.reply_content import ReplyContent
from proxy.exchange.reply_stream import StreamReply, never_enough
from proxy.exchange.second_try import EarlierTry, Why, record, summed, why_again
from proxy.exchange.slices import new_slice
from proxy.exchange.whole_answer import answer_as_answer, answer_as_stream, thoughts_to_count
from proxy.healing.heal import NO_HEALING
from proxy.limits import MAX_ERROR_BODY
from proxy.upstream.answer_wait import NEVER, rest_after
from proxy.upstream.client import UpstreamCall
from proxy.upstream.content_encoding import decoded
from proxy.upstream.headers import REPLY, response_headers
from proxy.upstream.responses import error_of_response, read_body

# The body should end right after `[DONE]`; a server that keeps the connection open is not waited for.
END_GRACE = 1.0

P = ParamSpec("P")


def _on_its_way(request: ChatRequest, plan: Plan) -> UpstreamRequest:
    """The request as it goes up; a defect of the healing leaves the request as it came (contract C6)."""
    try:
        return upstream_request(request, plan)
    except Exception as error:  # the outermost boundary of the healing
        log_crash(error)
        return upstream_request(request, replace(plan, heal=NO_HEALING))


class Attempt:
    """One try: the request goes up once. `spoke` is true once more than heartbeats went, or must go, to the client.

    `silence` says why a reply that has ended says nothing, if it does. What `earlier` has said goes on in this one.
    """

    __slots__ = (
        *("handover", "silence", "spoke", "_answer", "_call", "_earlier", "_engine", "_exchange", "_held_since"),
        *("_keep_back", "_lane", "_plan", "_reply", "_swallowed", "_times", "_unsent", "_up"),
        *("_watch", "_writer"),
    )

    def __init__(self, exchange: Exchange, plan: Plan, earlier: Attempt | None = None) -> None:
        self._exchange = exchange
        self._plan = plan
        self._up = _on_its_way(exchange.request, plan)
        self._engine = exchange.engine(self._up.raw_text, plan.guided)
        self._earlier = earlier
        self._keep_back = self._followed()
        self._watch = None if exchange.repetition is None else RepetitionWatch(exchange.repetition)
        self._writer = self._new_writer()
        self._reply = self._new_reply()
        self._unsent = b""
        self._held_since = NEVER
        self._swallowed = False
        self._answer: JsonObject = {}
        self._call: Call | None = None
        self._times = exchange.outcome.times
        self.silence: Why | None = None
        self.handover = EarlierTry()
        self._lane: ReplyLane | None = None
        self.spoke = False

    def _followed(self) -> frozenset[Why]:
        """The silences that another try may follow: each behind the first one. Behind a second one, of which the client
        has seen nothing yet, only a call that was swallowed: a stream tells its tokens when it is asked for them.
        """
        if self._earlier is None:
            return self._exchange.ask_again
        if self._earlier.spoke or self._plan.again is not Why.EMPTY:
            return frozenset()
        return self._exchange.ask_again & {Why.SWALLOWED}

    def _new_writer(self) -> Writer:
        """That of the try before, if something of that has left."""
        if self._earlier is not None and self._earlier.spoke:
            return self._earlier._writer
        return self._exchange.dialect.writer(expand=False)

    def _new_reply(self) -> StreamReply:
        return StreamReply(
            self._engine,
            self._writer,
            log_crash,
            keep_back=self._keep_back,
            earlier=None if self._earlier is None else self._earlier.handover_of_all,
            watch=self._watch,
        )

    @property
    def begun(self) -> bool:
        """True once the client has, or is about to get, something of this try that no other try may say again."""
        return self.spoke or self._reply.started

    def run(self) -> Iterator[bytes]:
        """The bytes for the client."""
        exchange, request = self._exchange, self._exchange.request
        exchange.wait.start_over()
        raw_text = self._up.raw_text
        seen = begin_try(exchange.recording, self._up.body, raw_text=raw_text)
        tape = Recorder(exchange.capture, request, exchange.outcome, raw_text=raw_text)
        server, waiting = exchange.upstream.server, exchange.wait.connecting()
        with tape, server.open("POST", exchange.path, exchange.headers, self._up.body, waiting) as call:
            parts = tape.listen(call, decoded(call, exchange.wait.receive(call), lambda: self._reply.done))
            parts = listened(seen, call, parts)
            first = yield from self._head(parts, call)
            parts = chain((first,), parts)
            # It would stay as long as the stream.
            del first
            streamed = is_stream(call.header("Content-Type"))
            if streamed and not self._takes_a_stream:
                raise UpstreamBroken("the model server answered with a stream that was not asked for")
            if streamed and request.stream:
                self._lane = ReplyLane(call, exchange.wait, self._reply, notes_of(tape, seen))
                yield from self._live(parts)
                return
            if self._must_be_a_stream:
                raise UpstreamBroken("the model server answered with no stream although the one before was one")
            whole = yield from self._beating(read_body(parts))
        if self._plan.guided:
            yield self._instead(whole)
            return
        # All of it is repaired at once, its thoughts may be counted by the server, and it may be kept.
        yield from self._exchange.wait.on_a_thread()
        answered = self._measured(self._complete_answer, whole)
        if self.withheld:
            self._unsent = answered
            return
        yield answered

    @property
    def calls(self) -> int:
        """The number of calls in the reply so far."""
        return self._engine.calls

    @property
    def withheld(self) -> bool:
        """True if the end of the reply is kept back, as one more may follow."""
        return self.silence in self._keep_back

    @property
    def _takes_a_stream(self) -> bool:
        """True if the answer may be a stream."""
        if self._plan.guided:
            return False
        return self._exchange.request.stream

    @property
    def _must_be_a_stream(self) -> bool:
        """True if the answer goes on in a stream that has begun."""
        if self._earlier is None or self._plan.guided:
            return False
        return self._earlier.spoke

    def _instead(self, body: bytes) -> bytes:
        """The end of the reply before, with the call of this answer in the place of the broken one."""
        assert self._earlier is not None, "its call is asked for again"
        answer = read_whole(body)
        self._call = guided_call(answer, self._engine, self._plan.guided)
        return self._earlier.end_with(self._call, as_object(answer.get("usage")))

    @property
    def handover_of_all(self) -> EarlierTry:
        """Return what the next try must know of this one, with the token counts of all tries so far."""
        if self._earlier is None:
            return self.handover
        return replace(self.handover, usage=summed(self._earlier.handover_of_all.usage, self.handover.usage))

    def end_after_all(self) -> bytes:
        """The end of a reply that says nothing, and after which no other one came."""
        rest = b""
        if self._reply.withheld:
            rest = self._reply.end_after_all()
        return self._unsent + rest

    def end_with(self, call: Call, usage: JsonObject) -> bytes:
        """The end of a reply with a call in the place of the broken one; `usage` is what the second try took."""
        counts = summed(self.handover.usage, usage)
        if self._reply.withheld:
            return self._unsent + self._reply.end_with(call, counts)
        broken = self.broken
        assert broken is not None, "for that it was asked for again"
        answer = answer_instead(self._answer, broken, call, counts)
        return self._repaired_answer(dump_json(answer), answer, self._exchange.engine(self._up.raw_text, ""))

    @property
    def broken(self) -> Text | None:
        """The call that cannot be read with which the reply has ended, if that is why it is worth one more try."""
        return self._engine.broken_call if self.silence is Why.BROKEN else None

    def let_go(self) -> None:
        """Let what is held leave, for nothing follows it; `spoke` says whether there is anything to be sent."""
        self._unsent += self._reply.let_go()
        self.spoke = self.begun

    def fail(self, error: ProxyError) -> bytes:
        """The end of a stream that cannot be finished."""
        return self._unsent + self._reply.fail(error)

    def note(self) -> None:
        """Tell the outcome what was done."""
        outcome = self._exchange.outcome
        self._end_hold(time.monotonic())
        broken, earlier = None, None
        if outcome.again is Why.BROKEN:
            earlier = self._earlier
            broken = (earlier or self)._engine.broken_call
        again = record(outcome.again, broken, "" if self._call is None else self._call.arguments)
        before = () if earlier is None else earlier._engine.audit
        ended = () if self._watch is None else self._watch.record
        outcome.end_try(
            ReplyFacts(
                healed=tuple(self._up.healed),
                audit=(*before, *again, *self._engine.audit, *ended),
                calls=self._engine.calls,
                refusals=self._engine.refusals,
                empty_calls=self._engine.empty_calls,
                swallowed=self._swallowed or self._reply.swallowed,
            )
        )

    def _head(self, parts: Iterator[bytes | None], call: UpstreamCall) -> Generator[bytes, None, bytes]:
        """Wait for the head, with heartbeats, and give the first part of the body; what is no success is raised."""
        first = b""
        for part in parts:
            if part is not None:
                first = part
                break
            yield self._beat()
        if call.status != 200:
            body = yield from self._beating(read_body(chain((first,), parts), MAX_ERROR_BODY, strict=False))
            raise error_of_response(call, body, self._exchange.secrets)
        if self._plan.learnt:
            # Another worker may hold the lock of what they share.
            yield from self._exchange.wait.on_a_thread()
            self._exchange.upstream.remember_healings(self._plan.learnt)
        self._exchange.outcome.receive_head(response_headers(call, REPLY))
        return first

    def _live(self, parts: Iterator[bytes | None]) -> Iterator[bytes]:
        """A stream: everything that has arrived, decided and written at once."""
        reply, wait, began = self._reply, self._exchange.wait, time.monotonic()
        for part in parts:
            beat = b""
            if part is None:
                beat = self._beat()
            else:
                yield from self._read(part)
                del part
            if reply.held or self._held_since != NEVER:
                self._limit_hold()
            if reply.failure is not None:
                raise reply.failure
            if reply.done:
                wait.expect_end(END_GRACE)
            ready = self._ready()
            wait.rest(rest_after(time.monotonic() - began, spoke=self.spoke))
            wait.lane = self._open_lane()
            yield beat + ready
            if reply.cut:
                # Leaving closes the upstream, by which the model server stops.
                break
        yield from self._count_thoughts()
        if reply.ends_long:
            yield from wait.on_a_long_step()
        yield from self.before_it_is_stored()
        self._unsent += self._measured(reply.finish)
        if reply.failure is not None:
            raise reply.failure
        self.silence, self.handover = reply.silence, reply.handover
        if reply.started or not reply.withheld:
            yield self._ready(ended=True)

    def before_it_is_stored(self) -> Iterator[bytes]:
        """Go to a thread of its own, if the end of the reply may have to wait for the file that it is kept in."""
        if self._exchange.dialect.keeps:
            yield from self._exchange.wait.on_a_thread()

    def _count_thoughts(self) -> Iterator[bytes]:
        """Have the tokens of the thoughts counted, if the usage is to say how many they were."""
        if not self._engine.wants_count:
            return
        yield from self._exchange.wait.on_a_thread()
        self._engine.counted(self._exchange.count(self._thoughts_before + self._engine.thoughts))

    @property
    def _thoughts_before(self) -> str:
        """The thoughts of the tries before, whose tokens are in the usage of this one."""
        earlier = self._earlier
        return "" if earlier is None else earlier._thoughts_before + earlier._engine.thoughts

    def _open_lane(self) -> ReplyLane | None:
        """The lane, if nothing but text is awaited now."""
        lane = self._lane
        return lane if lane is not None and lane.open() else None

    def _read(self, part: bytes) -> Iterator[bytes]:
        """Read what has come, in slices: between two of them other streams have their turn."""
        reply = self._reply
        if reply.takes_long(part):
            yield from self._exchange.wait.on_a_long_step()
            self._unsent += self._measured(reply.receive, part, never_enough)
            return
        self._unsent += self._measured(reply.receive, part, new_slice())
        while reply.unread:
            # What was read is numbered already, so that a heartbeat comes behind it.
            yield self._ready() + self._beat()
            self._unsent += self._measured(reply.receive, b"", new_slice())

    def _measured(self, step: Callable[P, bytes], *arguments: P.args, **named: P.kwargs) -> bytes:
        """The bytes that a step gives; its time is counted if something was repaired in it."""
        repairs, began = self._engine.repairs, time.monotonic()
        written = step(*arguments, **named)
        if self._engine.repairs != repairs:
            self._times.repair.add(time.monotonic() - began)
        return written

    def _ready(self, *, ended: bool = False) -> bytes:
        """The bytes that may go to the client now: a role-only chunk waits for what comes after it."""
        if not (self._unsent and (self._reply.started or ended)):
            return b""
        self.spoke = True
        data, self._unsent = self._unsent, b""
        self._exchange.wait.answers()
        return data

    def _beat(self) -> bytes:
        """A heartbeat, if one is due."""
        wait = self._exchange.wait
        if not wait.heartbeat_due:
            return b""
        wait.wrote()
        self._exchange.outcome.count_heartbeat()
        return self._reply.heartbeat()

    def _beating(self, reading: Generator[None, None, bytes]) -> Generator[bytes, None, bytes]:
        """Wait for something whole, with heartbeats."""
        while True:
            try:
                next(reading)
            except StopIteration as done:
                data: bytes = done.value
                return data
            yield self._beat()

    def _limit_hold(self) -> None:
        """Release what has been held for too long (contract C2)."""
        reply, now, bound = self._reply, time.monotonic(), self._exchange.hold_timeout
        if not reply.held:
            self._end_hold(now)
        elif self._held_since == NEVER:
            self._held_since = now
        elif now >= self._held_since + bound:
            self._unsent += reply.release()
            self._end_hold(now)
        self._exchange.wait.alarm(self._held_since + bound)

    def _end_hold(self, now: float) -> None:
        """Nothing is held any more."""
        if self._held_since != NEVER:
            self._times.held.add(now - self._held_since)
            self._held_since = NEVER

    def _complete_answer(self, body: bytes) -> bytes:
        """A whole answer: as the stream that the client asked for, or whole."""
        exchange, request = self._exchange, self._exchange.request
        answer, body = read_answer(body)
        self._swallowed = says_nothing(answer)
        self.handover = EarlierTry(as_object(answer.get("usage")))
        self._answer = answer
        joined = None if self._earlier is None else self._earlier.handover_of_all.joined(answer)
        if joined is not None:
            answer, body = joined, dump_json(joined)
        try:
            counted = self._counted(answer)
            if counted is None:
                return self._repaired_answer(body, answer, self._engine)
            return self._repaired_answer(dump_json(counted), counted, self._engine)
        except ProxyError:
            raise
        except Exception as error:  # the outermost boundary of the engine (contract C6)
            log_crash(error)
            if request.stream or not exchange.dialect.verbatim:
                raise InternalError("the proxy failed while it read the answer; its log says why") from error
            return body

    def _counted(self, answer: JsonObject) -> JsonObject | None:
        """A whole answer whose usage says how many tokens were thoughts; None if there are none."""
        new_engine = partial(self._exchange.engine, self._up.raw_text, self._plan.guided)
        thoughts = thoughts_to_count(answer, self._engine, new_engine)
        tokens = self._exchange.count(self._thoughts_before + thoughts) if thoughts else 0
        usage = as_object(answer.get("usage"))
        return {**answer, "usage": with_thought_tokens(usage, tokens)} if tokens else None

    def _repaired_answer(self, body: bytes, answer: JsonObject, engine: Engine) -> bytes:
        dialect, content = self._exchange.dialect, ReplyContent()
        content.observe_body(answer)
        if self._exchange.request.stream:
            reply = answer_as_stream(answer, engine, dialect.writer(expand=True), content)
        else:
            reply = answer_as_answer(body, answer, engine, dialect, content)
        tokens, in_thought = self.handover.tokens, engine.ends_in_thought
        self.silence = why_again(content, tokens, engine.broken_call, in_thought=in_thought)
        return reply
