"""Clients that gunicorn's workers wait for in their poll, so that none of them holds a thread: those whose requests are
on their way, those that may send another one, and those that keep their end open after their answer.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from gunicorn import util

# So much of all requests together may wait; beyond that the oldest of their bodies give way.
MOST_WAITING = 128 * 1024 * 1024
# How often, in seconds, it is looked who is too late.
LOOK_SECONDS = 0.1
# So long, in seconds, what has come is read in one round of the worker's loop; the rest of it waits for the next one.
ROUND_SECONDS = 0.01
# A client that keeps its end open after its answer is waited for so long, in seconds, while it may still send, so that
# the end of the answer is not lost; so many at the same time.
LINGER_SECONDS = 2.0
MAX_LINGERING = 1000

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Incoming:
    """The connections of which a request is awaited, the oldest first.

    `requests` and `refused` are the module `client_request` and the class `client_socket.Refused`; `start` gives a
    connection its thread, `drop` closes it, `refuse` answers the head of one that is too long and then closes it.
    """

    def __init__(
        self,
        requests: Any,
        refused: Any,
        start: Callable[[Any], None],
        drop: Callable[[Any], None],
        refuse: Callable[[Any, bytes], None],
    ) -> None:
        self._stages = requests.Stage
        self._refused = refused
        self._start = start
        self._drop = drop
        self._refuse = refuse
        # Each with its request, and until when the head of that must be here.
        self._waiting: dict[Any, tuple[Any, float]] = {}
        # Those of them that the poll knows: most requests are here whole at once.
        self._polled: set[Any] = set()
        # Those of which something is to be read, those that wait longest first.
        self._ready: dict[Any, None] = {}
        # How much must have been taken of those that are late before they are told so: what was here by then.
        self._owed: dict[Any, int] = {}
        self._size = 0
        self._next_look = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def poll(self, poller: selectors.BaseSelector, timeout: float | None, turns: Any) -> None:
        """One round of the poll, which waits for so many seconds at most: what has happened is seen to before any
        request computes (turns.py), or the interpreter's lock would go to and fro at each system call of either.
        """
        events = poller.select(0.0 if self._ready else timeout)
        has_turn = turns.begin_poll()
        try:
            for key, _ in events:
                key.data(key.fileobj)
            self.read(poller)
        finally:
            if has_turn:
                turns.end_round()

    def begin(self, poller: selectors.BaseSelector, conn: Any, request: Any, head_until: float) -> bool:
        """Take what has come of a request, and wait for the rest of it; False if nothing has come yet."""
        conn.sock.begin()
        data, conn.sock.ahead = conn.sock.ahead or conn.sock.take(), b""
        if data is None:
            return False
        if not data:
            self._drop(conn)
            return True
        self._waiting[conn] = request, head_until
        self._feed(poller, conn, data)
        if conn in self._waiting:
            self._polled.add(conn)
            poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_readable, conn))
        return True

    def _on_readable(self, conn: Any, sock: Any) -> None:
        if conn in self._waiting:  # it may have given way in this very round
            self._ready.setdefault(conn)

    def read(self, poller: selectors.BaseSelector) -> None:
        """Read what has come, each connection in its turn, until the time of a round is over."""
        until = time.monotonic() + ROUND_SECONDS
        while self._ready:
            conn = next(iter(self._ready))
            del self._ready[conn]
            self._take(poller, conn)
            if time.monotonic() >= until:
                return

    def _take(self, poller: selectors.BaseSelector, conn: Any) -> None:
        """Take more of a request."""
        request, _ = self._waiting[conn]
        data = b"" if request.more else conn.sock.take()
        if data is None:
            return
        if data or request.more:
            self._feed(poller, conn, data)
        elif request.stage is self._stages.HEAD:
            self._remove(poller, conn)
            self._drop(conn)
        else:  # the application says what is missing
            self._hand_over(poller, conn, None)

    def _feed(self, poller: selectors.BaseSelector, conn: Any, data: bytes) -> None:
        request, _ = self._waiting[conn]
        stages, before = self._stages, request.stage
        self._size -= request.size
        request.feed(data)
        self._size += request.size
        if request.stage is stages.WHOLE:
            self._hand_over(poller, conn, None)
        elif request.stage is stages.REFUSED:
            self._hand_over(poller, conn, self._refused(400, request.why))
        elif request.stage is stages.LONG_HEAD:
            self._remove(poller, conn)
            self._refuse(conn, request.head)
        elif request.stage is stages.BODY:
            if before is stages.HEAD:
                self._begin_body(conn, request)
            if request.more:
                self._ready.setdefault(conn)
            self._make_room(poller)

    def _begin_body(self, conn: Any, request: Any) -> None:
        """A body has times of its own; a client that asks for leave to send it gets that."""
        conn.sock.begin()
        if request.expects:
            with contextlib.suppress(OSError):
                conn.sock.send(_CONTINUE)

    def _make_room(self, poller: selectors.BaseSelector) -> None:
        """Where all that waits is too much, those that have waited for longest are told so."""
        while self._size > MOST_WAITING:
            bodies = [conn for conn, (request, _) in self._waiting.items() if request.stage is self._stages.BODY]
            if len(bodies) < 2:
                return
            self._hand_over(poller, bodies[0], self._refused(503, "too much is on its way to the proxy; send it again"))

    def _remove(self, poller: selectors.BaseSelector, conn: Any) -> Any:
        request, _ = self._waiting.pop(conn)
        self._ready.pop(conn, None)
        self._owed.pop(conn, None)
        self._size -= request.size
        if conn in self._polled:
            self._polled.remove(conn)
            poller.unregister(conn.sock)
        return request

    def _hand_over(self, poller: selectors.BaseSelector, conn: Any, refused: Any) -> None:
        """Nothing more of this request is awaited: a thread gets what came, and answers it."""
        request = self._remove(poller, conn)
        head = request.head
        conn.init()
        conn.parser.unreader.unread(head)
        conn.sock.serve(head, request.body, request.rest, refused)
        conn.sock.last = request.stage is not self._stages.WHOLE
        self._start(conn)

    def check(self, poller: selectors.BaseSelector) -> None:
        """End those that are too late: half a head is closed, the client of half a body is told why."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_SECONDS
        for conn, (request, head_until) in list(self._waiting.items()):
            if conn not in self._waiting:
                continue  # it gave way
            if request.stage is self._stages.HEAD:
                if head_until <= now and conn not in self._ready:
                    self._remove(poller, conn)
                    self._drop(conn)
            else:
                self._end_if_late(poller, conn, now)

    def _end_if_late(self, poller: selectors.BaseSelector, conn: Any, now: float) -> None:
        """End a connection that is late, but take what is here first: that the worker had no time is not the client's
        fault.
        """
        until, refused = conn.sock.until()
        if until > now:
            self._owed.pop(conn, None)
            return
        owed = self._owed.setdefault(conn, conn.sock.taken + conn.sock.untaken())
        if conn.sock.taken >= owed and not self._waiting[conn][0].more:
            self._hand_over(poller, conn, refused)

    def give_way(self, poller: selectors.BaseSelector) -> bool:
        """Close the connection that has waited longest, to make room for a new one; return whether there was one."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        self._remove(poller, oldest)
        self._drop(oldest)
        return True

    def end_at(self, heads: float, bodies: float) -> None:
        """The worker stops: what is not here by then (`time.monotonic`) is not waited for."""
        for conn, (request, head_until) in self._waiting.items():
            self._waiting[conn] = request, min(head_until, heads)
            conn.sock.end_at(bodies)


def keep(poller: selectors.BaseSelector, kept: deque[Any], conn: Any, readable: Callable[[Any], None]) -> bool:
    """Wait for a connection's next request, on whatever thread; False if the poll has no room for one more.

    `kept` are gunicorn's connections of this kind, `readable` is called when something has come.
    """
    conn.set_timeout()
    # First: with its next request the poll looks for it there.
    kept.append(conn)
    try:
        poller.register(conn.sock, selectors.EVENT_READ, readable)
    except (OSError, ValueError):
        with contextlib.suppress(ValueError):  # the worker has ended, and closed it
            kept.remove(conn)
            return False
    return True


class Lingering:
    """Clients that were answered and keep their end open."""

    def __init__(self) -> None:
        self._until: dict[socket.socket, float] = {}

    def close(self, poller: selectors.BaseSelector, sock: socket.socket, graceful: bool) -> None:
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

    def give_way(self, poller: selectors.BaseSelector) -> bool:
        """Close the connection that has lingered longest; return whether there was one."""
        oldest = next(iter(self._until), None)
        if oldest is None:
            return False
        self._let_go(poller, oldest)
        return True

    def close_all(self) -> None:
        """The worker's end."""
        for sock in self._until:
            util.close(sock)

    def _read_away(self, poller: selectors.BaseSelector, sock: socket.socket) -> None:
        """Take what a client still sends after its answer: unread, it would have the answer's end thrown away."""
        try:
            # As a socket does it: a client's own gives what came of its request.
            ended = not socket.socket.recv(sock, 65536)
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
