"""Negative corpus: texts in which nothing may become a call and no byte may change (contract C3, F88, F89).

Each row of `corpora/negative` is a reply: its `text`, the `results` of the turn's tools, how it ended (`finish`), and
`why` it contains no call although it looks like one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from proxy.notations.toolset import read_tools
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts, ends, new_engine, new_scanner, run, says, scan, view

pytestmark = pytest.mark.once

CORPORA = Path(__file__).parents[1] / "corpora"
# Characters that may be held while prose mentions markers (contract C2, F68).
MAX_WAITING = 256


@dataclass(frozen=True, slots=True)
class Row:
    """One reply of the corpus, and its file."""

    topic: str
    id: str
    text: str
    why: str
    results: tuple[str, ...] = ()
    finish: str = "stop"


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of all JSON Lines files in a folder. Unknown keys are errors."""
    rows = []
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("utf-8").split("\n"):
            if line:
                row = json.loads(line)
                rows.append(Row(path.stem, **{**row, "results": tuple(row.get("results", ()))}))
    return rows


TOOLS = read_tools(
    [{"type": "function", "function": one} for one in json.loads((CORPORA / "tools.json").read_text("utf-8"))["agent"]]
)
ROWS = read_rows(CORPORA / "negative")
MENTIONS = [row for row in ROWS if row.topic == "markers_in_prose"]


def row_id(row: Row) -> str:
    return row.id


def test_the_corpus_is_complete() -> None:
    """There are enough rows, each with a unique name, a reason, and a known finish."""
    assert len(ROWS) >= 150
    assert len({row.id for row in ROWS}) == len({(row.text, row.results, row.finish) for row in ROWS}) == len(ROWS)
    assert [row.id for row in ROWS if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.id)] == []
    assert [row.id for row in ROWS if not (row.text and row.why) or row.finish not in ("stop", "length")] == []


@each_case("row", ROWS, ids=row_id)
def test_text_without_a_call_stays_text_at_every_cut(row: Row) -> None:
    """C3, F40, F88, F89: no call, and all bytes are unchanged."""
    for cut in all_cuts(row.text):
        found = scan(cut, new_scanner(TOOLS, results=row.results), stopped=row.finish == "stop")
        assert (found.calls, found.text) == ((), row.text)


@each_case("row", MENTIONS, ids=row_id)
def test_prose_that_mentions_markers_is_released_soon(row: Row) -> None:
    """C2, F68: a marker that is only mentioned is released within a few words."""
    scanner = new_scanner(TOOLS, results=row.results)
    let_go = 0
    for fed, each in enumerate(row.text, 1):
        for piece in scanner.feed(each):
            assert not piece.calls
            let_go += len(piece.text)
        assert fed - let_go <= MAX_WAITING


@pytest.mark.slow
@each_case("row", ROWS, ids=row_id)
def test_text_without_a_call_passes_the_engine_unchanged(row: Row) -> None:
    """C1, C4: the client receives the server's text and finish reason, and no call."""
    for cut in all_cuts(row.text, 2):
        views = view(run([*map(says, cut), ends(row.finish)], new_engine(TOOLS, sources=row.results)))
        assert views.failed is None
        assert (views[0].text, views[0].calls, views[0].finish) == (row.text, [], row.finish)
        assert views[0].reasoning == ""
