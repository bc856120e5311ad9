"""The third parties' corpora: what other projects test their parsers with, and malformed calls from public reports.

They are no part of the repository. The variable TESTS_SHARED names the folder that holds `corpora/*.jsonl`, else
`shared` beside the repository does. Their `content` follows other servers' ideas of blanks and reasoning: of that only
what stands in the text without its blanks is compared, and only where there are calls.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from proxy.engine.engine import Engine
from proxy.engine.task import Task
from proxy.tools.toolset import read_tools
from tests.failures.test_text_formats import exact
from tests.support.each_case import each_case
from tests.support.helpers import SEED, all_cuts, ends, new_scanner, run, says, scan, view
from tests.support.shared import SHARED, VARIABLE

FOLDER = SHARED / "corpora"


@dataclass(frozen=True, slots=True)
class Instead:
    """Why the calls that a row names do not come out, and what does."""

    why: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


BEGUN_BEFORE = Instead(
    "the text begins inside reasoning without an opener, and its first call is closed before anything says so (C3)",
    (("special_function", {"arg1": 2}), ("special_function", {"arg1": 1})),
)
IN_ANALYSIS = Instead("a recipient in the analysis channel calls nothing without `<|constrain|>` (F11)")
EXCEPTIONS = {
    "llamacpp-5385": BEGUN_BEFORE,
    "llamacpp-6457": IN_ANALYSIS,
    "llamacpp-6464": IN_ANALYSIS,
    "llamacpp-6485": IN_ANALYSIS,
    "harmony-analysis-recipient": IN_ANALYSIS,
}


def load() -> list[dict[str, Any]]:
    """The rows that have a text; those of templates that could not be rendered have none."""
    lines = (line for path in sorted(FOLDER.glob("*.jsonl")) for line in path.read_text("utf-8").split("\n") if line)
    return [row for row in map(json.loads, lines) if row["text"] is not None]


ROWS = load()
WITH_TOOLS = [pytest.param(row, id=row["id"]) for row in ROWS if row.get("tools")]
WITHOUT = [pytest.param(row["text"], id=row["id"]) for row in ROWS if not row.get("tools")]


def test_the_corpora_are_here() -> None:
    """Where they are not, nothing below runs: that must not pass unseen in CI."""
    if not ROWS and "CI" not in os.environ:
        pytest.skip(f"no corpora in {FOLDER}: {VARIABLE} names the folder that holds `corpora/*.jsonl`")
    assert ROWS, f"no corpora in {FOLDER}: set {VARIABLE} to the folder that holds `corpora/*.jsonl`"
    assert [id for id, count in Counter(row["id"] for row in ROWS).items() if count > 1] == []
    assert EXCEPTIONS.keys() <= {row["id"] for row in ROWS}


@pytest.mark.slow
@each_case("row", WITH_TOOLS)
def test_each_text_gives_its_calls_at_every_cut(row: dict[str, Any]) -> None:
    """C3; an exception gives what its reason says, so that none of them outlives it."""
    named = exact([(call["name"], call["arguments"]) for call in row["calls"]])
    instead = EXCEPTIONS.get(row["id"])
    expected = exact([*instead.calls]) if instead else named
    assert instead is None or expected != named, "it is no exception"
    content = (row["content"] or "").strip() if row["calls"] and not instead else ""
    for cut in all_cuts(row["text"]):
        found = scan(cut, new_scanner(read_tools(row["tools"])))
        assert exact(found.parsed) == expected, cut
        assert content in found.text, cut


@each_case("text", WITHOUT)
def test_without_tools_each_text_stays_text(text: str) -> None:
    """C3: nothing is parsed, whatever it looks like."""
    for cut in all_cuts(text):
        seen = view(run([*map(says, cut), ends()], Engine(Task(tools=None, seed=SEED))))[0]
        assert (seen.text, seen.calls, seen.finish) == (text, [], "stop"), cut
