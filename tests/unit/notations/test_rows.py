"""Texts and structured arguments, read whole and in pieces: one row each in `rows/*.jsonl`.

A text row has `name` (the behaviour), `tools` (a set in `rows/tools.json`) and `text`. If they are not empty it also
has `calls` and `left`: the remaining text, by default nothing if there are calls, and otherwise the whole text.
`sources` is the conversation's text, `finish` is `stop` by default, `options` are those of the reader, `reasoning` is
the separated reasoning, and `broken` marks an unreadable call at the end.
Rows in `arguments.jsonl` are structured calls. Rows in `schema_fixes.jsonl` are values and their fixes by the schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proxy.json import dump
from proxy.notations.copies import Copies
from proxy.notations.front import Reader
from proxy.notations.schema import compile_schema
from proxy.notations.stream import Channel, Piece
from proxy.notations.thoughts import Mark, Thoughts
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.arguments import read_arguments
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from proxy.repair.schema_fixes import FIXES, apply_fixes
from tests.support.each_case import each_case

ROWS = Path(__file__).parent / "rows"
SIZES = (1 << 30, 1, 3, 7)
TOOLS = {
    name: ToolSet([Tool(tool, schema) for tool, schema in tools.items()])
    for name, tools in json.loads((ROWS / "tools.json").read_text("utf-8")).items()
}


def rows(*names: str) -> list[dict[str, Any]]:
    """Return the rows of these files."""
    return [json.loads(line) for name in names for line in (ROWS / f"{name}.jsonl").read_text("utf-8").split("\n")[:-1]]


STRUCTURED = ("arguments", "schema_fixes")
TEXTS = [row for path in sorted(ROWS.glob("*.jsonl")) if path.stem not in STRUCTURED for row in rows(path.stem)]


def name_of(row: dict[str, Any]) -> str:
    return str(row["name"])


def reader_of(row: dict[str, Any]) -> Reader:
    options = dict(row.get("options", {}))
    if "channel" in options:
        options["channel"] = Channel[options["channel"].upper()]
    if "thoughts" in options:
        options["thoughts"] = Thoughts(**options["thoughts"])
    tools = TOOLS[row["tools"]]
    return Reader(tools, Copies(tools, row.get("sources", ())), **options)


def seen(pieces: list[Piece]) -> dict[str, Any]:
    """Return the content of the pieces in the format of a row."""
    left, reasoning, mark = "", "", None
    for piece in pieces:
        mark = piece.mark or mark
        if piece.is_prose and mark is Mark.THOUGHT:
            reasoning += piece.text
        elif piece.is_prose:
            left += piece.text
    calls = [[call.name, call.arguments] for piece in pieces for call in piece.calls or ()]
    broken = any(piece.broken for piece in pieces)
    return {"calls": calls, "left": left, "reasoning": reasoning, "broken": broken}


@each_case("row", TEXTS, ids=name_of)
def test_a_text_is_read_equally_whole_and_in_pieces(row: dict[str, Any]) -> None:
    text, calls = row["text"], row.get("calls", [])
    expected = {
        "calls": calls,
        "left": row.get("left", "" if calls else text),
        "reasoning": row.get("reasoning", ""),
        "broken": row.get("broken", False),
    }
    for size in SIZES:
        reader = reader_of(row)
        pieces = [piece for at in range(0, len(text), size) for piece in reader.feed(text[at : at + size])]
        pieces += reader.finish(stopped=row.get("finish", "stop") == "stop")
        assert "".join(piece.text for piece in pieces) == text
        found = seen(pieces)
        assert found == expected, size
        assert dump(found["calls"]) == dump(calls)


@each_case("row", rows("arguments"), ids=name_of)
def test_structured_arguments_are_read_and_repaired(row: dict[str, Any]) -> None:
    stopped = row.get("finish", "stop") == "stop"
    if "called" in row:
        made = Repairer(TOOLS[row["tools"]], Policy()).repair(row["called"], row["arguments"], stopped=stopped)
        assert (made and [made.name, made.arguments]) == row["repaired"]
        assert [fix.id for fix in made.fixes] == row.get("fixes", []) if made else not row.get("fixes")
        return
    schema = compile_schema(row["schema"]) if "schema" in row else None
    found = read_arguments(row["arguments"], schema, stopped=stopped)
    assert (found and found.text) == row["read"]
    if found:
        assert ([form.id for form in found.forms], found.told) == (row.get("forms", []), row.get("told", False))


@each_case("row", rows("schema_fixes"), ids=name_of)
def test_values_are_fixed_by_their_schema(row: dict[str, Any]) -> None:
    found, steps = apply_fixes(row["values"], compile_schema(row["schema"]), FIXES)
    assert dump(found) == dump(row["fixed"])
    assert [step.fix.id for step in steps] == row.get("fixes", [])
