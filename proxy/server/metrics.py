"""A worker's metrics, and the text of `/metrics` for all workers.

prometheus-client keeps the numbers in files of each worker and adds them up at a scrape (its multiprocess mode). The
files are named by the place that gunicorn_conf.py gives a worker: the next worker in that place continues its counts,
so counters never decrease and the number of files is limited. The folder is PROMETHEUS_MULTIPROC_DIR, which
prometheus-client reads at its import; gunicorn_conf.py sets it. Without that folder the numbers are those of this
process.

The number of names that clients or rules choose is limited; the rest are counted as `other`.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, values
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

from proxy import __version__
from proxy.config.load import environment
from proxy.display import escaped
from proxy.errors import Denied, UpstreamError
from proxy.exchange.outcome import Outcome
from proxy.secrets import masked
from proxy.server.audit_log import total

log = logging.getLogger("proxy")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# Per worker: names of models, and names of fixes and of reasons each. Then the bytes of one name.
MAX_MODELS = 100
MAX_NAMES = 256
MAX_NAME = 100
OTHER = "other"
PREFIX = "tool_proxy_"
# Set by gunicorn's master for each worker.
PLACE_VARIABLE = "VLLM_TOOL_PROXY_PLACE"
# Bytes of a new file, which doubles as it fills.
_FIRST_BYTES = 8 * 1024
# Bytes of an entry in addition to its key: the length, two numbers, and padding.
_ENTRY_BYTES = 32
_FIRST = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
# Each metric with its labels and its help text. docs/operations.md has the same names.
COUNTERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "requests": (("dialect", "model", "status"), "Requests that have ended."),
    "calls": (("model", "how", "notation"), "Tool calls that were sent, by how the model server gave them."),
    "invalid_calls": (("model",), "Tool calls that were sent although their tool's schema refuses their arguments."),
    "cut_calls": (("model",), "Tool calls that the token limit cut."),
    "repairs": (("model", "fix"), "Repairs by the id of the fix."),
    "refusals": (("model", "reason"), "Texts that looked like a tool call and were rejected."),
    "tokens": (("model", "kind"), "Tokens by the usage that model servers report."),
    "empty_calls": ((), "Tool calls that were sent without arguments although their tool requires some."),
    "second_tries": (("why",), "Requests that were sent again: their reply said nothing, or broke a call."),
    "heartbeats": ((), "Heartbeats sent to clients."),
    "disconnects": (("when",), "Clients that left before their answer was complete."),
    "upstream_errors": (("kind",), "Requests that failed at the model server."),
    "audit_lost": ((), "Answers whose repairs could not be written to the audit file."),
    "captures": (("what",), "Captures that were written, removed at the limits of their folder, or lost."),
    "activity_lost": ((), "Requests that the live page does not show."),
    "denied": (("reason",), "Requests that were rejected for their key."),
}
HISTOGRAMS: Mapping[str, tuple[tuple[float, ...], str]] = {
    "request_duration_seconds": (
        (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800),
        "From the first byte of a request to the last of its answer.",
    ),
    "time_to_first_byte_seconds": (
        (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
        "From the first byte of a request to the first of its answer.",
    ),
    "upstream_first_event_seconds": (_FIRST, "From sending a request upstream to the first event of its stream."),
    "added_first_event_seconds": (_FIRST, "What the proxy added to the time until a client's first event."),
}
# Metrics that are computed at each scrape.
_NOW = """# HELP tool_proxy_info The release that answers.
# TYPE tool_proxy_info gauge
tool_proxy_info{{version="{version}"}} 1.0
# HELP tool_proxy_rules_in_force 1 if the rules file that was read last is in force, else 0.
# TYPE tool_proxy_rules_in_force gauge
tool_proxy_rules_in_force {rules_in_force:.1f}
# HELP tool_proxy_log_lost_total Lines of the log that were lost because its reader was too slow.
# TYPE tool_proxy_log_lost_total counter
tool_proxy_log_lost_total {log_lost:.1f}
"""


def upstream_kind(error: BaseException | None) -> str:
    """Return the kind of an upstream failure, or "" for any other error."""
    return error.failure if isinstance(error, UpstreamError) else ""


class MetricsFile(MmapedDict):
    """A prometheus-client file with its disk blocks allocated, so that a full disk cannot kill a worker.

    prometheus-client maps a sparse file into memory. If the disk is full, writing to it raises SIGBUS, which ends the
    process. If the blocks cannot be allocated, or an earlier worker's file is broken, the worker counts in memory, and
    `/metrics` lacks its numbers.
    """

    def __init__(self, filename: str) -> None:
        try:
            with open(filename, "ab") as file:
                os.posix_fallocate(file.fileno(), 0, max(_FIRST_BYTES, file.tell()))
            list(MmapedDict.read_all_values_from_file(filename))  # type: ignore[no-untyped-call]
            super().__init__(filename)  # type: ignore[no-untyped-call]
        except Exception as error:  # prometheus-client documents no exceptions, and a file may hold anything
            _log_lost(filename, error)
            # An empty file could not be read.
            with contextlib.suppress(OSError):
                os.unlink(filename)
            self._use_memory(b"")

    def _init_value(self, key: str) -> None:
        if self._used + len(key.encode()) + _ENTRY_BYTES > self._capacity:
            try:
                os.posix_fallocate(self._f.fileno(), 0, 2 * self._capacity)
            except OSError as error:
                _log_lost(self._fname, error)
                data = self._m[:]
                self.close()  # type: ignore[no-untyped-call]
                self._use_memory(data)
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _use_memory(self, data: bytes) -> None:
        """Continue in memory, with the entries in `data`."""
        with open(os.memfd_create("metrics"), "r+b") as memory:
            memory.write(data)
            memory.flush()
            super().__init__(f"/proc/self/fd/{memory.fileno()}")  # type: ignore[no-untyped-call]


def _log_lost(filename: str, error: Exception) -> None:
    log.error("%s cannot be used (%s): /metrics lacks this worker's counts", filename, error)


class Metrics:
    """The metrics of one worker."""

    def __init__(self) -> None:
        values.MmapedDict = MetricsFile  # type: ignore[attr-defined, assignment]
        own = self._own = CollectorRegistry()
        self._folder = environment().get("PROMETHEUS_MULTIPROC_DIR", "")
        self._broken: set[str] = set()
        place = environment().get(PLACE_VARIABLE)
        if self._folder and place:
            values.ValueClass = values.MultiProcessValue(lambda: place)  # type: ignore[no-untyped-call]
        self._counters = {
            name: Counter(PREFIX + name, text, labels, registry=own) for name, (labels, text) in COUNTERS.items()
        }
        self._histograms = {
            name: Histogram(PREFIX + name, text, ("dialect",), registry=own, buckets=bounds)
            for name, (bounds, text) in HISTOGRAMS.items()
        }
        streams = f"{PREFIX}active_streams"
        self.streams = Gauge(streams, "Running streams in all workers.", registry=own, multiprocess_mode="livesum")
        self._known: dict[str, set[str]] = {}

    def add(self, name: str, number: float, *labels: str) -> None:
        """Add to a counter. Adding 0 creates no series."""
        if number:
            counter = self._counters[name]
            (counter.labels(*labels) if labels else counter).inc(number)

    def count(
        self,
        outcome: Outcome,
        *,
        dialect: str,
        status: int,
        seconds: float,
        first_byte: float | None,
        model: str,
        when: str,
    ) -> None:
        """Count a request that has ended.

        `first_byte` is None if nothing was sent, and `model` is "" if the request names none. `when` says when the
        client left, and is "" if it did not.
        """
        add, model = self.add, self._model(model, status)
        add("requests", 1, dialect, model, str(status))
        for notation, number in outcome.notations.items():
            add("calls", number, model, "text", notation)
        add("calls", max(0, outcome.calls - sum(outcome.notations.values())), model, "structured", "")
        add("invalid_calls", outcome.invalid, model)
        add("cut_calls", outcome.cut, model)
        for name, numbers in (("repairs", total(outcome.audit)), ("refusals", outcome.refusals)):
            for word, number in numbers.items():
                add(name, number, model, self._label(name, word, MAX_NAMES))
        for kind, number in outcome.tokens.items():
            add("tokens", number, model, kind)
        add("empty_calls", outcome.empty_calls)
        add("heartbeats", outcome.heartbeats)
        if outcome.again is not None:
            add("second_tries", 1, outcome.again.name.lower())
        denied = outcome.failure.reason if isinstance(outcome.failure, Denied) else ""
        words = {"disconnects": when, "upstream_errors": upstream_kind(outcome.failure), "denied": denied}
        for name, word in words.items():
            add(name, bool(word), word)
        times = {"request_duration_seconds": seconds, "time_to_first_byte_seconds": first_byte}
        if first_byte is not None and outcome.first_event is not None:
            times["upstream_first_event_seconds"] = outcome.first_event
            times["added_first_event_seconds"] = max(0.0, first_byte - outcome.first_event)
        for name, took in times.items():
            if took is not None:
                self._histograms[name].labels(dialect).observe(took)

    def exposition(self, *, rules_in_force: bool, models: Iterable[str] = (), log_lost: int = 0) -> bytes:
        """Return the text for `/metrics`.

        Only the `models` that a server lists get a label: any other name may be a misplaced key.
        """
        now = _NOW.format(version=__version__, rules_in_force=rules_in_force, log_lost=log_lost)
        listed = {"", OTHER, *map(label_of, models)}
        counted: Any = SimpleNamespace(collect=lambda: _of_listed(self._collect(), listed))
        return now.encode() + generate_latest(counted)

    def numbers(self) -> dict[str, dict[str, int]]:
        """Return the counters of all workers, by fix, by reason or in total: `{"repairs": {"closers": 2}, ...}`."""
        found: dict[str, dict[str, int]] = {name: {} for name in COUNTERS}
        for metric in self._collect():
            numbers = found.get(metric.name.removeprefix(PREFIX), {})
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    word = sample.labels.get("fix") or sample.labels.get("reason", "")
                    numbers[word] = numbers.get(word, 0) + int(sample.value)
        return found

    def _collect(self) -> list[Metric]:
        """Return the metrics of all workers."""
        if not self._folder:
            return [*self._own.collect()]
        files = filter(self._is_readable, glob.iglob(os.path.join(glob.escape(self._folder), "*.db")))
        return [*MultiProcessCollector.merge(files)]  # type: ignore[no-untyped-call]

    def _is_readable(self, path: str) -> bool:
        """Return whether a file has counters: it may be just being created or removed, or be broken."""
        try:
            if os.path.getsize(path) == 0:
                return False
            entries = MmapedDict.read_all_values_from_file(path)  # type: ignore[no-untyped-call]
            return all(json.loads(key) for key, *_ in entries)
        except FileNotFoundError:  # its worker has ended
            pass
        except Exception:  # prometheus-client documents no exceptions, and a file may hold anything
            if path not in self._broken:
                log.error("%s cannot be read: /metrics lacks its counts", path)
            self._broken.add(path)
        return False

    def _model(self, model: str, status: int) -> str:
        """Return the model's label. A name gets its own once the model server accepts it: clients may invent names."""
        if model and status >= 400 and label_of(model) not in self._known.get("models", ()):
            return OTHER
        return self._label("models", model, MAX_MODELS) if model else ""

    def _label(self, group: str, name: str, most: int) -> str:
        known, label = self._known.setdefault(group, set()), label_of(name)
        if label not in known and len(known) < most:
            known.add(label)
        return label if label in known else OTHER


def label_of(name: str) -> str:
    """Return a name as a label: short, on one line, and without anything that looks like a key."""
    return masked(escaped(name[:MAX_NAME]).encode()[:MAX_NAME]).decode("utf-8", "ignore")


def _of_listed(metrics: Iterable[Metric], listed: set[str]) -> Iterator[Metric]:
    """Yield the metrics, with all unlisted models added up under one label."""
    for metric in sorted(metrics, key=lambda each: each.name):
        sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in metric.samples:
            labels = sample.labels if sample.labels.get("model", "") in listed else {**sample.labels, "model": OTHER}
            key = sample.name, tuple(labels.items())
            sums[key] = sums.get(key, 0.0) + sample.value
        metric.samples = [Sample(name, dict(pairs), value) for (name, pairs), value in sums.items()]
        yield metric
