"""The rules in force, one entry per line, each with its place."""

from __future__ import annotations

from proxy.codec.json_text import Json, JsonObject
from proxy.config.load import BUILT_IN, builtin_text
from proxy.config.summary import summary
from proxy.worker.state import WorkerState


def rules_in_force(worker: WorkerState) -> JsonObject:
    """Return the rules that new requests are served by, and why newer ones are not in force."""
    rules = worker.current().rules
    text = builtin_text() if rules.source == BUILT_IN else worker.published.text
    entries: list[Json] = [
        {"section": entry.section, "text": entry.text, "place": entry.place} for entry in summary(text)
    ]
    return {
        "source": rules.source,
        "sha256": rules.sha256,
        "error": worker.published.error,
        "entries": entries,
    }
