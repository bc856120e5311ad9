"""What is counted over all workers, since the master started; `worker/exposition.py` makes the text of `/metrics`.

The numbers are in the memory that the workers share (`worker/shared_counters.py`). Names that clients or the rules
choose are bounded: so many of each, the others are `other`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from proxy.codec.display import printable
from proxy.codec.json_text import JsonObject
from proxy.codec.secrets import masked
from proxy.errors import (
    LimitExceeded,
    ProxyError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamSlow,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from proxy.upstream.event_times import ADDED_BOUNDS, FIRST_BOUNDS, GAP_BOUNDS, Durations, EventTimes
from proxy.worker.shared_counters import SPLIT, SharedCounters

STREAMS = "streams"
PAGES = "pages"
# Different names of models, and of fixes and reasons each; bytes of one name.
MAX_MODELS = 100
MAX_NAMES = 256
MAX_NAME = 100
OTHER = "other"

PREFIX = "tool_proxy_"
# Each counter with its labels and what it counts; the first is the name of its group in the shared counters.
COUNTERS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "requests": (("dialect", "model", "status"), "Requests that have ended."),
    "calls": (("how",), "Tool calls that left, by how the model server gave them."),
    "repairs": (("fix",), "Repairs by the id of the fix."),
    "refusals": (("reason",), "What began like a call and was none."),
    "empty_calls": ((), "Tool calls that left without arguments although their tool requires some."),
    "second_tries": (("why",), "Replies that said nothing, or broke a call, and were asked for once more."),
    "heartbeats": ((), "Heartbeats that were sent to clients."),
    "disconnects": (("when",), "Clients that left before their answer was whole."),
    "upstream_errors": (("kind",), "Answers of the model server that were none."),
    "log_lost": ((), "Lines of the log that were lost, for nobody read it."),
    "audit_lost": ((), "Answers whose repairs are not in the audit file, for it was full or could not be written."),
    "captures": (("what",), "Captures that were written, removed at the bounds of their folder, or lost."),
    "activity_lost": ((), "Requests that the live page does not show, for too many came or its file was full."),
    "denied": (("reason",), "Requests that were turned away for their key."),
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
    "upstream_first_event_seconds": (
        FIRST_BOUNDS,
        "From when a request goes up to the model server's first event.",
    ),
    "added_first_event_seconds": (
        FIRST_BOUNDS,
        "What the proxy added to the first event: before the request went up, and until the client has it.",
    ),
    "upstream_event_gap_seconds": (GAP_BOUNDS, "Between two events of the model server; each eighth."),
    "added_event_seconds": (
        ADDED_BOUNDS,
        "From an event of the model server to what the client has of it; each eighth.",
    ),
    "held_seconds": (FIRST_BOUNDS, "How long text waited that might have become a call."),
    "repair_seconds": (ADDED_BOUNDS, "How long the steps took in which something was repaired."),
}
SERVED = "served"
INFINITE = "+Inf"
SUM = "sum"
_KINDS: tuple[tuple[type[ProxyError], str], ...] = (
    (UpstreamUnreachable, "unreachable"),
    (UpstreamSlow, "connect_timeout"),
    (UpstreamTimeout, "timeout"),
    (LimitExceeded, "limit"),
    (UpstreamBroken, "broken"),
    (UpstreamRefused, "refused"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSample:
    """A request that has ended; `model` is "" where none was asked.

    `first_byte` is None where nothing was answered; `when` a client left ("waiting", "answering", or "" if it did
    not); `kind` is that of the model server's error, `denied` why the key was not enough, `again` why a reply was asked
    for once more, each "" where nothing is; `times` how long its events took.
    """

    dialect: str
    status: int
    seconds: float
    model: str = ""
    first_byte: float | None = None
    calls: int = 0
    fixes: Mapping[str, int] = field(default_factory=dict)
    refusals: Mapping[str, int] = field(default_factory=dict)
    empty_calls: int = 0
    heartbeats: int = 0
    when: str = ""
    kind: str = ""
    denied: str = ""
    again: str = ""
    times: EventTimes = field(default_factory=EventTimes)


def upstream_kind(error: BaseException | None) -> str:
    """The kind of a model server's failure; "" for all other errors."""
    if error is None:
        return ""
    return next((kind for type_, kind in _KINDS if isinstance(error, type_)), "")


def count(counters: SharedCounters, ended: RequestSample) -> None:
    """Count a request that has ended."""
    numbers: dict[str, float] = {
        counter_name("requests", ended.dialect, _model(counters, ended), str(ended.status)): 1,
        counter_name("heartbeats"): ended.heartbeats,
        counter_name("empty_calls"): ended.empty_calls,
    }
    if ended.calls:
        as_text = min(ended.fixes.get("text_call", 0), ended.calls)
        numbers |= {counter_name("calls", "text"): as_text, counter_name("calls", "structured"): ended.calls - as_text}
    for group, names in (("repairs", ended.fixes), ("refusals", ended.refusals)):
        for name, more in names.items():
            label = _bounded(counters, group, name, MAX_NAMES)
            numbers[counter_name(group, label)] = numbers.get(counter_name(group, label), 0) + more
    words = {"disconnects": ended.when, "upstream_errors": ended.kind, "denied": ended.denied}
    words["second_tries"] = ended.again
    for group, name in words.items():
        if name:
            numbers[counter_name(group, name)] = 1
    numbers |= _observed("request_duration_seconds", ended.dialect, ended.seconds)
    if ended.first_byte is not None:
        numbers |= _observed("time_to_first_byte_seconds", ended.dialect, ended.first_byte)
    for group, durations in _durations(ended.times).items():
        numbers |= _all_observed(group, ended.dialect, durations)
    counters.add({name: number for name, number in numbers.items() if number})


def count_audit_lost(counters: SharedCounters) -> None:
    """Count an answer whose repairs could not be written to the audit file."""
    counters.add({counter_name("audit_lost"): 1})


def count_captures(counters: SharedCounters, what: str, number: int) -> None:
    """Count captures that were `written`, `removed` or `lost`."""
    counters.add({counter_name("captures", what): number})


def count_activity_lost(counters: SharedCounters, count: int) -> None:
    """Count requests that the live page does not show."""
    counters.add({counter_name("activity_lost"): count})


def activity_lost(counters: SharedCounters) -> int:
    """The number of requests that the live page does not show."""
    return int(counters.values().get(counter_name("activity_lost"), 0))


def health_counters(counters: SharedCounters) -> JsonObject:
    """The counters that /health shows, over all workers: `{"fixes": {"closers": 2}, "refusals": {}, ...}`."""
    values = counters.values()
    return {
        "fixes": _by_label(values, "repairs"),
        "refusals": _by_label(values, "refusals"),
        "calls_with_empty_arguments": int(values.get(counter_name("empty_calls"), 0)),
    }


def _by_label(values: Mapping[str, float], group: str) -> JsonObject:
    """The numbers of a group with one label, by that."""
    start = counter_name(group, "")
    return {name.removeprefix(start): int(values[name]) for name in sorted(values) if name.startswith(start)}


def _model(counters: SharedCounters, ended: RequestSample) -> str:
    """The model's label. A name gets one of its own only when the model server took it: clients can invent any."""
    if not ended.model:
        return ""
    if ended.status < 400:
        return _bounded(counters, "models", ended.model, MAX_MODELS)
    return label if counters.knows(counter_name(names_group("models"), label := label_of(ended.model))) else OTHER


def _bounded(counters: SharedCounters, group: str, name: str, most: int) -> str:
    label = label_of(name)
    return label if counters.register_label(counter_name(names_group(group), label), most) else OTHER


def names_group(group: str) -> str:
    """Counters of nothing: which names there are, for all workers."""
    return f"{group} known"


def label_of(name: str) -> str:
    """A name as a label: short, on one line, and without what looks like a key."""
    return _short_label(name[:MAX_NAME])


@lru_cache(maxsize=256)
def _short_label(name: str) -> str:
    return masked(printable(name, "?").encode()[:MAX_NAME]).decode("utf-8", "ignore")


def counter_name(group: str, *labels: str) -> str:
    """The name of a counter in the memory: its group, and the values of its labels."""
    return SPLIT.join((group, *labels))


def _observed(group: str, dialect: str, seconds: float) -> dict[str, float]:
    """An observation, in the one bucket that it falls into."""
    bounds, _ = HISTOGRAMS[group]
    *buckets, total = _histogram_names(group, dialect, bounds)
    return {buckets[bisect_left(bounds, seconds)]: 1, total: seconds}


def _durations(times: EventTimes) -> Mapping[str, Durations]:
    """The histogram of each of them."""
    return {
        "upstream_first_event_seconds": times.first,
        "added_first_event_seconds": times.added_first,
        "upstream_event_gap_seconds": times.gap,
        "added_event_seconds": times.added,
        "held_seconds": times.held,
        "repair_seconds": times.repair,
    }


def _all_observed(group: str, dialect: str, durations: Durations) -> dict[str, float]:
    """Many observations, each in the one bucket that it falls into."""
    if not any(durations.counts):
        return {}
    *buckets, total = _histogram_names(group, dialect, durations.bounds)
    counted = {name: number for name, number in zip(buckets, durations.counts, strict=True) if number}
    return {**counted, total: durations.total}


@cache
def _histogram_names(group: str, dialect: str, bounds: tuple[float, ...]) -> tuple[str, ...]:
    """The names of a histogram's buckets, and of its sum; there are as many histograms as groups and dialects."""
    return tuple(counter_name(group, dialect, bucket) for bucket in (*map(bound_text, bounds), INFINITE, SUM))


def bound_text(bound: float) -> str:
    """The end of a bucket as the label `le` has it."""
    return str(float(bound))
