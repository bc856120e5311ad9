"""The record of one request that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.codec.json_text import JsonObject

# Groups of what is counted over time.
REPAIRS = "repairs"
REFUSALS = "refusals"
REQUESTS = "requests"


@dataclass(frozen=True, slots=True)
class Record:
    """One request: a `summary`, which all see who may see the page, and the `parts` of its story by their names, which
    are there only where values may be shown. `counts` are numbers by group and name (`("repairs", "closers"): 2`).
    """

    summary: JsonObject
    parts: Mapping[str, bytes] = field(default_factory=dict)
    counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
