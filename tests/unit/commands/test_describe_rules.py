"""What `check` says that a rules file means."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.commands.describe_rules import summary
from proxy.config.rules import Rules, parse_rules

REPO = Path(__file__).parents[3]


def told(text: str, builtin: Rules | None = None) -> list[str]:
    """The lines about a file of the user's, or about the built-in one."""
    return list(summary(parse_rules(text.encode(), "r.yaml", builtin)))


def of_rule(fields: str) -> str:
    """The line about one rule of the user's."""
    (line,) = told(f"tools: {{bash: {{fixes: [{{{fields}}}]}}}}\nmodels: []\n", Rules())
    return line.removeprefix("tools bash: ")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("condition: is_string", "is a text"),
        ("condition: missing", "is missing"),
        ("condition: missing_or_empty", "is missing or empty"),
        ("condition: exists", "is there"),
        ('condition: invalid_enum, valid_values: [a, 1, "true", true]', 'is none of "a", 1, "true", true'),
        ('condition: matches, pattern: "*.py"', 'matches "*.py"'),
        ("condition: is_type, type: integer", "is of type integer"),
    ],
)
def test_each_condition_is_told(condition: str, words: str) -> None:
    assert of_rule(f"parameter: p, {condition}, action: remove_parameter") == f"if p {words}, remove it"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("action: parse_json_array", "read it as a JSON array"),
        ("action: parse_json_array, fallback_value: []", "read it as a JSON array, or else set it to []"),
        ("action: parse_json_object", "read it as a JSON object"),
        ("action: convert_string_to_boolean", "make it true or false"),
        ('action: set_default, default_value: "."', 'set it to "."'),
        ("action: set_default, default_value: {a: [null]}", 'set it to {"a": [null]}'),
        ("action: remove_parameter", "remove it"),
        ("action: convert_tool_to_write", "make the call of read one of write"),
        ("action: rename_parameter, to: q", "rename it to q"),
        ("action: rename_tool, to: sh", "make it a call of sh"),
        ("action: wrap_in_array", "wrap it in an array"),
        ("action: to_string", "make it a text"),
        ("action: strip_markup", "strip the tags of calls from its ends"),
        ("action: unescape_html", "decode its HTML entities"),
    ],
)
def test_each_action_is_told(action: str, words: str) -> None:
    assert of_rule(f"parameter: p, condition: exists, {action}") == f"if p is there, {words}"


@pytest.mark.parametrize("path", ["a", "a.b[].c", "a[][]", r"a\.b\[0].c\\d"])
def test_a_path_is_told_as_it_is_written(path: str) -> None:
    assert of_rule(f"parameter: '{path}', condition: exists, action: to_string").startswith(f"if {path} is there, ")


def test_the_models_of_a_rule_are_told() -> None:
    line = of_rule("parameter: p, condition: exists, action: to_string, models: ['Qwen*', b]")
    assert line == "if p is there, make it a text, for models Qwen*, b"


def test_what_could_spoil_a_terminal_or_is_long_is_told_safely() -> None:
    line = of_rule(f'parameter: p, condition: missing, action: set_default, default_value: "\\e[2J{"a" * 500}"')
    assert line.isprintable() and line.isascii() and len(line) < 120
    (tool,) = told('models: [{match: "\\e[2J\\n\\u00e9"}]')
    assert tool == r'models "\u001b[2J\n\u00e9": all by default'


def test_the_built_in_file_is_told_and_its_rules_are_guarded() -> None:
    lines = told((REPO / "rules.yaml").read_text())
    rules = [line for line in lines if line.startswith("tools ")]
    assert len(rules) == 5 and all(line.endswith(" (only where the schema finds the call invalid)") for line in rules)
    assert rules[1].startswith("tools edit: if replaceAll is a text, ")
    assert lines[5:8] == [
        "models *gpt-oss*: parse auto, upstream live, thinking reasoning_effort",
        "models *[Dd]eep[Ss]eek-[Vv]3*: parse auto, upstream live, thinking thinking",
        "models *: parse auto, upstream live, thinking enable_thinking",
    ]
    assert lines[8].startswith("clients openclaw: without prompt_logprobs prompt_token_ids ")
    assert lines[-1] == "clients codex: as the model"


def test_each_model_and_client_is_told() -> None:
    lines = told(
        """
models:
  - {match: "Kimi*", parse: proxy, upstream: whole, server: vllm, reasoning: both,
     thinking: none, server_tools: drop,
     formats: {off: [list, json]}}
  - match: "*"
aliases: {claude-*: Kimi-K2, "caf\\u00e9": "\\e[2J"}
clients:
  a: {parse: server, upstream: live, heartbeat: chunk, clean: {top: [x, y], usage: [z]}}
  b: {}
"""
    )
    assert lines == [
        "models Kimi*: parse proxy, upstream whole, server vllm, reasoning both, "
        "thinking none, server_tools drop, no calls in json, list",
        "models *: all by default",
        "aliases claude-*: asked for as Kimi-K2",
        r'aliases "caf\u00e9": asked for as "\u001b[2J"',
        "clients a: parse server, upstream live, heartbeat chunk, without x y in top, without z in usage",
        "clients b: as the model",
    ]


def test_a_file_without_models_is_told_to_have_names_told_by_the_table() -> None:
    assert any(line.startswith("names: ") for line in told("tools: {}", Rules()))
    assert not any(line.startswith("names: ") for line in told("models: []", Rules()))
