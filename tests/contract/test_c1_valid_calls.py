"""A valid call is forwarded byte for byte, whatever its content and however it is split (contract C1)."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from proxy.config.rules import parse_rules
from proxy.engine.events import Chunk
from proxy.notations.toolset import ToolSet, read_tools
from proxy.notations.validator import same
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.each_case import each_case
from tests.support.helpers import calls, chunk, delta, ends, new_engine, piece, random_cut, run, says, view
from tests.support.random_schemas import TOOLS, Kind, texts_of, validator

CORPUS = Path(__file__).parents[1] / "corpora" / "valid_calls.jsonl"
RULES = Path(__file__).parents[2] / "proxy" / "rules.yaml"
# All fixes, and the built-in rules.
POLICY = parse_rules(RULES.read_bytes(), str(RULES)).policy("a-model")


@dataclass(frozen=True)
class Row:
    """A line of the corpus: a tool's schema, and the exact text of a call's arguments."""

    schema: dict[str, Any]
    arguments: str


ROWS = [Row(**json.loads(line)) for line in CORPUS.read_text().splitlines()]


def tool(schema: dict[str, Any], name: str = "tool") -> ToolSet:
    return read_tools([{"type": "function", "function": {"name": name, "parameters": schema}}])


def test_the_built_in_rules_are_included() -> None:
    assert POLICY.fallback_rules


def test_the_corpus_is_large_and_has_no_duplicates() -> None:
    assert len(ROWS) >= 150
    assert len(set(CORPUS.read_text().splitlines())) == len(ROWS)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf", "$ref", "$defs", "definitions", "enum", "const"])
def test_the_corpus_has_every_keyword(keyword: str) -> None:
    assert sum(f'"{keyword}"' in json.dumps(row.schema) for row in ROWS) >= 3


@each_case("row", ROWS, ids=[f"{number}" for number in range(len(ROWS))])
def test_every_call_of_the_corpus_is_valid_and_needs_no_repair(row: Row) -> None:
    assert "nullable" in json.dumps(row.schema) or validator(row.schema).is_valid(json.loads(row.arguments))
    for name in ("tool", "todowrite", "bash", "edit", "read", "grep"):
        for stopped in (True, False):
            found = Repairer(tool(row.schema, name), POLICY).repair(name, row.arguments, stopped=stopped)
            assert found is not None
            assert (found.arguments, found.fixes, found.violations) == (row.arguments, (), 0)


def deltas(cut: list[str]) -> list[Chunk]:
    opened = calls(piece(0, "", name="tool", id="call_1"))
    return [opened, *(calls(piece(0, part)) for part in cut), ends("tool_calls")]


def all_at_once(cut: list[str]) -> list[Chunk]:
    return [chunk(delta(0, "tool_calls", tool_calls=[piece(0, "".join(cut), name="tool", id="call_1")]))]


def written(cut: list[str]) -> list[Chunk]:
    before, after = '<tool_call>\n{"name": "tool", "arguments": ', "}\n</tool_call>"
    return [*map(says, (before, *cut, after)), ends()]


WAYS: dict[str, tuple[Callable[[list[str]], list[Chunk]], Policy]] = {
    "live": (deltas, POLICY),
    "a whole answer": (all_at_once, POLICY),
    "in text": (written, POLICY),
}


def check(schema: dict[str, Any], cut: list[str], way: str) -> None:
    """Assert that the call is unchanged and has no repair record."""
    shape, policy = WAYS[way]
    engine = new_engine(tool(schema), policy=policy)
    seen = view(run(shape(cut), engine))
    text = "".join(cut)
    assert seen.failed is None
    if way == "in text":
        [(_, arguments)] = seen[0].calls
        assert same(json.loads(arguments), json.loads(text))
    else:
        assert seen[0].calls == [("tool", text)]
    assert (seen[0].text, seen[0].finish) == ("", "tool_calls")
    assert {repair.id for repair in engine.audit} <= ({"text_call"} if way == "in text" else set())


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_call_of_the_corpus_is_unchanged(way: str) -> None:
    rng = random.Random(4)
    for row in ROWS:
        for cut in ([row.arguments], [*row.arguments], *(random_cut(row.arguments, rng) for _ in range(4))):
            check(row.schema, cut, way)


@pytest.mark.slow
@settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(TOOLS, st.data(), st.randoms(use_true_random=False))
def test_any_valid_call_is_unchanged(kind: Kind, data: st.DataObject, rng: random.Random) -> None:
    value = data.draw(kind.values)
    assume(validator(kind.schema).is_valid(value))  # exactly one alternative of `oneOf` must match
    text = data.draw(texts_of(value))
    assert json.loads(text) == value
    for stopped in (True, False):
        found = Repairer(tool(kind.schema), POLICY).repair("tool", text, stopped=stopped)
        assert found is not None
        assert (found.arguments, found.fixes, found.violations) == (text, (), 0)
    for way in WAYS:
        check(kind.schema, random_cut(text, rng), way)
