"""A client's connection: what came of its request, and the times that what it sends, and what it takes, may need.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import errno
import fcntl
import select
import socket
import struct
import termios
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

NEVER = float("inf")
# For so long, in seconds, a body may come as slowly as it likes.
GRACE = 10.0
_RECEIVE = 64 * 1024
# As a plain number: to join members of an enum makes one each time.
_AT_ONCE = int(socket.MSG_DONTWAIT)
_LOOK = 1.0
_NOTHING = memoryview(b"")


@dataclass(frozen=True)
class Times:
    """Seconds in which a client must send or take something, seconds for a whole body, and its least bytes a second."""

    idle: float = 30.0
    body: float = 120.0
    rate: int = 1024


class Refused(NamedTuple):
    """Why no more of a request is read, and the status of the answer that says so."""

    status: int
    words: str


class ClientSocket(socket.socket):
    """The connection.

    `head` is that of the request that is served, `refused` says why not all of it was read, `ahead` is what has come
    behind its end. `last`: its end has not come, so that no further request can follow. `taken` is how many bytes were
    taken from the kernel so far. `turn` is the request's (turns.py), given back where the client is waited for.
    The worker's poll takes a request with `take`; a thread then gets what came, as gunicorn reads it, and never waits
    for more. gunicorn writes as with every other socket; `sendall` waits by itself, so that the socket never blocks.
    """

    def __init__(self, times: Times, kind: tuple[int, int, int], descriptor: int) -> None:
        # Without its family, kind and protocol the kernel would be asked for them.
        super().__init__(*kind, fileno=descriptor)
        super().setblocking(False)
        self._gathered: list[bytes] | None = None
        self.ahead = b""
        self.head = b""
        self.taken = 0
        self.turn: Any = None
        self._times = times
        self.begin()

    def setblocking(self, flag: bool, /) -> None:
        """Nothing: gunicorn switches it to and fro for each request, a system call each time."""

    def settimeout(self, value: float | None, /) -> None:
        """Nothing, for the same reason."""

    def begin(self) -> None:
        """A request begins, or its body does."""
        self.refused: Refused | None = None
        self.last = False
        self._body = _NOTHING
        now = time.monotonic()
        self._since = self._last = now
        # Until when what has come is enough of it.
        self._covered = now + GRACE
        self._end = NEVER

    def end_at(self, moment: float) -> None:
        """The worker ends: what is not here by then (`time.monotonic`) is not waited for."""
        self._end = min(self._end, moment)

    def until(self) -> tuple[float, Refused]:
        """Until when (`time.monotonic`) the next of the body must come, and what is said if it does not."""
        times = self._times
        limits = [
            (self._since + times.body, 408, f"the body took longer than {times.body:g} s (body_timeout)"),
            (self._last + times.idle, 408, f"nothing came of the body for {times.idle:g} s (client_timeout)"),
            (self._covered, 408, f"the body came slower than {times.rate} bytes a second (body_rate)"),
            (self._end, 503, "the proxy is about to end; send the request again"),
        ]
        moment, status, words = min(limits)
        return moment, Refused(status, words)

    def take(self) -> bytes | None:
        """Return the bytes that have come; None if none have, b"" at the client's end. It does not wait."""
        try:
            data = super().recv(_RECEIVE, _AT_ONCE)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        self._last = time.monotonic()
        self.taken += len(data)
        # A fast start counts for a limited time.
        most = self._last + max(GRACE, self._times.idle)
        self._covered = min(self._covered + len(data) / self._times.rate, most)
        return data

    def untaken(self) -> int:
        """Bytes that have come and were not taken."""
        return self._ioctl(termios.FIONREAD)

    def serve(self, head: bytes, body: bytes | bytearray, rest: bytes, refused: Refused | None) -> None:
        """A thread gets the request: this much of its body is all that it can read."""
        self.head = head
        self._body = memoryview(bytes(body))
        self.ahead = rest
        self.refused = refused

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Return what came of the request; behind that b"" or, if not all was read, an error. It does not wait."""
        if not self._body and self.refused is not None:
            raise BrokenPipeError(errno.EPIPE, self.refused.words)
        data = bytes(self._body[:size])
        # An empty view would keep the whole body in memory.
        self._body = self._body[size:] if size < len(self._body) else _NOTHING
        return data

    def sendall(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> None:  # type: ignore[override]
        """Send all of it; a client that takes nothing for `idle` seconds is one that is gone."""
        if self._gathered is not None:
            self._gathered.append(bytes(data))
            return
        left = memoryview(data)
        while left:
            try:
                left = left[self.send(left, flags | _AT_ONCE) :]
            except BlockingIOError:
                self._await_room()

    def gather(self) -> None:
        """Keep what is sent from now on for `send_gathered`, which sends it at once: an answer's head with its body."""
        self._gathered = []

    def send_gathered(self) -> None:
        """Send what was gathered."""
        parts = self._gathered or []
        self._gathered = None
        self.sendall(b"".join(parts))

    def _await_room(self) -> None:
        if self.turn is not None:
            self.turn.give_back()
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        before, since = self.unsent(), time.monotonic()
        while True:
            left = max(0.0, since + self._times.idle - time.monotonic())
            if poll.poll(int(min(left, _LOOK) * 1000) + 1):
                return
            # There is room only once much was taken; what was taken until then shows in the queue.
            now = self.unsent()
            if now < before:
                before, since = now, time.monotonic()
            elif time.monotonic() >= since + self._times.idle:
                raise BrokenPipeError(errno.EPIPE, "the client takes nothing")

    def unsent(self) -> int:
        """Bytes that the client has not taken."""
        return self._ioctl(termios.TIOCOUTQ)

    def _ioctl(self, what: int) -> int:
        """A number of the connection's, from the kernel; 0 if it has none."""
        try:
            number: int = struct.unpack("i", fcntl.ioctl(self, what, b"\0\0\0\0"))[0]
        except OSError:
            return 0
        return number
