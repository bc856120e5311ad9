"""Calls in the corpora: other projects' tests, reports from the field, and the project's own rows.

Third-party rows are in the shared folder. If it is missing they are skipped, except in CI, where that is a failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.notations.toolset import ToolSet, read_tools
from tests.support.notations_reading import SIZES, Read, read, repaired
from tests.support.shared import SHARED, VARIABLE

OWN = Path(__file__).parents[2] / "corpora"
FIELD = SHARED / "field"
# Rows that contradict a rule, and the rule.
SENTENCE = "a call with text before it and after it on its line is shown"
DOUBLED = "a doubled end tag is a leftover"
SHOWN = "C3: a wrapper that nothing precedes on its line counts, whatever the prose around it says"
DECIDED = {
    "field-46f": SHOWN,
    "qwen25-tools-text-around": SENTENCE,
    "invoke-near-parameter-closer-doubled-m2": DOUBLED,
    "invoke-near-parameter-closer-doubled-anthropic": DOUBLED,
    "pairs-near-glm-value-closer-doubled": DOUBLED,
    "qwen-near-parameter-closer-doubled": DOUBLED,
}


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON Lines file, or nothing if it is missing."""
    if path.exists():
        yield from (json.loads(line) for line in path.read_text("utf-8").split("\n") if line)


def own_tools(kind: str = "agent") -> ToolSet:
    offered = json.loads((OWN / "tools.json").read_text("utf-8"))[kind]
    return read_tools([{"type": "function", "function": one} for one in offered])


def params(found: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=row["id"]) for row in found if row["id"] not in DECIDED]


def pairs(calls: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(call["name"], call["arguments"]) for call in calls]


def same_at_every_size(text: str, tools: ToolSet, **options: Any) -> Read:
    """Read a text whole and in pieces. Assert that the results are equal, and return the result."""
    found = {size: read(text, tools, size, **options) for size in SIZES}
    assert all(each == found[0] for each in found.values()), found
    return found[0]


def folder(name: str) -> list[dict[str, Any]]:
    return [row for path in sorted((OWN / name).glob("*.jsonl")) for row in rows(path)]


SHARED_ROWS = [row for path in sorted((SHARED / "corpora").glob("*.jsonl")) for row in rows(path) if row["text"]]
FIELD_ROWS = [row for row in rows(FIELD / "cases.jsonl") if row.get("text") and "body" not in row]
NOTATIONS = [*rows(FIELD / "notations.jsonl")]


def test_the_shared_folder_exists() -> None:
    if not SHARED_ROWS and "CI" not in os.environ:
        pytest.skip(f"no third parties' rows: {VARIABLE} names their folder")
    assert SHARED_ROWS and FIELD_ROWS and NOTATIONS


@pytest.mark.parametrize("row", params(SHARED_ROWS))
def test_third_party_calls_are_read(row: dict[str, Any]) -> None:
    tools = read_tools(row.get("tools") or [])
    found = same_at_every_size(row["text"], tools)
    expected = pairs(row["calls"]) if row.get("tools") else []
    assert repaired(found.calls, tools) == repaired(expected, tools)
    if not expected and not row.get("tools"):
        assert found.text == row["text"]


@pytest.mark.parametrize("row", params([row for row in FIELD_ROWS if "deltas" not in row]))
def test_calls_in_field_reports_are_read(row: dict[str, Any]) -> None:
    tools, expect = read_tools(row["tools"]), row["expect"]
    found = same_at_every_size(
        row["text"],
        tools,
        stopped=row.get("finish", "stop") == "stop",
        json_reply="response_format" in row.get("request", {}),
    )
    allowed = [each["calls"] for each in expect.get("any_of", [expect]) if "calls" in each]
    assert repaired(found.calls, tools) in [repaired([tuple(call) for call in calls], tools) for calls in allowed]


@pytest.mark.parametrize("row", params(NOTATIONS))
def test_new_notations_are_read(row: dict[str, Any]) -> None:
    tools = read_tools(json.loads((FIELD / "notation_tools.json").read_text("utf-8")))
    assert same_at_every_size(row["text"], tools).calls == pairs(row["calls"])


@pytest.mark.parametrize("row", params(folder("formats")))
def test_calls_in_own_rows_are_read(row: dict[str, Any]) -> None:
    tools = own_tools()
    found = same_at_every_size(row["text"], tools, stopped=row["finish"] == "stop", sources=row.get("results", ()))
    assert repaired(found.calls, tools) == repaired(pairs(row["calls"]), tools)
    if row["calls"]:
        assert found.text.strip() == row["content"].strip()


@pytest.mark.parametrize("row", params(folder("negative")))
def test_text_without_a_call_is_unchanged(row: dict[str, Any]) -> None:
    finish = row.get("finish", "stop")
    found = same_at_every_size(row["text"], own_tools(), stopped=finish == "stop", sources=row.get("results", ()))
    assert (found.calls, found.text) == ([], row["text"])
