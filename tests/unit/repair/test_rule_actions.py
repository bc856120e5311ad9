"""Rules for tools: the effect of each condition and action, and that a rule does nothing else."""

from __future__ import annotations

import copy
from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from proxy.json import Json, JsonObject
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.policy import (
    MAX_PLACES,
    Action,
    Condition,
    ToolRule,
    applies_to_model,
    apply_rule,
    renames,
    rules_for,
    touched,
)
from tests.support.rows import rows
from tests.support.work import over_soon

CONDITIONS: tuple[Condition, ...] = get_args(Condition)
ACTIONS: tuple[Action, ...] = get_args(Action)
OFFERED = ToolSet(Tool(name, {}) for name in ("read", "Write", "bash"))


def rule(condition: Condition = "exists", action: Action = "remove_parameter", **more: Any) -> ToolRule:
    return ToolRule(**{"name": "r", "tool": "*", "parameter": ("p",), "condition": condition, "action": action, **more})


def after(the_rule: ToolRule, values: JsonObject, name: str = "bash") -> JsonObject:
    """Return the arguments after a rule that does not change the tool's name."""
    new_name, changed = apply_rule(the_rule, name, values, OFFERED)
    assert new_name is name
    return changed


def is_untouched(the_rule: ToolRule, values: JsonObject) -> bool:
    return after(the_rule, values) is values


VALUES: dict[str, JsonObject] = {
    "absent": {},
    "null": {"p": None},
    "empty text": {"p": ""},
    "text": {"p": "a"},
    "empty list": {"p": []},
    "empty object": {"p": {}},
    "false": {"p": False},
    "zero": {"p": 0},
    "one": {"p": 1},
    "half": {"p": 0.5},
}


@pytest.mark.parametrize(
    ("condition", "more", "where"),
    [
        ("is_string", {}, {"empty text", "text"}),
        ("missing", {}, {"absent"}),
        ("missing_or_empty", {}, {"absent", "null", "empty text", "empty list", "empty object"}),
        ("exists", {}, VALUES.keys() - {"absent"}),
        ("invalid_enum", {"valid": ("a", 1, None)}, VALUES.keys() - {"absent", "text", "one", "null"}),
        ("matches", {"pattern": "[a-c]"}, {"text"}),
        ("matches", {"pattern": "*"}, {"empty text", "text"}),
    ],
)
def test_a_condition_holds_exactly_where_it_should(condition: Condition, more: Any, where: set[str]) -> None:
    setting = rule(condition, "set_default", default=("new",), **more)
    assert {name for name, values in VALUES.items() if not is_untouched(setting, values)} == where


@rows(__file__, "action,text,value")
def test_an_action_repairs_a_value(action: Action, text: Json, value: Json) -> None:
    assert after(rule("exists", action), {"o": 1, "p": text, "q": 2}) == {"o": 1, "p": value, "q": 2}


@pytest.mark.parametrize(
    ("action", "value"),
    [
        ("parse_json_array", "not a list"),
        ("parse_json_array", '{"a": 1}'),
        ("parse_json_array", '"[1]"'),
        ("parse_json_array", "[1] and more"),
        ("parse_json_array", "[" * 300 + "]" * 300),
        ("parse_json_array", "[" * 100_000),
        ("parse_json_array", ["a"]),
        ("parse_json_object", "[1]"),
        ("parse_json_object", "{"),
        ("parse_json_object", 1),
        ("convert_string_to_boolean", "maybe"),
        ("convert_string_to_boolean", ""),
        ("convert_string_to_boolean", " true"),
        ("convert_string_to_boolean", 1),
        ("unescape_html", "a & b; &nosuch; &copy=1 &amp"),
        ("unescape_html", "&amp;lt;"),
        ("unescape_html", "a &lt; b &amp;amp; c"),
        ("unescape_html", 1),
    ],
)
def test_an_action_leaves_a_value_that_it_cannot_repair(action: Action, value: Json) -> None:
    assert is_untouched(rule("exists", action), {"p": value})


@pytest.mark.parametrize("action", ["parse_json_array", "parse_json_object"])
@pytest.mark.parametrize("fallback", [[], {}, None, "none", "[1]", '{"a": 1}'])
def test_a_fallback_replaces_an_unreadable_value(action: Action, fallback: Json) -> None:
    falling = rule("is_string", action, fallback=(fallback,))
    once = after(falling, {"p": "garbage"})
    assert once == {"p": fallback}
    assert is_untouched(falling, once)


def test_a_default_is_set_at_the_keys_position_or_last() -> None:
    setting = rule("missing_or_empty", "set_default", default=(".",))
    assert list(after(setting, {"p": None, "q": 1}).items()) == [("p", "."), ("q", 1)]
    assert list(after(setting, {"q": 1}).items()) == [("q", 1), ("p", ".")]


def test_an_existing_default_is_not_set_again() -> None:
    assert is_untouched(rule("missing_or_empty", "set_default", default=("",)), {"p": ""})
    assert is_untouched(rule("exists", "set_default", default=([1],)), {"p": [1]})


def test_two_calls_never_share_a_default() -> None:
    setting = rule("missing", "set_default", default=([],))
    first, second = after(setting, {}), after(setting, {})
    assert first == second == {"p": []} and first["p"] is not second["p"]


def test_a_renamed_parameter_keeps_its_position_and_replaces_no_other() -> None:
    renaming = rule("exists", "rename_parameter", to="q")
    assert list(after(renaming, {"o": 1, "p": 2, "r": 3}).items()) == [("o", 1), ("q", 2), ("r", 3)]
    assert is_untouched(renaming, {"p": 2, "q": None})
    assert is_untouched(renaming, {"o": 1})


def test_a_tool_is_renamed_only_to_an_offered_tool() -> None:
    values: JsonObject = {"p": 1}
    for to, name in (("write", "Write"), ("Write", "Write"), ("bash", "bash"), ("launch", "bash")):
        new_name, same = apply_rule(rule("exists", "rename_tool", to=to), "bash", values, OFFERED)
        assert (new_name, same is values) == (name, True)


@rows(__file__, "name,values,offered,becomes")
def test_only_a_read_with_content_becomes_a_write(name: str, values: Any, offered: str, becomes: str) -> None:
    tools = ToolSet([Tool(name, {}), Tool(offered, {})])
    converting = rule("exists", "convert_tool_to_write", parameter=("content",))
    assert apply_rule(converting, name, values, tools) == (becomes, values)


def test_a_path_reaches_into_objects_and_items() -> None:
    parsing = rule("is_string", "convert_string_to_boolean", parameter=("a", "[]", "b"))
    values: JsonObject = {"a": [{"b": "yes"}, {"c": "yes"}, "yes", {"b": "x", "c": 1}], "b": "yes"}
    changed = after(parsing, values)
    assert changed == {"a": [{"b": True}, {"c": "yes"}, "yes", {"b": "x", "c": 1}], "b": "yes"}
    for kept in ("a", "b"):
        assert is_untouched(parsing, {"a": {"b": "yes"}, kept: "yes"})


def test_missing_applies_to_every_existing_object() -> None:
    setting = rule("missing", "set_default", parameter=("a", "[]", "b"), default=(1,))
    assert after(setting, {"a": [{}, {"b": 2}, "x", {"c": 3}]}) == {"a": [{"b": 1}, {"b": 2}, "x", {"c": 3, "b": 1}]}
    assert is_untouched(setting, {}) and is_untouched(setting, {"a": []}) and is_untouched(setting, {"a": None})


def test_the_items_of_a_list_can_be_addressed() -> None:
    items = ("a", "[]")
    assert after(rule("is_string", parameter=items), {"a": ["x", 1, "y"]}) == {"a": [1]}
    assert after(rule("exists", "unescape_html", parameter=items), {"a": [1, "&lt;"]}) == {"a": [1, "<"]}
    inner = rule("exists", "unescape_html", parameter=(*items, "[]"))
    assert after(inner, {"a": [["&lt;"], "&lt;"]}) == {"a": [["<"], "&lt;"]}


def test_a_nested_key_is_renamed() -> None:
    renaming = rule("exists", "rename_parameter", parameter=("a", "[]", "b"), to="c")
    assert after(renaming, {"a": [{"b": 1}, {"b": 2, "c": 3}]}) == {"a": [{"c": 1}, {"b": 2, "c": 3}]}


def test_a_rule_with_too_many_matches_does_nothing() -> None:
    removing = rule(parameter=("a", "[]"))
    assert after(removing, {"a": [0] * MAX_PLACES}) == {"a": []}
    assert is_untouched(removing, {"a": [0] * (MAX_PLACES + 1)})


def test_rules_match_tools_by_globs_case_insensitively_by_default() -> None:
    rules = [rule(tool=tool) for tool in ("bash", "Bash", "mcp_*", "*", "b[a]sh", "bas")]
    named = [each.tool for each in rules_for(rules, "BASH", case_sensitive=False)]
    assert named == ["bash", "Bash", "*", "b[a]sh"]
    assert [each.tool for each in rules_for(rules, "Bash", case_sensitive=True)] == ["Bash", "*"]
    assert [each.tool for each in rules_for(rules, "MCP_x", case_sensitive=False)] == ["mcp_*", "*"]
    assert [each.tool for each in rules_for(rules, "MCP_x", case_sensitive=True)] == ["*"]


def test_rules_match_models_by_globs() -> None:
    assert applies_to_model(rule(), "any")
    assert applies_to_model(rule(models=("Qwen/*", "b")), "Qwen/Qwen3")
    assert not applies_to_model(rule(models=("Qwen/*", "b")), "qwen/Qwen3")


def test_the_parameters_that_rules_may_change_are_known_in_advance() -> None:
    rules = [
        rule(),
        rule(action="rename_parameter", parameter=("q",), to="r"),
        rule(action="rename_parameter", parameter=("a", "b"), to="c"),
        rule(action="set_default", parameter=("d", "[]"), default=(1,)),
    ]
    assert touched(rules) == {"p", "q", "r", "a", "d"}
    assert not renames(rules)
    for action in ("rename_tool", "convert_tool_to_write"):
        assert renames([rule(action=action)]) and touched([rule(action=action)]) == frozenset()


_KEYS = st.sampled_from(["p", "q", "content"])
_TEXTS = st.sampled_from(
    [
        "",
        "a",
        "true",
        "OFF",
        "[1]",
        "['a']",
        '{"p": "[]"}',
        '"[1]"',
        "{'p': 1}",
        "x</parameter>",
        " <parameter=a> y ",
        "</function>\n</tool_call>",
        "&amp;lt;",
        "&lt;",
        "&amp;",
        "&#38;#38;",
        "&amp;l&#116;;",
    ]
)
_LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.floats(-1, 1), _TEXTS)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)),
    max_leaves=8,
)
_PATHS = [("p",), ("content",), ("p", "q"), ("p", "[]"), ("p", "[]", "q"), ("p", "p", "[]", "[]")]
_RULES = st.builds(
    rule,
    condition=st.sampled_from(CONDITIONS),
    action=st.sampled_from(ACTIONS),
    parameter=st.sampled_from(_PATHS),
    default=st.tuples(_VALUES),
    fallback=st.one_of(st.just(()), st.tuples(_VALUES)),
    valid=st.lists(_LEAVES, max_size=2).map(tuple),
    pattern=st.sampled_from(["*", "?", "*</*", "tr*"]),
    to=st.sampled_from(["r", "q", "write", "content"]),
)


@pytest.mark.slow
@settings(max_examples=300)
@given(the_rule=_RULES, values=st.dictionaries(_KEYS, _VALUES), name=st.sampled_from(["read", "bash"]))
def test_a_rule_is_idempotent_and_does_not_change_its_input(
    the_rule: ToolRule, values: JsonObject, name: str
) -> None:
    assume(the_rule.action != "rename_parameter" or the_rule.parameter[-1] not in ("[]", the_rule.to))
    before = copy.deepcopy((the_rule, values))
    once_name, once = apply_rule(the_rule, name, values, OFFERED)
    assert repr((the_rule, values)) == repr(before)
    if repr(once) == repr(values):
        assert once is values
    again_name, again = apply_rule(the_rule, once_name, once, OFFERED)
    assert again_name is once_name and again is once


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("unescape_html", "&" * 1_000_000),
        ("unescape_html", "&amp;" * 200_000),
        ("parse_json_array", "[" * 1_000_000),
        ("parse_json_array", "[" + "'a'," * 50_000),
        ("convert_string_to_boolean", "y" * 4_000_000),
    ],
)
def test_a_long_hostile_value_takes_no_time(action: Action, text: str) -> None:
    with over_soon():
        apply_rule(rule("exists", action), "bash", {"p": text}, OFFERED)
        apply_rule(rule("matches", action, pattern="*a*b*c*d*</*>*<?*x"), "bash", {"p": text}, OFFERED)
