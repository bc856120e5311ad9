"""docs/configuration.md: every rules file in it loads, and every example of a condition or action is correct."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from documentation.tables import RULE_WORDS
from proxy.config.rules import Rules, parse_rules
from proxy.json import JsonObject
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.policy import Action, Condition, ToolRule, apply_rule, rules_for

GUIDE = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
FILES = re.findall(r"(?s)```yaml\n(.*?)```", GUIDE)
OFFERED = ToolSet(Tool(name, {}) for name in ("bash", "read", "write"))
ROWS = [*RULE_WORDS["conditions"], *RULE_WORDS["actions"]]


def loaded(text: str) -> Rules:
    return parse_rules(text.encode(), "guide", Rules())


@pytest.mark.parametrize("text", FILES)
def test_each_file_of_the_guide_loads(text: str) -> None:
    assert loaded(text).source == "guide"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["word"])
def test_each_example_of_the_guide_is_correct(row: dict[str, Any]) -> None:
    assert row["word"] in (row["fix"]["condition"], row["fix"]["action"])
    rules = loaded(yaml.safe_dump({"tools": {row["tool"]: {"fixes": [row["fix"]]}}})).policy("m").rules
    for before, after in row["calls"]:
        name, _, arguments = before.partition(" ")
        name, values = called(rules, name, json.loads(arguments))
        assert f"{name} {json.dumps(values)}" == after


def called(rules: tuple[ToolRule, ...], name: str, values: JsonObject) -> tuple[str, JsonObject]:
    found = rules_for(rules, name, case_sensitive=False)
    assert found
    for rule in found:
        name, values = apply_rule(rule, name, values, OFFERED)
    return name, values


def test_every_condition_and_action_has_an_example() -> None:
    assert [row["word"] for row in ROWS] == [*get_args(Condition), *get_args(Action)]
