"""The text of `/metrics`, in the text form of Prometheus, as prometheus-client writes it.

It has files of its own for several workers; the numbers are not in these (`worker/metrics.py`): each worker would leave
some behind when it ends, and they are read anew each time. This module is loaded when `/metrics` is first asked for: a
worker's start does without prometheus-client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector

from proxy.worker.metrics import (
    COUNTERS,
    HISTOGRAMS,
    INFINITE,
    MAX_MODELS,
    OTHER,
    PREFIX,
    SERVED,
    STREAMS,
    SUM,
    bound_text,
    counter_name,
    label_of,
    names_group,
)
from proxy.worker.shared_counters import SPLIT, SharedCounters

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def exposition(
    counters: SharedCounters,
    version: str,
    *,
    rules_in_force: bool,
    models: frozenset[str] = frozenset(),
    log_lost: int = 0,
) -> bytes:
    """The text for `/metrics`; `log_lost` are the lines of the log that were lost until now.

    Of models only those have a label that a server lists: now, which are `models`, or at an earlier scrape of any
    worker. Every other name may be a key that got lost.
    """
    for model in sorted(models):
        counters.register_label(counter_name(names_group(SERVED), label_of(model)), MAX_MODELS)
    return generate_latest(_Collector(counters, version, log_lost, rules_in_force=rules_in_force))


class _Collector(Collector):
    """The families, as prometheus-client wants them."""

    def __init__(self, counters: SharedCounters, version: str, log_lost: int, *, rules_in_force: bool) -> None:
        self._counters = counters
        self._version = version
        self._log_lost = log_lost
        self._rules_in_force = rules_in_force

    def collect(self) -> Iterable[Metric]:
        groups: dict[str, list[tuple[Sequence[str], float]]] = {"log_lost": [((), self._log_lost)]}
        for name, value in self._shown().items():
            group, *labels = name.split(SPLIT)
            groups.setdefault(group, []).append((labels, value))
        yield from self._gauges()
        for group, (names, text) in COUNTERS.items():
            family = CounterMetricFamily(PREFIX + group, text, labels=names)
            for label_values, value in groups.get(group, [] if names else [((), 0.0)]):
                family.add_metric(label_values, value)
            yield family
        for group in HISTOGRAMS:
            yield _histogram(group, groups.get(group, []))

    def _shown(self) -> Mapping[str, float]:
        """The counters by name; requests for models that no server has are those for others."""
        shown: dict[str, float] = {}
        values = self._counters.values()
        listed = counter_name(names_group(SERVED), "")
        served = {"", OTHER, *(name.removeprefix(listed) for name in values if name.startswith(listed))}
        for name, value in values.items():
            group, *labels = name.split(SPLIT)
            strange = group == "requests" and labels[1] not in served
            under = counter_name(group, labels[0], OTHER, *labels[2:]) if strange else name
            shown[under] = shown.get(under, 0.0) + value
        return shown

    def _gauges(self) -> Iterator[Metric]:
        about = GaugeMetricFamily(f"{PREFIX}info", "The release that answers.", labels=("version",))
        about.add_metric((self._version,), 1)
        yield about
        streams = "Streams that are under way, in all workers."
        yield GaugeMetricFamily(f"{PREFIX}active_streams", streams, self._counters.held(STREAMS))
        rules = "1 if the rules file that was read last is in force, else 0."
        yield GaugeMetricFamily(f"{PREFIX}rules_in_force", rules, int(self._rules_in_force))


def _histogram(group: str, samples: Sequence[tuple[Sequence[str], float]]) -> Metric:
    bounds, text = HISTOGRAMS[group]
    family = HistogramMetricFamily(PREFIX + group, text, labels=("dialect",))
    values = {(labels[0], labels[1]): value for labels, value in samples}
    for dialect in dict.fromkeys(dialect for dialect, _ in values):
        total, buckets = 0.0, []
        for bound in (*map(bound_text, bounds), INFINITE):
            total += values.get((dialect, bound), 0.0)
            buckets.append((bound, total))
        family.add_metric((dialect,), buckets, values.get((dialect, SUM), 0.0))
    return family
