"""Clients that gunicorn's workers wait for in their poll, so that none of them holds a thread: those whose bodies are
on their way, and those that keep their end open after their answer.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn import util

# So much of a body is awaited without a thread, and so much of all of them together.
AHEAD = 1024 * 1024
ALL_AHEAD = 64 * 1024 * 1024
_MAX_LINE = 1024
_MAX_TRAILERS = 8192
# A client that keeps its end open after its answer is waited for so long, in seconds, while it may still send, so that
# the end of the answer is not lost; so many at the same time.
LINGER_SECONDS = 2.0
MAX_LINGERING = 1000

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\ncontent-length:[ \t]*([0-9]{1,12})[ \t]*\r", re.IGNORECASE)
_CODING = re.compile(rb"\ntransfer-encoding:[ \t]*chunked[ \t]*\r", re.IGNORECASE)
# What a thread must see at once: it asks for leave to send the body.
_OTHER = re.compile(rb"\n(?:expect|upgrade)[ \t]*:", re.IGNORECASE)
_FRAMING = re.compile(rb"\n(?:content-length|transfer-encoding)[ \t]*:", re.IGNORECASE)
_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")


class Ahead:
    """A request that is awaited without a thread; `data` is all that has come of it."""

    def __init__(self, head_end: int, length: int | None, most: int) -> None:
        self.data = bytearray()
        self._most = most
        self._start = head_end
        self._length = length
        # Where the next line with the size of a chunk begins; -1 behind the last one.
        self._line = head_end

    @property
    def enough(self) -> bool:
        """True if the body is here, or so much of it that the rest is worth a thread."""
        came = len(self.data) - self._start
        if came >= self._most:
            return True
        if self._length is not None:
            return came >= self._length
        while self._next_chunk():
            pass
        return self._line < 0

    def _next_chunk(self) -> bool:
        """Go on to the next chunk, if all of this one is here. What is no chunk is a thread's business."""
        data, at = self.data, self._line
        if at < 0:
            return False
        end = data.find(b"\r\n", at, at + _MAX_LINE)
        if end < 0:
            self._line = at if len(data) - at < _MAX_LINE else -1
            return False
        size = bytes(data[at:end]).partition(b";")[0].strip()
        if not _SIZE.fullmatch(size):
            self._line = -1
            return False
        if int(size, 16) == 0:
            over = data.find(_END, end) >= 0 or len(data) - end > _MAX_TRAILERS
            self._line = -1 if over else at
            return False
        behind = end + 2 + int(size, 16) + 2
        if behind > len(data):
            return False
        self._line = behind
        return True


def ahead_of(head: bytes, most: int = 0) -> Ahead | None:
    """A request whose head is here and whose body is to be awaited; None if a thread must see it at once.

    A body of over `most` bytes, if that is known, is not awaited: it is refused.
    """
    end = head.find(_END)
    if end < 0:
        return None
    lines = head[: end + 2]
    if _OTHER.search(lines) or len(_FRAMING.findall(lines)) != 1:
        return None
    length = _LENGTH.search(lines)
    if length is None and not _CODING.search(lines):
        return None
    announced = int(length[1]) if length else None
    if most and announced is not None and announced > most:
        return None
    return Ahead(end + len(_END), announced, min(AHEAD, most + 1) if most else AHEAD)


class Bodies:
    """The requests whose bodies are awaited; `start` gives a connection its thread, `drop` closes it."""

    def __init__(self, start: Callable[[Any], None], drop: Callable[[Any], None]) -> None:
        self._start = start
        self._drop = drop
        self._waiting: dict[Any, Ahead] = {}
        self._size = 0

    def begin(self, poller: selectors.BaseSelector, conn: Any, head: bytes, most: int) -> None:
        """A request's head is here: its thread begins when its body is here too, or enough of that."""
        conn.sock.begin()
        request = ahead_of(head, most)
        if request is None or self._size >= ALL_AHEAD:
            self._start(conn)
            return
        conn.init()
        conn.sock.setblocking(False)
        request.data += conn.parser.unreader.take_buffered()
        self._waiting[conn] = request
        self._size += len(request.data)
        poller.register(conn.sock, selectors.EVENT_READ, partial(self._take, poller, conn))
        self._take(poller, conn, conn.sock)

    def _take(self, poller: selectors.BaseSelector, conn: Any, sock: Any) -> None:
        """Take more of a body; the end of its client is for a thread to see."""
        request = self._waiting[conn]
        try:
            data = sock.take()
        except OSError:
            data = b""
        if data:
            request.data += data
            self._size += len(data)
        if data == b"" or request.enough or self._size >= ALL_AHEAD:
            self._end(poller, conn)
            self._start(conn)

    def _end(self, poller: selectors.BaseSelector, conn: Any) -> None:
        """Nothing more of this body is awaited here: the parser gets what came."""
        request = self._waiting.pop(conn)
        self._size -= len(request.data)
        poller.unregister(conn.sock)
        conn.parser.unreader.unread(bytes(request.data))

    def check(self, poller: selectors.BaseSelector, *, full: bool) -> None:
        """Give those a thread that are too late, for they are told so; where there is no room the first ones go."""
        now = time.monotonic()
        for conn in [conn for conn in self._waiting if conn.sock.until()[0] <= now]:
            self._end(poller, conn)
            self._start(conn)
        if full and self._waiting:
            conn = next(iter(self._waiting))
            self._end(poller, conn)
            self._drop(conn)

    def end_at(self, moment: float) -> None:
        """The worker stops: what is not here by then (`time.monotonic`) is not waited for."""
        for conn in self._waiting:
            conn.sock.end_at(moment)


class Lingering:
    """Clients that were answered and keep their end open."""

    def __init__(self) -> None:
        self._until: dict[socket.socket, float] = {}

    def close(self, poller: selectors.BaseSelector, sock: socket.socket, *, graceful: bool) -> None:
        """Close a connection; `graceful`: our end first, then, when the client has closed its own or takes too long."""
        if not graceful or len(self._until) >= MAX_LINGERING:
            util.close(sock)
            return
        try:
            sock.setblocking(False)
            sock.shutdown(socket.SHUT_WR)
            poller.register(sock, selectors.EVENT_READ, partial(self._read_away, poller))
        except (OSError, ValueError, KeyError):  # it is closed already, or broken
            util.close(sock)
            return
        self._until[sock] = time.monotonic() + LINGER_SECONDS

    def check(self, poller: selectors.BaseSelector) -> None:
        """Close those that took too long, the oldest first."""
        now = time.monotonic()
        while self._until and next(iter(self._until.values())) <= now:
            self._let_go(poller, next(iter(self._until)))

    def close_all(self) -> None:
        """The worker's end."""
        for sock in self._until:
            util.close(sock)

    def _read_away(self, poller: selectors.BaseSelector, sock: socket.socket) -> None:
        """Take what a client still sends after its answer: unread, it would have the answer's end thrown away."""
        try:
            ended = not sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._let_go(poller, sock)

    def _let_go(self, poller: selectors.BaseSelector, sock: socket.socket) -> None:
        del self._until[sock]
        poller.unregister(sock)
        util.close(sock)
