"""The pump: one thread per worker that drives all of its streams.

One epoll waits for the upstream and client sockets of all streams and for the earliest deadline, so a stream uses no
thread. The body of a response is a WSGI iterator of bytes. It yields `b""` if it has nothing to send now. Its wait
object (upstream/answer_wait.py) describes what it waits for:

    wait.drive()       called once: the body must not block from now on
    wait.let_go()      called once: the body may block again, on its own thread
    wait.parked        the body waits until `wait.descriptor` is readable or `wait.deadline` has passed
    wait.blocks        the next step of the body may block
    wait.computes      the next step of the body may compute for long
    wait.pass_by()     called when the upstream of a parked body is readable: returns the bytes to forward without a
                       step, b"" if there are none, None if a step is needed
    wait.readable(), wait.client_left(), wait.worker_ends()      report an event before the next step

The pump's thread never blocks. Steps that may block run on other threads, and so does closing a response (log, audit,
capture). Steps that compute for long share one thread. While there are streams, the interpreter switches threads after
SWITCH_SECONDS, so the pump never waits long for a thread that computes.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from .pumped_stream import NONE, PumpedStream, State

NEVER = float("inf")
# The number of stale entries that are always tolerated before the heap is rebuilt.
_SLACK = 256


class DeadlineHeap:
    """Deadlines of any hashable things.

    A stream's heartbeat moves with every write, usually to a later moment. That only changes a dict. When the old entry
    reaches the top of the heap, it is pushed again with the later moment.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any]] = []
        self._due: dict[Hashable, float] = {}
        # The moment of each thing's current entry. Its other entries are stale.
        self._entered: dict[Hashable, float] = {}
        self._order = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, thing: Hashable, moment: float) -> None:
        """Set or change a deadline."""
        self._due[thing] = moment
        if moment < self._entered.get(thing, NEVER):
            self._enter(thing, moment)

    def discard(self, thing: Hashable) -> None:
        """Remove a deadline."""
        self._due.pop(thing, None)
        self._entered.pop(thing, None)
        if len(self._heap) > _SLACK + 2 * len(self._due):
            self._heap = [entry for entry in self._heap if self._entered.get(entry[2]) == entry[0]]
            heapify(self._heap)

    def first(self) -> float:
        """Return a moment before which nothing is due."""
        return self._heap[0][0] if self._heap else NEVER

    def take(self, now: float) -> list[Any]:
        """Remove and return the things that are due, earliest first."""
        due_now: list[Any] = []
        while self._heap and self._heap[0][0] <= now:
            moment, _, thing = heappop(self._heap)
            if self._entered.get(thing) != moment:
                continue
            del self._entered[thing]
            due = self._due[thing]
            if due <= now:
                del self._due[thing]
                due_now.append(thing)
            elif due < NEVER:
                self._enter(thing, due)
        return due_now

    def _enter(self, thing: Hashable, moment: float) -> None:
        self._entered[thing] = moment
        heappush(self._heap, (moment, next(self._order), thing))


# Steps of one stream before other streams get their turn. A step reads a few kilobytes at most (answer_wait.TURN).
STEPS = 2
# Threads for steps that may block.
HELPERS = 64
# The interpreter's switch interval with streams, and without (CPython's default). With 0.1 ms, the pump waits less for
# threads that compute (benchmarks/README.md). Without streams, switches would only cost cache misses.
SWITCH_SECONDS = 0.0001
QUIET_SWITCH_SECONDS = 0.005
# Seconds between two checks that a client is still reading.
LOOK_SECONDS = 1.0

_EVENTS = 1024
# The longest timeout of epoll in seconds: it counts milliseconds in 31 bits.
_LONGEST = 86400.0
_LEFT = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Pump(threading.Thread):
    """Drives streams until it is stopped.

    `drain` is an eventfd that becomes readable once the worker is about to end. If a defect ends the thread, `on_death`
    is called, and each stream ends on its own thread with its API's error.
    """

    def __init__(self, log: Any, drain: int, on_death: Callable[[], object]) -> None:
        super().__init__(name="pump", daemon=True)
        self._log = log
        self._drain = drain
        self._on_death = on_death
        self._deadlines = DeadlineHeap()
        self._helpers = ThreadPoolExecutor(HELPERS, "stream")
        self._long_steps = ThreadPoolExecutor(1, "long step")
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._by_descriptor: dict[int, PumpedStream] = {}
        self._streams: set[PumpedStream] = set()
        self._ready: deque[PumpedStream] = deque()
        # Streams from other threads, each with the result of its step there.
        self._inbox: deque[tuple[PumpedStream, bytes | None]] = deque()
        self._is_draining = self._is_stopped = self._is_dead = False
        # Protects `_is_dead`, so that no stream enters the inbox after a failing pump has emptied it.
        self._lock = threading.Lock()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(drain, select.EPOLLIN)

    def add(self, stream: PumpedStream) -> bool:
        """Take over a stream. Return False if the pump is dead; the caller then keeps the stream."""
        stream.wait.drive()
        if self._hand_in(stream, b""):
            return True
        stream.wait.let_go()
        return False

    def stop(self) -> None:
        """Stop after the current round."""
        self._is_stopped = True
        os.eventfd_write(self._wake, 1)

    def _hand_in(self, stream: PumpedStream, data: bytes | None) -> bool:
        with self._lock:
            if self._is_dead:
                return False
            self._inbox.append((stream, data))
        os.eventfd_write(self._wake, 1)
        return True

    def run(self) -> None:
        """Run the thread."""
        try:
            while not self._is_stopped:
                self._round()
        except BaseException:
            self._log.exception("the pump has failed: the worker ends, and is replaced")
            self._die()

    def _round(self) -> None:
        """Wait for events, handle them, and run the steps of each ready stream."""
        seconds = 0.0
        if not self._ready and not self._inbox:
            seconds = min(max(0.0, self._deadlines.first() - time.monotonic()), _LONGEST)
        events = self._epoll.poll(seconds, _EVENTS)
        now = time.monotonic()
        for descriptor, mask in events:
            stream = self._by_descriptor.get(descriptor)
            if stream is None:
                self._on_worker(descriptor)
            elif descriptor == stream.client:
                self._on_client(stream, mask)
            else:
                self._on_upstream(stream)
        # Take in new streams only now: one may reuse the number of a descriptor that had stale events above.
        self._take_in()
        for stream in self._deadlines.take(now):
            self._on_deadline(stream)
        for _ in range(len(self._ready)):
            self._turn(self._ready.popleft())

    def _on_worker(self, descriptor: int) -> None:
        """Handle the pump's own descriptors. Any other descriptor belonged to a stream that has ended."""
        if descriptor == self._wake:
            os.eventfd_read(self._wake)
        elif descriptor == self._drain:
            self._epoll.unregister(self._drain)
            self._is_draining = True
            for stream in self._streams:
                stream.wait.worker_ends()
                if stream.state is State.WAITING:
                    self._queue(stream)

    def _on_upstream(self, stream: PumpedStream) -> None:
        if stream.state is not State.WAITING:
            stream.wait.readable()
            return
        try:
            data = stream.wait.pass_by()
        except Exception:
            self._log.exception("a stream has failed")
            stream.is_broken = True
            self._end(stream)
            return
        if data is None:
            stream.wait.readable()
            self._turn(stream)
        elif data:
            self._write(stream, data)

    def _take_in(self) -> None:
        while self._inbox:
            stream, data = self._inbox.popleft()
            if stream not in self._streams:
                self._begin(stream)
            elif stream.is_gone:
                stream.wait.client_left()
            stream.state = State.RUNNING
            if self._does(stream, data):
                self._go_on(stream)

    def _begin(self, stream: PumpedStream) -> None:
        if not self._streams:
            sys.setswitchinterval(SWITCH_SECONDS)
        self._streams.add(stream)
        stream.client = stream.sock.fileno()
        self._by_descriptor[stream.client] = stream
        self._epoll.register(stream.client, select.EPOLLRDHUP)
        if self._is_draining:
            stream.wait.worker_ends()

    # The steps of a stream.

    def _turn(self, stream: PumpedStream) -> None:
        stream.state = State.RUNNING
        self._go_on(stream)

    def _go_on(self, stream: PumpedStream) -> None:
        """Run a stream's steps until it must wait or other streams get their turn."""
        for _ in range(STEPS):
            if not self._does(stream, self._step(stream)):
                return
        self._queue(stream)

    def _step(self, stream: PumpedStream) -> bytes | None:
        """Return the next part of the body, b"" while there is nothing to send, or None at the end."""
        try:
            data: bytes = next(stream.body)
        except StopIteration:
            return None
        except Exception:
            self._log.exception("a stream has failed")
            stream.is_broken = True
            return None
        except BaseException:
            stream.is_broken = True
            raise
        return data

    def _does(self, stream: PumpedStream, data: bytes | None) -> bool:
        """Handle the result of a step. Return True if the next step may follow immediately."""
        if data:
            return self._write(stream, data)
        if data is None:
            self._finish(stream)
        elif stream.wait.parked:
            self._park(stream)
        elif stream.wait.blocks:
            self._leave_for(stream, self._helpers)
        elif stream.wait.computes:
            self._leave_for(stream, self._long_steps)
        else:
            return True
        return False

    def _queue(self, stream: PumpedStream) -> None:
        stream.state = State.READY
        self._ready.append(stream)

    def _park(self, stream: PumpedStream) -> None:
        """Wait for the stream's upstream or its deadline."""
        wait = stream.wait
        if wait.descriptor != stream.upstream:
            self._forget_upstream(stream)
            stream.upstream = wait.descriptor
            self._by_descriptor[stream.upstream] = stream
            self._epoll.register(stream.upstream, select.EPOLLIN)
        self._deadlines.set(stream, wait.deadline)
        stream.state = State.WAITING

    def _leave_for(self, stream: PumpedStream, threads: ThreadPoolExecutor) -> None:
        """Run the next step on another thread."""
        self._forget_upstream(stream)
        self._deadlines.discard(stream)
        stream.state = State.ON_THREAD
        self._submit(threads, self._make_step, stream)

    def _make_step(self, stream: PumpedStream) -> None:
        data = self._step(stream)
        if not self._hand_in(stream, data):
            self._run_alone(stream, data)

    def _finish(self, stream: PumpedStream) -> None:
        """Send the end of a body."""
        self._forget_upstream(stream)
        self._deadlines.discard(stream)
        if not stream.is_whole:
            self._end(stream)
            return
        stream.add_end()
        stream.state = State.FINISHING
        if self._flush(stream):
            self._end(stream)

    def _end(self, stream: PumpedStream) -> None:
        """Forget a stream, and close its response on a thread."""
        self._forget_upstream(stream)
        self._forget_client(stream)
        self._deadlines.discard(stream)
        stream.state = State.ENDED
        self._streams.discard(stream)
        if not self._streams:
            sys.setswitchinterval(QUIET_SWITCH_SECONDS)
        self._submit(self._helpers, stream.finish, stream.is_whole)

    def _submit(self, threads: ThreadPoolExecutor, work: Callable[..., object], *arguments: object) -> None:
        try:
            threads.submit(work, *arguments)
        except RuntimeError as error:  # no thread can be started: run it here
            self._log.error("a stream's thread cannot be started: %s", error)
            work(*arguments)

    # The client.

    def _write(self, stream: PumpedStream, data: bytes) -> bool:
        """Send a part to the client. Return True if the client took all of it or is gone."""
        if stream.is_gone:
            return True
        stream.add(data)
        return self._flush(stream)

    def _flush(self, stream: PumpedStream) -> bool:
        """Send the pending bytes. Return True if the client took all of them."""
        try:
            while stream.pending:
                size = stream.sock.send(stream.pending, socket.MSG_DONTWAIT)
                stream.pending = b"" if size == len(stream.pending) else memoryview(stream.pending)[size:]
        except BlockingIOError:
            self._await_client(stream)
            return False
        except OSError:
            self._lose(stream)
            return False
        return True

    def _await_client(self, stream: PumpedStream) -> None:
        """Stop reading the upstream until the client reads."""
        self._forget_upstream(stream)
        self._epoll.modify(stream.client, select.EPOLLRDHUP | select.EPOLLOUT)
        if stream.state is not State.FINISHING:
            stream.state = State.WRITING
        now = time.monotonic()
        stream.unsent, stream.taken_at = _unsent(stream.sock), now
        self._deadlines.set(stream, now + LOOK_SECONDS)

    def _on_client(self, stream: PumpedStream, mask: int) -> None:
        if mask & _LEFT:
            self._leave(stream)
        elif self._flush(stream):
            self._deadlines.discard(stream)
            if stream.state is State.FINISHING:
                self._end(stream)
                return
            self._epoll.modify(stream.client, select.EPOLLRDHUP)
            self._turn(stream)

    def _leave(self, stream: PumpedStream) -> None:
        """Handle a client that closed the connection or its sending half."""
        self._forget_client(stream)
        stream.is_gone = True
        stream.pending = b""
        if stream.state is State.FINISHING:
            self._end(stream)
        elif stream.state is not State.ON_THREAD:  # `_take_in` handles a stream on a thread
            stream.wait.client_left()
            if stream.state is not State.READY:
                self._turn(stream)

    def _lose(self, stream: PumpedStream) -> None:
        """End a stream whose client cannot be reached."""
        stream.is_gone = True
        self._end(stream)

    def _on_deadline(self, stream: PumpedStream) -> None:
        if stream.state is State.WAITING:
            self._turn(stream)
        elif stream.state in (State.WRITING, State.FINISHING):
            now, unsent = time.monotonic(), _unsent(stream.sock)
            # A slow client may read for long before its socket is writable again. Until then, only this shows it.
            if unsent < stream.unsent:
                stream.unsent, stream.taken_at = unsent, now
            if now >= stream.taken_at + stream.idle:
                self._lose(stream)
            else:
                self._deadlines.set(stream, now + LOOK_SECONDS)

    # Descriptors. epoll drops a closed descriptor, and its number may already belong to another stream.

    def _forget_upstream(self, stream: PumpedStream) -> None:
        self._forget(stream, stream.upstream)
        stream.upstream = NONE

    def _forget_client(self, stream: PumpedStream) -> None:
        self._forget(stream, stream.client)
        stream.client = NONE

    def _forget(self, stream: PumpedStream, descriptor: int) -> None:
        if descriptor == NONE or self._by_descriptor.get(descriptor) is not stream:
            return
        del self._by_descriptor[descriptor]
        try:
            self._epoll.unregister(descriptor)
        except OSError:
            return

    # The end of the pump.

    def _die(self) -> None:
        """After a defect, end each stream on its own thread, and end the worker."""
        with self._lock:
            self._is_dead = True
        left = {*self._streams, *(stream for stream, _ in self._inbox)}
        self._on_death()
        for stream in left:
            if stream.state is not State.ON_THREAD:
                self._submit(self._helpers, self._run_alone, stream, b"")
        for stream, data in self._inbox:
            if stream.state is State.ON_THREAD:
                self._submit(self._helpers, self._run_alone, stream, data)

    def _run_alone(self, stream: PumpedStream, data: bytes | None) -> None:
        """Run a stream to its end without the pump, in blocking mode. Its body is told that the worker ends."""
        stream.wait.let_go()
        stream.wait.worker_ends()
        try:
            while data is not None:
                if data:
                    stream.add(data)
                self._send_all(stream)
                data = self._step(stream)
            if not stream.is_broken:
                stream.add_end()
                self._send_all(stream)
        except OSError:
            stream.is_gone = True
        stream.finish(stream.is_whole)

    def _send_all(self, stream: PumpedStream) -> None:
        if stream.pending and not stream.is_gone:
            stream.sock.sendall(stream.pending)
        stream.pending = b""


def _unsent(sock: socket.socket) -> int:
    """Return the number of sent bytes that the client has not taken, or 0 if it is unknown."""
    try:
        return int(struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0"))[0])
    except OSError:
        return 0
