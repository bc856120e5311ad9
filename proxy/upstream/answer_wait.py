"""The wait for an answer: for the upstream's socket and the client's at once, and for what is due.

A WSGI generator learns only at the second write after it that its client left; a poll on the client's own socket
(`POLLRDHUP`) tells at once. A client that closed its sending half counts as gone. Linux only.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from proxy.errors import ClientGone, ProxyError, Unavailable, UpstreamTimeout
from proxy.transitions import next_state
from proxy.upstream.client import UpstreamCall
from proxy.upstream.connections import Waiting
from proxy.upstream.wait_state import TRANSITIONS, WaitState, WaitStep


class HasDescriptor(Protocol):
    """A socket, as far as the poll needs it."""

    def fileno(self) -> int:
        """The descriptor."""


class HasTurn(Protocol):
    """A request's turn to compute (server/turns.py)."""

    def take(self) -> None:
        """Wait for it, but not for long."""

    def give_back(self) -> None:
        """Let another one compute."""


NEVER = float("inf")
# A stream of which nothing could leave for so long, in seconds (its model prints a call), is looked at less often: a
# share of that time goes by between two looks, and at most so many seconds.
QUIET, REST_SHARE, REST_MOST = 0.5, 0.1, 0.1
# Bytes of the upstream that a driver takes in one go: a fast upstream does not keep the other streams waiting.
TURN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: without a byte of the answer, between two writes to the client, and in all.

    `heartbeat` 0 means that the client gets none; `until_complete` that the whole answer is due as its head is.
    """

    idle: float
    heartbeat: float = 0.0
    until_complete: bool = False
    total: float = NEVER


class AnswerWait:
    """Waits for one answer on behalf of one client. `drain` is the descriptor that can be read once the worker is about
    to end.

    By itself it blocks, in a poll of its own. From `drive` to `let_go` (server/pump.py) it never does: where nothing
    has come `receive` gives None, and `parked`, `descriptor` and `deadline` say what for (upstream/wait_state.py). What
    the driver has seen it says by `readable`, `client_left` and `worker_ends`; then the next step follows. A `turn` is
    given back while it blocks.
    """

    __slots__ = (
        *("descriptor", "lane", "on_lane", "_alarm", "_client", "_drain", "_end", "_ended_by", "_last", "_poll"),
        *("_received_at", "_rest", "_silent_until", "_state", "_timeouts", "_turn", "_written"),
    )

    def __init__(
        self,
        client: HasDescriptor | None,
        timeouts: Timeouts,
        drain: int | None = None,
        *,
        turn: HasTurn | None = None,
    ) -> None:
        self._state = WaitState.ALONE
        self.descriptor = -1
        self._client = client
        self._turn = turn
        self._timeouts = timeouts
        self._drain = drain
        # While it is parked a driver may ask this (`pass_by`) instead of making a step.
        self.lane: Callable[[], bytes | None] | None = None
        # Receives each part of the body that leaves by a lane, if the driver has lanes.
        self.on_lane: Callable[[bytes], object] | None = None
        self._written = self._received_at = time.monotonic()
        self._last = self._written + timeouts.total
        self._alarm = NEVER
        self._end = NEVER
        self._rest = 0.0
        self._silent_until = NEVER
        self._ended_by: ProxyError | None = None
        self._poll: select.poll | None = None

    def wrote(self) -> None:
        """Bytes went to the client just now: the next heartbeat is a whole interval away."""
        self._written = time.monotonic()

    @property
    def may_pass(self) -> bool:
        """True if a driver that knows of lanes waits for the upstream."""
        return self.parked and self.on_lane is not None

    def leaves(self, body: bytes) -> bytes:
        """Note that the next bytes of the upstream go to the client unchanged, by the lane, and return them."""
        self._written = self._received_at = time.monotonic()
        if self.on_lane is not None:
            self.on_lane(body)
        return body

    def keeps_back(self) -> bytes:
        """The next bytes of the upstream were taken by the lane, and nothing leaves yet; give that."""
        self._received_at = time.monotonic()
        return b""

    @property
    def heartbeat_due(self) -> bool:
        """True if the client has waited for bytes for the whole interval."""
        beat = self._timeouts.heartbeat
        return bool(beat) and time.monotonic() >= self._written + beat

    def _is_due(self, now: float) -> bool:
        """True if a heartbeat is due, or the alarm rings."""
        return now >= self._alarm or self.heartbeat_due

    def alarm(self, at: float) -> None:
        """Wake at this time (`time.monotonic`) at the latest."""
        self._alarm = at

    def rest(self, seconds: float) -> None:
        """Without a driver, take together what comes within so many seconds: each look at it wakes a thread."""
        self._rest = seconds

    def start_over(self) -> None:
        """An answer is asked for: no alarm and no end of one before says anything of it."""
        self._alarm = self._end = NEVER
        self._rest = 0.0

    def connecting(self) -> Waiting:
        """What is to be done where the connection to the model server has to be waited for: others may compute then."""
        return Waiting(begins=self._give_way)

    def _give_way(self) -> None:
        if self._turn is not None:
            self._turn.give_back()

    def expect_end(self, seconds: float) -> None:
        """The body should end by itself now; after so many seconds it counts as ended."""
        self._end = min(self._end, time.monotonic() + seconds)

    def drive(self) -> None:
        """From now on somebody else waits: nothing here blocks any more."""
        self._move(WaitStep.DRIVE)

    def let_go(self) -> None:
        """Nobody else waits any more: from now on it blocks."""
        self._move(WaitStep.LET_GO)

    def _move(self, step: WaitStep) -> None:
        self._state = next_state(TRANSITIONS, self._state, step)

    @property
    def driven(self) -> bool:
        """True while somebody else waits."""
        return self._state is not WaitState.ALONE

    @property
    def parked(self) -> bool:
        """True while nothing can be done before `descriptor` can be read or `deadline` has come."""
        return self._state is WaitState.PARKED

    @property
    def blocks(self) -> bool:
        """True if the next step may block."""
        return self._state is WaitState.BLOCKS

    @property
    def computes(self) -> bool:
        """True if the next step may compute for long."""
        return self._state is WaitState.COMPUTES

    @property
    def deadline(self) -> float:
        """When to go on although nothing has come (`time.monotonic`)."""
        beat = self._written + (self._timeouts.heartbeat or NEVER)
        return min(self._silent_until, self._alarm, self._end, self._last, beat)

    def readable(self, now: float) -> None:
        """There is something to receive: so it was seen at this time (`time.monotonic`)."""
        self._move(WaitStep.BYTES_CAME)

    def pass_by(self, now: float) -> bytes | None:
        """What has come and leaves by the lane, when it was seen that there is something to receive; b"" if nothing
        has come, None if a step must be made.
        """
        if self.lane is None:
            return None
        data = self.lane()
        if data is None:
            self.lane = None
        return data

    def client_left(self) -> None:
        """The client has closed the connection, or its sending half."""
        self._ended_by = ClientGone("the client closed the connection")

    def worker_ends(self) -> None:
        """The worker is about to end."""
        if self._ended_by is None:
            words = "the proxy is about to end, for a restart or a new release; send the request again"
            self._ended_by = Unavailable(words)

    def on_a_thread(self) -> Iterator[bytes]:
        """Say that what follows may block: a driver is given `b""`, and takes the next step on a thread."""
        yield from self._leave_driver(WaitStep.BLOCK)

    def on_a_long_step(self) -> Iterator[bytes]:
        """Say that what follows may compute for long: the same, on the thread for such steps."""
        yield from self._leave_driver(WaitStep.COMPUTE)

    def _leave_driver(self, step: WaitStep) -> Iterator[bytes]:
        if not self.driven:
            return
        before = self._state
        self._move(step)
        yield b""
        self._move(WaitStep.RESUME)
        if before is WaitState.READABLE:
            # The thread's step took nothing of it.
            self._move(WaitStep.BYTES_CAME)

    def receive(self, call: UpstreamCall) -> Iterator[bytes | None]:
        """The parts of the answer's body as they arrive, the first as soon as the head is whole; None when a heartbeat
        is due or the alarm rings, also while parts keep coming, and where a driver is to wait.

        Raises ClientGone, UpstreamTimeout, UpstreamBroken, or Unavailable (the worker is about to end); ends when the
        body has properly ended.
        """
        # The reading of an earlier answer may have been left while it was parked.
        self._move(WaitStep.RESUME)
        self.descriptor = call.fileno()
        self._poll = None
        self._received_at = time.monotonic()
        headless = True
        while not call.complete:
            until_complete = headless or self._timeouts.until_complete
            self._silent_until = self._received_at + self._timeouts.idle
            if self._must_park(call):
                # Its driver polls.
                self._poll = None
                self._move(WaitStep.PARK)
                yield None
                self._move(WaitStep.RESUME)
                self.lane = None
                self._silent_until = self._received_at + self._timeouts.idle
            ready = self._is_ready(call)
            now = time.monotonic()
            if now >= self._end:
                return
            if now >= min(self._silent_until, self._last):
                self._late(now, until_complete=until_complete, ready=ready)
            if self._is_due(now):
                yield None
            if not ready:
                continue
            data = call.receive(TURN) if self.driven else call.receive()
            if not call.status:
                continue
            if data or headless:
                headless = False
                yield data
                # It would stay as long as the stream waits.
                del data
            if not self._timeouts.until_complete:
                # What the reader took, perhaps waiting for a thread, is no silence of the server's.
                self._received_at = time.monotonic()

    def _must_park(self, call: UpstreamCall) -> bool:
        """True where a driver has to wait for what comes."""
        return self._state is WaitState.RUNNING and not (call.more or self._ended_by)

    def _is_ready(self, call: UpstreamCall) -> bool:
        """True if the upstream can be read; without a driver that, or a deadline, is waited for."""
        ready = False
        if self._ended_by is None:
            ready = self._take_ready(call) if self.driven else self._wait(call)
        if self._ended_by is not None:
            raise self._ended_by
        return ready

    def _take_ready(self, call: UpstreamCall) -> bool:
        ready = self._state is WaitState.READABLE or call.more
        self._move(WaitStep.TAKE)
        return ready

    def _late(self, now: float, *, until_complete: bool, ready: bool) -> None:
        """Some time is over: raise UpstreamTimeout.

        An idle limit is kept by bytes that have come after all; what is read whole has its time in all.
        """
        excused = ready and not until_complete
        if now >= self._silent_until and not excused:
            raise UpstreamTimeout(_silence(until_complete, self._timeouts.idle))
        if now >= self._last:
            raise UpstreamTimeout(f"the reply took longer than {self._timeouts.total:g} s (total_timeout)")

    def _poll_of(self, call: UpstreamCall) -> select.poll:
        """The poll for the upstream's bytes, the client's leaving, the worker's end."""
        if self._poll is not None:
            return self._poll
        poll = self._poll = select.poll()
        poll.register(call.fileno(), select.POLLIN)
        if self._client is not None:
            poll.register(self._client.fileno(), select.POLLRDHUP)
        if self._drain is not None:
            poll.register(self._drain, select.POLLIN)
        return poll

    def _wait(self, call: UpstreamCall) -> bool:
        """True if the upstream can be read, False if the deadline has come."""
        poll = self._poll_of(call)
        if self._rest and call.status and not call.more:
            poll.modify(call.fileno(), 0)
            self._polled(poll, min(self._rest, self._remaining()))
            poll.modify(call.fileno(), select.POLLIN)
        ready = self._polled(poll, 0.0 if call.more else self._remaining())
        if self._client is not None and self._client.fileno() in ready:
            self.client_left()
        elif self._drain in ready:
            self.worker_ends()
        return bool(ready) or call.more

    def _remaining(self) -> float:
        """Seconds until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    def _polled(self, poll: select.poll, seconds: float) -> set[int]:
        """The descriptors of which there is news, waited for so long."""
        self._give_way()
        # Rounded up: a poll that returns a little early would spin.
        ready = {descriptor for descriptor, _ in poll.poll(int(seconds * 1000) + 1 if seconds else 0)}
        if self._turn is not None:
            self._turn.take()
        return ready


def rest_after(quiet: float, *, spoke: bool) -> float:
    """For how long a stream need not be looked at that began so long ago, and of which nothing has left unless it
    `spoke`: the longer the less often.
    """
    if spoke or quiet < QUIET:
        return 0.0
    return min(REST_MOST, REST_SHARE * quiet)


def _silence(until_complete: bool, limit: float) -> str:
    if until_complete:
        return f"the model server did not answer within {limit:g} s (idle_timeout)"
    return f"the model server was silent for {limit:g} s (idle_timeout)"
