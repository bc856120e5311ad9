"""What is counted, and its text for Prometheus."""

from __future__ import annotations

import math
import mmap
import re
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from proxy.errors import (
    BadRequest,
    ClientGone,
    LimitExceeded,
    ProxyError,
    UpstreamBroken,
    UpstreamRefused,
    UpstreamSlow,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from proxy.upstream.event_times import EventTimes
from proxy.worker.metrics import (
    CONTENT_TYPE,
    MAX_MODELS,
    MAX_NAMES,
    STREAMS,
    RequestSample,
    count,
    exposition,
    upstream_kind,
)
from proxy.worker.shared_counters import SIZE, SharedCounters
from tests.real.processes import ROOT

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(name="counters")
def _counters() -> SharedCounters:
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


def samples(counters: SharedCounters, *served: str) -> Samples:
    """What a scrape finds, while a server lists these models: each sample by its name and labels."""
    text = exposition(counters, "1.2.3", rules_in_force=True, models=frozenset(served)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"tool_proxy_{name}", tuple(sorted(labels.items()))]


def ended(**more: Any) -> RequestSample:
    return RequestSample(**{"dialect": "chat", "status": 200, "seconds": 1.0, **more})


def test_before_the_first_request_there_is_a_valid_answer(counters: SharedCounters) -> None:
    found = samples(counters)
    assert value(found, "info", version="1.2.3") == 1 and value(found, "rules_in_force") == 1
    assert value(found, "active_streams") == value(found, "heartbeats_total") == 0
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert b"tool_proxy_rules_in_force 0.0\n" in exposition(counters, "", rules_in_force=False)


def test_a_request_is_counted_by_dialect_model_and_status(counters: SharedCounters) -> None:
    count(counters, ended(model="Qwen/Qwen3"))
    count(counters, ended(model="Qwen/Qwen3"))
    count(counters, ended(model="Qwen/Qwen3", status=502))
    count(counters, ended(dialect="messages", model="Qwen/Qwen3"))
    count(counters, ended(dialect="own", status=404))
    found = samples(counters, "Qwen/Qwen3")
    assert value(found, "requests_total", dialect="chat", model="Qwen/Qwen3", status="200") == 2
    assert value(found, "requests_total", dialect="chat", model="Qwen/Qwen3", status="502") == 1
    assert value(found, "requests_total", dialect="messages", model="Qwen/Qwen3", status="200") == 1
    assert value(found, "requests_total", dialect="own", model="", status="404") == 1


def test_what_became_of_the_calls_is_counted(counters: SharedCounters) -> None:
    fixes = {"text_call": 2, "finish": 1, "rule:x": 3}
    count(counters, ended(calls=5, fixes=fixes, refusals={"quoted": 4}, heartbeats=7))
    count(counters, ended(calls=1, heartbeats=1))
    found = samples(counters)
    assert (value(found, "calls_total", how="text"), value(found, "calls_total", how="structured")) == (2, 4)
    assert {fix: value(found, "repairs_total", fix=fix) for fix in fixes} == fixes
    assert value(found, "refusals_total", reason="quoted") == 4 and value(found, "heartbeats_total") == 8


def test_what_went_wrong_is_counted(counters: SharedCounters) -> None:
    for what in (
        {"when": "waiting"},
        {"when": "answering"},
        {"kind": "timeout"},
        {"denied": "rate"},
        {"denied": "rate"},
    ):
        count(counters, ended(**what))
    found = samples(counters)
    assert value(found, "disconnects_total", when="waiting") == value(found, "disconnects_total", when="answering") == 1
    assert value(found, "upstream_errors_total", kind="timeout") == 1
    assert value(found, "denied_total", reason="rate") == 2


def test_times_are_in_histograms(counters: SharedCounters) -> None:
    for seconds, first_byte in ((0.1, 0.05), (0.2, None), (9999.0, 0.051)):
        count(counters, ended(seconds=seconds, first_byte=first_byte))
    found = samples(counters)
    whole, first = "request_duration_seconds", "time_to_first_byte_seconds"
    buckets = [value(found, f"{whole}_bucket", dialect="chat", le=le) for le in ("0.1", "0.25", "1800.0", "+Inf")]
    assert buckets == [1, 2, 2, 3]
    assert value(found, f"{whole}_count", dialect="chat") == 3
    assert value(found, f"{whole}_sum", dialect="chat") == pytest.approx(9999.3)
    assert [value(found, f"{first}_bucket", dialect="chat", le=le) for le in ("0.05", "0.1", "+Inf")] == [1, 2, 2]


HISTOGRAMS = {
    "upstream_first_event_seconds": "first",
    "added_first_event_seconds": "added_first",
    "upstream_event_gap_seconds": "gap",
    "added_event_seconds": "added",
    "held_seconds": "held",
    "repair_seconds": "repair",
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_how_long_events_took_is_summed_over_requests(name: str, counters: SharedCounters) -> None:
    for seconds in ((0.0001, 0.3), (0.3, 1e6)):
        times = EventTimes()
        for each in seconds:
            getattr(times, HISTOGRAMS[name]).add(each)
        count(counters, ended(times=times, dialect="responses"))
    found = samples(counters)
    buckets = {labels: value for (sample, labels), value in found.items() if sample == f"tool_proxy_{name}_bucket"}
    steps = [buckets[("dialect", "responses"), ("le", le)] for le in ("0.01", "0.25", "0.5", "60.0", "+Inf")]
    assert steps == [1, 1, 3, 3, 4]
    assert value(found, f"{name}_count", dialect="responses") == 4
    assert value(found, f"{name}_sum", dialect="responses") == pytest.approx(1e6 + 0.6001)
    assert [sample for sample, _ in found if sample.endswith("_sum") and HISTOGRAMS.keys() & {sample[11:-4]}] == [
        f"tool_proxy_{name}_sum"
    ]


def test_streams_that_are_under_way_are_shown(counters: SharedCounters) -> None:
    counters.acquire_slots(STREAMS, 3)
    assert value(samples(counters), "active_streams") == 3
    counters.acquire_slots(STREAMS, -3)
    assert value(samples(counters), "active_streams") == 0


def models(counters: SharedCounters, *served: str) -> set[str]:
    return {dict(labels)["model"] for name, labels in samples(counters, *served) if name == "tool_proxy_requests_total"}


def test_models_have_at_most_so_many_names(counters: SharedCounters) -> None:
    for number in range(MAX_MODELS + 50):
        count(counters, ended(model=f"m{number}"))
    count(counters, ended(model="m0", status=500))
    served = [f"m{number}" for number in range(MAX_MODELS)]
    assert models(counters, *served) == {*served, "other"}
    found = samples(counters)
    assert value(found, "requests_total", dialect="chat", model="other", status="200") == 50
    assert value(found, "requests_total", dialect="chat", model="m0", status="500") == 1


def test_a_name_that_the_model_server_does_not_know_takes_no_place(counters: SharedCounters) -> None:
    for number in range(MAX_MODELS + 50):
        count(counters, ended(model=f"made-up-{number}", status=404))
    count(counters, ended(model="real"))
    assert models(counters, "real") == {"other", "real"}


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


@pytest.mark.parametrize("group,label", [("fixes", "fix"), ("refusals", "reason")])
def test_fixes_and_reasons_have_at_most_so_many_names(counters: SharedCounters, group: str, label: str) -> None:
    count(counters, ended(**{group: {f"rule:{number}": 1 for number in range(MAX_NAMES + 50)}}))
    family = "repairs" if group == "fixes" else "refusals"
    total = f"tool_proxy_{family}_total"
    found = {labels: count for (name, labels), count in samples(counters).items() if name == total}
    assert len(found) == MAX_NAMES + 1 and found[(label, "other"),] == 50


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


@pytest.mark.parametrize(
    "error,kind",
    [
        (UpstreamUnreachable("", refused=True), "unreachable"),
        (UpstreamSlow(""), "connect_timeout"),
        (UpstreamTimeout(""), "timeout"),
        (UpstreamBroken(""), "broken"),
        (LimitExceeded("max_event", 1), "limit"),
        (UpstreamRefused("", status=400), "refused"),
        (ClientGone(""), ""),
        (BadRequest(""), ""),
        (None, ""),
    ],
)
def test_each_failure_of_the_model_server_has_a_kind(error: ProxyError | None, kind: str) -> None:
    assert upstream_kind(error) == kind


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
