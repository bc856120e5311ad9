"""One request and the application's answer to it, from the call of the application to the closing of what it gave.

What gunicorn's `ThreadWorker.handle_request` does in one go is cut here into steps, since the answer of a stream begins
on the thread of its request and goes on without it. Each step is done once, and in gunicorn's order: the application is
called, its answer written, the access log told, the answer closed, and the hook `post_request` called.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from typing import Any

from gunicorn import util
from gunicorn.http import wsgi

# Under this name the application finds what it calls with the wait object of an answer that the pump may drive.
HAND_OVER = "tool_proxy.hand_over"
# Under this one the request's turn to compute (turns.py), which it gives back where it waits.
TURN = "tool_proxy.turn"


# A second has one date, which takes longer to be put together than all else of a head.
_http_date = lru_cache(maxsize=1)(util.http_date)


class Response(wsgi.Response):
    """The head and the framing of an answer: gunicorn's, with a date that is made once a second."""

    def default_headers(self) -> list[str]:
        """The status line, and the fields that the application does not give."""
        connection = "close" if self.should_close() else "keep-alive"
        version: Any = self.req.version
        lines = [
            f"HTTP/{version[0]}.{version[1]} {self.status}\r\n",
            f"Server: {self.version}\r\n",
            f"Date: {_http_date(int(time.time()))}\r\n",
            f"Connection: {'upgrade' if self.upgrade else connection}\r\n",
        ]
        if self.chunked:
            lines.append("Transfer-Encoding: chunked\r\n")
        return lines


class Answer:
    """The answer to a request. `worker` is gunicorn's, which counts its requests, and so may end itself. The hook
    `post_request` gets no request of an answer that has let go of it.
    """

    __slots__ = (
        *("body", "_began", "_conn", "_environ", "_result", "_keeps_connection", "_req", "_response", "_turn"),
        *("_waits", "_worker"),
    )

    def __init__(self, worker: Any, req: Any, conn: Any) -> None:
        self._worker = worker
        self._turn = conn.sock.turn
        self._req = req
        self._conn = conn
        self._began = datetime.now()
        self._response: Any = None
        self._environ: Any = {}
        self._result: Any = None
        self._waits: list[Any] = []
        self._keeps_connection = False
        self.body: Iterator[bytes] = iter(())

    @property
    def begun(self) -> bool:
        """True once its head was sent."""
        return self._response is not None and self._response.headers_sent

    @property
    def keeps_connection(self) -> bool:
        """True if its connection serves another request."""
        if self._response is None:
            return self._keeps_connection
        return not self._response.should_close()

    @property
    def chunked(self) -> bool:
        """True if its body is framed in chunks; else its end is that of the connection."""
        return bool(self._response.chunked)

    @property
    def wait(self) -> Any:
        """The wait of its body, if the pump may drive it; else None."""
        if not self._waits or self._response.response_length is not None:
            return None
        return self._waits[-1]

    def call(self) -> None:
        """Call the application."""
        worker, cfg = self._worker, self._worker.cfg
        cfg.pre_request(worker, self._req)
        self._response, self._environ = wsgi.create(
            self._req, self._conn.sock, self._conn.client, self._conn.server, cfg, Response
        )
        self._environ["wsgi.multithread"] = True
        self._environ[HAND_OVER] = self._waits.append
        self._environ[TURN] = self._turn
        self._count()
        self._result = worker.wsgi(self._environ, self._response.start_response)
        self.body = iter(self._result)

    def _count(self) -> None:
        """One request more of this worker's; what then ends its connection."""
        worker = self._worker
        worker.nr += 1
        if worker.nr >= worker.max_requests:
            if worker.alive:
                worker.log.info("Autorestarting worker after current request.")
                worker.alive = False
            self._response.force_close()
        elif not worker.alive or not worker.cfg.keepalive or len(worker.keepalived_conns) >= worker.max_keepalived:
            self._response.force_close()

    def write_first(self) -> None:
        """Send the head and the first part of the body, in one go; then the pump drives the rest."""
        self._write_first(next(self.body, b""))
        self._turn.give_back()

    def write_rest(self) -> None:
        """Send all the body, or what is left of it."""
        if self._response.response_length is None:  # a stream, which may wait for anything
            self._turn.give_back()
        for part in self.body:
            if self.begun:
                self._response.write(part)
            else:
                self._write_first(part)
        self._response.close()

    def _write_first(self, part: bytes) -> None:
        sock = self._conn.sock
        sock.gather()
        try:
            self._response.write(part)
        finally:
            sock.send_gathered()

    def let_go_of_request(self) -> None:
        """The head is out, and the pump sends the rest: what gunicorn knows of the request is of use to its own access
        log alone, which is off. A stream that waits would keep it for as long.
        """
        if self._worker.log.access_log_enabled:
            return
        self._keeps_connection = not self._response.should_close()
        self._req = self._response = None
        self._environ = {}
        self._conn.sock.head = b""

    def close(self) -> None:
        """The answer has ended, however it did."""
        self._turn.take()
        try:
            if self._result is not None:
                self._close_given()
        finally:
            self._turn.give_back()
            self._call_hook()

    def _close_given(self) -> None:
        self._worker.log.access(self._response, self._req, self._environ, datetime.now() - self._began)
        if hasattr(self._result, "close"):
            self._result.close()

    def _call_hook(self) -> None:
        try:
            self._worker.cfg.post_request(self._worker, self._req, self._environ, self._response)
        except Exception:
            self._worker.log.exception("Exception in post_request hook")
