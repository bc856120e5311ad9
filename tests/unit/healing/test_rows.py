"""Every healing and its effect on a conversation or on tools: the rows of `rows.jsonl`.

A row without `healed` must stay the same object. Rows with `messages` offer one tool; rows with a `body` are complete.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from proxy.healing.heal import IDS, heal
from proxy.json import JsonObject
from tests.healing.shapes import call, calls, result, tool

ROWS = [json.loads(line) for line in Path(__file__).with_name("rows.jsonl").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["heal"])
def test_a_healing_changes_only_what_it_is_for_and_only_once(row: dict[str, Any]) -> None:
    body: JsonObject = row["body"] if "body" in row else {"messages": row["messages"], "tools": [tool()]}
    before = deepcopy(body)
    after = heal(body, {row["heal"]}).body
    healed = row.get("healed")
    if healed is None:
        assert after is body
    else:
        assert after == body | (healed if "body" in row else {"messages": healed})
    assert heal(after, {row["heal"]}).body is after and body == before


def test_every_healing_has_rows() -> None:
    assert {row["heal"] for row in ROWS if "healed" in row} == {*IDS} - {"repeated_calls"}


def test_the_expansion_of_references_is_limited() -> None:
    """C7: each definition refers twice to the next one, which makes 2 ** 60 schemas."""
    definitions: dict[str, Any] = {"60": {"type": "string"}}
    for number in range(60):
        twice = {"$ref": f"#/$defs/{number + 1}"}
        definitions[str(number)] = {"type": "object", "properties": {"a": twice, "b": twice}}
    body: Any = {"tools": [tool(parameters={"$ref": "#/$defs/0", "$defs": definitions})]}
    assert len(json.dumps(heal(body, {"plain_schemas"}).body)) < 200_000


@pytest.mark.parametrize("given", ["call1", "call_1", "CALL-1"])
@pytest.mark.parametrize("plan", [{"call_ids"}, {*IDS}], ids=["alone", "all"])
def test_a_generated_id_differs_from_the_ids_of_results(given: str, plan: set[str]) -> None:
    """There are two results of an unknown call and a call without an id. A second run must not pair them either."""
    answers = [result(text=text, tool_call_id=given) for text in ("mkp1", "mkp2")]
    once = heal({"tools": [tool()], "messages": [calls(call(id="")), *answers]}, plan).body
    assert heal(once, plan).body == once
    text = json.dumps(once)
    assert "mkp1" in text and "mkp2" in text
