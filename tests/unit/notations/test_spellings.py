"""Spellings of every notation that models use, and near misses: the text of a reply, and its calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.helpers import offered
from tests.support.notations_reading import SIZES, read, repaired

ROWS = Path(__file__).parents[2] / "corpora" / "spellings.jsonl"
TOOLS = offered()


def rows() -> list[Any]:
    found = [json.loads(line) for line in ROWS.read_text("utf-8").split("\n") if line]
    return [pytest.param(row, id=row["id"]) for row in found]


@pytest.mark.parametrize("row", rows())
def test_each_spelling_is_read_or_stays_text(row: dict[str, Any]) -> None:
    stopped = row.get("finish", "stop") == "stop"
    expected = [(call["name"], call["arguments"]) for call in row["calls"]]
    for size in SIZES:
        found = read(row["text"], TOOLS, size, stopped=stopped)
        assert repaired(found.calls, TOOLS) == repaired(expected, TOOLS)
