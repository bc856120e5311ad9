"""What a worker counts, and the text of `/metrics` over all workers.

prometheus-client keeps the numbers in a file of each worker and adds them up at a scrape (its multiprocess mode), so
that no counter goes back when a worker is replaced. It reads PROMETHEUS_MULTIPROC_DIR when it is imported, which
gunicorn_conf.py sets before. Without that folder the numbers are those of this process.

Names that clients or the rules choose are bounded: a number of each, the others are `other`.
"""

from __future__ import annotations

import glob
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from proxy import __version__
from proxy.codec.display import printable
from proxy.codec.secrets import masked
from proxy.config.load import environment
from proxy.errors import (
    LimitExceeded,
    ProxyError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamSlow,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from proxy.exchange.outcome import Outcome
from proxy.worker.audit_log import total
from proxy.worker.metrics_file import use_metrics_files

log = logging.getLogger("proxy")

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
# Names of models, and of fixes and reasons each, in one worker; bytes of one name.
MAX_MODELS = 100
MAX_NAMES = 256
MAX_NAME = 100
OTHER = "other"
PREFIX = "tool_proxy_"
# How often the files are read again, and seconds in between.
_TRIES, _PAUSE = 50, 0.01
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
# What is not counted, but known when it is asked for.
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
_KINDS: tuple[tuple[type[ProxyError], str], ...] = (
    (UpstreamUnreachable, "unreachable"),
    (UpstreamSlow, "connect_timeout"),
    (UpstreamTimeout, "timeout"),
    (LimitExceeded, "limit"),
    (UpstreamBroken, "broken"),
    (UpstreamRefused, "refused"),
)


def upstream_kind(error: BaseException | None) -> str:
    """Return the kind of a model server's failure, or "" for any other error."""
    if error is None:
        return ""
    return next((kind for type_, kind in _KINDS if isinstance(error, type_)), "")


class Metrics:
    """The metrics of one worker."""

    def __init__(self) -> None:
        use_metrics_files()
        own = self._own = CollectorRegistry()
        self._folder = environment().get("PROMETHEUS_MULTIPROC_DIR", "")
        self._broken: set[str] = set()
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
        self._children: dict[tuple[Any, tuple[str, ...]], Any] = {}

    def add(self, name: str, number: float, *labels: str) -> None:
        """Add to a counter; 0 makes no series."""
        if number:
            self._child(self._counters[name], labels).inc(number)

    def _child(self, metric: Any, labels: tuple[str, ...]) -> Any:
        """Return the series of a metric with these labels; prometheus-client takes long to look one up."""
        key = metric, labels
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels) if labels else metric
        return child

    def count(
        self,
        outcome: Outcome,
        *,
        dialect: str,
        status: int,
        seconds: float,
        first_byte: float | None = None,
        model: str = "",
        when: str = "",
        denied: str = "",
    ) -> None:
        """Count a request that has ended. `first_byte` is None if nothing was sent, and `model` "" if none was asked.

        `when` says when the client left, and `denied` why its key was refused; each is "" otherwise.
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
        again = "" if outcome.again is None else outcome.again.name.lower()
        words = {"disconnects": when, "upstream_errors": upstream_kind(outcome.failure), "second_tries": again}
        for name, word in {**words, "denied": denied}.items():
            add(name, bool(word), word)
        times = {"request_duration_seconds": seconds, "time_to_first_byte_seconds": first_byte}
        if first_byte is not None and outcome.first_event is not None:
            times["upstream_first_event_seconds"] = outcome.first_event
            times["added_first_event_seconds"] = max(0.0, first_byte - outcome.first_event)
        for name, took in times.items():
            if took is not None:
                self._child(self._histograms[name], (dialect,)).observe(took)

    def exposition(self, *, rules_in_force: bool, models: Iterable[str] = (), log_lost: int = 0) -> bytes:
        """Return the text for `/metrics`.

        Only the `models` that a server lists have a label of their own: every other name may be a key that got lost.
        """
        now = _NOW.format(version=__version__, rules_in_force=rules_in_force, log_lost=log_lost)
        listed = {"", OTHER, *map(label_of, models)}
        counted: Any = SimpleNamespace(collect=lambda: _of_listed(self._collect(), listed))
        return now.encode() + generate_latest(counted)

    def numbers(self) -> dict[str, dict[str, int]]:
        """Return the counters over all workers, by fix, by reason or in all: `{"repairs": {"closers": 2}, ...}`."""
        found: dict[str, dict[str, int]] = {name: {} for name in COUNTERS}
        for metric in self._collect():
            numbers = found.get(metric.name.removeprefix(PREFIX), {})
            for sample in metric.samples:
                if sample.name.endswith("_total"):
                    word = sample.labels.get("fix") or sample.labels.get("reason", "")
                    numbers[word] = numbers.get(word, 0) + int(sample.value)
        return found

    def _collect(self) -> list[Metric]:
        """Return what all workers have counted, without the files that cannot be read."""
        if not self._folder:
            return [*self._own.collect()]
        files: set[str] = set()
        known, self._broken = self._broken, {file for file in self._broken if _merged({file}) is None}
        for _ in range(_TRIES):
            files = {*glob.glob(os.path.join(glob.escape(self._folder), "*.db"))} - self._broken
            if (metrics := _merged(files)) is not None:
                return metrics
            # The file that a worker is just creating cannot be read yet.
            time.sleep(_PAUSE)
        broken = {file for file in files if _merged({file}) is None}
        for file in sorted(broken - known):
            log.error("what is counted in %s is left out: it cannot be read", file)
        self._broken |= broken
        return _merged(files - broken) or [*self._own.collect()]

    def _model(self, model: str, status: int) -> str:
        """Return the model's label. A name gets its own only once the model server took it: clients invent any."""
        if model and status >= 400 and label_of(model) not in self._known.get("models", ()):
            return OTHER
        return self._label("models", model, MAX_MODELS) if model else ""

    def _label(self, group: str, name: str, most: int) -> str:
        known, label = self._known.setdefault(group, set()), label_of(name)
        if label not in known and len(known) < most:
            known.add(label)
        return label if label in known else OTHER


def _merged(files: Iterable[str]) -> list[Metric] | None:
    """Return the numbers of the files added up, or None if one of them cannot be read."""
    try:
        return [*MultiProcessCollector.merge(files)]  # type: ignore[no-untyped-call]
    except Exception:  # prometheus-client does not say which; a file may hold anything
        return None


def label_of(name: str) -> str:
    """Return a name as a label: short, on one line, and without anything that looks like a key."""
    return _short_label(name[:MAX_NAME])


@lru_cache(maxsize=512)
def _short_label(name: str) -> str:
    return masked(printable(name, "?").encode()[:MAX_NAME]).decode("utf-8", "ignore")


def _of_listed(metrics: Iterable[Metric], listed: set[str]) -> Iterator[Metric]:
    """Yield the metrics with those of unlisted models added up."""
    for metric in sorted(metrics, key=lambda each: each.name):
        sums: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in metric.samples:
            labels = dict(sample.labels)
            if labels.get("model", "") not in listed:
                labels["model"] = OTHER
            key = sample.name, tuple(labels.items())
            sums[key] = sums.get(key, 0.0) + sample.value
        metric.samples = []
        for (name, pairs), value in sums.items():
            metric.add_sample(name, dict(pairs), value)
        yield metric
