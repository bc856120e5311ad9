"""The counters, and the text of `/metrics`, which is valid for Prometheus with any names."""

from __future__ import annotations

import pytest

from proxy import __version__
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
from proxy.server.metrics import (
    CONTENT_TYPE,
    MAX_MODELS,
    MAX_NAMES,
    Metrics,
    upstream_kind,
)
from tests.support.rows import rows
from tests.support.scraped import count, models, samples, value


@pytest.fixture(name="metrics")
def _metrics() -> Metrics:
    return Metrics()


def test_metrics_are_valid_before_the_first_request(metrics: Metrics) -> None:
    found = samples(metrics)
    assert value(found, "info", version=__version__) == 1 and value(found, "rules_in_force") == 1
    assert value(found, "active_streams") == value(found, "heartbeats_total") == 0
    assert CONTENT_TYPE.startswith("text/plain; version=0.0.4")
    assert b"tool_proxy_rules_in_force 0.0\n" in metrics.exposition(rules_in_force=False)


def test_the_number_of_model_labels_is_limited(metrics: Metrics) -> None:
    for number in range(MAX_MODELS + 50):
        count(metrics, model=f"m{number}")
    count(metrics, model="m0", status=500)
    served = [f"m{number}" for number in range(MAX_MODELS)]
    assert models(metrics, *served) == {*served, "other"}
    found = samples(metrics, *served)
    assert value(found, "requests_total", dialect="chat", model="other", status="200") == 50
    assert value(found, "requests_total", dialect="chat", model="m0", status="500") == 1


def test_a_name_that_the_server_rejects_takes_no_label(metrics: Metrics) -> None:
    """Clients may invent any number of names."""
    for number in range(MAX_MODELS + 50):
        count(metrics, model=f"m{number}", status=404)
        count(metrics, model="")
    count(metrics, model="real")
    count(metrics, model="real", status=500)
    found = samples(metrics, "real")
    assert models(metrics, "real") == {"", "real", "other"}
    assert value(found, "requests_total", dialect="chat", model="real", status="500") == 1


@pytest.mark.parametrize("served,expected", [(("real", "idle"), {"real": 2, "other": 2}), ((), {"other": 4})])
def test_only_models_that_a_server_lists_have_a_label(
    metrics: Metrics, served: tuple[str, ...], expected: dict[str, int]
) -> None:
    """Any other name may be a misplaced key."""
    for model in ("real", "real", "made up", "made up too"):
        count(metrics, model=model)
    found = samples(metrics, *served).items()
    assert {labels[1][1]: number for (name, labels), number in found if name.endswith("requests_total")} == expected


@pytest.mark.parametrize("group,label", [("fixes", "fix"), ("refusals", "reason")])
def test_the_number_of_fix_and_reason_labels_is_limited(metrics: Metrics, group: str, label: str) -> None:
    count(metrics, **{group: {f"rule:{number}": 1 for number in range(MAX_NAMES + 50)}})
    family = "repairs" if group == "fixes" else "refusals"
    total = f"tool_proxy_{family}_total"
    found = {dict(labels)[label]: number for (name, labels), number in samples(metrics).items() if name == total}
    assert len(found) == MAX_NAMES + 1 and found["other"] == 50


@rows(__file__, "model")
def test_no_model_name_can_forge_a_line_or_exceed_the_length_limit(metrics: Metrics, model: str) -> None:
    count(metrics, model=model)
    assert value(samples(metrics, model), "active_streams") == 0
    (label,) = models(metrics, model)
    assert label.isprintable() and 0 < len(label.encode()) <= 100
    text = metrics.exposition(rules_in_force=True).decode()
    assert len([line for line in text.splitlines() if line.startswith("tool_proxy_requests_total{")]) == 1


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
def test_each_upstream_error_has_a_kind(error: ProxyError | None, kind: str) -> None:
    assert upstream_kind(error) == kind
