"""docs/rules.md: every file in it loads, and every example in it is so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from proxy.codec.json_text import JsonObject
from proxy.config.rules import Rules, parse_rules
from proxy.repair.policy import Action, Condition, ToolRule, apply_rule, rules_for
from proxy.tools.toolset import Tool, ToolSet

GUIDE = (Path(__file__).parents[3] / "docs" / "rules.md").read_text()
FILES = re.findall(r"(?s)```yaml\n(.*?)```", GUIDE)
EXAMPLE = re.compile(r"(?m)^`(\w+) (\{.*\})` becomes `(\w+) (\{.*\})`$")
OFFERED = ToolSet(Tool(name, {}) for name in ("bash", "read", "write"))


def loaded(text: str) -> Rules:
    return parse_rules(text.encode(), "guide", Rules())


def examples() -> list[tuple[str, str, str, str, str]]:
    """Each file with each call behind it, before and after."""
    parts = re.split(r"(?s)```yaml\n(.*?)```", GUIDE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [(text, *found) for text, rest in pairs for found in EXAMPLE.findall(rest)]


@pytest.mark.parametrize("text", FILES)
def test_each_file_of_the_guide_loads(text: str) -> None:
    assert loaded(text).source == "guide"


@pytest.mark.parametrize(("text", "name", "before", "new_name", "after"), examples())
def test_each_example_of_the_guide_is_so(text: str, name: str, before: str, new_name: str, after: str) -> None:
    told, values = called(loaded(text).tools, name, json.loads(before))
    assert (told, json.dumps(values)) == (new_name, json.dumps(json.loads(after)))


def called(rules: tuple[ToolRule, ...], name: str, values: JsonObject) -> tuple[str, JsonObject]:
    found = rules_for(rules, name, case_sensitive=False)
    assert found
    for rule in found:
        name, values = apply_rule(rule, name, values, OFFERED)
    return name, values


def test_each_condition_and_each_action_has_its_example() -> None:
    assert len(re.findall("(?m)^`.* becomes ", GUIDE)) == len(examples())
    for word in (*get_args(Condition), *get_args(Action)):
        (section,) = re.findall(rf"(?s)\n#### {word}\n(.*?)\n##", GUIDE)
        assert EXAMPLE.search(section), word
        assert word in section.split("```")[1], word
