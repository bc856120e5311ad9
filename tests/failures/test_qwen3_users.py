"""Rules files of qwen3-call-patch-proxy load unchanged, and their rules have the effects that its guide describes.

The cases are the tables and examples of that guide, in its order. Each rule is applied alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.config import load as config
from proxy.config.load import load
from proxy.json import Json, JsonObject
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.policy import Policy, apply_rule, rules_for

DATA = json.loads(Path(__file__).with_name("qwen3_calls.json").read_text("utf-8"))

# The structure, the eight rules and the two examples of the guide, in one file.
FILE = Path(__file__).with_name("qwen3_users.yaml").read_text()
OFFERED = ToolSet(Tool(name, {}) for name in ("bash", "read", "write"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the rules files of this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "SYSTEM_RULES", tmp_path / "rules.yaml")


def policy_of(text: str) -> Policy:
    Path("rules.yaml").write_text(text)
    return load({}, {})[1].policy("Qwen3-Coder")


def called(policy: Policy, name: str, values: JsonObject) -> tuple[str, JsonObject]:
    """Return a call after all rules for its tool."""
    for rule in rules_for((*policy.rules, *policy.fallback_rules), name, case_sensitive=policy.case_sensitive):
        name, values = apply_rule(rule, name, values, OFFERED)
    return name, values


def test_the_file_loads_unchanged_and_its_settings_apply() -> None:
    Path("rules.yaml").write_text(FILE)
    settings, rules = load({}, {})
    assert (settings.hold_timeout, settings.max_held) == (120.0, 1048576)
    assert (settings.detailed_logging, settings.case_sensitive_tools) == (True, False)
    policy = rules.policy("Qwen3-Coder")
    assert len(policy.rules) == 11 and policy.fallback_rules == ()
    # Their table may infer a missing name. Everything else equals the built-in rules.
    assert policy == Policy(rules=policy.rules, infer_from_legacy_table=True)
    assert rules.clients and rules.profile("m", "").parse == "auto"


@pytest.mark.parametrize("name", ["Bash", "BASH", "bash"])
def test_rules_match_names_in_any_letter_case_and_keep_the_case(name: str) -> None:
    values: JsonObject = {"command": "ls"}
    result, changed = called(policy_of(FILE), name, values)
    assert (result, changed["description"]) == (name, "Execute the given shell command")
    assert called(policy_of(FILE.replace("_tools: false", "_tools: true")), "Bash", values) == ("Bash", values)


BUILT_IN: list[tuple[str, JsonObject, str, JsonObject]] = [*map(tuple, DATA["BUILT_IN"])]
UNTOUCHED: list[tuple[str, JsonObject]] = [*map(tuple, DATA["UNTOUCHED"])]


@pytest.mark.parametrize(("name", "values"), UNTOUCHED)
def test_a_call_that_needs_no_rule_stays_the_same_object(name: str, values: JsonObject) -> None:
    assert called(policy_of(FILE), name, values)[1] is values


# These rules write values that neither the model nor a schema provided. No built-in rule does so.
FILLED_IN = [case for case in BUILT_IN[:8] if case[0] in ("bash", "glob", "task")]


@pytest.mark.parametrize(
    ("name", "values", "new_name", "after"), [case for case in BUILT_IN[:8] if case not in FILLED_IN]
)
def test_the_built_in_rules_have_the_same_effects_on_invalid_calls(
    name: str, values: JsonObject, new_name: str, after: JsonObject
) -> None:
    policy = load({}, {})[1].policy("m")
    assert policy.rules == () and called(policy, name, values) == (new_name, after)


@pytest.mark.parametrize(("name", "values", "new_name", "after"), FILLED_IN)
def test_c9_no_built_in_rule_invents_a_value(name: str, values: JsonObject, new_name: str, after: JsonObject) -> None:
    """Only a user's own rule may invent a value."""
    policy = load({}, {})[1].policy("m")
    assert rules_for(policy.fallback_rules, name, case_sensitive=False) == ()
    assert called(policy_of(FILE), name, values) == (new_name, after)


def test_c9_built_in_rules_write_only_values_that_the_schema_lists() -> None:
    """A rule writes only values that its own condition checks."""
    for rule in load({}, {})[1].policy("m").fallback_rules:
        assert rule.action != "set_default" or rule.condition == "invalid_enum"


@pytest.mark.parametrize("content", ["b", "", " ", None, {"a": 1}, ["b"]])
def test_c9_no_built_in_rule_changes_the_tool(content: Json) -> None:
    """A read with content stays a read. As a write, empty content would empty the file."""
    policy = load({}, {})[1].policy("m")
    assert not [rule for rule in policy.fallback_rules if rule.action in ("rename_tool", "convert_tool_to_write")]
    values: JsonObject = {"filePath": "a", "content": content}
    assert called(policy, "read", values) == ("read", values)


@pytest.mark.parametrize("content", ["", None, [], {}])
def test_c9_the_users_file_never_turns_a_read_into_an_empty_write(content: Json) -> None:
    values: JsonObject = {"filePath": "a", "content": content}
    assert called(policy_of(FILE), "read", values) == ("read", values)


def test_a_read_with_content_stays_a_read_if_no_write_is_offered() -> None:
    (rule,) = rules_for(policy_of(FILE).rules, "read", case_sensitive=False)
    values: JsonObject = {"content": "x"}
    assert apply_rule(rule, "read", values, ToolSet([Tool("read", {})])) == ("read", values)
