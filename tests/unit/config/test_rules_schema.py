"""docs/rules.schema.json, with which editors check a rules file: it and the parser agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from proxy.config.load import load
from proxy.config.rules import (
    ReasoningField,
    ServerTools,
    Telling,
    Thinking,
)
from proxy.config.settings import SPECS, Spec
from proxy.config.tool_rules_parser import ACTIONS, CONDITIONS, TYPES
from proxy.config.yaml_nodes import compose, value
from proxy.errors import RulesError
from proxy.healing.families import NAMES
from proxy.healing.heal import ALL, IDS
from tests.failures.test_qwen3_users import FILE

REPO = Path(__file__).parents[3]
SCHEMA: dict[str, Any] = json.loads((REPO / "docs" / "rules.schema.json").read_text())
SETTINGS: dict[str, Any] = SCHEMA["$defs"]["settings"]["properties"]
FIX: dict[str, Any] = SCHEMA["$defs"]["fix"]["properties"]
MODEL: dict[str, Any] = SCHEMA["$defs"]["model"]["properties"]


def schema_takes(text: str) -> bool:
    # As editors read it, by YAML 1.2: to YAML 1.1 the key `off` is false.
    root = compose(text.encode(), "r.yaml")
    return bool(Draft202012Validator(SCHEMA).is_valid(None if root is None else value(root, "the file")))


def parser_takes(text: str, folder: Path) -> bool:
    (folder / "r.yaml").write_text(text)
    try:
        load({"rules": str(folder / "r.yaml")}, {})
    except RulesError:
        return False
    return True


def fix(fields: str) -> str:
    return f"tools: {{bash: {{fixes: [{{{fields}}}]}}}}"


def of_each_word() -> list[str]:
    """A rule for each condition with each action, with what they need."""
    needs = {
        "invalid_enum": "valid_values: [a]",
        "matches": "pattern: a",
        "is_type": "type: integer",
        "set_default": "default_value: null",
        "rename_parameter": "to: q",
        "rename_tool": "to: q.r",
    }
    pairs = [(condition, action) for condition in CONDITIONS for action in ACTIONS]
    words = [
        ["parameter: p", f"condition: {one}", f"action: {two}", needs.get(one, ""), needs.get(two, "")]
        for one, two in pairs
    ]
    return [fix(", ".join(filter(None, rule))) for rule in words]


TAKEN = [
    "",
    "{}",
    "settings:\ntools:\nmodels:\naliases:\nclients:\n",
    FILE,
    (REPO / "rules.yaml").read_text(),
    *of_each_word(),
    fix("parameter: 'a.b[].c', condition: exists, action: parse_json_array, fallback_value: []"),
    fix(r"parameter: 'a\.b\[0][]', condition: exists, action: to_string, name: n, description: '', models: [a]"),
    fix(r"parameter: 'a\[]', condition: exists, action: rename_parameter, to: 'c\.d'"),
    fix("parameter: 7, condition: is_type, type: 'null', action: remove_parameter"),
    "tools: {'*': {models: [a, 'b*'], fixes: }, b: }",
    "settings: {buffer_timeout: 120, max_buffer_size: 1048576, client: '', upstream_ca: ''}",
    "settings: {upstream: 'http://gpu:8000/v1', pass_through: [/v1/rerank, /a.b/c-d]}",
    "models: [{match: a, server: vllm, url: 'http://a:8000/v1'}, {match: b, url: 'https://b'}]",
    "models: [{match: a, parse: proxy, upstream: whole, server: vllm, reasoning: both}]",
    "models: [{match: a, formats: {off: [json, '<tool_call>']}}, {match: 7, formats: }]",
    *(f"models: [{{match: a, thinking: {word}}}]" for word in get_args(Thinking)),
    "models: [{match: a, heal: {on: [one_call], off: [all, developer]}}, {match: b, heal: {on: , off: }}]",
    "models: [{match: a, sampling: {set: {top_k: 1, x: {y: []}}, default: , strip: [seed], at_most: {max_tokens: 9}}}]",
    "models: [{match: a, tools: {drop: ['web_*'], describe: 200}}, {match: b, heal: , sampling: , tools: }]",
    "models: [{match: a, tools: {polls: ['bash_*']}, heal: {off: [repeated_calls]}}]",
    *(f"models: [{{match: a, server_tools: {word}}}]" for word in get_args(ServerTools)),
    "aliases:",
    "aliases: {claude-*: Qwen/Qwen3-Coder, '*mini': 7, 8: true}",
    "clients: {a: , b-1: {parse: server, upstream: live, heartbeat: chunk, clean: {top: [a], usage: }}}",
]
NO_PATHS = ("a.", ".a", "a..b", "a[", "a[0]", "[]", "")
REFUSED = [
    "[]",
    "a",
    "modles: []",
    "settings: []",
    "settings: {prot: 1}",
    "settings: {port: '8003'}",
    "settings: {port: 0}",
    "settings: {port: }",
    "settings: {heartbeat: 0}",
    "settings: {no_ui: 'no'}",
    "settings: {log_format: jsno}",
    "settings: {conversation_header: X-Session}",
    "settings: {upstream: 'ftp://h'}",
    "settings: {upstream: 'http://h,ftp://h'}",
    "settings: {upstream: 'http://h,http://i'}",
    "settings: {upstream: 'http://h,'}",
    "settings: {upstream: []}",
    "settings: {upstream: ['http://h']}",
    "models: [{match: a, servers: ['http://h']}]",
    "models: [{match: a, url: ['http://h']}]",
    "models: [{match: a, url: 'http://u@h'}]",
    "models: [{match: a, url: 'http://h,http://i'}]",
    "models: [{match: a, url: ''}]",
    "settings: {upstream_ca: ca.pem}",
    "settings: {pass_through: /a}",
    "settings: {pass_through: [a]}",
    "settings: {pass_through: [/a/../b]}",
    "settings: {client: Open Claw}",
    "settings: {hold_timeout: 1, buffer_timeout: 1}",
    "settings: {max_held: 2048, max_buffer_size: 2048}",
    "tools: []",
    "tools: {a: []}",
    "tools: {a: {fix: []}}",
    "tools: {a: {models: []}}",
    "tools: {a: {fixes: {}}}",
    "tools: {a: {fixes: [a]}}",
    "tools: {a: {fixes: [{}]}}",
    fix("condition: exists, action: to_string"),
    fix("parameter: p, action: to_string"),
    fix("parameter: p, condition: exists"),
    fix("parameter: p, condition: existing, action: to_string"),
    fix("parameter: p, condition: exists, action: delete"),
    fix("parameter: p, condition: exists, action: to_string, acton: x"),
    fix("parameter: p, condition: exists, action: to_string, models: []"),
    fix("parameter: p, condition: exists, action: to_string, name: ''"),
    fix("parameter: p, condition: exists, action: set_default"),
    fix("parameter: p, condition: exists, action: to_string, default_value: 1"),
    fix("parameter: p, condition: exists, action: to_string, fallback_value: 1"),
    fix("parameter: p, condition: exists, action: to_string, valid_values: [1]"),
    fix("parameter: p, condition: exists, action: to_string, pattern: a"),
    fix("parameter: p, condition: exists, action: to_string, type: string"),
    fix("parameter: p, condition: exists, action: to_string, to: a"),
    fix("parameter: p, condition: invalid_enum, action: to_string"),
    fix("parameter: p, condition: invalid_enum, valid_values: [], action: to_string"),
    fix("parameter: p, condition: matches, action: to_string"),
    fix("parameter: p, condition: is_type, action: to_string"),
    fix("parameter: p, condition: is_type, type: int, action: to_string"),
    fix("parameter: p, condition: exists, action: rename_tool"),
    fix("parameter: p, condition: exists, action: rename_parameter"),
    fix("parameter: p, condition: exists, action: rename_parameter, to: a.b"),
    fix("parameter: 'p[]', condition: exists, action: rename_parameter, to: a"),
    *(fix(f"parameter: '{path}', condition: exists, action: to_string") for path in NO_PATHS),
    "models: {}",
    "models: [{parse: auto}]",
    "models: [{match: a, parse: 'no'}]",
    "models: [{match: a, ids: x}]",
    "models: [{match: a, formats: [json]}]",
    "models: [{match: a, formats: {on: [json]}}]",
    f"models: [{{match: {'a' * 201}}}]",
    "models: [{match: a, thinking: true}]",
    "models: [{match: a, thinking: }]",
    "models: [{match: a, reasoning_history: both}]",
    "models: [{match: a, server_tools: run}]",
    "models: [{match: a, heal: [one_call]}]",
    "models: [{match: a, heal: {on: [all]}}]",
    "models: [{match: a, heal: {off: [one_cal]}}]",
    "models: [{match: a, sampling: {set: {messages: []}}}]",
    "models: [{match: a, sampling: {strip: [tools]}}]",
    "models: [{match: a, sampling: {at_most: {max_tokens: 0}}}]",
    "models: [{match: a, sampling: {at_most: {max_tokens: many}}}]",
    "models: [{match: a, tools: {describe: 0}}]",
    "models: [{match: a, tools: {describe: true}}]",
    "models: [{match: a, tools: [bash]}]",
    "families: []",
    "aliases: []",
    "aliases: {a: }",
    "aliases: {a: ''}",
    "aliases: {a: [b]}",
    f"aliases: {{a: {'m' * 201}}}",
    "clients: {A: {}}",
    "clients: {a: {heartbeat: none}}",
    "clients: {a: {clean: {choices: [a]}}}",
    "clients: {a: {clean: {message: [content]}}}",
    "clients: {a: {clean: {top: ['a b']}}}",
    "clients: {a: {key_sha256: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]}}",
]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("text", TAKEN, ids=range(len(TAKEN)))
def test_both_take_what_is_right(text: str, tmp_path: Path) -> None:
    assert (schema_takes(text), parser_takes(text, tmp_path)) == (True, True)


@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse_what_is_wrong(text: str, tmp_path: Path) -> None:
    assert (schema_takes(text), parser_takes(text, tmp_path)) == (False, False)


def test_it_knows_every_word_and_no_other() -> None:
    assert FIX["condition"]["enum"] == list(CONDITIONS)
    assert FIX["action"]["enum"] == list(ACTIONS)
    assert FIX["type"]["enum"] == list(TYPES)
    assert SCHEMA["$defs"]["healing"]["enum"] == list(IDS)
    assert MODEL["heal"]["properties"]["off"]["items"]["enum"] == [ALL, *IDS]
    assert MODEL["thinking"]["enum"] == list(get_args(Thinking))
    assert MODEL["reasoning"]["enum"] == [*get_args(Telling), *get_args(ReasoningField)]
    assert MODEL["family"]["enum"] == list(NAMES)
    assert MODEL["server_tools"]["enum"] == list(get_args(ServerTools))
    assert list(SETTINGS) == [key for spec in SPECS for key in spec.keys]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_it_says_of_each_setting_what_the_help_says(spec: Spec) -> None:
    said = SETTINGS[spec.name]
    assert said["description"] == f"{spec.help[0].upper()}{spec.help[1:]}."
    assert said["default"] == (list(spec.default) if isinstance(spec.default, tuple) else spec.default)
    if said.get("type") == "integer":
        least, most = said["minimum"], said["maximum"]
        assert [spec.check(number) for number in (least, most)] == [least, most]
        for number in (least - 1, most + 1):
            with pytest.raises(ValueError):
                spec.check(number)
