"""Third-party corpora: test data of other projects' parsers, and malformed calls from public reports.

They are not part of the repository. The variable TESTS_SHARED names the folder that contains `corpora/*.jsonl`; the
default is `shared` next to the repository. Their `content` follows other servers' rules for whitespace and reasoning,
so it is compared without whitespace, only if the text contains it, and only if there are calls.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.notations.toolset import read_tools
from tests.failures.test_text_formats import exact
from tests.support.each_case import each_case
from tests.support.helpers import SEED, all_cuts, ends, new_scanner, run, says, scan, view
from tests.support.notations_reading import repaired
from tests.support.shared import SHARED, VARIABLE

FOLDER = SHARED / "corpora"


def load() -> list[dict[str, Any]]:
    """Return the rows that have a text. Rows of templates that could not be rendered have none."""
    lines = (line for path in sorted(FOLDER.glob("*.jsonl")) for line in path.read_text("utf-8").split("\n") if line)
    return [row for row in map(json.loads, lines) if row["text"] is not None]


ROWS = load()
WITH_TOOLS = [pytest.param(row, id=row["id"]) for row in ROWS if row.get("tools")]
WITHOUT = [pytest.param(row["text"], id=row["id"]) for row in ROWS if not row.get("tools")]


def test_the_corpora_exist() -> None:
    """Without them no test below runs, which must fail in CI."""
    if not ROWS and "CI" not in os.environ:
        pytest.skip(f"no corpora in {FOLDER}: {VARIABLE} names the folder that holds `corpora/*.jsonl`")
    assert ROWS, f"no corpora in {FOLDER}: set {VARIABLE} to the folder that contains `corpora/*.jsonl`"
    assert [id for id, count in Counter(row["id"] for row in ROWS).items() if count > 1] == []


@pytest.mark.slow
@each_case("row", WITH_TOOLS)
def test_the_calls_of_a_text_are_found_at_every_cut(row: dict[str, Any]) -> None:
    """C3."""
    tools = read_tools(row["tools"])
    expected = exact([(call["name"], call["arguments"]) for call in row["calls"]])
    content = (row["content"] or "").strip() if row["calls"] else ""
    for cut in all_cuts(row["text"]):
        found = scan(cut, new_scanner(tools))
        assert exact(repaired(found.parsed, tools)) == expected, cut
        assert content in found.text, cut


@each_case("text", WITHOUT)
def test_without_tools_a_text_stays_text(text: str) -> None:
    """C3: nothing is parsed."""
    for cut in all_cuts(text):
        seen = view(run([*map(says, cut), ends()], Engine(Task(tools=None, seed=SEED))))[0]
        assert (seen.text, seen.calls, seen.finish) == (text, [], "stop"), cut
