"""What is counted."""

from __future__ import annotations

import mmap

import pytest

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
from proxy.worker.metrics import MAX_MODELS, MAX_NAMES, count, upstream_kind
from proxy.worker.shared_counters import SIZE, SharedCounters
from tests.support.scraped import HISTOGRAMS, ended, models, samples, value


@pytest.fixture(name="counters")
def _counters() -> SharedCounters:
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


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


@pytest.mark.parametrize("group,label", [("fixes", "fix"), ("refusals", "reason")])
def test_fixes_and_reasons_have_at_most_so_many_names(counters: SharedCounters, group: str, label: str) -> None:
    count(counters, ended(**{group: {f"rule:{number}": 1 for number in range(MAX_NAMES + 50)}}))
    family = "repairs" if group == "fixes" else "refusals"
    total = f"tool_proxy_{family}_total"
    found = {labels: count for (name, labels), count in samples(counters).items() if name == total}
    assert len(found) == MAX_NAMES + 1 and found[(label, "other"),] == 50


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
