"""Harmless texts: documentation, code, logs and chat about tools, without any call (C3).

Each row of `corpora/harmless.jsonl` has an `id`, its `kind` and the `text` of a reply.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from proxy.notations.toolset import read_tools
from tests.support.helpers import new_scanner, scan

pytestmark = pytest.mark.once

CORPORA = Path(__file__).parents[1] / "corpora"
ROWS = [json.loads(line) for line in (CORPORA / "harmless.jsonl").read_text("utf-8").split("\n") if line]
OFFERED = json.loads((CORPORA / "tools.json").read_text("utf-8"))["harmless"]
TOOLS = read_tools([{"type": "function", "function": function} for function in OFFERED])
SIZES = (1, 3, 7)


def test_there_are_enough_texts() -> None:
    assert len(ROWS) == len({row["id"] for row in ROWS}) == len({row["text"] for row in ROWS}) >= 300
    assert len(Counter(row["kind"] for row in ROWS)) >= 50


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_harmless_text_stays_text(row: dict[str, str]) -> None:
    text = row["text"]
    for pieces in ([text], *([text[at : at + size] for at in range(0, len(text), size)] for size in SIZES)):
        found = scan(pieces, new_scanner(TOOLS))
        assert (found.calls, found.text) == ((), text)
