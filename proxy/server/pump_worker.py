"""gunicorn's threaded worker, extended to hand each stream to the pump once its first bytes are sent.

gunicorn accepts and parses requests, keeps connections and runs the threads. This worker adds:

    the hand-over    `HandedOver` leaves gunicorn's `handle_request` after the first part of a stream's body. The pump
                     sends the rest and returns the connection to gunicorn.
    time limits      a head and a body must arrive in time; otherwise the receiving half of the connection is shut down,
                     which ends the `recv` that waits for them
    the turn         one request computes at a time, so that the pump competes with one thread instead of fifty
    the drain        shortly before the graceful timeout, the remaining streams are told that the worker ends
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import re
import resource
import selectors
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

from .pump import QUIET_SWITCH_SECONDS, Pump
from .pumped_stream import PumpedStream

# Keys of the WSGI environment: a function that takes the wait object of a body that the pump may drive, and the
# request's turn to compute.
HAND_OVER = "tool_proxy.hand_over"
TURN = "tool_proxy.turn"
# Environment variable `PID:EVENTFD`. Streams poll it; it becomes readable when they must end.
DRAIN_VARIABLE = "TOOL_PROXY_DRAIN"
# Seconds that streams have to end before the graceful timeout.
DRAIN_SECONDS = 3.0
# Seconds for a request's head, for its body, and for a client that neither sends nor receives. Streams with longer gaps
# are not affected: while they wait, the application neither sends nor receives.
HEAD_SECONDS = 10.0
BODY_SECONDS = 120.0
STALL_SECONDS = 30.0
# Seconds that a request waits for its turn before it computes without one.
TURN_SECONDS = 0.1
# Seconds to read the unread rest of a request's body. After that, the connection is closed with the response.
UNREAD_SECONDS = 0.05
# Seconds for a client to close a connection after its last response.
LINGER_SECONDS = 2.0
# Seconds to wait if no connection can be accepted.
FULL_SECONDS = 0.2
# Descriptors for the worker's own files; clients and upstream connections share the rest (limits.SPARE_DESCRIPTORS).
SPARE_DESCRIPTORS = 32
# Thresholds of the garbage collector (CPython: 700, 10, 10). A request creates thousands of objects, almost all of them
# without cycles.
YOUNG_GARBAGE = (10_000, 10, 10)

_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_DISCARDED = 64 * 1024
_PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT
# The result of a request whose connection was handed to the pump.
_HANDED_OVER = object()


class HandedOver(BaseException):
    """Leaves gunicorn's `handle_request`. A BaseException, so that gunicorn's handlers do not catch it."""


class Turn:
    """A request's turn to compute."""

    def __init__(self, line: threading.Lock) -> None:
        self._line = line
        self._is_held = False

    def take(self) -> None:
        """Wait up to TURN_SECONDS for the turn. Does nothing if the turn is held."""
        if not self._is_held:
            self._is_held = self._line.acquire(timeout=TURN_SECONDS)

    def give_back(self) -> None:
        """Let another request compute. Does nothing if the turn is not held."""
        if self._is_held:
            self._is_held = False
            self._line.release()


class Answer:
    """The application's response, as gunicorn iterates over it."""

    def __init__(self, given: Any, response: Any, wait: Any, turn: Turn) -> None:
        self.parts: Iterator[bytes] = iter(given)
        self.response = response
        # A body with a length is sent by gunicorn.
        self.wait = wait if response.response_length is None else None
        self.end: Callable[[], object] = getattr(given, "close", lambda: None)
        self._turn = turn
        self._is_handed_over = False

    def __iter__(self) -> Iterator[bytes]:
        if self.wait is not None:
            yield next(self.parts, b"")
            self._is_handed_over = True
            raise HandedOver
        self._turn.give_back()
        # `yield from` would close the response here, too, if the client leaves: the request would be recorded twice.
        for part in self.parts:  # noqa: UP028
            yield part

    def close(self) -> None:
        """Close the response, unless the pump has it."""
        if not self._is_handed_over:
            self.end()


class Input:
    """The body of a request. `end` is called after reading, and returns whether the body came too late."""

    def __init__(self, body: Any, has_length: bool, turn: Turn, end: Callable[[], bool]) -> None:
        self._body = body
        self._has_length = has_length
        self._turn = turn
        self._end = end
        self.is_cut = False

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes. Raises TimeoutError, or InterruptedError if the worker ends."""
        self._turn.give_back()
        data = b""
        failure: Exception | None = None
        try:
            data = self._body.read(size)
        except BlockingIOError:  # SO_RCVTIMEO
            failure = TimeoutError("no bytes of the body arrived in time (client_timeout)")
        except Exception as error:
            failure = error
        self._turn.take()
        self.is_cut = failure is not None or (self._has_length and len(data) < size)
        if self._end():
            self.is_cut = True
            raise TimeoutError("the body did not arrive in time (body_timeout)")
        if failure is not None:
            raise failure
        return data


class PumpWorker(ThreadWorker):
    """One thread per request until the first bytes of its response are sent; the pump sends the rest of a stream."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A client may need a second descriptor, for its stream.
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY:
            self.worker_connections = min(self.worker_connections, max(most - SPARE_DESCRIPTORS, 8) // 2)
        self._lingering: deque[TConn] = deque()
        # Connections whose head or body is being received, and their deadlines. The thread that removes one ends it.
        self._receiving: dict[TConn, float] = {}
        self._thread = threading.local()
        self._line = threading.Lock()  # written in C; a Semaphore costs 10 us when requests compete
        self._drain = -1
        self._drain_at = float("inf")

    def init_process(self) -> None:
        """Create the eventfd that tells streams that the worker ends, before the application is loaded."""
        self._drain = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        os.environ[DRAIN_VARIABLE] = f"{os.getpid()}:{self._drain}"
        gc.disable()  # collections would take a seventh of the loading time
        super().init_process()

    def run(self) -> None:
        """Run the worker until it ends."""
        sys.setswitchinterval(QUIET_SWITCH_SECONDS)
        # Collecting all loaded objects would stop the streams for 100 ms.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*YOUNG_GARBAGE)
        gc.enable()
        self._application: Any = self.wsgi
        self.wsgi = self._called
        # A worker without a pump cannot stream, so it ends gracefully and the master starts another.
        self._pump = Pump(self.log, self._drain, partial(self.handle_quit, signal.SIGQUIT, None))
        self._pump.start()
        try:
            super().run()
        finally:
            # Otherwise, after a defect, the process would wait forever for its idle threads.
            self.tpool.shutdown(wait=False)
        # Tell work without a client (background responses) to end, because the process waits for its threads.
        os.eventfd_write(self._drain, 1)
        self._pump.stop()

    def handle_quit(self, sig: int, frame: Any) -> None:
        """Drain immediately on SIGQUIT. gunicorn alone would end the process while its threads run."""
        self._drain_at = 0.0
        os.eventfd_write(self._drain, 1)
        self.handle_exit(sig, frame)

    # Connections, on the main thread.

    def accept(self, listener: Any) -> None:
        """Accept a connection. If no descriptor is free, close an idle connection for the next try."""
        try:
            super().accept(listener)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            if not self._close_idle():
                self.log.error("no connection can be accepted: %s", error)
                time.sleep(FULL_SECONDS)

    def enqueue_req(self, conn: Any) -> None:
        """Start a thread for a connection that has sent bytes. Add any other connection to the poll."""
        if not (conn.initialized and conn.parser.unreader.buf.getvalue()):
            try:
                if not conn.sock.recv(1, _PEEK):
                    raise ConnectionResetError
            except BlockingIOError:
                conn.sock.setblocking(False)
                conn.set_timeout()
                self.pending_conns.append(conn)
                self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))
                return
            except OSError:
                self._drop(conn)
                return
        conn.data_ready = True
        try:
            self.tpool.submit(self._answer, conn)
        except RuntimeError as error:  # another thread takes the request later
            self.log.error("a thread cannot be started: %s", error)

    def _answer(self, conn: TConn) -> None:
        self._give_back(conn, self.handle(conn))

    def _give_back(self, conn: TConn, keepalive: object) -> None:
        """Pass a request to the main loop to finish it. May be called from any thread."""
        if keepalive is not _HANDED_OVER:
            done: Future[object] = Future()
            done.set_result(keepalive)
            self.method_queue.defer(self.finish_request, conn, done)

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """Run one round of the loop. A failure of one connection must not end the worker."""
        try:
            super().wait_for_and_dispatch_events(timeout)
        except Exception:
            self.log.exception("a connection has failed")
            time.sleep(FULL_SECONDS)  # do not spin if it fails again
        while self.nr_conns >= self.worker_connections and self._close_idle():
            pass

    def _close_idle(self) -> bool:
        """Close the connection that has been idle longest. Return False if none is idle."""
        for idle in (self._lingering, self.pending_conns, self.keepalived_conns):
            if idle:
                conn = idle.popleft()
                self.poller.unregister(conn.sock)
                self._drop(conn)
                return True
        return False

    def finish_request(self, conn: TConn, fs: Any) -> None:
        """Wait for the next request of a connection, or for its client to close it.

        Without waiting, unread bytes of the client would reset the connection, and the client could lose the end of its
        response. gunicorn would block a thread or the main loop for this.
        """
        if fs.result():
            super().finish_request(conn, fs)
            return
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
            conn.timeout = time.monotonic() + LINGER_SECONDS
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._discard, conn))
            self._lingering.append(conn)
        except (OSError, ValueError):  # the client or gunicorn has closed it
            self._drop(conn)

    def _discard(self, conn: TConn, _: object) -> None:
        """Discard bytes that a client sends after its last response."""
        with contextlib.suppress(OSError):
            if conn.sock.recv(_DISCARDED):
                return
        self._lingering.remove(conn)
        self.poller.unregister(conn.sock)
        self._drop(conn)

    def _drop(self, conn: TConn) -> None:
        self.nr_conns -= 1
        conn.close()

    def murder_pending(self) -> None:
        """Close idle connections and end requests that are past their deadline. gunicorn calls this every second."""
        super().murder_pending()
        now = time.monotonic()
        while self._lingering and now >= (self._lingering[0].timeout or now):
            conn = self._lingering.popleft()
            self.poller.unregister(conn.sock)
            self._drop(conn)
        if not self.alive:
            self._drain_at = min(self._drain_at, now + max(0.0, self.cfg.graceful_timeout - DRAIN_SECONDS))
            if now >= self._drain_at:
                os.eventfd_write(self._drain, 1)
        for conn, due in list(self._receiving.items()):
            if now >= min(due, self._drain_at) and self._receiving.pop(conn, None) is not None:
                with contextlib.suppress(OSError):
                    conn.sock.shutdown(socket.SHUT_RD)

    def _cap_keepalive(self, deadline: float) -> None:
        """Stop the worker: serve the connections that the kernel has already accepted, and refuse new ones."""
        self.alive = False
        for listener in self.sockets:
            before = -1
            while self.nr_conns != before:
                before = self.nr_conns
                self.accept(listener)
            listener.close()
        super()._cap_keepalive(deadline)  # type: ignore[misc]
        for conn in self.pending_conns:
            conn.timeout = min(conn.timeout or deadline, deadline)

    # A request, on its thread.

    def handle(self, conn: TConn) -> Any:
        """Answer a request. Return whether to keep its connection, or `_HANDED_OVER`."""
        self._thread.conn = conn
        self._thread.turn = turn = Turn(self._line)
        self._receiving[conn] = time.monotonic() + HEAD_SECONDS
        keepalive: Any = False
        stream: Answer | None = None
        try:
            keepalive = super().handle(conn)
        except HandedOver:
            stream = self._thread.answer
        except BaseException:
            self.log.exception("Error handling request")
        self._receiving.pop(conn, None)
        turn.give_back()
        self._thread.answer = None
        return keepalive if stream is None else self._hand_over(conn, stream)

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Answer a parsed request. A client that takes no bytes for too long (SO_SNDTIMEO) counts as gone."""
        try:
            return super().handle_request(req, conn)
        except BlockingIOError as error:
            raise BrokenPipeError(errno.EPIPE, "the client receives nothing") from error

    def _called(self, environ: MutableMapping[str, Any], start_response: Any) -> Answer:
        """Call the application once the head has arrived, and start the time limit of the body."""
        conn, turn, waits = self._thread.conn, self._thread.turn, list[Any]()
        response, body = start_response.__self__, None
        self._receiving.pop(conn, None)
        length = environ.get("CONTENT_LENGTH", "0")
        if length != "0" or "HTTP_TRANSFER_ENCODING" in environ:
            self._receiving[conn] = time.monotonic() + BODY_SECONDS
            body = Input(environ["wsgi.input"], length != "0", turn, partial(self._end_receiving, conn))
            environ["wsgi.input"] = body
        environ[HAND_OVER] = waits.append
        environ[TURN] = turn
        turn.take()
        given = self._application(environ, start_response)
        if body is not None and (body.is_cut or not self._read_rest(conn)):
            response.force_close()
        self._receiving.pop(conn, None)
        self._thread.answer = answer = Answer(given, response, waits[-1] if waits else None, turn)
        return answer

    @staticmethod
    def _read_rest(conn: Any) -> bool:
        """Read the unread rest of a body. Return False if it is incomplete."""
        try:
            return bool(conn.parser.finish_body(deadline=time.monotonic() + UNREAD_SECONDS))
        except Exception:  # it is not HTTP
            return False

    def _end_receiving(self, conn: TConn) -> bool:
        """Record that a body was read. Return whether it was late. Raises InterruptedError if the worker ends."""
        is_late = self._receiving.pop(conn, None) is None
        if is_late and time.monotonic() >= self._drain_at:
            raise InterruptedError
        return is_late

    def _hand_over(self, conn: Any, answer: Answer) -> Any:
        """Hand a stream that has begun to the pump."""
        # Release the request, which the stream does not need.
        conn.parser.mesg = None
        stream = PumpedStream(
            answer.parts,
            answer.wait,
            conn.sock,
            partial(self._finish_stream, conn, answer.end, not answer.response.should_close()),
            chunked=answer.response.chunked,
            idle=STALL_SECONDS,
        )
        if not self._pump.add(stream):
            stream.is_broken = True
            stream.finish(False)
        return _HANDED_OVER

    def _finish_stream(self, conn: TConn, end: Callable[[], object], keeps: bool, whole: bool) -> None:
        """Close a stream's response and return its connection to gunicorn. Called on a helper thread of the pump."""
        keepalive = keeps and whole
        try:
            end()
        except Exception:
            self.log.exception("Error handling request")
            keepalive = False
        self._give_back(conn, keepalive)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a malformed request in JSON. gunicorn's HTML quotes the request, which may hold a key."""
        said: Any = _ErrorReader()
        super().handle_error(req, said, addr, exc)
        # gunicorn's message quotes the request, but the name of its exception does not: `InvalidHeaderName`.
        wrong = re.sub("(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", type(exc).__name__).lower()
        words = f"the request is not valid HTTP: {said.line} ({wrong})"
        if said.status == 500:
            words = "the proxy failed; see its log"
        kind = "api_error" if said.status == 500 else "invalid_request_error"
        body = json.dumps({"error": {"message": words, "type": kind, "param": None, "code": said.status}})
        head = f"HTTP/1.1 {said.line}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        with contextlib.suppress(OSError):
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())


class _ErrorReader:
    """Stands in for a client, to read the status of gunicorn's error page."""

    status, line = 400, "400 Bad Request"

    def sendall(self, data: bytes) -> None:
        """Read the status line, such as `HTTP/1.1 414 URI Too Long`."""
        self.line = data.split(b"\r\n", 1)[0].split(b" ", 1)[1].decode()
        self.status = int(self.line[:3])

    def gettimeout(self) -> float:
        """Return a timeout for gunicorn."""
        return 0.0
