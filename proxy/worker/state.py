"""A worker: the settings and rules in force, how they change without a restart, and what the worker counts."""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import partial

from proxy import __version__
from proxy.activity.activity import Activity, open_activity, runtime_folder
from proxy.codec.json_text import JsonObject
from proxy.config.api_keys import keys_from_bytes
from proxy.config.load import (
    DRAIN_VARIABLE,
    MEMORY_VARIABLE,
    STOP_VARIABLE,
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
from proxy.worker.lessons import Lessons
from proxy.worker.logging_setup import adjust_logging
from proxy.worker.metrics import PAGES, STREAMS, count_activity_lost, count_captures, health_counters
from proxy.worker.response_store import FILE_NAME, StoreFile
from proxy.worker.shared_memory import Memory, open_memory
from proxy.worker.snapshot import Snapshot, make_snapshot

log = logging.getLogger("proxy")


@dataclass(slots=True)
class WorkerState:
    """The state of a worker. All of it can be lost at any time: every request stands alone.

    A request takes `current()` once and works on that to its end. `generation` is the one of `memory` that the
    worker has seen; it may have been of no use to it. `drain` is the descriptor by which the worker says that it is
    about to end, `stopping` the one by which it says so at once, to who only looks on, None without gunicorn; `lessons`
    are what was learnt of the models, `activity` what the live page shows, `responses` the file of kept responses; both
    are None where there is no place for them.
    """

    snapshot: Snapshot
    memory: Memory = field(default_factory=Memory)
    generation: int = 0
    started: float = field(default_factory=time.monotonic)
    drain: int | None = None
    stopping: int | None = None
    activity: Activity | None = None
    responses: StoreFile | None = None
    lessons: Lessons = field(init=False)
    _active: int = 0
    _threads: int = 0
    _streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.lessons = Lessons(self.memory)

    def enter(self) -> None:
        """A request has begun."""
        with self._lock:
            self._active += 1

    def leave(self) -> None:
        """A request has ended."""
        with self._lock:
            self._active -= 1

    def take_thread(self) -> None:
        """A request begins that may take its thread for long. Raises Unavailable if only those in reserve are left."""
        limit = THREADS - RESERVED_THREADS
        with self._lock:
            if self._threads >= limit:
                raise Unavailable(f"this proxy serves {limit} requests already (threads); try again in a moment")
            self._threads += 1

    def return_thread(self) -> None:
        """A request has ended that `take_thread` let in."""
        with self._lock:
            self._threads -= 1

    def take_stream(self) -> None:
        """A stream begins. Raises Unavailable if there are as many as there may be."""
        limit = self.snapshot.settings.max_streams
        with self._lock:
            if self._streams >= limit:
                raise Unavailable(f"this proxy has {limit} streams already (max_streams); try again in a moment")
            self._streams += 1
        self.memory.counters.acquire_slots(STREAMS, 1)

    def return_stream(self) -> None:
        """A stream has ended that `take_stream` let in."""
        with self._lock:
            self._streams -= 1
        self.memory.counters.acquire_slots(STREAMS, -1)

    def current(self) -> Snapshot:
        """The snapshot for a request that begins now: what another worker has published is taken first."""
        if self.memory.generation() != self.generation:
            with self._changing:
                self._catch_up()
        return self.snapshot

    def reload(self) -> None:
        """Read settings and rules anew and publish them; RulesError if they cannot be used: then the old ones stay."""
        with self.memory.locked():
            publish(self.memory)
        self.current()

    def _catch_up(self) -> None:
        """Take what was published, if it is new."""
        last = self.memory.published()
        if last.generation == self.generation:
            return
        try:
            settings, rules = load(text=RulesText(last.text, last.source))
            keys = keys_from_bytes(last.keys).read()
        except RulesError as error:
            # A worker of the release before, which ends soon, may not know what the new one's rules say.
            log.error("this worker keeps its rules: %s", error.message)
        else:
            adjust_logging(json_lines=settings.log_format == "json")
            self.snapshot = make_snapshot(settings, rules, keys, self.snapshot.via)
            announce(self.snapshot, self.responses)
            log.info("rules in force: %s (sha256 %s)", rules.source, rules.sha256[:12])
        self.generation = last.generation

    def health(self) -> JsonObject:
        """The answer of /health, with the keys that the earlier systems' users read."""
        settings, rules = self.snapshot.settings, self.snapshot.rules
        return {
            "status": "healthy",
            "version": __version__,
            "worker": os.getpid(),
            "vllm_url": settings.upstream,
            "target_host": settings.upstream,
            "servers": [{"url": url} for url in self.snapshot.servers],
            "max_tool_calls": settings.max_tool_calls,
            # The question itself is not counted.
            "active_requests": max(0, self._active - 1),
            "total_buffers": self._streams,
            "config_loaded": True,
            "rules_file": rules.source,
            "rules_sha256": rules.sha256,
            "rules_error": self.memory.error() or None,
            "uptime": round(time.monotonic() - self.started, 3),
            **health_counters(self.memory.counters),
        }


def start_worker() -> WorkerState:
    """The state of a worker that starts: from the memory that the workers share, or, if it is asked to, from the file.

    Raises RulesError if the file cannot be used and there are no earlier rules.
    """
    memory = open_memory(environment().get(MEMORY_VARIABLE, ""))
    with memory.locked():
        requested = memory.reload_requested()
        first = memory.generation() == 0
        if first or requested:
            try:
                publish(memory)
            except RulesError as error:
                if first:
                    raise
                log.error("the rules that were in force stay so: %s", error.message)
        if requested:
            memory.acknowledge_reload(requested)
    # The text before what is made of it: what is published meanwhile is taken at the first request.
    last = memory.published()
    settings, rules = load(text=RulesText(last.text, last.source))
    # Without gunicorn's master each worker has a pseudonym of its own.
    via = environment().get(VIA_VARIABLE) or secrets.token_hex(8)
    snapshot = make_snapshot(settings, rules, keys_from_bytes(last.keys).read(), via)
    return WorkerState(
        snapshot,
        memory,
        last.generation,
        drain=_descriptor(DRAIN_VARIABLE),
        stopping=_descriptor(STOP_VARIABLE),
        activity=_activity(memory, settings.workers),
        responses=_kept_responses(),
    )


def _activity(memory: Memory, workers: int) -> Activity | None:
    """The activity for the live page, in the place that this unit has for it."""

    def is_watched() -> bool:
        return memory.counters.held(PAGES) > 0

    return open_activity(environment(), workers, is_watched, lambda count: count_activity_lost(memory.counters, count))


def _kept_responses() -> StoreFile | None:
    """Return the file of kept responses, which nothing has opened yet; None without a runtime directory."""
    folder = runtime_folder(environment())
    return StoreFile(os.path.join(folder, FILE_NAME)) if folder else None


def _descriptor(variable: str) -> int | None:
    """The descriptor that this process' gunicorn worker has made (gunicorn_conf.py)."""
    pid, _, descriptor = environment().get(variable, "").partition(":")
    return int(descriptor) if pid == str(os.getpid()) and descriptor.isdigit() else None


def publish(memory: Memory) -> None:
    """Read rules and keys and put them in force for all workers, while the memory is locked; RulesError if bad."""
    try:
        text = rules_text()
        settings, rules = load(text=text)
        check_files(settings)
        files = key_files(settings, rules, environment())
        files.read().check_clients(rules)
    except RulesError as error:
        memory.fail(error.message)
        raise
    memory.publish(text.data, text.source, files.to_bytes())


def announce(snapshot: Snapshot, responses: StoreFile | None = None) -> None:
    """Log who may use the proxy and where it writes repairs and responses, and try whether it can write repairs."""
    audit = snapshot.audit
    if warning := open_to_all(snapshot.settings, snapshot.keys):
        log.warning("%s", warning)
    if audit is not None and audit.write(b""):
        log.info("repairs are written, with their values, to %s", audit.path)
    if responses is not None and snapshot.settings.store == "on":
        log.info("responses are kept for a day in %s; store: off turns it off", responses.path)


def tidy_captures(worker: WorkerState) -> None:
    """Remove the captures that are too old by now: where none is written any more, nobody else does."""
    settings = worker.snapshot.settings
    if settings.capture:
        CaptureFolder(settings.capture, partial(count_captures, worker.memory.counters)).tidy()
