"""The wait for a response: for the upstream's socket and the client's at the same time, and for deadlines.

A WSGI generator notices that its client left only at its second write after that; a poll on the client's socket
(POLLRDHUP) reports it immediately. A client that closed its sending half counts as gone. Linux only.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import auto
from typing import Protocol

from proxy.errors import ClientGone, ProxyError, Unavailable, UpstreamTimeout
from proxy.transitions import QuickEnum
from proxy.upstream.client import UpstreamCall, Waiting


class HasDescriptor(Protocol):
    """Protocol of a socket that can be polled."""

    def fileno(self) -> int:
        """Return the descriptor."""


class HasTurn(Protocol):
    """A request's turn to compute (server/pump_worker.py)."""

    def take(self) -> None:
        """Wait for the turn, but not for long."""

    def give_back(self) -> None:
        """Let another request compute."""


NEVER = float("inf")
# Bytes of the upstream that a driver takes at a time, so that a fast upstream does not keep other streams waiting.
TURN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: without a byte of the response, between two writes to the client, and in all.

    With `heartbeat` 0 the client gets none. With `until_complete`, `idle` limits the whole response.
    """

    idle: float
    heartbeat: float = 0.0
    until_complete: bool = False
    total: float = NEVER


class WaitState(QuickEnum):
    """State of a response for its driver."""

    # There is no driver: `receive` blocks in its own poll.
    ALONE = auto()
    # Nothing: the driver makes a step.
    RUNNING = auto()
    # The upstream's bytes, or a deadline.
    PARKED = auto()
    # The next step, which reads the upstream's bytes.
    READABLE = auto()
    # A thread for a step that may block.
    BLOCKS = auto()
    # A thread for a step that may compute for long.
    COMPUTES = auto()


_AWAITED = frozenset((WaitState.PARKED, WaitState.BLOCKS, WaitState.COMPUTES))


class AnswerWait:
    """Waits for one response on behalf of one client.

    Without a driver it blocks. From `drive` to `let_go` (server/pump.py) it never does: where nothing has arrived,
    `receive` yields None, and `parked`, `descriptor` and `deadline` say what it waits for. The driver reports events by
    `readable`, `client_left` and `worker_ends`; then it makes the next step.

    `drain` is the descriptor that becomes readable once the worker is about to end. `turn` is given back while it
    blocks.
    """

    __slots__ = (
        *("descriptor", "lane", "on_lane", "_alarm", "_client", "_drain", "_end", "_ended_by", "_last"),
        *("_received_at", "_silent_until", "_state", "_timeouts", "_turn", "_written"),
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
        # While it is parked, a driver may call this (`pass_by`) instead of making a step.
        self.lane: Callable[[], bytes | None] | None = None
        # Receives each part of the body that leaves by a lane, if the driver has lanes.
        self.on_lane: Callable[[bytes], object] | None = None
        self._written = self._received_at = time.monotonic()
        self._last = self._written + timeouts.total
        self._alarm = self._end = self._silent_until = NEVER
        self._ended_by: ProxyError | None = None

    def start_over(self) -> None:
        """Prepare for another response: alarms and ends of an earlier one do not count."""
        self._alarm = self._end = NEVER

    def connecting(self) -> Waiting:
        """Return how to wait for the connection: other requests may compute meanwhile."""
        return Waiting(begins=self._give_way)

    def _give_way(self) -> None:
        if self._turn is not None:
            self._turn.give_back()

    # Deadlines.

    def wrote(self) -> None:
        """Note that bytes were sent to the client: the next heartbeat is a whole interval away."""
        self._written = time.monotonic()

    @property
    def heartbeat_due(self) -> bool:
        """Whether the client has waited for bytes for the whole interval."""
        beat = self._timeouts.heartbeat
        return bool(beat) and time.monotonic() >= self._written + beat

    def alarm(self, at: float) -> None:
        """Wake at this time (`time.monotonic`) at the latest."""
        self._alarm = at

    def expect_end(self, seconds: float) -> None:
        """Treat the body as ended after this number of seconds."""
        self._end = min(self._end, time.monotonic() + seconds)

    @property
    def deadline(self) -> float:
        """When to go on although nothing has arrived (`time.monotonic`)."""
        beat = self._written + (self._timeouts.heartbeat or NEVER)
        return min(self._silent_until, self._alarm, self._end, self._last, beat)

    # The driver's side.

    def drive(self) -> None:
        """Stop blocking: from now on a driver waits."""
        self._state = WaitState.RUNNING

    def let_go(self) -> None:
        """Detach from the driver; further reads block."""
        self._state = WaitState.ALONE

    @property
    def driven(self) -> bool:
        """Whether it has a driver."""
        return self._state is not WaitState.ALONE

    @property
    def parked(self) -> bool:
        """Whether nothing can be done before `descriptor` is readable or `deadline` has passed."""
        return self._state is WaitState.PARKED

    @property
    def blocks(self) -> bool:
        """Whether the next step may block."""
        return self._state is WaitState.BLOCKS

    @property
    def computes(self) -> bool:
        """Whether the next step may compute for long."""
        return self._state is WaitState.COMPUTES

    def readable(self) -> None:
        """Note that the upstream is readable. A thread that makes a step is not disturbed: epoll reports it again."""
        if self._state in (WaitState.RUNNING, WaitState.PARKED):
            self._state = WaitState.READABLE

    def pass_by(self) -> bytes | None:
        """Return what has arrived and leaves by the lane; b"" if nothing does, None if a step must be made."""
        if self.lane is None:
            return None
        data = self.lane()
        if data is None:
            self.lane = None
        return data

    @property
    def may_pass(self) -> bool:
        """Whether a driver with lanes waits for the upstream."""
        return self.parked and self.on_lane is not None

    def leaves(self, body: bytes) -> bytes:
        """Note that these bytes go to the client by the lane, and return them."""
        self._written = self._received_at = time.monotonic()
        if self.on_lane is not None:
            self.on_lane(body)
        return body

    def keeps_back(self) -> bytes:
        """Note that the lane took bytes of which nothing leaves yet, and return nothing."""
        self._received_at = time.monotonic()
        return b""

    def client_left(self) -> None:
        """Note that the client has closed the connection, or its sending half."""
        self._ended_by = ClientGone("the client closed the connection")

    def worker_ends(self) -> None:
        """Note that the worker is about to end."""
        if self._ended_by is None:
            words = "the proxy is about to end, for a restart or a new release; send the request again"
            self._ended_by = Unavailable(words)

    def on_a_thread(self) -> Iterator[bytes]:
        """Yield `b""` to a driver, which makes the next step, one that may block, on a thread."""
        yield from self._leave_driver(WaitState.BLOCKS)

    def on_a_long_step(self) -> Iterator[bytes]:
        """Yield `b""` to a driver, which makes the next step on the thread for steps that compute for long."""
        yield from self._leave_driver(WaitState.COMPUTES)

    def _leave_driver(self, state: WaitState) -> Iterator[bytes]:
        if not self.driven:
            return
        was_readable = self._state is WaitState.READABLE
        self._state = state
        yield b""
        self._resume()
        if was_readable:  # the thread's step read nothing
            self.readable()

    def _resume(self) -> None:
        if self._state in _AWAITED:
            self._state = WaitState.RUNNING

    # Reading.

    def receive(self, call: UpstreamCall) -> Iterator[bytes | None]:
        """Yield the parts of the body as they arrive, the first as soon as the head has.

        Yield None when a heartbeat is due or the alarm rings, also while parts keep arriving, and where a driver should
        wait. Raises ClientGone, UpstreamTimeout, UpstreamBroken, or Unavailable if the worker is about to end.
        """
        # An earlier response may have been left while it was parked.
        self._resume()
        self.descriptor = call.fileno()
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        if self._client is not None:
            poll.register(self._client.fileno(), select.POLLRDHUP)
        if self._drain is not None:
            poll.register(self._drain, select.POLLIN)
        self._received_at = time.monotonic()
        headless = True
        while not call.complete:
            until_complete = headless or self._timeouts.until_complete
            self._silent_until = self._received_at + self._timeouts.idle
            if self._state is WaitState.RUNNING and not (call.more or self._ended_by):
                self._state = WaitState.PARKED
                yield None
                self._resume()
                self.lane = None
                self._silent_until = self._received_at + self._timeouts.idle
            ready = self._is_ready(call, poll)
            now = time.monotonic()
            if now >= self._end:
                return
            # Bytes end a silence, but do not extend the time of a whole response.
            if now >= self._silent_until and (until_complete or not ready):
                words = "did not answer within" if until_complete else "was silent for"
                raise UpstreamTimeout(f"the model server {words} {self._timeouts.idle:g} s (idle_timeout)")
            if now >= self._last:
                raise UpstreamTimeout(f"the reply took longer than {self._timeouts.total:g} s (total_timeout)")
            if now >= self._alarm or self.heartbeat_due:
                yield None
            if not ready:
                continue
            data = call.receive(TURN) if self.driven else call.receive()
            if not call.status:
                continue
            if data or headless:
                headless = False
                yield data
                # Otherwise the part stays in memory while the stream waits.
                del data
            if not self._timeouts.until_complete:
                # The time that the reader took does not count as the server's silence.
                self._received_at = time.monotonic()

    def _is_ready(self, call: UpstreamCall, poll: select.poll) -> bool:
        """Return whether the upstream is readable. Without a driver, wait for that, or for a deadline."""
        ready = call.more
        if self._ended_by is None and self.driven:
            ready |= self._state is WaitState.READABLE
            self._state = WaitState.RUNNING
        elif self._ended_by is None:
            seconds = 0.0 if ready else max(0.0, self.deadline - time.monotonic())
            self._give_way()
            # Rounded up: a poll that returns a little early would spin.
            events = {descriptor for descriptor, _ in poll.poll(int(seconds * 1000) + 1 if seconds else 0)}
            if self._turn is not None:
                self._turn.take()
            ready |= bool(events)
            if self._client is not None and self._client.fileno() in events:
                self.client_left()
            elif self._drain in events:
                self.worker_ends()
        if self._ended_by is not None:
            raise self._ended_by
        return ready
