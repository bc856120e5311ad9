"""A worker: its settings and rules, how they change without a restart, and its counts."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import msgspec

from proxy import SERVICE, __version__
from proxy.config.api_keys import Keys
from proxy.config.load import (
    DRAIN_VARIABLE,
    VIA_VARIABLE,
    RulesText,
    check_files,
    environment,
    load,
    open_to_all,
    read_keys,
    rules_text,
)
from proxy.errors import RulesError, Unavailable
from proxy.exchange.capture import CaptureFolder
from proxy.json import JsonObject
from proxy.limits import RESERVED_THREADS, THREADS
from proxy.server.activity import Activity, ActivityRing
from proxy.server.logging_setup import adjust_logging
from proxy.server.metrics import Metrics
from proxy.server.private_file import check_plain, lock_within, open_private
from proxy.server.shared_file import FILE_NAME, SharedFile
from proxy.server.snapshot import Snapshot, make_snapshot

log = logging.getLogger("proxy")

# Set by gunicorn's master: its process id and the folder that its workers share.
FOLDER_VARIABLE = "VLLM_TOOL_PROXY_FOLDER"
# Set by gunicorn's master: the number of reloads that SIGHUP has requested.
SIGNALS_VARIABLE = "VLLM_TOOL_PROXY_SIGNALS"
# Seconds between two checks for a new publication.
LOOK_SECONDS = 1.0
# Models with lessons; characters of a model's name.
_MAX_TAUGHT = 256
_MAX_NAME = 300

# gunicorn_conf.py removes this file when the master starts.
RULES_FILE = "rules-in-force"
# Seconds to wait for another worker that publishes rules.
_PATIENCE = 30.0


class Published(msgspec.Struct, frozen=True):
    """The text of the rules file and the keys in force.

    `number` counts the reloads, and `signals` those that SIGHUP requested. `error` says why a newer text is not in
    force. `lessons` are what model servers have shown, by model: the healings without which they reject requests, and
    PROXY_PARSES. A reload drops them.
    """

    number: int = 0
    text: RulesText = RulesText(b"", "")
    keys: Keys = Keys()
    error: str = ""
    lessons: dict[str, tuple[str, ...]] = {}
    signals: str = ""


class RulesInForce:
    """The rules in force, as a file in the folder that the workers share.

    A reload reads and checks the rules file and the keys, and only then publishes their text here. Workers use the
    published text, even if the rules file has changed since.
    """

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, RULES_FILE)

    def read(self) -> Published | None:
        """Return the publication, or None if it is missing, is another user's, or cannot be read by this release."""
        try:
            with open(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                check_plain(os.fstat(file.fileno()))
                return msgspec.msgpack.decode(file.read(), type=Published)
        except (OSError, msgspec.DecodeError):
            return None

    def publish(self, published: Published) -> None:
        """Replace the publication; call only while `locked`."""
        new = f"{self._path}.new"
        with open(open_private(new, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(msgspec.msgpack.encode(published))
        os.rename(new, self._path)

    def reload(self, last: Published | None, signals: str) -> None:
        """Read the rules file and the keys, check them and publish them; call only while `locked`.

        Raises RulesError if they are bad; the error is published with the `last` good text.
        """
        try:
            text = rules_text()
            settings, rules = load(text=text)
            check_files(settings)
            keys = read_keys(settings, rules, environment())
        except RulesError as error:
            if last is not None:
                words = error.message.encode("utf-8", "replace").decode()
                self.publish(msgspec.structs.replace(last, error=words, signals=signals))
            raise
        self.publish(Published(1 if last is None else last.number + 1, text, keys, signals=signals))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one thread of one worker at a time publish. Raises RulesError if the folder cannot be used."""
        try:
            with open(open_private(f"{self._path}.lock", os.O_RDWR), "rb") as file:
                lock_within(file.fileno(), _PATIENCE)
                yield
        except OSError as error:
            words = f"{self._path}: the workers cannot share the rules: {error.strerror or error}"
            raise RulesError(words) from error


@dataclass(slots=True)
class WorkerState:
    """The state of a worker. It can be lost at any time, because no request depends on another.

    A request calls `current()` once and keeps that snapshot until its end. `published` is the publication of `in_force`
    that this worker uses. `drain` is the descriptor that signals that the worker is about to stop, or None without
    gunicorn. `activity` feeds the live page, and is None without one. `keeps`: responses are stored in the shared file.
    """

    snapshot: Snapshot
    in_force: RulesInForce
    published: Published
    shared: SharedFile
    metrics: Metrics
    started: float = field(default_factory=time.monotonic)
    drain: int | None = None
    activity: Activity | None = None
    keeps: bool = False
    _look_at: float = 0.0
    _active: int = 0
    _threads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(THREADS - RESERVED_THREADS))
    _streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        """Count a new request as active."""
        with self._lock:
            self._active += 1

    def leave(self) -> None:
        """Stop counting a request that has ended."""
        with self._lock:
            self._active -= 1

    def take_thread(self) -> None:
        """Count a request that may use its thread for long. Raises Unavailable if only reserved threads are left."""
        if not self._threads.acquire(blocking=False):
            limit = THREADS - RESERVED_THREADS
            raise Unavailable(f"this proxy serves {limit} requests already (threads); try again in a moment")

    def return_thread(self) -> None:
        """Give back the thread of a request that `take_thread` counted."""
        self._threads.release()

    def take_stream(self) -> None:
        """Count a new stream. Raises Unavailable at the limit."""
        limit = self.snapshot.settings.max_streams
        with self._lock:
            if self._streams >= limit:
                raise Unavailable(f"this proxy has {limit} streams already (max_streams); try again in a moment")
            self._streams += 1
        self.metrics.streams.inc()

    def return_stream(self) -> None:
        """Stop counting a stream that `take_stream` counted."""
        with self._lock:
            self._streams -= 1
        self.metrics.streams.dec()

    def current(self, *, at_once: bool = False) -> Snapshot:
        """Return the snapshot for a request that begins now.

        A new publication is used within LOOK_SECONDS, or immediately with `at_once`.
        """
        if at_once or time.monotonic() >= self._look_at:
            with self._changing:
                self._take()
                self._look_at = time.monotonic() + LOOK_SECONDS
        return self.snapshot

    def reload(self) -> None:
        """Read settings and rules again and publish them. When this returns, all workers use them.

        Raises RulesError, and keeps the old ones, if they are invalid.
        """
        try:
            with self.in_force.locked():
                last = self.in_force.read() or self.published
                self.in_force.reload(last, last.signals)
        finally:
            if self.current(at_once=True).settings.workers > 1:
                time.sleep(LOOK_SECONDS)  # then every worker checks before its next request

    def _take(self) -> None:
        """Use the publication. The snapshot is kept if only an error or a lesson is new."""
        last, before = self.in_force.read(), self.published
        if last is None:
            return
        self.published = last
        if last.number == before.number:
            return
        try:
            snapshot = _snapshot_of(last, self.snapshot.via)
        except RulesError as error:
            # A worker of the previous release, which stops soon, may not understand the new one's rules.
            log.error("this worker keeps its rules: %s", error.message)
            return
        self.snapshot = snapshot
        adjust_logging(json_lines=snapshot.settings.log_format == "json")
        announce(self)

    def lessons_of(self, model: str) -> frozenset[str]:
        """Return the lessons about a model: ids of healings, and PROXY_PARSES."""
        return frozenset(self.published.lessons.get(model, ()))

    def learn(self, model: str, ids: Iterable[str]) -> bool:
        """Share lessons with all workers. Returns False if they are known already, or there is no room for them."""
        if len(model) > _MAX_NAME or not model.isprintable():
            return False
        with contextlib.suppress(RulesError), self.in_force.locked():
            last = self.in_force.read() or self.published
            before = last.lessons.get(model, ())
            lessons = {**last.lessons, model: tuple(sorted({*before, *ids}))}
            if lessons[model] != before and len(lessons) <= _MAX_TAUGHT:
                self.in_force.publish(msgspec.structs.replace(last, lessons=lessons))
                self.current(at_once=True)
                return True
        return False

    def health(self) -> JsonObject:
        """Return the response of `/health`, with the keys that users of earlier systems read."""
        snapshot, numbers = self.current(), self.metrics.numbers()
        settings, rules = snapshot.settings, snapshot.rules
        return {
            "status": "healthy",
            "version": __version__,
            "worker": os.getpid(),
            "vllm_url": settings.upstream,
            "target_host": settings.upstream,
            "servers": [{"url": url} for url in snapshot.servers],
            "max_tool_calls": settings.max_tool_calls,
            # The health request itself is not counted.
            "active_requests": max(0, self._active - 1),
            "total_buffers": self._streams,
            "config_loaded": True,
            "rules_file": rules.source,
            "rules_sha256": rules.sha256,
            "rules_error": self.published.error or None,
            "uptime": round(time.monotonic() - self.started, 3),
            "fixes": {**dict(sorted(numbers["repairs"].items()))},
            "refusals": {**dict(sorted(numbers["refusals"].items()))},
            "calls_with_empty_arguments": numbers["empty_calls"].get("", 0),
        }


def start_worker() -> WorkerState:
    """Return the state of a worker that starts.

    It takes the published rules. It reads the rules file only if nothing is published yet, or after SIGHUP. Raises
    RulesError if the file is bad and there are no earlier rules.
    """
    env = environment()
    folder = _made_by(os.getppid(), env.get(FOLDER_VARIABLE, ""))
    if not folder:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = tempfile.mkdtemp(prefix="vllm-tool-proxy-", dir=memory)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    drain = _made_by(os.getpid(), env.get(DRAIN_VARIABLE, ""))
    in_force = RulesInForce(folder)
    try:
        with in_force.locked():
            last = in_force.read()
            signals = env.get(SIGNALS_VARIABLE, "")
            if last is None or last.signals != signals:
                in_force.reload(last, signals)
    except RulesError as error:
        if in_force.read() is None:
            raise
        log.error("the rules that were in force stay so: %s", error.message)
    published = in_force.read() or Published()
    # Without gunicorn's master, each worker has its own pseudonym.
    snapshot = _snapshot_of(published, env.get(VIA_VARIABLE) or secrets.token_hex(8))
    shared, metrics = SharedFile(os.path.join(folder, FILE_NAME)), Metrics()
    # Replace a broken file now, before a request needs it.
    with contextlib.suppress(Unavailable), shared.transaction():
        pass
    activity = Activity(ActivityRing(shared.transaction), partial(metrics.add, "activity_lost"))
    atexit.register(activity.close)
    return WorkerState(
        snapshot,
        in_force,
        published,
        shared,
        metrics,
        drain=int(drain) if drain else None,
        activity=activity,
        keeps=folder == env.get("RUNTIME_DIRECTORY", "").partition(":")[0],
    )


def _made_by(pid: int, made: str) -> str:
    """Return what this process has put in a variable (gunicorn_conf.py), or "" if another one has."""
    owner, _, value = made.partition(":")
    return value if owner == str(pid) else ""


def _snapshot_of(published: Published, via: str) -> Snapshot:
    settings, rules = load(text=published.text)
    return make_snapshot(settings, rules, published.keys, via)


def announce(worker: WorkerState) -> None:
    """Log what is served and what is written, and a warning if the proxy is open to all. Test the audit file."""
    snapshot, audit = worker.snapshot, worker.snapshot.audit
    settings, rules = snapshot.settings, snapshot.rules
    if warning := open_to_all(settings, snapshot.keys):
        log.warning("%s", warning)
    log.info("%s %s, model servers: %s", SERVICE, __version__, ", ".join(snapshot.servers))
    log.info("rules in force: %s (sha256 %s)", rules.source, rules.sha256[:12])
    written = {
        f"captures to {settings.capture}": settings.capture,
        f"repairs with their values to {settings.audit_file}": audit is not None and audit.write(b""),
        "what clients and models say to the live page": settings.audit_values and not settings.no_ui,
    }
    log.info("writes: %s", ", ".join(words for words, on in written.items() if on) or "only the log")
    if worker.keeps and settings.store == "on":
        log.info("responses are kept for a day in %s; store: off turns it off", worker.shared.path)


def tidy_captures(worker: WorkerState) -> None:
    """Remove captures that are too old. Otherwise only writing a new capture removes old ones."""
    settings = worker.snapshot.settings
    if settings.capture:
        CaptureFolder(settings.capture, worker.metrics.add).tidy()
