"""The pump: one thread of a worker that drives all of its streams.

It waits in one epoll for the upstreams' and the clients' sockets of all streams, and for the earliest of their
deadlines; a stream costs no thread. The body of a response is still an iterator of bytes as WSGI wants it: it gives
`b""` where it has nothing now, and its wait object (upstream/answer_wait.py) says what it waits for:

    wait.drive()       said here: the body may not block any more
    wait.let_go()      said here: the body may block, on a thread of its own
    wait.parked        the body has nothing before `wait.descriptor` can be read, or `wait.deadline` has come
    wait.blocks        the next step of the body may block
    wait.computes      the next step of the body may compute for long
    wait.pass_by(now)  asked here while the body is parked, when it was seen that the upstream can be read: what it has
                       said and needs no step, b"" if that is nothing, None if a step must be made
    wait.readable(now), wait.client_left(), wait.worker_ends()      said here, before the step that follows

Nothing that can block is done on the pump's thread: steps that may, and the closing of a response (log, audit,
capture), go to other threads. Steps that compute for long go to one thread of their own, one after the other, and the
interpreter cuts them into slices: while there are streams, whoever wants its lock has it soon (turns.py).

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

# Steps of one stream before the others have their turn; a step takes at most some kilobytes (upstream/answer_wait.py).
STEPS = 2
# Threads for what may block.
HELPERS = 64
# Where rounds begin within BUSY_SECONDS of each other they begin ROUND_SECONDS after each other at least: what comes in
# between is seen to in one. At 5,000 events a second a round for each two of them took a third more of the processor.
# Where fewer come each is seen to at once, and behind a round that takes longer the next one follows.
ROUND_SECONDS = 0.002
BUSY_SECONDS = 0.003
# Where requests stand in line (turns.py) they have so long between two rounds. While 400 streams begin within 2 s there
# is always an event, and rounds without a rest took so much time that first events came after a second.
REST_SECONDS = 0.01
# How often, in seconds, it is looked whether a client takes anything.
LOOK_SECONDS = 1.0

_EVENTS = 1024
# The longest that epoll is asked to wait, in seconds: it counts milliseconds in 31 bits.
_LONGEST = 86400.0
_LEFT = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class PumpState(Enum):
    """What the pump's thread does."""

    RUNNING = "running"  # it drives streams
    DRAINING = "draining"  # it drives streams, which are told that the worker is about to end
    STOPPED = "stopped"  # its last round, if one is not over
    DEAD = "dead"  # it takes no streams any more: a defect has ended it


class PumpStep(Enum):
    """What happens to it."""

    DRAIN = "drain"  # the worker is about to end
    STOP = "stop"  # the worker ends
    FAIL = "fail"  # a defect has come up


# From each state what follows by which step. The worker may be about to end, and end, in one round.
TRANSITIONS: dict[PumpState, dict[PumpStep, PumpState]] = {
    PumpState.RUNNING: {
        PumpStep.DRAIN: PumpState.DRAINING,
        PumpStep.STOP: PumpState.STOPPED,
        PumpStep.FAIL: PumpState.DEAD,
    },
    PumpState.DRAINING: {
        PumpStep.STOP: PumpState.STOPPED,
        PumpStep.FAIL: PumpState.DEAD,
    },
    PumpState.STOPPED: {
        PumpStep.DRAIN: PumpState.STOPPED,
        PumpStep.STOP: PumpState.STOPPED,
        PumpStep.FAIL: PumpState.DEAD,
    },
    PumpState.DEAD: {
        PumpStep.STOP: PumpState.DEAD,
    },
}


class Pump(threading.Thread):
    """Drives streams until it is told to stop.

    `streams` is the module `pumped_stream`, `deadlines` a `DeadlineHeap`, `turns` are those of the worker (turns.py).
    `drain` is the descriptor that can be read once the worker is about to end. `on_death` is called if the thread ends
    by a defect; its streams then end on threads of their own, in their clients' own words.
    """

    def __init__(self, streams: Any, deadlines: Any, log: Any, drain: int, on_death: Any, *, turns: Any) -> None:
        super().__init__(name="pump", daemon=True)
        self._turns = turns
        self._states = streams.State
        self._none = streams.NONE
        self._deadlines = deadlines
        self._log = log
        self._drain = drain
        self._on_death = on_death
        self._helpers = ThreadPoolExecutor(HELPERS, "stream")
        self._long_steps = ThreadPoolExecutor(1, "long step")
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._by_descriptor: dict[int, Any] = {}
        self._streams: set[Any] = set()
        self._ready: deque[Any] = deque()
        # What other threads hand in: streams, each with what the step gave that was made there.
        self._inbox: deque[tuple[Any, bytes | None]] = deque()
        # Other threads move the state too, and none may hand in what the thread that fails would not see.
        self._lock = threading.Lock()
        self._state = PumpState.RUNNING
        # When the last round began and ended, and whether it began soon after the one before.
        self._began = 0.0
        self._ended = 0.0
        self._is_busy = False
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(drain, select.EPOLLIN)

    def add(self, stream: Any) -> bool:
        """Take a stream over; False if the pump cannot any more, and the stream is still the caller's."""
        stream.wait.drive()
        if self._hand_in(stream, b""):
            return True
        stream.wait.let_go()
        return False

    def stop(self) -> None:
        """The worker ends."""
        self._move(PumpStep.STOP)
        os.eventfd_write(self._wake, 1)

    def _move(self, step: PumpStep) -> None:
        with self._lock:
            self._state = TRANSITIONS[self._state][step]

    def _hand_in(self, stream: Any, data: bytes | None) -> bool:
        with self._lock:
            if self._state is PumpState.DEAD:
                return False
            self._inbox.append((stream, data))
        os.eventfd_write(self._wake, 1)
        return True

    def run(self) -> None:
        """The thread."""
        try:
            while self._state is not PumpState.STOPPED:
                self._round()
        except BaseException:
            self._log.exception("the pump has failed: the worker ends, and is replaced")
            self._die()

    def _round(self) -> None:
        """Wait for what happens next, and see to it before any request computes."""
        self._rest()
        events = self._epoll.poll(self._seconds(), _EVENTS)
        before, self._began = self._began, time.monotonic()
        self._is_busy = self._began < before + BUSY_SECONDS
        has_turn = self._turns.begin_round()
        try:
            self._see_to(events, time.monotonic())
        finally:
            self._ended = time.monotonic()
            if has_turn:
                self._turns.end_round()

    def _rest(self) -> None:
        """Leave the time behind a round to requests in line, and let events come together where there are many."""
        until = 0.0
        if self._turns.in_line:
            until = self._ended + REST_SECONDS
        elif self._is_busy and not self._ready:
            until = self._began + ROUND_SECONDS
        rest = until - time.monotonic()
        if rest > 0:
            time.sleep(rest)

    def _see_to(self, events: list[tuple[int, int]], now: float) -> None:
        """See to what has happened until `now`, and let each stream that is ready make its steps."""
        for descriptor, mask in events:
            stream = self._by_descriptor.get(descriptor)
            if stream is None:
                self._on_worker(descriptor)
            elif descriptor == stream.client:
                self._on_client(stream, mask)
            else:
                self._on_upstream(stream, now)
        # Only now: a descriptor that was closed meanwhile may be a new stream's, and events of the old one were left.
        self._take_in()
        for stream in self._deadlines.take(now):
            self._on_deadline(stream)
        for _ in range(len(self._ready)):
            self._turn(self._ready.popleft())

    def _seconds(self) -> float:
        """Seconds to wait for the next event."""
        if self._ready or self._inbox:
            return 0.0
        first: float = self._deadlines.first()
        return min(max(0.0, first - time.monotonic()), _LONGEST)

    def _on_worker(self, descriptor: int) -> None:
        """Something was handed in, or the worker is about to end. All else was a stream's that has ended."""
        if descriptor == self._wake:
            os.eventfd_read(self._wake)
        elif descriptor == self._drain:
            self._epoll.unregister(self._drain)
            self._move(PumpStep.DRAIN)
            for stream in self._streams:
                stream.wait.worker_ends()
                if stream.state is self._states.WAITING:
                    self._queue(stream)

    def _on_upstream(self, stream: Any, now: float) -> None:
        if stream.state is not self._states.WAITING:
            stream.wait.readable(now)
        elif not self._passes(stream, now):
            stream.wait.readable(now)
            self._turn(stream)

    def _passes(self, stream: Any, now: float) -> bool:
        """Send what has come by the lane; False if it needs a step."""
        try:
            data = stream.wait.pass_by(now)
        except Exception:
            self._log.exception("a stream has failed")
            stream.break_off()
            self._end(stream)
            return True
        if data:
            self._write(stream, data)
        return data is not None

    def _take_in(self) -> None:
        while self._inbox:
            stream, data = self._inbox.popleft()
            if stream in self._streams:
                if stream.is_gone:
                    stream.wait.client_left()
            else:
                self._begin(stream)
            stream.move(self._states.RUNNING)
            if self._does(stream, data):
                self._go_on(stream)

    def _begin(self, stream: Any) -> None:
        if not self._streams:
            self._turns.streams_begin()
        self._streams.add(stream)
        stream.client = stream.sock.fileno()
        self._by_descriptor[stream.client] = stream
        self._epoll.register(stream.client, select.EPOLLRDHUP)
        if self._state is not PumpState.RUNNING:
            stream.wait.worker_ends()

    # The steps of a stream.

    def _turn(self, stream: Any) -> None:
        """It is a stream's turn."""
        stream.move(self._states.RUNNING)
        self._go_on(stream)

    def _go_on(self, stream: Any) -> None:
        """Let a stream make steps until it has to wait, or others have their turn."""
        for _ in range(STEPS):
            if not self._does(stream, self._step(stream)):
                return
        self._queue(stream)

    def _step(self, stream: Any) -> bytes | None:
        """The next part of the body, b"" where there is none now, None at its end."""
        try:
            data: bytes = next(stream.body)
        except StopIteration:
            return None
        except Exception:
            self._log.exception("a stream has failed")
            stream.break_off()
            return None
        except BaseException:
            stream.break_off()
            raise
        return data

    def _does(self, stream: Any, data: bytes | None) -> bool:
        """Do what a step asks for; True if the next one may follow at once."""
        if data:
            return self._write(stream, data)
        if data is None:
            self._finish(stream)
            return False
        if stream.wait.parked:
            self._park(stream)
            return False
        if stream.wait.blocks:
            self._leave_for(stream, self._helpers)
            return False
        if stream.wait.computes:
            self._leave_for(stream, self._long_steps)
            return False
        return True

    def _queue(self, stream: Any) -> None:
        stream.move(self._states.READY)
        self._ready.append(stream)

    def _park(self, stream: Any) -> None:
        """It waits for its upstream, or its deadline."""
        wait = stream.wait
        if wait.descriptor != stream.upstream:
            self._forget_upstream(stream)
            stream.upstream = wait.descriptor
            self._by_descriptor[stream.upstream] = stream
            self._epoll.register(stream.upstream, select.EPOLLIN)
        self._deadlines.set(stream, wait.deadline)
        stream.move(self._states.WAITING)

    def _leave_for(self, stream: Any, threads: ThreadPoolExecutor) -> None:
        """Its next step is not for the pump: a thread makes it."""
        self._forget_upstream(stream)
        self._deadlines.discard(stream)
        stream.move(self._states.ON_THREAD)
        self._submit(threads, self._make_step, stream)

    def _make_step(self, stream: Any) -> None:
        data = self._step(stream)
        if not self._hand_in(stream, data):
            self._run_alone(stream, data)

    def _finish(self, stream: Any) -> None:
        """The body has ended."""
        self._forget_upstream(stream)
        self._deadlines.discard(stream)
        if not stream.is_whole:
            self._end(stream)
            return
        stream.out.end()
        stream.move(self._states.FINISHING)
        if self._flush(stream):
            self._end(stream)

    def _end(self, stream: Any) -> None:
        """Nothing more is done here: a thread closes the response."""
        self._forget_upstream(stream)
        self._forget_client(stream)
        self._deadlines.discard(stream)
        stream.move(self._states.ENDED)
        self._streams.discard(stream)
        if not self._streams:
            self._turns.streams_end()
        self._on_thread(stream.finish, stream.is_whole)

    def _on_thread(self, work: Any, *arguments: Any) -> None:
        self._submit(self._helpers, work, *arguments)

    def _submit(self, threads: ThreadPoolExecutor, work: Any, *arguments: Any) -> None:
        try:
            threads.submit(work, *arguments)
        except RuntimeError as error:  # no thread can be started: late is better than never
            self._log.error("a stream's thread cannot be started: %s", error)
            work(*arguments)

    # The client.

    def _write(self, stream: Any, data: bytes) -> bool:
        """Give a part to the client; True if it took all of it, or is gone."""
        if stream.is_gone:
            return True
        stream.out.add(data)
        return self._flush(stream)

    def _flush(self, stream: Any) -> bool:
        """Send what is pending; True if the client took all of it."""
        out = stream.out
        try:
            while out:
                out.sent(stream.sock.send(out.pending, socket.MSG_DONTWAIT))
        except BlockingIOError:
            self._await_client(stream)
            return False
        except OSError:
            self._lose(stream)
            return False
        return True

    def _await_client(self, stream: Any) -> None:
        """The client has to take something; until then its upstream is not read."""
        self._forget_upstream(stream)
        self._epoll.modify(stream.client, select.EPOLLRDHUP | select.EPOLLOUT)
        if stream.state is not self._states.FINISHING:
            stream.move(self._states.WRITING)
        now = time.monotonic()
        stream.stall.begin(stream.sock.unsent(), now)
        self._deadlines.set(stream, now + LOOK_SECONDS)

    def _on_client(self, stream: Any, mask: int) -> None:
        if mask & _LEFT:
            self._leave(stream)
        elif self._flush(stream):
            self._deadlines.discard(stream)
            if stream.state is self._states.FINISHING:
                self._end(stream)
                return
            self._epoll.modify(stream.client, select.EPOLLRDHUP)
            self._turn(stream)

    def _leave(self, stream: Any) -> None:
        """The client has closed the connection, or its sending half."""
        self._forget_client(stream)
        stream.lose_client()
        stream.out.clear()
        if stream.state is self._states.FINISHING:
            self._end(stream)
        elif stream.state is not self._states.ON_THREAD:  # that one is told when it is back
            stream.wait.client_left()
            if stream.state is not self._states.READY:
                self._turn(stream)

    def _lose(self, stream: Any) -> None:
        """Nothing can be sent to the client: the body is not asked for more."""
        stream.lose_client()
        self._end(stream)

    def _on_deadline(self, stream: Any) -> None:
        if stream.state is self._states.WAITING:
            self._turn(stream)
        elif stream.state in (self._states.WRITING, self._states.FINISHING):
            now = time.monotonic()
            if stream.stall.lasts(stream.sock.unsent(), now):
                self._lose(stream)
            else:
                self._deadlines.set(stream, now + LOOK_SECONDS)

    # Descriptors. One that is closed is epoll's no more, and its number may be another's already.

    def _forget_upstream(self, stream: Any) -> None:
        self._forget(stream, stream.upstream)
        stream.upstream = self._none

    def _forget_client(self, stream: Any) -> None:
        self._forget(stream, stream.client)
        stream.client = self._none

    def _forget(self, stream: Any, descriptor: int) -> None:
        if descriptor == self._none or self._by_descriptor.get(descriptor) is not stream:
            return
        del self._by_descriptor[descriptor]
        try:
            self._epoll.unregister(descriptor)
        except OSError:
            return

    # The end of the pump.

    def _die(self) -> None:
        """A defect has ended the thread: each stream ends on a thread of its own, and then the worker does."""
        self._move(PumpStep.FAIL)
        left = {*self._streams, *(stream for stream, _ in self._inbox)}
        self._on_death()
        for stream in left:
            if stream.state is not self._states.ON_THREAD:
                self._on_thread(self._run_alone, stream, b"")
        for stream, data in self._inbox:
            if stream.state is self._states.ON_THREAD:
                self._on_thread(self._run_alone, stream, data)

    def _run_alone(self, stream: Any, data: bytes | None) -> None:
        """Take a stream to its end without the pump, blocking; the body learns that its worker ends."""
        stream.wait.let_go()
        stream.wait.worker_ends()
        try:
            while data is not None:
                if data:
                    stream.out.add(data)
                self._send_all(stream)
                data = self._step(stream)
            if not stream.is_broken:
                stream.out.end()
                self._send_all(stream)
        except OSError:
            stream.lose_client()
        stream.finish(stream.is_whole)

    def _send_all(self, stream: Any) -> None:
        if stream.out and not stream.is_gone:
            stream.sock.sendall(stream.out.pending)
        stream.out.clear()
