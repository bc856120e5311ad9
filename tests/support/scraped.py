"""Samples of a scrape of `/metrics`, and requests to count."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from proxy.exchange.outcome import Outcome
from proxy.repair.record import Repair
from proxy.server.metrics import Metrics

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(metrics: Metrics, *served: str) -> Samples:
    """Return the samples of a scrape, by name and labels, while a server lists these models."""
    text = metrics.exposition(rules_in_force=True, models=served).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"tool_proxy_{name}", tuple(sorted(labels.items()))]


def count(metrics: Metrics, *, fixes: Mapping[str, int] | None = None, **more: Any) -> None:
    """Count a successful request, unless `more` says otherwise. `fixes` are its repairs."""
    audit = tuple(Repair(fix, "", "", "") for fix, number in (fixes or {}).items() for _ in range(number))
    said = {field.name: more.pop(field.name) for field in dataclasses.fields(Outcome) if field.name in more}
    absent = {"first_byte": None, "model": "", "when": ""}
    usual = {"dialect": "chat", "status": 200, "seconds": 1.0, **absent}
    metrics.count(Outcome(audit=audit, **said), **{**usual, **more})


def models(metrics: Metrics, *served: str) -> set[str]:
    return {dict(labels)["model"] for name, labels in samples(metrics, *served) if name == "tool_proxy_requests_total"}
