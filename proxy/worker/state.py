"""A worker: the settings and rules in force, how they change without a restart, and what the worker counts."""

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
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from proxy import __version__
from proxy.activity.activity import Activity
from proxy.activity.ring import ActivityRing
from proxy.codec.json_text import JsonObject
from proxy.config.api_keys import keys_from_bytes
from proxy.config.load import (
    DRAIN_VARIABLE,
    VIA_VARIABLE,
    RulesText,
    check_files,
    environment,
    key_files,
    load,
    open_to_all,
    rules_text,
)
from proxy.errors import RulesError, Unavailable
from proxy.exchange.capture_folder import CaptureFolder
from proxy.limits import RESERVED_THREADS, THREADS
from proxy.worker.logging_setup import adjust_logging
from proxy.worker.metrics import Metrics
from proxy.worker.rules_in_force import Published, RulesInForce
from proxy.worker.shared_file import FILE_NAME, SharedFile
from proxy.worker.snapshot import Snapshot, make_snapshot

log = logging.getLogger("proxy")

# Set by gunicorn's master: its process id and the folder that its workers share.
FOLDER_VARIABLE = "VLLM_TOOL_PROXY_FOLDER"
# Models of which lessons are kept, and characters of a model's name.
_MAX_TAUGHT = 256
_MAX_NAME = 300


@dataclass(slots=True)
class WorkerState:
    """The state of a worker. All of it can be lost at any time: every request stands alone.

    A request calls `current()` once and keeps that snapshot until its end. `published` is what the worker has taken
    of `in_force`. `drain` is the descriptor by which the worker says that it is about to end, None without gunicorn.
    `activity` is what the live page shows, None without a page. Responses are kept in the shared file where `keeps` is
    true.
    """

    snapshot: Snapshot
    in_force: RulesInForce
    published: Published = field(default_factory=Published)
    shared: SharedFile = field(default_factory=SharedFile)
    metrics: Metrics = field(default_factory=Metrics)
    started: float = field(default_factory=time.monotonic)
    drain: int | None = None
    activity: Activity | None = None
    keeps: bool = False
    _seen: tuple[int, int] | None = None
    _active: int = 0
    _threads: int = 0
    _streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        """Count a request that begins."""
        with self._lock:
            self._active += 1

    def leave(self) -> None:
        """Count a request that has ended."""
        with self._lock:
            self._active -= 1

    def take_thread(self) -> None:
        """Count a request that may need its thread for long. Raises Unavailable if only reserved threads are left."""
        limit = THREADS - RESERVED_THREADS
        with self._lock:
            if self._threads >= limit:
                raise Unavailable(f"this proxy serves {limit} requests already (threads); try again in a moment")
            self._threads += 1

    def return_thread(self) -> None:
        """Count a request that `take_thread` admitted as ended."""
        with self._lock:
            self._threads -= 1

    def take_stream(self) -> None:
        """Count a stream that begins. Raises Unavailable at the limit."""
        limit = self.snapshot.settings.max_streams
        with self._lock:
            if self._streams >= limit:
                raise Unavailable(f"this proxy has {limit} streams already (max_streams); try again in a moment")
            self._streams += 1
        self.metrics.streams.inc()

    def return_stream(self) -> None:
        """Count a stream that `take_stream` admitted as ended."""
        with self._lock:
            self._streams -= 1
        self.metrics.streams.dec()

    def current(self) -> Snapshot:
        """Return the snapshot for a request that begins now; what was published is taken first."""
        if self.in_force.version() not in (None, self._seen):
            with self._changing:
                version = self.in_force.version()
                if version not in (None, self._seen):
                    self._take()
                    self._seen = version
        return self.snapshot

    def reload(self) -> None:
        """Read settings and rules again and publish them. Raises RulesError, and changes nothing, if they are bad."""
        with self.in_force.locked():
            publish(self.in_force, self.in_force.read() or self.published)
        self.current()

    def _take(self) -> None:
        """Take what is published. The snapshot stays if only an error or a lesson is new."""
        last, before = self.in_force.read(), self.published
        if last is None:
            return
        self.published = last
        if last.number == before.number:
            return
        try:
            snapshot = _snapshot_of(last, self.snapshot.via)
        except RulesError as error:
            # A worker of the release before, which ends soon, may not know the rules of the new one.
            log.error("this worker keeps its rules: %s", error.message)
            return
        self.snapshot = snapshot
        adjust_logging(json_lines=snapshot.settings.log_format == "json")
        announce(snapshot, self.shared.path if self.keeps else "")
        log.info("rules in force: %s (sha256 %s)", snapshot.rules.source, snapshot.rules.sha256[:12])

    def lessons_of(self, model: str) -> frozenset[str]:
        """Return the healings that a model's server has taught by refusing requests."""
        return frozenset(self.published.lessons.get(model, ()))

    def learn(self, model: str, ids: Iterable[str]) -> bool:
        """Share a lesson with all workers. Returns False if it was known, or there is no room for it."""
        if len(model) > _MAX_NAME or not model.isprintable():
            return False
        with contextlib.suppress(RulesError):
            with self.in_force.locked():
                last = self.in_force.read() or self.published
                before = last.lessons.get(model, ())
                after = tuple(sorted({*before, *ids}))
                no_room = model not in last.lessons and len(last.lessons) >= _MAX_TAUGHT
                if after == before or no_room:
                    return False
                lessons = {**last.lessons, model: after}
                self.in_force.publish(msgspec.structs.replace(last, lessons=lessons))
            self.current()
            return True
        return False

    def health(self) -> JsonObject:
        """Return the answer of `/health`, with the keys that earlier systems' users read."""
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
            # The question itself is not counted.
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
    folder = _folder(env.get(FOLDER_VARIABLE, ""))
    in_force = RulesInForce(folder)
    try:
        with in_force.locked():
            last = in_force.read()
            if in_force.reload_requested() or last is None:
                publish(in_force, last)
    except RulesError as error:
        if in_force.read() is None:
            raise
        log.error("the rules that were in force stay so: %s", error.message)
    version, published = in_force.version(), in_force.read() or Published()
    # Without gunicorn's master each worker has a pseudonym of its own.
    snapshot = _snapshot_of(published, env.get(VIA_VARIABLE) or secrets.token_hex(8))
    shared, metrics = SharedFile(os.path.join(folder, FILE_NAME)), Metrics()
    # A broken file is replaced now, and not when a request needs it.
    with contextlib.suppress(Unavailable), shared.transaction():
        pass
    ring = ActivityRing(shared.transaction)
    activity = Activity(ring, lambda: ring.is_watched(time.time()), partial(metrics.add, "activity_lost"))
    atexit.register(activity.close)
    return WorkerState(
        snapshot,
        in_force,
        published,
        shared,
        metrics,
        drain=_descriptor(env.get(DRAIN_VARIABLE, "")),
        activity=activity,
        keeps=folder == env.get("RUNTIME_DIRECTORY", "").partition(":")[0],
        _seen=version,
    )


def _folder(made: str) -> str:
    """Return the folder that this process's master has made, or one of its own."""
    pid, _, folder = made.partition(":")
    if pid == str(os.getppid()):
        return folder
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="vllm-tool-proxy-", dir=memory)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _descriptor(made: str) -> int | None:
    """Return the descriptor that this process's gunicorn worker has made (gunicorn_conf.py)."""
    pid, _, descriptor = made.partition(":")
    return int(descriptor) if pid == str(os.getpid()) and descriptor.isdigit() else None


def _snapshot_of(published: Published, via: str) -> Snapshot:
    settings, rules = load(text=RulesText(published.text, os.fsdecode(published.source)))
    return make_snapshot(settings, rules, keys_from_bytes(published.keys).read(), via)


def publish(in_force: RulesInForce, last: Published | None) -> None:
    """Read the rules file and the keys, check them and publish them; only while `in_force` is locked.

    Raises RulesError if they are bad; the error is published with the `last` good text.
    """
    try:
        text = rules_text()
        settings, rules = load(text=text)
        check_files(settings)
        files = key_files(settings, rules, environment())
        files.read().check_clients(rules)
    except RulesError as error:
        if last is not None:
            words = error.message.encode("utf-8", "replace").decode()
            in_force.publish(msgspec.structs.replace(last, error=words))
        raise
    number = 1 if last is None else last.number + 1
    in_force.publish(Published(number, text.data, os.fsencode(text.source), files.to_bytes()))


def announce(snapshot: Snapshot, kept: str = "") -> None:
    """Log who may use the proxy, and where it writes repairs and keeps responses; try to write repairs."""
    audit = snapshot.audit
    if warning := open_to_all(snapshot.settings, snapshot.keys):
        log.warning("%s", warning)
    if audit is not None and audit.write(b""):
        log.info("repairs are written, with their values, to %s", audit.path)
    if kept and snapshot.settings.store == "on":
        log.info("responses are kept for a day in %s; store: off turns it off", kept)


def tidy_captures(worker: WorkerState) -> None:
    """Remove the captures that are too old by now: where none is written any more, nothing else does."""
    settings = worker.snapshot.settings
    if settings.capture:
        count = worker.metrics.add
        CaptureFolder(settings.capture, lambda what, number: count("captures", number, what)).tidy()
