"""The metrics: what is counted, under bounded names, in a form that Prometheus reads, right across workers."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
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
from tests.support.scripted import PATIENCE

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def tally() -> SharedCounters:
    return SharedCounters(mmap.mmap(-1, SIZE), 0)


def samples(tally: SharedCounters, *served: str) -> Samples:
    """What a scrape finds, while a server lists these models: each sample by its name and labels."""
    text = exposition(tally, "1.2.3", rules_in_force=True, models=frozenset(served)).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"tool_proxy_{name}", tuple(sorted(labels.items()))]


def ended(**more: Any) -> RequestSample:
    return RequestSample(**{"dialect": "chat", "status": 200, "seconds": 1.0, **more})


def test_before_the_first_request_there_is_a_valid_answer(tally: SharedCounters) -> None:
    found = samples(tally)
    assert value(found, "info", version="1.2.3") == 1 and value(found, "rules_in_force") == 1
    assert value(found, "active_streams") == value(found, "heartbeats_total") == 0
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert b"tool_proxy_rules_in_force 0.0\n" in exposition(tally, "", rules_in_force=False)


def test_a_request_is_counted_by_dialect_model_and_status(tally: SharedCounters) -> None:
    count(tally, ended(model="Qwen/Qwen3"))
    count(tally, ended(model="Qwen/Qwen3"))
    count(tally, ended(model="Qwen/Qwen3", status=502))
    count(tally, ended(dialect="messages", model="Qwen/Qwen3"))
    count(tally, ended(dialect="own", status=404))
    found = samples(tally, "Qwen/Qwen3")
    assert value(found, "requests_total", dialect="chat", model="Qwen/Qwen3", status="200") == 2
    assert value(found, "requests_total", dialect="chat", model="Qwen/Qwen3", status="502") == 1
    assert value(found, "requests_total", dialect="messages", model="Qwen/Qwen3", status="200") == 1
    assert value(found, "requests_total", dialect="own", model="", status="404") == 1


def test_what_became_of_the_calls_is_counted(tally: SharedCounters) -> None:
    fixes = {"text_call": 2, "finish": 1, "rule:x": 3}
    count(tally, ended(calls=5, fixes=fixes, refusals={"quoted": 4}, heartbeats=7))
    count(tally, ended(calls=1, heartbeats=1))
    found = samples(tally)
    assert (value(found, "calls_total", how="text"), value(found, "calls_total", how="structured")) == (2, 4)
    assert {fix: value(found, "repairs_total", fix=fix) for fix in fixes} == fixes
    assert value(found, "refusals_total", reason="quoted") == 4 and value(found, "heartbeats_total") == 8


def test_what_went_wrong_is_counted(tally: SharedCounters) -> None:
    for what in (
        {"when": "waiting"},
        {"when": "answering"},
        {"kind": "timeout"},
        {"denied": "rate"},
        {"denied": "rate"},
    ):
        count(tally, ended(**what))
    found = samples(tally)
    assert value(found, "disconnects_total", when="waiting") == value(found, "disconnects_total", when="answering") == 1
    assert value(found, "upstream_errors_total", kind="timeout") == 1
    assert value(found, "denied_total", reason="rate") == 2


def test_times_are_in_histograms(tally: SharedCounters) -> None:
    for seconds, first_byte in ((0.1, 0.05), (0.2, None), (9999.0, 0.051)):
        count(tally, ended(seconds=seconds, first_byte=first_byte))
    found = samples(tally)
    whole, first = "request_duration_seconds", "time_to_first_byte_seconds"
    buckets = [value(found, f"{whole}_bucket", dialect="chat", le=le) for le in ("0.1", "0.25", "1800.0", "+Inf")]
    assert buckets == [1, 2, 2, 3]
    assert value(found, f"{whole}_count", dialect="chat") == 3
    assert value(found, f"{whole}_sum", dialect="chat") == pytest.approx(9999.3)
    assert [value(found, f"{first}_bucket", dialect="chat", le=le) for le in ("0.05", "0.1", "+Inf")] == [1, 2, 2]


def test_streams_that_are_under_way_are_shown(tally: SharedCounters) -> None:
    tally.hold(STREAMS, 3)
    assert value(samples(tally), "active_streams") == 3
    tally.hold(STREAMS, -3)
    assert value(samples(tally), "active_streams") == 0


def models(tally: SharedCounters, *served: str) -> set[str]:
    return {dict(labels)["model"] for name, labels in samples(tally, *served) if name == "tool_proxy_requests_total"}


def test_models_have_at_most_so_many_names(tally: SharedCounters) -> None:
    for number in range(MAX_MODELS + 50):
        count(tally, ended(model=f"m{number}"))
    count(tally, ended(model="m0", status=500))
    served = [f"m{number}" for number in range(MAX_MODELS)]
    assert models(tally, *served) == {*served, "other"}
    found = samples(tally)
    assert value(found, "requests_total", dialect="chat", model="other", status="200") == 50
    assert value(found, "requests_total", dialect="chat", model="m0", status="500") == 1


def test_a_name_that_the_model_server_does_not_know_takes_no_place(tally: SharedCounters) -> None:
    for number in range(MAX_MODELS + 50):
        count(tally, ended(model=f"made-up-{number}", status=404))
    count(tally, ended(model="real"))
    assert models(tally, "real") == {"other", "real"}


def test_only_models_that_a_server_has_have_a_label(tally: SharedCounters) -> None:
    for model in ("real", "also real", "made up", "made up too"):
        count(tally, ended(model=model))
    count(tally, ended(model="gone", status=404))
    text = exposition(tally, "", rules_in_force=True, models=frozenset(("real", "also real", "idle"))).decode()
    found = {
        sample.labels["model"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "tool_proxy_requests_total" and sample.labels["status"] == "200"
    }
    assert found == {"real": 1, "also real": 1, "other": 2}


@pytest.mark.parametrize("group,label", [("fixes", "fix"), ("refusals", "reason")])
def test_fixes_and_reasons_have_at_most_so_many_names(tally: SharedCounters, group: str, label: str) -> None:
    count(tally, ended(**{group: {f"rule:{number}": 1 for number in range(MAX_NAMES + 50)}}))
    family = "repairs" if group == "fixes" else "refusals"
    found = {labels: count for (name, labels), count in samples(tally).items() if name == f"tool_proxy_{family}_total"}
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
def test_no_name_can_forge_a_line_or_be_of_any_length(tally: SharedCounters, model: str) -> None:
    count(tally, ended(model=model))
    found = samples(tally, model)
    assert value(found, "active_streams") == 0
    (label,) = models(tally)
    assert label.isprintable() and 0 < len(label.encode()) <= 100
    text = exposition(tally, "", rules_in_force=True).decode()
    assert len([line for line in text.splitlines() if line.startswith("tool_proxy_requests_total{")]) == 1


def test_a_key_where_the_model_should_be_is_not_shown(tally: SharedCounters) -> None:
    """Not even if the server lists it."""
    key = "sk-0123456789abcdefghij"
    count(tally, ended(model=key))
    assert b"0123456789" not in exposition(tally, "", rules_in_force=True, models=frozenset((key,)))


def test_where_no_server_lists_its_models_they_are_all_other(tally: SharedCounters) -> None:
    for model in ("real", "a-client-s-key-1234"):
        count(tally, ended(model=model))
    assert models(tally) == {"other"}


def test_what_one_worker_has_learnt_of_the_models_all_know(tally: SharedCounters) -> None:
    count(tally, ended(model="real"))
    assert models(tally, "real") == {"real"}
    assert models(tally) == {"real"}


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


WORKER = """
import mmap, sys
from proxy.worker.metrics import STREAMS, RequestSample, count
from proxy.worker.shared_counters import SIZE, SharedCounters
fd = int(sys.argv[1])
tally = SharedCounters(mmap.mmap(fd, SIZE), 0, fd)
tally.hold(STREAMS, 2)
for number in range(100):
    count(tally, RequestSample(dialect="chat", model="m", status=200, seconds=1.0, first_byte=0.5, fixes={"finish": 1}))
"""


def test_workers_count_together_and_what_they_counted_outlives_them() -> None:
    fd = os.memfd_create("test")
    os.ftruncate(fd, SIZE)
    try:
        command = [sys.executable, "-c", WORKER, str(fd)]
        workers = [subprocess.Popen(command, pass_fds=[fd]) for _ in range(3)]
        assert [worker.wait(PATIENCE) for worker in workers] == [0, 0, 0]
        found = samples(SharedCounters(mmap.mmap(fd, SIZE), 0, fd), "m")
    finally:
        os.close(fd)
    assert value(found, "requests_total", dialect="chat", model="m", status="200") == 300
    assert value(found, "repairs_total", fix="finish") == 300
    assert value(found, "time_to_first_byte_seconds_count", dialect="chat") == 300
    assert value(found, "active_streams") == 0  # their streams ended with them
