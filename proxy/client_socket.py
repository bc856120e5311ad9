"""A client's connection, with the times that what it sends, and what it takes, may need.

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

NEVER = float("inf")
# For so long, in seconds, a body may come as slowly as it likes.
GRACE = 10.0
_RECEIVE = 256 * 1024
_LOOK = 1.0


@dataclass(frozen=True)
class Times:
    """Seconds in which a client must send or take something, seconds for a whole body, and its least bytes a second."""

    idle: float = 30.0
    body: float = 120.0
    rate: int = 1024


class ClientSocket(socket.socket):
    """The connection. `late` says what was too late of the request that is being read, or "".

    gunicorn reads and writes as with every other socket; the limits of the kernel (SO_SNDTIMEO) count each write anew,
    and know nothing of how long a body takes in all.
    """

    def __init__(self, sock: socket.socket, times: Times) -> None:
        super().__init__(fileno=sock.detach())
        self.setblocking(False)
        self.late = ""
        self._times = times
        self.begin()

    def begin(self) -> None:
        """A request begins."""
        self.late = ""
        self._since = self._last = time.monotonic()
        self._came = 0
        self._end = NEVER

    def end_at(self, moment: float) -> None:
        """The worker ends: what is not here by then (`time.monotonic`) is not waited for."""
        self._end = min(self._end, moment)

    def until(self) -> tuple[float, str]:
        """Until when (`time.monotonic`) the next of the request must come, and what is said if it does not."""
        times = self._times
        limits = [
            (self._since + times.body, f"the body took longer than {times.body:g} s (body_timeout)"),
            (self._last + times.idle, f"nothing came of the body for {times.idle:g} s (client_timeout)"),
            (self._end, "the proxy is about to end; send the request again"),
        ]
        if times.rate:
            slow = f"the body came slower than {times.rate} bytes a second (body_rate)"
            limits.append((self._since + GRACE + self._came / times.rate, slow))
        return min(limits)

    def take(self) -> bytes | None:
        """What has come; None if nothing has. It does not wait."""
        try:
            data = super().recv(_RECEIVE)
        except BlockingIOError:
            return None
        self._note(data)
        return data

    def _note(self, data: bytes) -> None:
        self._came += len(data)
        self._last = time.monotonic()

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """As of a socket; where that would wait, only for as long as the request has time."""
        if self.gettimeout() is not None:  # gunicorn's own limit, or none is to wait
            return super().recv(size, flags)
        poll = select.poll()
        poll.register(self, select.POLLIN)
        if not poll.poll(0):
            until, why = self.until()
            left = max(0.0, until - time.monotonic())
            if not poll.poll(int(left * 1000) + 1):
                self.late = why
                raise BrokenPipeError(errno.EPIPE, why)
        data = super().recv(size, flags)
        self._note(data)
        return data

    def sendall(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> None:  # type: ignore[override]
        """Send all of it; a client that takes nothing for `idle` seconds is one that is gone."""
        left = memoryview(data)
        while left:
            try:
                left = left[self.send(left, flags | socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                self._await_room()

    def _await_room(self) -> None:
        poll = select.poll()
        poll.register(self, select.POLLOUT)
        before, since = self._unsent(), time.monotonic()
        while True:
            left = max(0.0, since + self._times.idle - time.monotonic())
            if poll.poll(int(min(left, _LOOK) * 1000) + 1):
                return
            # There is room only once much was taken; what was taken until then shows in the queue.
            now = self._unsent()
            if now < before:
                before, since = now, time.monotonic()
            elif time.monotonic() >= since + self._times.idle:
                raise BrokenPipeError(errno.EPIPE, "the client takes nothing")

    def _unsent(self) -> int:
        """Bytes that the client has not taken."""
        try:
            found: int = struct.unpack("i", fcntl.ioctl(self, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
        except OSError:
            return 0
        return found
