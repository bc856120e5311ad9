"""Waits for a response: for the upstream's socket, the client's socket and deadlines at the same time.

A WSGI generator notices only at its second write that the client has disconnected. A poll on the client's socket
(POLLRDHUP) reports it immediately. A client that closed its sending half counts as gone. Linux only.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from proxy.errors import ENDING, ClientGone, ProxyError, Unavailable, UpstreamTimeout
from proxy.upstream.client import UpstreamCall


class HasDescriptor(Protocol):
    """Protocol of a socket that can be polled."""

    def fileno(self) -> int:
        """Return the descriptor."""


class HasTurn(Protocol):
    """A request's turn to compute (server/pump_worker.py)."""

    def take(self) -> None:
        """Wait for the turn, up to a short limit."""

    def give_back(self) -> None:
        """Let another request compute."""


NEVER = float("inf")
# While text is held, a thread pauses before it polls again, because a poll costs more than reading what has arrived.
# The pause is at most this many seconds, and at most this share of the time for which text has been held.
_LONGEST_PAUSE, _PAUSE_SHARE = 0.1, 0.1
# The number of bytes read per step of a driver, so that a fast upstream does not keep other streams waiting.
TURN = 16 * 1024


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds.

    `idle`: without a byte of the response, or for the whole response with `until_complete`. `heartbeat`: without a
    write to the client; 0 sends no heartbeats. `total`: for the whole reply.
    """

    idle: float
    heartbeat: float = 0.0
    until_complete: bool = False
    total: float = NEVER


class WaitState(Enum):
    """The states of a response, by what its driver must wait for."""

    # A set is asked with every read, and an enum's own hash is a function of Python.
    __hash__ = object.__hash__

    # There is no driver; `receive` blocks in its own poll.
    ALONE = auto()
    # Nothing; the driver makes a step.
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

    Without a driver it blocks. Between `drive` and `let_go` it never blocks: if nothing has arrived, `receive` yields
    None, and the driver (server/pump.py) waits for `descriptor` or `deadline`. The driver reports events with
    `readable`, `client_left` and `worker_ends`, and then makes the next step.

    `drain` is a descriptor that becomes readable once the worker is about to end. `turn` is released while it blocks.
    """

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
        # While parked, a driver may call this lane (`pass_by`) instead of making a step.
        self.lane: Callable[[], bytes | None] | None = None
        # Called with each part of the body that is sent by a lane. None if the driver has no lanes.
        self.on_lane: Callable[[bytes], object] | None = None
        self._written = self._received_at = time.monotonic()
        self._last = self._written + timeouts.total
        self._alarm = self._end = self._silent_until = NEVER
        # The time since which text is held that may become a call.
        self.held_since = NEVER
        self._ended_by: ProxyError | None = None

    def start_over(self) -> None:
        """Prepare for another response: clear what was set for the earlier one."""
        self._alarm = self._end = self.held_since = NEVER

    def give_way(self) -> None:
        """Let another request compute while this one waits, for a connection or a response."""
        if self._turn is not None:
            self._turn.give_back()

    # Deadlines.

    def wrote(self) -> None:
        """Record a write to the client. The next heartbeat is due a whole interval later."""
        self._written = time.monotonic()

    @property
    def heartbeat_due(self) -> bool:
        """True if nothing was written to the client for a whole heartbeat interval."""
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
        """The time (`time.monotonic`) at which to continue even if nothing has arrived."""
        beat = self._written + (self._timeouts.heartbeat or NEVER)
        return min(self._silent_until, self._alarm, self._end, self._last, beat)

    # The driver's side.

    def drive(self) -> None:
        """Attach a driver; further reads do not block."""
        self._state = WaitState.RUNNING

    def let_go(self) -> None:
        """Detach from the driver; further reads block."""
        self._state = WaitState.ALONE

    @property
    def driven(self) -> bool:
        """True if a driver is attached."""
        return self._state is not WaitState.ALONE

    @property
    def parked(self) -> bool:
        """True if nothing can be done until `descriptor` is readable or `deadline` has passed."""
        return self._state is WaitState.PARKED

    @property
    def blocks(self) -> bool:
        """True if the next step may block."""
        return self._state is WaitState.BLOCKS

    @property
    def computes(self) -> bool:
        """True if the next step may compute for long."""
        return self._state is WaitState.COMPUTES

    def readable(self) -> None:
        """Record that the upstream is readable. Ignored while a thread makes a step, because epoll reports it again."""
        if self._state in (WaitState.RUNNING, WaitState.PARKED):
            self._state = WaitState.READABLE

    def pass_by(self) -> bytes | None:
        """Return the bytes that the lane sends now, b"" if there are none, or None if a step is needed."""
        if self.lane is None:
            return None
        data = self.lane()
        if data is None:
            self.lane = None
        return data

    @property
    def may_pass(self) -> bool:
        """True if a driver with lanes waits for the upstream."""
        return self.parked and self.on_lane is not None

    def passed(self, body: bytes) -> bytes:
        """Record that the lane took bytes and sends these to the client, maybe none; return them."""
        self._received_at = time.monotonic()
        if body:
            self._written = self._received_at
            if self.on_lane is not None:
                self.on_lane(body)
        return body

    def client_left(self) -> None:
        """Record that the client has closed the connection or its sending half."""
        self._ended_by = ClientGone("the client closed the connection")

    def worker_ends(self) -> None:
        """Record that the worker is about to end."""
        if self._ended_by is None:
            self._ended_by = Unavailable(ENDING)

    def on_a_thread(self) -> Iterator[bytes]:
        """Yield `b""` to a driver, which then makes the next step on a thread because it may block."""
        yield from self._leave_driver(WaitState.BLOCKS)

    def on_a_long_step(self) -> Iterator[bytes]:
        """Yield `b""` to a driver, which then makes the next step on the thread for long computations."""
        yield from self._leave_driver(WaitState.COMPUTES)

    def _leave_driver(self, state: WaitState) -> Iterator[bytes]:
        if not self.driven:
            return
        was_readable = self._state is WaitState.READABLE
        self._state = state
        yield b""
        self._resume()
        if was_readable:  # the step on the thread read nothing
            self.readable()

    def _resume(self) -> None:
        if self._state in _AWAITED:
            self._state = WaitState.RUNNING

    # Reading.

    def receive(self, call: UpstreamCall) -> Iterator[bytes | None]:
        """Yield the parts of the body as they arrive. The first part arrives with the head and may be empty.

        Yield None if a heartbeat or the alarm is due, even while parts arrive, and if a driver should wait. Raises
        ClientGone, UpstreamTimeout, UpstreamBroken, or Unavailable if the worker is about to end.
        """
        # An earlier response may have been abandoned while parked.
        self._resume()
        self.descriptor = call.fileno()
        others, poll = select.poll(), select.poll()
        poll.register(self.descriptor, select.POLLIN)
        for each in (others, poll):
            if self._client is not None:
                each.register(self._client.fileno(), select.POLLRDHUP)
            if self._drain is not None:
                each.register(self._drain, select.POLLIN)
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
            ready = self._is_ready(call, poll, others)
            now = time.monotonic()
            if now >= self._end:
                return
            # Bytes end a silence, but do not extend the time limit of a whole response.
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
                # Do not count the reader's time as silence of the server.
                self._received_at = time.monotonic()

    def _is_ready(self, call: UpstreamCall, poll: select.poll, others: select.poll) -> bool:
        """Return whether the upstream is readable. Without a driver, wait for it or for a deadline.

        `poll` asks for all descriptors, `others` for all but the upstream's.
        """
        ready = call.more
        if self._ended_by is None and self.driven:
            ready |= self._state is WaitState.READABLE
            self._state = WaitState.RUNNING
        elif self._ended_by is None:
            now = time.monotonic()
            seconds = 0.0 if ready else max(0.0, self.deadline - now)
            pause = min(seconds, _LONGEST_PAUSE, _PAUSE_SHARE * max(0.0, now - self.held_since))
            self.give_way()
            found = others.poll(int(pause * 1000)) if pause >= 0.001 else []
            # Rounded up: a poll that returns a little early would spin.
            found = found or poll.poll(int(seconds * 1000) + 1 if seconds else 0)
            events = {descriptor for descriptor, _ in found}
            # Held text is read often and briefly. A turn for each read would only make a hundred threads switch.
            if self._turn is not None and self.held_since == NEVER:
                self._turn.take()
            ready |= bool(events)
            if self._client is not None and self._client.fileno() in events:
                self.client_left()
            elif self._drain in events:
                self.worker_ends()
        if self._ended_by is not None:
            raise self._ended_by
        return ready
