"""Structured calls as data: our own rows and reports from the field, streamed at every cut in each dialect, and whole.

The reports are not part of the repository: `tests.support.shared` says where they are.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from proxy.notations.toolset import ToolSet, read_tools
from tests.support.client_view import DONE, Got, of_bytes, whole
from tests.support.helpers import event_bytes
from tests.support.shared import SHARED, VARIABLE

CORPORA = Path(__file__).parents[1] / "corpora"


def rows(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file that have deltas. A missing file has none."""
    lines = file.read_text("utf-8").split("\n") if file.exists() else []
    return [row for row in (json.loads(line) for line in lines if line) if "deltas" in row]


REPORTS = rows(SHARED / "field" / "cases.jsonl")
ROWS = [*rows(CORPORA / "deltas.jsonl"), *REPORTS]


def test_the_reports_exist() -> None:
    if not REPORTS and "CI" not in os.environ:
        pytest.skip(f"no reports from the field: {VARIABLE} names their folder")
    assert len(REPORTS) >= 65


def tools(row: dict[str, Any]) -> ToolSet:
    """Return the tools of a row. Our own rows share one list."""
    own = json.loads((CORPORA / "tools.json").read_text("utf-8"))["agent"]
    return read_tools(row.get("tools") or [{"type": "function", "function": one} for one in own])


def body(row: dict[str, Any]) -> bytes:
    entries = [{"index": 0, "delta": {}, "finish_reason": each.get("finish"), **each} for each in row["deltas"]]
    for entry in entries:
        entry.pop("finish", None)
    chunks = [
        {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [entry]}
        for entry in entries
    ]
    return b"".join(map(event_bytes, chunks)) + DONE


def as_expected(got: Got, expect: dict[str, Any]) -> bool:
    said = {"content": got.text, "reasoning": got.reasoning, "finish": got.finish}
    same = all(said[name] == (value or "") for name, value in expect.items() if name != "calls")
    return same and not got.error and [[name, values] for name, values in got.values] == expect["calls"]


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_streamed_calls_are_as_expected(row: dict[str, Any]) -> None:
    allowed = row["expect"].get("any_of", [row["expect"]])
    got = of_bytes(body(row), cuts=1, tools=tools(row))
    assert any(as_expected(got, each) for each in allowed), got


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS if "message" in row])
def test_calls_of_whole_answers_are_as_expected(row: dict[str, Any]) -> None:
    allowed = row["expect"].get("any_of", [row["expect"]])
    got = whole(row["message"], row.get("finish", "stop"), tools=tools(row))
    assert any(as_expected(got, each) for each in allowed), got
