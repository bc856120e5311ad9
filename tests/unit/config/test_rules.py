"""rules.yaml: accepted files, the line that an error names, and the effect of rules on a model and a client.

`rules.jsonl` has one row per file: its text, and the line of its error (null: accepted, 0: no line). `was` is the
result of the reader before msgspec, where it differs, and `why` is the reason.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from proxy.config.load import RulesText, rules_of
from proxy.config.rules import (
    MAX_RULES,
    Heal,
    Profile,
    Rules,
    StripFields,
    entry_with,
    literal,
    parse_rules,
)
from proxy.errors import RulesError
from proxy.healing.parameters import OfferedTools, Sampling
from proxy.notations.signs import ROW_NAMES
from proxy.repair.policy import Policy, ToolRule
from tests.support.rows import rows
from tests.support.work import over_soon

REPO = Path(__file__).parents[3]
ROWS = [json.loads(line) for line in Path(__file__).with_name("rules.jsonl").read_text().splitlines()]
FIX = "parameter: p, condition: exists, action: remove_parameter"
MODEL = """
models:
  - match: m
    parse: proxy
    upstream: whole
    server: vllm
    url: http://other:8000
    key: $OTHER_KEY
    formats: {off: [json]}
    reasoning: split
    thinking: thinking
    server_tools: drop
    family: qwen3
    heal: {on: [no_system], off: [one_system]}
    sampling: {set: {top_k: 1}, default: {temperature: 0.5}, strip: [seed], at_most: {max_tokens: 9, top_p: 0.5}}
    tools: {drop: [web_*], describe: 9, polls: [wait], most_repeats: 8}
"""


def parsed(text: str, builtin: Rules | None = None) -> Rules:
    return parse_rules(text.encode(), "r.yaml", builtin)


def verdict(text: bytes) -> tuple[int | None, str]:
    """Return the line of the error and the error, or (None, "")."""
    try:
        rules_of(RulesText(text, "r.yaml"))
    except RulesError as error:
        assert "\n" not in error.message
        place = error.message.partition(": ")[0]
        return int(place.removeprefix("r.yaml").lstrip(":") or 0), error.message
    return None, ""


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_file_is_accepted_or_the_error_names_the_line(row: dict[str, Any]) -> None:
    line, message = verdict(row["rules"].encode("latin-1"))
    assert line == row["line"], message
    assert not message or ";" in message or " must be " in message or "; add it" in message or "(" in message


@rows(__file__, "text,message")
def test_an_error_names_the_problem_and_the_allowed_values(text: str, message: str) -> None:
    said = verdict(text.encode())[1]
    assert message in said and "secret" not in said and len(said) < 800


def test_the_size_of_a_file_is_limited() -> None:
    fixes = f"[{', '.join([f'{{{FIX}}}'] * (MAX_RULES + 1))}]"
    assert f"over {MAX_RULES} rules for tools" in verdict(f"tools: {{a: {{fixes: {fixes}}}}}".encode())[1]
    assert "over 262144 bytes" in verdict(b"#" * (256 * 1024 + 1))[1]
    assert "nested over 20 deep" in verdict(b"- " * 100_000)[1]
    value = "tools: {a: {fixes: [{parameter: p, condition: missing, action: set_default, default_value: %s}]}}"
    assert "over 16384 characters long" in verdict((value % f"'{'a' * 16_384}'").encode())[1]


@pytest.mark.slow
@pytest.mark.once
@rows(__file__, "text")
def test_a_hostile_file_is_read_or_refused_quickly(text: str) -> None:
    with over_soon(), suppress(RulesError):
        parsed(text)


def test_the_built_in_file_knows_clients_and_strips_fields_only_for_openclaw() -> None:
    built_in = parse_rules((REPO / "rules.yaml").read_bytes(), "built-in")
    agents = ("openclaw", "opencode", "qwen-code", "pi", "cline", "nullclaw", "claude-code", "codex")
    assert tuple(built_in.clients) == agents
    assert [name for name in agents if built_in.profile("m", name).clean] == ["openclaw"]
    assert [built_in.clients[name].heartbeat for name in ("pi", "cline")] == ["comment", "comment"]
    switches = {"openai/gpt-oss-120b": "reasoning_effort", "deepseek-v3.2": "thinking", "GLM-4.6": "enable_thinking"}
    assert {model: built_in.profile(model, "").thinking for model in switches} == switches
    assert built_in.profile("any", "") == Profile(thinking="enable_thinking") and not built_in.settings


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}", "null"])
def test_an_empty_file_means_the_built_in_rules(text: str) -> None:
    base = parsed("models: [{match: a}]\nclients: {x: {}}\nsettings: {port: 1}\naliases: {a: b}\n")
    again = parsed(text, base)
    assert (again.models, again.clients, again.settings, again.aliases) == (
        *(base.models, base.clients),
        *({"port": 1}, {"a": "b"}),
    )


def test_a_section_replaces_only_the_same_built_in_section() -> None:
    base = parsed("models: [{match: a}]\nclients: {x: {}}\naliases: {a: b}\n")
    changed = parsed("clients: {y: {}}\naliases:\n", base)
    assert (tuple(changed.clients), changed.models, changed.aliases) == (("y",), base.models, {})


def test_every_key_of_an_entry_takes_effect() -> None:
    found = parsed(MODEL)
    assert found.profile("m", "") == Profile(
        parse="proxy",
        transport="whole",
        server_kind="vllm",
        telling="split",
        thinking="thinking",
        server_tools="drop",
        family="qwen3",
    )
    entry, plan = found.entry("m"), found.heal_plan("m")
    assert (entry.key, entry.url, found.urls, found.key_sources) == (
        *("$OTHER_KEY", "http://other:8000"),
        *(("http://other:8000",), ("$OTHER_KEY",)),
    )
    assert entry.heal == Heal(("no_system",), ("one_system",))
    assert entry.sampling == Sampling({"top_k": 1}, {"temperature": 0.5}, ("seed",), {"max_tokens": 9, "top_p": 0.5})
    assert repr(plan.sampling.at_most) == "{'max_tokens': 9, 'top_p': 0.5}"
    assert entry.tools == OfferedTools(("web_*",), 9, ("wait",), 8) and plan.tools.most_repeats == 8
    assert found.policy("m") == Policy(disabled_formats=frozenset(("json",)))
    assert found.profile("M", "") == Profile() and found.entry("x").url is None


@pytest.mark.parametrize("name", ["m", "org/[a]*?", 'q"\\ ü', "*"])
def test_an_entry_is_rewritten_for_one_name_with_more_healings(name: str) -> None:
    entry = parsed(MODEL).entry("m")
    line = entry_with(entry, name, ["alternate", "no_system"])
    again = parsed(f"models:\n{line}\n")
    assert again.entry(name).heal.on == ("no_system", "alternate") and again.entry("other").match == "*"
    assert again.profile(name, "") == parsed(MODEL).profile("m", "")
    assert entry_with(again.entry(name), name, []) == line
    assert not fnmatchcase("other", literal(name))
    usual = entry_with(parsed("models: [{match: '*'}]").entry(name), name, [])
    assert usual == f"- {json.dumps({'match': literal(name)})}"


def test_client_rules_override_model_rules() -> None:
    found = parsed(
        """
models: [{match: "*", parse: proxy, upstream: whole, reasoning: both}, {match: never}]
clients:
  x: {parse: server, heartbeat: chunk, clean: {top: [a], message: [b]}, calls: text, reasoning: reasoning}
  y:
"""
    )
    strip = StripFields(top=("a",), message=("b",))
    profile = Profile("server", "whole", "", "chunk", strip, "reasoning", calls="text")
    assert found.profile("m", "x") == profile and found.entry("never").match == "*"
    assert found.profile("m", "y") == found.profile("m", "nobody") == Profile("proxy", "whole", reasoning="both")
    split = parsed("models: [{match: '*', reasoning: split}]\nclients: {x: {reasoning: reasoning}}")
    assert split.profile("m", "x") == Profile(reasoning="reasoning", telling="split")


def test_strings_are_taken_literally() -> None:
    found = parsed("models: [{match: 010}, {match: no}]\naliases: {8: true, 'a': 1.50}")
    assert [entry.match for entry in found.models] == ["010", "no"]
    assert found.aliases == {"8": "true", "a": "1.50"}
    assert parse_rules(b"\xef\xbb\xbfmodels:\r\n- match: a\r\n", "r").models[0].match == "a"


def test_the_first_matching_alias_wins_and_is_not_resolved_again() -> None:
    found = parsed("aliases: {claude-haiku-*: small, claude-*: claude-big, claude-b*: never, '*mini': q, same: same}")
    names = ("claude-haiku-4-5", "claude-opus-5", "claude-big", "o4-mini", "same", "Claude-x")
    assert [found.alias(name) for name in names] == ["small", "claude-big", "claude-big", "q", "same", "Claude-x"]
    assert [found.has_alias(name) for name in names] == [True] * 5 + [False]
    text = (REPO / "rules.yaml").read_text().replace("  # claude-*: ", "  claude-*: ")
    assert parsed(text).aliases == {"claude-*": "Qwen/Qwen3-Coder"}


def test_a_suffix_selects_the_thinking_mode_if_an_alias_allows_it() -> None:
    found = parsed('aliases: {"q:*": Qwen/Qwen3-8B, "q*": Qwen/Qwen3-8B, "g:high": gpt-oss-20b}')
    names = ("q:nothink", "q:high", "q:8b", "q", "qx:high", "g:high", "other:high")
    assert [found.thinking_suffix(name) for name in names] == ["nothink", "high", "", "", "", "high", ""]


def test_every_key_of_a_fix_takes_effect() -> None:
    (rule,) = parsed(
        r"""
tools:
  "mcp_*":
    models: [Qwen*, b]
    fixes:
      - {name: n, parameter: 'search\.x.type[][].k', condition: invalid_enum, valid_values: [semantic, 1, true, null],
         action: set_default, default_value: {a: [1]}, description: ""}
"""
    ).policy("b").fallback_rules
    assert rule == ToolRule(
        name="n",
        tool="mcp_*",
        parameter=("search.x", "type", "[]", "[]", "k"),
        condition="invalid_enum",
        action="set_default",
        models=("Qwen*", "b"),
        default=({"a": [1]},),
        valid=("semantic", 1, True, None),
    )
    text = "tools: {a: {models: [x], fixes: [{parameter: p, condition: exists, action: %s, models: [y]}]}}"
    (renamed,) = parsed(text % r"rename_parameter, to: 'a\.b'").policy("y").fallback_rules
    assert (renamed.name, renamed.to, renamed.models) == ("rename_parameter", "a.b", ("y",))
    (nothing,) = parsed(text % "set_default, default_value: ").policy("y").fallback_rules
    assert nothing.default == (None,) and nothing.fallback == ()


def test_built_in_repairs_change_only_invalid_calls_and_the_users_change_all() -> None:
    """C1: a copy of a built-in repair is a built-in repair."""
    base = parsed(f"tools: {{a: {{fixes: [{{{FIX}}}]}}}}")
    assert [rule.tool for rule in base.policy("m").fallback_rules] == ["a"] and base.policy("m").rules == ()
    assert parsed("models: []", base).policy("m").fallback_rules == base.policy("m").fallback_rules
    own = parsed(f"tools: {{a: {{fixes: [{{{FIX}}}]}}, b: {{models: ['Q*'], fixes: [{{{FIX}}}]}}}}", base)
    assert [rule.tool for rule in own.policy("Qwen").rules] == ["b"]
    assert own.policy("Qwen").fallback_rules == base.policy("m").fallback_rules
    assert own.policy("GLM").rules == () and parsed("tools:", base).policy("m").fallback_rules == ()


def test_only_a_users_file_without_models_infers_names_from_the_table() -> None:
    assert parsed("tools: {}", Rules()).policy("m").infer_from_legacy_table
    assert not parsed("models: []", Rules()).policy("m").infer_from_legacy_table
    assert not parsed("tools: {}").policy("m").infer_from_legacy_table


def test_a_setting_makes_tool_names_case_sensitive() -> None:
    assert replace(parsed(""), case_sensitive_tools=True).policy("m") == Policy(case_sensitive=True)
    assert {"json", "list", "fence", "<tool_call>", "[TOOL_CALLS]", "harmony", "start"} <= ROW_NAMES
