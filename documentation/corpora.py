"""Examples of text formats from the corpora of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_CORPORA = Path(__file__).parents[1] / "tests" / "corpora" / "formats"
# Files with rows that are not formats of their own.
_OTHERS = ("near_misses", "residues")
_LONGEST = 1500


def format_examples() -> dict[str, dict[str, Any]]:
    """Return the shortest corpus row with calls for each format; rows with strong evidence come first."""
    examples: dict[str, dict[str, Any]] = {}
    for path in sorted(_CORPORA.glob("*.jsonl")):
        if any(word in path.stem for word in _OTHERS):
            continue
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            best = examples.setdefault(row["format"], row)
            if row["calls"] and len(row["text"]) < _LONGEST and _rank(row) < _rank(best):
                examples[row["format"]] = row
    return {name: row for name, row in examples.items() if row["calls"]}


def _rank(row: dict[str, Any]) -> tuple[bool, bool, int]:
    return not row["calls"], row["evidence"] != "strong", len(row["text"])
