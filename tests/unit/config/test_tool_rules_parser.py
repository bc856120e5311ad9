"""The section `tools` of rules.yaml: what is taken, and what is refused with which line."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from proxy.config.rules import parse_rules
from proxy.config.tool_rules_parser import ACTIONS, CONDITIONS, MAX_RULES
from proxy.errors import RulesError
from proxy.repair.policy import ToolRule
from tests.support.work import over_soon


def parsed(text: str) -> tuple[ToolRule, ...]:
    return parse_rules(text.encode(), "r.yaml").tools


def refused(text: str) -> str:
    with pytest.raises(RulesError) as caught:
        parsed(text)
    assert "\n" not in caught.value.message
    return caught.value.message


def fix(**fields: str) -> str:
    """A file with one rule for bash, from line 4 on, that is right but for these fields."""
    given = {"parameter": "p", "condition": "exists", "action": "remove_parameter", **fields}
    lines = "\n      ".join(f"{key}: {text}" for key, text in given.items())
    return f"tools:\n  bash:\n    fixes:\n    - {lines}\n"


def without(field: str) -> str:
    """The same without one of the fields that a rule must have."""
    return "\n".join(line.replace(f"- {field}:", "- name:") for line in fix().splitlines() if f"  {field}:" not in line)


def test_a_rule_has_all_that_the_file_says() -> None:
    (found,) = parsed(
        """
tools:
  "mcp_*":
    models: [Qwen*, b]
    fixes:
      - name: fix_search_type
        parameter: search.type
        condition: invalid_enum
        valid_values: [semantic, 1, true, null]
        action: set_default
        default_value: {a: [1]}
        description: ""
"""
    )
    assert found == ToolRule(
        name="fix_search_type",
        tool="mcp_*",
        parameter=("search", "type"),
        condition="invalid_enum",
        action="set_default",
        models=("Qwen*", "b"),
        default=({"a": [1]},),
        valid=("semantic", 1, True, None),
    )


def test_a_rule_without_a_name_is_called_by_its_action() -> None:
    assert parsed(fix())[0].name == "remove_parameter"


def test_a_rules_own_models_stand_in_for_its_tools() -> None:
    rule = "{parameter: p, condition: exists, action: remove_parameter"
    found = parsed(f"tools: {{a: {{models: [x], fixes: [{rule}}}, {rule}, models: [y]}}]}}}}")
    assert [each.models for each in found] == [("x",), ("y",)]


def test_rules_keep_their_order() -> None:
    rule = "fixes: [{parameter: p, condition: exists, action: remove_parameter}]"
    found = parsed(f"tools: {{b: {{{rule}}}, '*': {{{rule}}}, a: {{{rule}}}}}")
    assert [each.tool for each in found] == ["b", "*", "a"]


def test_a_tool_without_fixes_has_no_rules() -> None:
    assert parsed("tools: {bash: {}, read: , write: {fixes: }}") == ()


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a[]", ("a", "[]")),
        ("a.b[].c", ("a", "b", "[]", "c")),
        ("a[][]", ("a", "[]", "[]")),
        (r"a\.b", ("a.b",)),
        (r"a\\.b\[0]", ("a\\", "b[0]")),
        ("a b-c_d]", ("a b-c_d]",)),
        ("010", ("010",)),
    ],
)
def test_a_path_is_keys_and_items(text: str, steps: tuple[str, ...]) -> None:
    assert parsed(fix(parameter=f"'{text}'"))[0].parameter == steps


@pytest.mark.parametrize("text", [".", "a.", ".a", "a..b", "[]", "[].a", "a[", "a[0]", "a[]b", r"a\n", "a\\", r"\[]"])
def test_a_path_that_is_none_is_refused(text: str) -> None:
    message = refused(fix(parameter=f"'{text}'"))
    assert message.startswith("r.yaml:4: parameter of a fix of 'bash' cannot be ")
    assert r"write keys with dots between them, [] behind a list for its items, \. for a dot in a key" in message


def test_a_path_has_at_most_16_steps() -> None:
    assert len(parsed(fix(parameter=".".join("a" * 16)))[0].parameter) == 16
    assert "parameter of a fix of 'bash' has over 16 steps; shorten it" in refused(fix(parameter=".".join("a" * 17)))


NEEDS: dict[str, dict[str, Any]] = {
    "invalid_enum": {"valid_values": "[a]"},
    "matches": {"pattern": "'*a'"},
    "set_default": {"default_value": "a"},
    "rename_parameter": {"to": "q"},
    "rename_tool": {"to": "q"},
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_each_condition_goes_with_each_action(condition: str, action: str) -> None:
    fields = {**NEEDS.get(condition, {}), **NEEDS.get(action, {})}
    (found,) = parsed(fix(condition=condition, action=action, **fields))
    assert (found.condition, found.action) == (condition, action)


@pytest.mark.parametrize("word", NEEDS)
def test_what_a_condition_or_an_action_needs_must_be_there(word: str) -> None:
    kind = "condition" if word in CONDITIONS else "action"
    (field,) = NEEDS[word]
    needed = f"a fix of 'bash' has no {field}, which {word} needs; write {field}: and what it is"
    assert refused(fix(**{kind: word})) == f"r.yaml:4: {needed}"
    assert f"{field} means nothing to exists and remove_parameter" in refused(fix(**NEEDS[word]))


@pytest.mark.parametrize("action", ["parse_json_array", "parse_json_object"])
def test_a_fallback_is_taken_where_something_is_read(action: str) -> None:
    assert parsed(fix(action=action, fallback_value="[]"))[0].fallback == ([],)
    assert parsed(fix(action=action))[0].fallback == ()
    words = "fallback_value means nothing to exists and unescape_html in a fix of 'bash'; remove it"
    assert f"r.yaml:7: {words}" in refused(fix(action="unescape_html", fallback_value="[]"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (without("parameter"), "r.yaml:4: a fix of 'bash' has no parameter; write parameter: and what it is"),
        (without("condition"), "a fix of 'bash' has no condition; write"),
        (without("action"), "a fix of 'bash' has no action; write"),
        (fix(condition="is_strng"), "r.yaml:5: condition of a fix of 'bash' cannot be 'is_strng'; use is_string, "),
        (fix(action="delete"), "r.yaml:6: action of a fix of 'bash' cannot be 'delete'; use parse_json_array,"),
        (fix(acton="x"), "r.yaml:7: there is no 'acton' in a fix of 'bash'; use action"),
        (fix(name='"a\\nb"'), "r.yaml:7: name of a fix of 'bash' holds control characters"),
        (fix(name="''"), "name of a fix of 'bash' must be a text of 1 to 200 characters"),
        (fix(models="[]"), "r.yaml:7: models of a fix of 'bash' is empty; name one, or remove the line"),
        (fix(models="Qwen"), "models of a fix of 'bash' must be a list"),
        (fix(description=f"{'a' * 1001}"), "description of a fix of 'bash' must be a text of 0 to 1000 characters"),
        (fix(condition="invalid_enum", valid_values="[]"), "r.yaml:7: valid_values of a fix of 'bash' is empty"),
        (fix(condition="invalid_enum", valid_values="a"), "valid_values of a fix of 'bash' must be a list"),
        (fix(condition="invalid_enum", valid_values="[yes]"), "write true or false, or 'yes' in quotes"),
        (fix(action="set_default", default_value="no"), "r.yaml:7: default_value of a fix of 'bash' cannot be 'no'"),
        (fix(action="rename_parameter", to="p"), "a fix of 'bash' cannot rename 'p' so; write one key in to"),
        (fix(action="rename_parameter", to="a.b"), "cannot rename 'p' so; write one key in to"),
        (fix(action="rename_parameter", parameter="'p[]'", to="q"), "cannot rename 'p.[]' so; write one key"),
        ("tools: [a]", "tools must be a mapping"),
        ("tools: {bash: [a]}", "tool 'bash' must be a mapping"),
        ("tools: {bash: {fix: []}}", "there is no 'fix' in tool 'bash'; use fixes"),
        ("tools: {bash: {fixes: {}}}", "fixes of tool 'bash' must be a list"),
        ("tools: {bash: {fixes: [a]}}", "a fix of 'bash' must be a mapping"),
        ("tools: {bash: {models: []}}", "models of tool 'bash' is empty"),
        ("tools:\n  bash: {}\n  bash: {}\n", "r.yaml:3: 'bash' is twice in tools (first in line 2); keep one"),
    ],
)
def test_what_is_not_exactly_right_is_told_with_its_line(text: str, message: str) -> None:
    assert message in refused(text)


def test_a_new_key_may_hold_a_dot_and_a_new_tool_too() -> None:
    assert parsed(fix(action="rename_parameter", to=r"'a\.b'"))[0].to == "a.b"
    assert parsed(fix(action="rename_tool", to="a.b"))[0].to == "a.b"


def test_a_file_has_at_most_1000_rules() -> None:
    rule = "{parameter: p, condition: exists, action: remove_parameter}"
    assert len(parsed(f"tools: {{a: {{fixes: [{', '.join([rule] * MAX_RULES)}]}}}}")) == MAX_RULES
    tools = "".join(f"  t{number}: {{fixes: [{rule}]}}\n" for number in range(MAX_RULES + 1))
    message = refused(f"tools:\n{tools}")
    assert message == "r.yaml:1002: there are over 1000 rules for tools; remove some, or join them by globs"


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize(
    "text",
    [
        "tools: {a: {fixes: [" + "{parameter: p, condition: exists, action: unescape_html}, " * 4700 + "]}}",
        "tools: {" + "".join(f"t{number}: {{}}, " for number in range(20_000)) + "}",
        fix(default_value="[" * 200_000),
        fix(action="set_default", default_value="[" + "0," * 120_000 + "]"),
        fix(parameter="a." * 100_000),
    ],
)
def test_a_hostile_file_is_over_at_once(text: str) -> None:
    with over_soon(), suppress(RulesError):
        parsed(text)
