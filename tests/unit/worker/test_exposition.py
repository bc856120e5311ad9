"""The text of `/metrics`, which is Prometheus's whatever the names in it are."""

from __future__ import annotations

import math
import mmap
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.upstream.event_times import EventTimes
from proxy.worker.exposition import CONTENT_TYPE, exposition
from proxy.worker.metrics import STREAMS, count
from proxy.worker.shared_counters import SIZE, SharedCounters
from tests.real.processes import ROOT
from tests.support.scraped import HISTOGRAMS, ended, models, samples, value


@pytest.fixture(name="counters")
def _counters() -> SharedCounters:
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


def test_before_the_first_request_there_is_a_valid_answer(counters: SharedCounters) -> None:
    found = samples(counters)
    assert value(found, "info", version="1.2.3") == 1 and value(found, "rules_in_force") == 1
    assert value(found, "active_streams") == value(found, "heartbeats_total") == 0
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert b"tool_proxy_rules_in_force 0.0\n" in exposition(counters, "", rules_in_force=False)


def test_streams_that_are_under_way_are_shown(counters: SharedCounters) -> None:
    counters.acquire_slots(STREAMS, 3)
    assert value(samples(counters), "active_streams") == 3
    counters.acquire_slots(STREAMS, -3)
    assert value(samples(counters), "active_streams") == 0


def test_only_models_that_a_server_has_have_a_label(counters: SharedCounters) -> None:
    for model in ("real", "also real", "made up", "made up too"):
        count(counters, ended(model=model))
    count(counters, ended(model="gone", status=404))
    text = exposition(counters, "", rules_in_force=True, models=frozenset(("real", "also real", "idle"))).decode()
    found = {
        sample.labels["model"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tool_proxy_requests_total" and sample.labels["status"] == "200"
    }
    assert found == {"real": 1, "also real": 1, "other": 2}


@pytest.mark.parametrize(
    "model",
    [
        'x"} 1\ntool_proxy_active_streams 99',
        "x\\",
        "x\x1f200",
        "x\x1b[31m",
        "x\u2028y",
        "x\r\n",
        "\ud83d",
        "é" * 300,
        "x\0",
        "😀" * 60,
    ],
)
def test_no_name_can_forge_a_line_or_be_of_any_length(counters: SharedCounters, model: str) -> None:
    count(counters, ended(model=model))
    found = samples(counters, model)
    assert value(found, "active_streams") == 0
    (label,) = models(counters)
    assert label.isprintable() and 0 < len(label.encode()) <= 100
    text = exposition(counters, "", rules_in_force=True).decode()
    assert len([line for line in text.splitlines() if line.startswith("tool_proxy_requests_total{")]) == 1


def test_a_key_where_the_model_should_be_is_not_shown(counters: SharedCounters) -> None:
    """Not even if the server lists it."""
    key = "sk-0123456789abcdefghij"
    count(counters, ended(model=key))
    assert b"0123456789" not in exposition(counters, "", rules_in_force=True, models=frozenset((key,)))


def test_where_no_server_lists_its_models_they_are_all_other(counters: SharedCounters) -> None:
    for model in ("real", "a-client-s-key-1234"):
        count(counters, ended(model=model))
    assert models(counters) == {"other"}


def test_what_one_worker_has_learnt_of_the_models_all_know(counters: SharedCounters) -> None:
    count(counters, ended(model="real"))
    assert models(counters, "real") == {"real"}
    assert models(counters) == {"real"}


def test_each_metric_is_in_the_documentation_with_the_buckets_of_each_histogram(counters: SharedCounters) -> None:
    times = EventTimes()
    for name in HISTOGRAMS.values():
        getattr(times, name).add(0.0)
    count(counters, ended(times=times))
    page = (ROOT / "docs" / "operations.md").read_text()
    families = [*text_string_to_metric_families(exposition(counters, "", rules_in_force=True).decode())]
    assert len(families) > 20
    assert [family.name for family in families if f"`{family.name}" not in page] == []
    rows = re.findall(r"(?m)^\| ((?:`[a-z_]+_seconds`(?:, )?)+) \| ([0-9., ]+) \|$", page)
    each = [(name, ends.split(", ")) for names, ends in rows for name in re.findall(r"[a-z_]+", names)]
    told = {name: [*map(float, ends)] for name, ends in each}
    count(counters, ended(first_byte=1.0))
    found: dict[str, list[float]] = {}
    for name, labels in samples(counters):
        if name.endswith("_bucket"):
            found.setdefault(name[len("tool_proxy_") : -len("_bucket")], []).append(float(dict(labels)["le"]))
    assert told == {name: sorted(filter(math.isfinite, ends)) for name, ends in found.items()}
