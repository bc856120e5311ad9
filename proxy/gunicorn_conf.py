"""gunicorn's configuration, read by its master at the start and at every reload.

It must not import `proxy`: the master would keep that release's modules, and hand them to every later worker. Address,
workers and threads come on the command line, from `proxy.cli`.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import glob
import importlib.util
import os
import resource
import secrets
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from functools import partial
from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker


def _load(name: str) -> Any:
    """A module of this folder, by its path: under its own name the master would keep it, and hand it on."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server", f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"gunicorn_{name}", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_accepted = _load("accepted")
_clients = _load("client_socket")
_requests = _load("client_request")
_heads = _load("request_head")
_waits = _load("client_waits")
_logs = _load("log_stream")
_answers = _load("wsgi_answer")
_streams = _load("pumped_stream")
_deadlines = _load("deadline_heap")
_pump = _load("pump")
_refusals = _load("refusals")
_turns = _load("turns")
_threads = _load("thread_pool")
if __name__ == "__config__":
    # The master's first line could wait for a pipe that is full already. The log takes the stream that it finds.
    _logs.install()

_TCP = (socket.AF_INET, socket.AF_INET6)
_NOT_THERE = frozenset((errno.EAGAIN, errno.EWOULDBLOCK, errno.ECONNABORTED))
_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

# For how long a worker's main loop may not beat; never a limit on a request.
timeout = 60

# Seconds that streams get to end after SIGTERM or a reload; then the worker is killed. `serve` may say others.
graceful_timeout = 60

# Agents pool connections for up to 90 s: the side that closes first makes the other's next POST fail.
keepalive = 120

# A worker that restarts itself serves nobody until its last stream has ended.
max_requests = 0

# The heartbeat file on a disk would make a slow disk look like a hung worker.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None

# A reload must take the new code, so the master must not have loaded the old.
preload_app = False

# One listening socket for all workers: none is starved, and a port in use is told.
reuse_port = False

# Restarts are the operator's, not those of an editor that saves a file.
reload = False

# X-Forwarded-* is believed from a front on this machine only.
forwarded_allow_ips = "127.0.0.1"

# A header with an underscore could pass for another one.
header_map = "drop"

# Nor may a program on this machine set the path by one.
forwarder_headers = ""

# Agents send short lines and few headers; what is over these is answered 414 and 431 before the application runs.
limit_request_line = 4094
limit_request_fields = 64
limit_request_field_size = 8190

# The pure Python parser, whatever else is installed: one set of bytes is read in one way.
http_parser = "python"

# It would make a socket in the home folder, which a hardened unit does not have, and can stop the service.
control_socket_disable = True

# The application writes its own line for each request.
accesslog = None

# The journal takes what is written to stderr.
errorlog = "-"

# A client that sends or takes nothing for so long has lost its thread; gunicorn itself has no such limit. A stream with
# longer gaps is not touched: while it waits, the application neither sends nor receives.
STALL_SECONDS = 30.0

# A body has so long in all, and must bring so many bytes a second.
BODY_SECONDS = 120.0
BODY_RATE = 1024

# Under this name the application says how large a body may be; a reload can change that. Else it is so many bytes.
MAX_BODY = "tool-proxy-max-body"
BODY_BYTES = 32 * 1024 * 1024

# A connection is handed over when its first byte is there, so that silent ones cost no thread.
DEFER_SECONDS = 5

# A request's head may have so many bytes, and so long from its first one; else the connection is closed.
HEAD_SECONDS = 10.0
HEAD_BYTES = 16 * 1024

# Where there is no descriptor for one more connection, it is tried again after so long.
FULL_SECONDS = 0.5

# Descriptors reserved for the worker's own files; clients and upstream streams share the rest
# (limits.SPARE_DESCRIPTORS).
SPARE_DESCRIPTORS = 32

# What was not read of a request that is refused may take so long to come; then the connection is closed.
UNREAD_SECONDS = 0.05

# Before the graceful timeout the streams that are left are told to end; the worker looks once a second.
DRAIN_SECONDS = 3.0

# After so long, in seconds, a thread that computes gives the interpreter's lock to one that waits for it: the pump
# gives it away at each system call. benchmarks/README.md has the measurement that chose it. Without streams it is
# CPython's own: nobody is there who must not wait, and each switch costs two threads what is in the processor's caches.
SWITCH_SECONDS = 0.0001
QUIET_SWITCH_SECONDS = 0.005
# After so many new objects they are looked through for garbage, and how many times until the older ones are, too
# (CPython's own are 700, 10, 10). A request makes some thousands, and nearly none of them in a circle.
YOUNG_GARBAGE = (10_000, 10, 10)

# Seconds between two words to the master: a system call, behind which the interpreter's lock has to be waited for.
BEAT_SECONDS = 0.5

# By this they are told (upstream/answer_wait.py polls it): the worker's process id and the number of an eventfd.
DRAIN_VARIABLE = "TOOL_PROXY_DRAIN"

# The same for who need not end in order, and is told as soon as the worker stops: pages that only look on.
STOP_VARIABLE = "TOOL_PROXY_STOP"


# The pseudonym of the master and its workers in `Via`, by which they refuse their own requests. A master that another
# one started (SIGUSR2) keeps it: both serve the same socket for a while.
VIA_VARIABLE = "VLLM_TOOL_PROXY_VIA"


# The folder that the workers share, and the process id of its master. Without the prefix of settings, a release that
# does not know the variable starts under a master that sets it.
FOLDER_VARIABLE = "VLLM_TOOL_PROXY_FOLDER"
# prometheus-client reads this when a worker imports it.
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def _shared_folder() -> str:
    """Return the folder that the workers of this master share; the first call creates and empties it.

    It is the unit's runtime directory, else a private temporary one, in memory where there is /dev/shm. One that was
    removed meanwhile is created again.
    """
    pid, _, folder = os.environ.get(FOLDER_VARIABLE, "").partition(":")
    if pid == str(os.getpid()) and os.path.isdir(os.path.join(folder, "metrics")):
        return folder
    folder = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if not (os.path.isabs(folder) and os.access(folder, os.W_OK | os.X_OK)):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.mkdtemp(prefix="vllm-tool-proxy-", dir=memory)
    for name in ("rules-in-force", "reload-requested"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
    metrics = os.path.join(folder, "metrics")
    shutil.rmtree(metrics, ignore_errors=True)
    os.mkdir(metrics, 0o700)
    os.environ[FOLDER_VARIABLE] = f"{os.getpid()}:{folder}"
    os.environ[METRICS_VARIABLE] = metrics
    return folder


def on_starting(server: Any) -> None:
    """Make the workers' folder and pseudonym, and take as many descriptors as are allowed (each stream needs two)."""
    _shared_folder()
    os.environ.setdefault(VIA_VARIABLE, secrets.token_hex(8))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def on_reload(server: Any) -> None:
    """Ask the first new worker to read the rules file."""
    request = os.path.join(_shared_folder(), "reload-requested")
    os.close(os.open(request, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))


def pre_fork(server: Any, worker: Any) -> None:
    """Make sure that the workers' folder is there: a worker that cannot start stops the master."""
    _shared_folder()


def child_exit(server: Any, worker: Any) -> None:
    """Forget the gauges of a worker that has ended (prometheus-client's `mark_process_dead`); its counters stay."""
    for gauges in glob.glob(os.path.join(_shared_folder(), "metrics", f"gauge_live*_{worker.pid}.db")):
        os.unlink(gauges)


def on_exit(server: Any) -> None:
    """Remove the folder if it is a temporary one."""
    folder = _shared_folder()
    if folder != os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]:
        shutil.rmtree(folder, ignore_errors=True)


def when_ready(server: Any) -> None:
    """Set the limits on the listening TCP sockets; on Linux each accepted connection inherits them."""
    limit = struct.pack("ll", int(STALL_SECONDS), int(STALL_SECONDS % 1 * 1e6))
    for listener in server.LISTENERS:
        if listener.sock.family in _TCP:
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)


def post_fork(server: Any, worker: Any) -> None:
    """Forget the folders' contents that the master has seen: the release may have been switched since.

    And the master's way with signals: a worker that is told to end while it begins would only note it, and be killed
    when the graceful timeout is over.
    """
    importlib.invalidate_caches()
    # What this worker imports late is of its own release, also when the symlink was switched meanwhile.
    sys.path[:] = map(os.path.realpath, sys.path)
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


_made = partial(_clients.ClientSocket, _clients.Times(STALL_SECONDS, BODY_SECONDS, BODY_RATE))
# What a request's thread gives when the pump has its connection.
_HANDED_OVER = object()


class Worker(ThreadWorker):
    """A thread per request, up to the head of its answer; from there on the pump drives all streams (server/pump.py).

    Seven things are done in another way than gunicorn's. A request is read in the poll: a thread gets it when all of it
    is here, or is to be refused, and never waits for a client to send. A connection that is kept does not wake the poll
    before its next request. What a client sends and takes has its times. One that keeps its end open after its answer
    is watched by the same poll: gunicorn waits for each of them, one after the other, on the thread that accepts. A
    connection on which nothing ever came does not hold up a worker that stops. That worker refuses new ones. And what
    still streams shortly before the graceful timeout is told, so that it can end in its client's own words.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # A client may need a second descriptor, for its stream.
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most != resource.RLIM_INFINITY:
            self.worker_connections = min(self.worker_connections, max(most - SPARE_DESCRIPTORS, 8) // 2)
        self.cfg = _accepted.Settings(self.cfg)
        self._listeners: dict[Any, Any] = {}
        self._lingering = _waits.Lingering()
        self._incoming = _waits.Incoming(_requests, _clients.Refused, self._start, self._drop, self._refuse_head)
        self._full: OSError | None = None
        self._full_until = self._beat_at = 0.0
        self._drain = self._stopping = -1
        self._drain_at = float("inf")
        self._pump: Any = None
        self._turns = _turns.Turns((SWITCH_SECONDS, QUIET_SWITCH_SECONDS))

    def init_process(self) -> None:
        """Make the descriptor by which the streams are told to end, before the application is loaded."""
        self._drain = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        os.environ[DRAIN_VARIABLE] = f"{os.getpid()}:{self._drain}"
        self._stopping = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        os.environ[STOP_VARIABLE] = f"{os.getpid()}:{self._stopping}"
        gc.disable()  # until it runs: to look through what is being loaded for garbage takes a seventh of its time
        super().init_process()

    def run(self) -> None:
        """The worker's whole life; what lingers at its end is closed."""
        sys.setswitchinterval(QUIET_SWITCH_SECONDS)
        # What was loaded stays: to look through all of it for garbage takes 100 ms, in which no stream goes on.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*YOUNG_GARBAGE)
        gc.enable()
        end = partial(self._lingering.close, self.poller)
        self._listeners = _accepted.listeners_of(self.sockets, _made, self.cfg, end, _heads.Request)
        deadlines = _deadlines.DeadlineHeap()
        self._pump = _pump.Pump(_streams, deadlines, self.log, self._drain, self._on_pump_death, turns=self._turns)
        self._pump.start()
        try:
            super().run()
        finally:
            # gunicorn does so, too, but not behind a defect; the process would wait for its idle threads for ever.
            self.tpool.shutdown(wait=False)
        # What is made for no client (web/background.py) ends now: the process waits for its threads.
        if self._drain != -1:
            os.eventfd_write(self._drain, 1)
        self._pump.stop()
        self._lingering.close_all()

    def _on_pump_death(self) -> None:
        """Without its pump the worker is of no use: it ends at once, in order, and the master starts another."""
        self.handle_quit(signal.SIGQUIT, None)

    def handle_quit(self, sig: int, frame: Any) -> None:
        """SIGQUIT: the streams are told at once, and end in order.

        gunicorn's own handler takes a lock of the pool's that the interrupted thread may hold, and ends the process
        under its threads.
        """
        self._drain_at = 0.0
        os.eventfd_write(self._drain, 1)
        self.handle_exit(sig, frame)

    def set_accept_enabled(self, enabled: bool | None) -> None:
        """At a stop what the kernel has accepted is served, then the worker's listener closes.

        gunicorn keeps it open to the end, and new connections hang in it. After a reload the master and the new
        workers have it still.
        """
        if enabled and time.monotonic() < self._full_until:
            return
        if not enabled and self.alive and self._has_idle():
            return  # one of those gives way to each that comes
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        for listener in self.sockets:
            before = -1
            while self.nr_conns != before:
                before = self.nr_conns
                self.accept(listener)
            listener.close()

    def accept(self, listener: Any) -> None:
        """Accept a connection; where there is no descriptor for it, it waits in the listener."""
        try:
            conn = self._listeners[listener].accept()
            self.nr_conns += 1
            self.enqueue_req(conn)
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._full = error
            elif error.errno not in _NOT_THERE:
                raise

    def _make_room(self) -> None:
        """Close connections that only wait, the idle ones first, where there is no room for one more.

        It is called at the end of a round: what has come on a connection in that round is served.
        """
        full, self._full = self._full, None
        if full is not None and not self._lingering.give_way(self.poller) and not self._close_idle():
            self.log.error("no connection can be accepted: %s", full)
            super().set_accept_enabled(False)
            self._full_until = time.monotonic() + FULL_SECONDS
        while self.nr_conns > self.worker_connections and self._close_idle():
            pass
        if self.alive and self._has_idle():
            self.set_accept_enabled(True)

    def _has_idle(self) -> bool:
        """Return whether a connection may give way to one that comes."""
        return bool(self.keepalived_conns or self.pending_conns or len(self._incoming))

    def _close_idle(self) -> bool:
        """Close one connection that only waits; return whether there was one."""
        for waiting in (self.pending_conns, self.keepalived_conns):
            # A thread adds a connection here before the poll has it.
            if waiting and waiting[0].sock in self.poller.get_map():
                conn = waiting.popleft()
                self.poller.unregister(conn.sock)
                self._drop(conn)
                return True
        return bool(self._incoming.give_way(self.poller))

    def notify(self) -> None:
        """Tell the master that the worker lives, now and then."""
        now = time.monotonic()
        if now >= self._beat_at:
            self._beat_at = now + BEAT_SECONDS
            super().notify()

    def wait_for_and_dispatch_events(self, timeout: float | None) -> None:
        """One round of the loop. What goes wrong with one connection must not end the worker."""
        try:
            self._incoming.poll(self.poller, timeout, self._turns)
            self._make_room()
        except Exception:
            self.log.exception("a connection could not be looked after")
            time.sleep(UNREAD_SECONDS)  # it may be there again at once

    def enqueue_req(self, conn: TConn) -> None:
        """A connection that may have something to read gets a thread when a whole request is there."""
        request = _requests.Request(HEAD_BYTES, self._max_body())
        if not self._incoming.begin(self.poller, conn, request, time.monotonic() + HEAD_SECONDS):
            conn.set_timeout()
            self.pending_conns.append(conn)
            self.poller.register(conn.sock, selectors.EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _max_body(self) -> int:
        most = getattr(self.wsgi, "extensions", {}).get(MAX_BODY)
        return most() if most else BODY_BYTES

    def get_thread_pool(self) -> Any:
        """The threads that answer requests."""
        return _threads.ThreadPool(self.cfg.threads, self._turns, self._answer, self._refuse_thread)

    def _start(self, conn: TConn) -> None:
        pool: Any = self.tpool
        pool.start(conn)

    def _refuse_thread(self, conn: TConn, error: RuntimeError) -> None:
        self.log.error("a connection is closed: %s", error)
        self.method_queue.defer(self._drop, conn)

    def _answer(self, conn: TConn, turn: Any) -> None:
        """Answer a request, on its thread. Its connection goes back to the poll, unless the pump has it."""
        conn.sock.turn = turn  # type: ignore[attr-defined]
        keepalive: Any = False
        try:
            keepalive = self.handle(conn)
        except BaseException:
            self.log.exception("Error handling request")
        if keepalive is not _HANDED_OVER:
            self._give_back(conn, keepalive)

    def _give_back(self, conn: TConn, keepalive: Any) -> None:
        """A request was answered: its connection goes back to the poll, from whatever thread has it.

        That is woken for one of whose next request nothing has come only where the worker stops, and none is kept for
        long: to wake it each time, as gunicorn does, cost a twelfth of a request.
        """
        sock: Any = conn.sock
        if not keepalive:
            self.method_queue.defer(self._close, conn)
        elif sock.ahead:
            self.method_queue.defer(self.enqueue_req, conn)
        elif self.alive:
            self._keep(conn)
        else:
            self.method_queue.defer(self._keep, conn)

    def _keep(self, conn: TConn) -> None:
        """Wait for a connection's next request, for as long as `keepalive` says."""
        readable = partial(self.on_client_socket_readable, conn)
        if not _waits.keep(self.poller, self.keepalived_conns, conn, readable):
            self.method_queue.defer(self._close, conn)

    def _close(self, conn: TConn) -> None:
        """Close a connection so that its client gets its answer to the end."""
        self.nr_conns -= 1
        conn.close(graceful=True)

    def _drop(self, conn: TConn) -> None:
        """Close a connection of which no request came."""
        self.nr_conns -= 1
        util.close(conn.sock)

    def _refuse_head(self, conn: TConn, head: bytes) -> None:
        """Answer a connection whose head is too long, and close it so that its client gets the answer."""
        with contextlib.suppress(OSError):
            conn.sock.send(_refusals.answer(431, "LongHead", head))
        self._close(conn)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer what cannot be read as a request in the words of its path's API; gunicorn logs it."""
        response: Any = _refusals.StatusReader()
        super().handle_error(req, response, addr, exc)
        with contextlib.suppress(OSError):
            client.sendall(_refusals.answer(response.status, type(exc).__name__, client.head))

    def handle_request(self, req: Any, conn: TConn) -> Any:
        """Serve a request; a stream only up to its first bytes.

        A client that takes nothing for too long is one that is gone, which is no news. Behind a request of which not
        all is read none can follow, and the answer says so.
        """
        if getattr(conn.sock, "last", False):
            req.force_close()
        answer = _answers.Answer(self, req, conn)
        handed_over = False
        try:
            answer.call()
            handed_over = self._hand_over(answer, conn)
            if handed_over:
                return _HANDED_OVER
            answer.write_rest()
        except BlockingIOError as error:  # the socket's own limit (SO_SNDTIMEO)
            raise BrokenPipeError(errno.EPIPE, "the client takes nothing") from error
        except OSError:
            raise
        except (Exception, SystemExit) as error:
            if not answer.begun:
                raise
            # A second status in the same connection would spoil what was sent.
            self.log.exception("Error handling request")
            util.close_graceful(conn.sock)
            raise StopIteration from error
        finally:
            if not handed_over:
                answer.close()
        return answer.keeps_connection

    def _hand_over(self, answer: Any, conn: TConn) -> bool:
        """Give a stream that has begun to the pump; False for any other answer."""
        if answer.wait is None:
            return False
        answer.write_first()
        stream = _streams.PumpedStream(
            answer.body,
            answer.wait,
            conn.sock,
            partial(self._finish_stream, answer, conn),
            chunked=answer.chunked,
            idle=STALL_SECONDS,
        )
        self._let_go_of_request(answer, conn)
        return bool(self._pump.add(stream))

    def _let_go_of_request(self, answer: Any, conn: TConn) -> None:
        """Forget what a stream does not need of its request, if that was read to its end."""
        parser: Any = conn.parser
        if not answer.keeps_connection or self._keepalive_after(conn, True):
            parser.mesg = None
            answer.let_go_of_request()

    def _finish_stream(self, answer: Any, conn: TConn, whole: bool) -> None:
        """A stream has ended; on a thread of the pump's. Its connection goes back to the poll, as after any request."""
        keepalive = False
        try:
            answer.close()
            keepalive = self._keepalive_after(conn, whole and answer.keeps_connection)
        except Exception:
            self.log.exception("Error handling request")
        self._give_back(conn, keepalive)

    def _keepalive_after(self, conn: TConn, keepalive: Any) -> Any:
        """Keep a connection whose body was left unread only if what is left is there: gunicorn's way is to wait 5 s."""
        if keepalive is _HANDED_OVER:
            return keepalive
        parser: Any = conn.parser
        try:
            return keepalive and bool(parser.finish_body(deadline=time.monotonic() + UNREAD_SECONDS))
        except Exception:  # the rest is no HTTP; the answer is out already
            return False

    def murder_pending(self) -> None:
        """End the connections that have waited for long enough, or stand in the way; called at least once a second."""
        self._lingering.check(self.poller)
        if not self.alive:
            self._stop(time.monotonic())
        self._incoming.check(self.poller)
        super().murder_pending()

    def _cap_keepalive(self, deadline: float) -> None:
        """The worker stops, also where its master has died. `_stop` sees to what is kept, which threads give back."""
        self.alive = False

    def _stop(self, now: float) -> None:
        """The worker is stopping."""
        os.eventfd_write(self._stopping, 1)
        self._drain_at = min(self._drain_at, now + max(0.0, self.cfg.graceful_timeout - DRAIN_SECONDS))
        last = now + _waits.LINGER_SECONDS
        for conn in [*self.pending_conns, *self.keepalived_conns]:
            conn.timeout = min(conn.timeout or now, last)
        self._incoming.end_at(heads=last, bodies=self._drain_at)
        if now >= self._drain_at:
            os.eventfd_write(self._drain, 1)


worker_class = Worker
