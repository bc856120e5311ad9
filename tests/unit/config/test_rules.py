"""rules.yaml: what is taken, what is refused with which line, and which profile comes out."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from pathlib import Path

import pytest

from proxy.config import rules
from proxy.config.rules import Profile, Rules, StripFields, parse_rules
from proxy.errors import RulesError
from proxy.notations.signs import ROW_NAMES
from proxy.repair.policy import Policy

REPO = Path(__file__).parents[3]


def refused(text: str | bytes) -> str:
    """The one line with which the file is refused."""
    with pytest.raises(RulesError) as caught:
        parse_rules(text.encode() if isinstance(text, str) else text, "r.yaml")
    assert "\n" not in caught.value.message
    return caught.value.message


def parsed(text: str, builtin: Rules | None = None) -> Rules:
    return parse_rules(text.encode(), "r.yaml", builtin)


def test_the_two_copies_of_the_built_in_file_are_equal() -> None:
    assert (REPO / "rules.yaml").read_bytes() == (REPO / "proxy" / "rules.yaml").read_bytes()


def test_the_built_in_file_names_the_known_clients_and_cleans_for_openclaw_alone() -> None:
    built_in = parse_rules((REPO / "rules.yaml").read_bytes(), "built-in")
    agents = ("openclaw", "opencode", "qwen-code", "pi", "cline", "nullclaw", "claude-code", "codex")
    assert built_in.client_names == agents
    assert [name for name in agents if built_in.profile("m", name).clean] == ["openclaw"]
    assert built_in.profile("m", "openclaw").clean.usage == ("prompt_tokens_details",)
    # Their own timers see comments (docs/agents.md).
    assert [built_in.clients[name].heartbeat for name in ("pi", "cline")] == ["comment", "comment"]
    assert built_in.profile("any/model", "") == Profile(thinking="enable_thinking")
    assert not built_in.settings and built_in.aliases == ()


def test_an_empty_file_is_the_built_in_one() -> None:
    base = parsed("models: [{match: a, parse: proxy}]\nclients: {x: {}}\nsettings: {port: 1}\n")
    for text in ("", "# nothing\n", "{}", "null"):
        again = parsed(text, base)
        assert (again.models, again.clients, again.settings) == (base.models, base.clients, base.settings)


def test_a_section_of_the_file_replaces_the_built_in_one_and_no_other() -> None:
    base = parsed("models: [{match: a}]\nclients: {x: {}}\nsettings: {port: 1}\n")
    changed = parsed("clients: {y: {}}\n", base)
    assert changed.client_names == ("y",)
    assert (changed.models, changed.settings) == (base.models, base.settings)
    assert parsed("models:\n", base).models == ()


def test_source_and_digest_tell_which_file_is_in_force() -> None:
    text = b"models: []\n"
    found = parse_rules(text, "/etc/r.yaml")
    assert (found.source, found.sha256) == ("/etc/r.yaml", hashlib.sha256(text).hexdigest())


def test_the_first_glob_that_matches_wins_and_letter_case_counts() -> None:
    found = parsed(
        """
models:
  - {match: "Qwen/*", parse: proxy, server: vllm}
  - {match: "*", upstream: whole}
"""
    )
    assert found.profile("Qwen/Qwen3", "") == Profile(parse="proxy", server_kind="vllm")
    assert found.profile("qwen/qwen3", "") == Profile(transport="whole")
    assert parsed("models: [{match: a}]").profile("b", "") == Profile()


def test_what_the_client_says_wins_over_what_the_model_says() -> None:
    found = parsed(
        """
models: [{match: "*", parse: proxy, upstream: whole, server: sglang}]
clients:
  x: {parse: server, heartbeat: chunk, clean: {top: [a, a], message: [b]}}
  y:
"""
    )
    strip = StripFields(top=("a",), message=("b",))
    assert found.profile("m", "x") == Profile("server", "whole", "sglang", "chunk", strip)
    assert found.profile("m", "y") == found.profile("m", "nobody") == Profile("proxy", "whole", "sglang")


def test_plain_words_of_yaml_1_1_stay_text() -> None:
    found = parsed("settings: {a: no, b: 1:30, c: 2026-01-01, e: 0x10, f: 1_000, g: .inf, h: on, i: 1e5x}")
    words = ["no", "1:30", "2026-01-01", "0x10", "1_000", ".inf", "on", "1e5x"]
    assert list(found.settings.values()) == words


def test_settings_are_truths_numbers_text_and_lists_of_text() -> None:
    found = parsed("settings: {a: true, b: 010, c: -1.5, d: 1e3, e: '7', f: [x, 8], g: \"\", h: [], i: TRUE, j: False}")
    assert list(found.settings.values()) == [True, 10, -1.5, 1000.0, "7", ("x", "8"), "", (), True, False]


def test_a_byte_order_mark_and_windows_lines_are_taken() -> None:
    assert parse_rules(b"\xef\xbb\xbfmodels:\r\n- match: a\r\n", "r").models[0].match == "a"


def test_what_came_out_cannot_be_changed() -> None:
    found = parsed("settings: {a: 1}\nclients: {x: {}}\n")
    with pytest.raises(TypeError):
        found.settings["a"] = 2  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.source = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modles: []", "r.yaml:1: there is no 'modles' in the file; use models"),
        ("zzz: 1", "r.yaml:1: there is no 'zzz' in the file; use settings, tools, models, aliases, clients"),
        ("models:\n  - match: a\n    pasre: auto\n", "r.yaml:3: there is no 'pasre' in an item of models; use parse"),
        ("clients:\n  x: {serve: vllm}\n", "r.yaml:2: there is no 'serve' in client x; use "),
        ("models: []\n\nmodels: []\n", "r.yaml:3: 'models' is twice in the file (first in line 1); keep one"),
        ("settings: {a: 1, a: 2}", "'a' is twice in settings"),
        ("a: &x 1", "r.yaml:1: anchors are not taken; write the value out"),
        ("models:\n- *x\n", "r.yaml:2: a glob that starts with * needs quotes; write it as"),
        ("settings:\n  a: !!python/name:os.system x\n", "r.yaml:2: tags are not taken"),
        ("<<: {a: 1}", "there is no '<<' in the file"),
        ("[" * 21 + "]" * 21, "r.yaml:1: nested over 20 deep; flatten it"),
        ("- a", "r.yaml:1: the file must be a mapping"),
        ("models: {a: 1}", "models must be a list"),
        ("models: [a]", "an item of models must be a mapping"),
        ("models: [{parse: auto}]", "an item of models has no match; give a name or a glob"),
        ("models: [{match: }]", "match of an item of models must be a text"),
        ("models: [{match: [a]}]", "match of an item of models must be a text"),
        (f"models: [{{match: {'a' * 201}}}]", "must be a text of 1 to 200 characters"),
        ("models: [{match: a, parse: no}]", "parse of an item of models cannot be 'no'; use auto, server, proxy"),
        ("models: [{match: a, server: ollama}]", "use vllm, sglang, lmdeploy, llamacpp, litellm"),
        ("clients: {x: {heartbeat: none}}", "heartbeat of client x cannot be 'none'; use comment, chunk"),
        ("clients: {x: {clean: {choices: [a]}}}", "there is no 'choices' in clean of client x; use choice"),
        ("clients: {x: {clean: {message: [content]}}}", "'content' cannot be removed from answers"),
        ("clients: {x: {clean: {top: ['a b']}}}", "'a b' cannot be removed from answers"),
        ("clients: {x: {clean: {top: a}}}", "top of clean of client x must be a list"),
        ("clients:\n  Open Claw: {}\n", "r.yaml:2: client 'Open Claw' must match [a-z0-9]"),
        ("settings:\n  port:\n", "r.yaml:2: setting port has no value; give one or remove the line"),
        ("settings: {port: {a: 1}}", "setting port has no value"),
        ("settings: {pass_through: [[a]]}", "an item of setting pass_through must be a text"),
        ("models: [{match: a, ids: kimi}]", "there is no 'ids' in an item of models"),
        ("models: [{match: a, arguments: whole}]", "there is no 'arguments' in an item of models"),
        ("models: [{match: a, reasoning: no}]", "'no'; use auto, split, server, as_is, reasoning, "),
        ("models: [{match: a, formats: [json]}]", "formats of an item of models must be a mapping"),
        ("models: [{match: a, formats: {on: [json]}}]", "there is no 'on' in formats of an item of models; use off"),
        ("models: [{match: a, formats: {off: json}}]", "off of formats of an item of models must be a list"),
        ("models: [{match: a, thinking: yes}]", "'yes'; use none, enable_thinking, thinking, reasoning_effort"),
        ("models: [{match: a, thinking: }]", "thinking of an item of models must be a text"),
        ("models: [{match: a, reasoning_history: drop}]", "there is no 'reasoning_history' in an item of models"),
        ("models: [{match: a, family: qwen9}]", "there is no family 'qwen9'; use 'qwen"),
        ("clients: {a: {reasoning: split}}", "'split'; use as_is, reasoning, reasoning_content, both"),
        ("models:\n- match: a\n  server_tools: run\n", "r.yaml:3: server_tools of an item of models cannot be 'run'"),
        ("aliases: [a]", "r.yaml:1: aliases must be a mapping; write lines of the form 'key: value'"),
        ("aliases:\n  a: b\n  claude-*: [m]\n", "r.yaml:3: alias 'claude-*' must be a text of 1 to 200 characters"),
        ("aliases:\n  claude-*:\n", "r.yaml:2: alias 'claude-*' must be a text"),
        ("aliases: {a: ''}", "alias 'a' must be a text"),
        (f"aliases: {{a: {'m' * 201}}}", "alias 'a' must be a text"),
        (f"aliases: {{{'a' * 201}: m}}", "a key of aliases must be a text"),
        ("aliases:\n  a: m\n  a: n\n", "r.yaml:3: 'a' is twice in aliases (first in line 2); keep one"),
        ("aliases:\n  *mini: m\n", "r.yaml:2: a glob that starts with * needs quotes; write it as"),
        ("tools: [a]", "tools must be a mapping"),
        ("? [a]\n: b", "a key of the file must be a text"),
        ("a: b: c", "r.yaml:1: mapping values are not allowed here; check indentation, colons and quotes"),
        ("models: [", "r.yaml:1: expected the node content"),
        ("a\n--- b\n", "r.yaml:2: expected a single document in the stream, but found another document"),
        (b"models: []\n# \xff", "r.yaml:2: this is not UTF-8; save the file as UTF-8"),
        (b"models: []\n# \x00", "r.yaml:2: a control character; remove it"),
        ("#" * (256 * 1024 + 1), "r.yaml: the file is over 262144 bytes; shorten it"),
    ],
)
def test_what_is_not_exactly_right_is_told_with_its_line(text: str | bytes, message: str) -> None:
    assert message in refused(text)


def test_a_format_that_is_off_must_be_a_known_one() -> None:
    text = b"models:\n- match: a\n  formats:\n    off: [json, jason]\n"
    with pytest.raises(RulesError) as caught:
        parse_rules(text, "r.yaml", formats=ROW_NAMES)
    assert caught.value.message == "r.yaml:4: there is no format 'jason'; use 'json'"
    assert parse_rules(text, "r.yaml").policy("a").disabled_formats == {"json", "jason"}
    assert {"json", "list", "fence", "<tool_call>", "[TOOL_CALLS]", "harmony", "start"} <= ROW_NAMES


def test_the_first_model_that_matches_says_how_its_calls_are_treated() -> None:
    found = parsed(
        """
models:
  - {match: "Kimi*", reasoning: both, formats: {off: [json, fence]}}
  - {match: "*", formats: }
"""
    )
    disabled = frozenset({"json", "fence"})
    assert found.policy("Kimi-K2") == Policy(disabled_formats=disabled, ids="kimi")
    assert found.policy("x") == Policy()
    assert found.profile("Kimi-K2", "").reasoning == "both"
    assert found.profile("x", "").reasoning == "as_is"


@pytest.mark.parametrize(
    ("model", "style"),
    [("moonshotai/Kimi-K2", "kimi"), ("Mistral-7B", "mistral"), ("Devstral-2", "mistral"), ("Qwen3", "openai")],
)
def test_new_ids_look_as_the_family_of_the_model_wants_them(model: str, style: str) -> None:
    assert parsed("").policy(model).ids == style
    off = "models: [{match: '*', heal: {off: [kimi_ids, mistral_ids]}}]"
    assert parsed(off).policy(model).ids == "openai"


def test_a_model_says_how_a_messages_clients_thinking_and_tools_reach_its_server() -> None:
    """F94: nothing goes back or is dropped unless the entry says so."""
    found = parsed(
        """
models:
  - {match: a, thinking: thinking, server_tools: drop}
  - {match: "*"}
clients: {x: {parse: proxy}}
"""
    )
    said = Profile(
        thinking="thinking",
        server_tools="drop",
    )
    assert found.profile("a", "") == said
    assert found.profile("a", "x") == dataclasses.replace(said, parse="proxy")
    silent = found.profile("b", "")
    assert (silent.thinking, silent.server_tools) == ("none", None)


def test_a_model_says_who_tells_its_thoughts_from_the_text_or_in_which_field_they_are() -> None:
    found = parsed(
        """
models:
  - {match: a, reasoning: split, family: qwen3}
  - {match: b, reasoning: both}
  - {match: c, reasoning: server}
clients: {x: {reasoning: reasoning}}
"""
    )
    said = {name: found.profile(name, "") for name in ("a", "b", "c", "d")}
    assert [(each.telling, each.reasoning, each.family) for each in said.values()] == [
        ("split", "as_is", "qwen3"),
        ("auto", "both", ""),
        ("server", "as_is", ""),
        ("auto", "as_is", ""),
    ]
    assert {found.profile(name, "x").reasoning for name in said} == {"reasoning"}


def test_a_suffix_says_how_to_think_where_an_alias_takes_it() -> None:
    found = parsed('aliases: {"q:*": Qwen/Qwen3-8B, "q*": Qwen/Qwen3-8B, "g:high": gpt-oss-20b}')
    names = ("q:nothink", "q:high", "q:8b", "q", "qx:high", "g:high", "other:high")
    assert [found.thinking_suffix(name) for name in names] == ["nothink", "high", "", "", "", "high", ""]
    assert found.alias("q:nothink") == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("model", "switch"),
    [
        ("openai/gpt-oss-120b", "reasoning_effort"),
        ("unsloth/gpt-oss-20b-GGUF", "reasoning_effort"),
        ("deepseek-ai/DeepSeek-V3.1", "thinking"),
        ("deepseek-v3.2-exp", "thinking"),
        ("deepseek-ai/DeepSeek-R1", "enable_thinking"),
        ("Qwen/Qwen3-235B-A22B", "enable_thinking"),
        ("zai-org/GLM-4.6", "enable_thinking"),
    ],
)
def test_the_built_in_file_knows_the_switch_of_each_family(model: str, switch: str) -> None:
    built_in = parse_rules((REPO / "rules.yaml").read_bytes(), "built-in")
    assert built_in.profile(model, "") == Profile(thinking=switch)  # type: ignore[arg-type]


def test_the_first_alias_that_matches_wins_and_is_not_looked_up_again() -> None:
    found = parsed(
        """
aliases:
  claude-haiku-*: small
  claude-*: claude-big
  claude-b*: never
  "*mini": Qwen/Qwen3-4B
  gpt-?: 7
  same: same
"""
    )
    names = ("claude-haiku-4-5", "claude-opus-5", "claude-big", "o4-mini", "gpt-5", "same", "Claude-x", "x")
    told = ["small", "claude-big", "claude-big", "Qwen/Qwen3-4B", "7", "same", "Claude-x", "x"]
    assert [found.alias(name) for name in names] == told
    assert [found.has_alias(name) for name in names] == [True] * 6 + [False] * 2


@pytest.mark.parametrize("text", ["aliases:", "aliases: {}", "aliases: null"])
def test_an_empty_section_of_aliases_is_none_and_a_missing_one_the_built_in(text: str) -> None:
    base = parsed("aliases: {a: b}")
    assert base.alias("a") == "b"
    assert parsed(text, base).aliases == ()
    assert parsed("models: []", base).aliases == (("a", "b"),)
    assert parsed("clients: {}").aliases == ()


def test_the_example_in_the_built_in_file_is_an_alias_once_its_mark_is_gone() -> None:
    text = (REPO / "rules.yaml").read_text()
    assert text.count("  # claude-*: ") == 1
    found = parsed(text.replace("  # claude-*: ", "  claude-*: "))
    assert found.aliases == (("claude-*", "Qwen/Qwen3-Coder"),)


RULE = "fixes: [{parameter: p, condition: exists, action: remove_parameter}]"


def test_the_built_in_rules_are_guarded_and_the_users_own_are_not() -> None:
    base = parsed(f"tools: {{a: {{{RULE}}}}}")
    assert [rule.tool for rule in base.policy("m").fallback_rules] == ["a"] and base.policy("m").rules == ()
    silent = parsed("models: []", base)
    assert silent.policy("m").fallback_rules == base.tools
    own = parsed(f"tools: {{b: {{{RULE}}}}}", base)
    assert [rule.tool for rule in own.policy("m").rules] == ["b"] and own.policy("m").fallback_rules == ()


def test_a_built_in_rule_stays_guarded_in_a_copy_of_the_file() -> None:
    """C1: the shipped file in the working folder, with rules of the user's own behind it."""
    built_in = parse_rules((REPO / "rules.yaml").read_bytes(), "built-in")
    text = (REPO / "rules.yaml").read_text()
    copied = parse_rules(text.encode(), "r.yaml", built_in)
    assert (copied.policy("m").fallback_rules, copied.policy("m").rules) == (built_in.tools, ())
    more = text.replace("\ntools:\n", f"\ntools:\n  mine: {{{RULE}}}\n")
    policy = parse_rules(more.encode(), "r.yaml", built_in).policy("m")
    assert (policy.fallback_rules, [rule.tool for rule in policy.rules]) == (built_in.tools, ["mine"])


@pytest.mark.parametrize("text", ["tools:", "tools: {}", "tools: null"])
def test_an_empty_tools_section_turns_the_built_in_rules_off(text: str) -> None:
    policy = parsed(text, parsed(f"tools: {{a: {{{RULE}}}}}")).policy("m")
    assert policy.rules == policy.fallback_rules == ()


def test_a_rule_for_some_models_is_a_rule_for_them_alone() -> None:
    found = parsed(f"tools: {{a: {{models: ['Qwen*'], {RULE}}}, b: {{{RULE}}}}}", Rules())
    assert [rule.tool for rule in found.policy("Qwen3").rules] == ["a", "b"]
    assert [rule.tool for rule in found.policy("GLM").rules] == ["b"]


def test_only_a_users_file_without_models_has_names_told_by_the_table() -> None:
    theirs = parsed("tools: {}", Rules())
    assert theirs.policy("m").infer_from_legacy_table
    assert not parsed("models: []", Rules()).policy("m").infer_from_legacy_table
    assert not parsed("tools: {}").policy("m").infer_from_legacy_table


def test_a_setting_says_whether_rules_take_the_names_of_tools_exactly() -> None:
    assert dataclasses.replace(parsed(""), case_sensitive_tools=True).policy("m") == Policy(case_sensitive=True)


def test_a_deep_file_at_the_size_limit_is_refused_at_once() -> None:
    assert "nested over" in refused("[" * 200_000)
    assert "nested over" in refused("- " * 100_000)


def test_long_values_are_shown_short() -> None:
    assert len(refused(f"{'k' * 150}: 1")) < 200


def test_the_module_needs_no_clock_no_network_and_no_environment() -> None:
    tree = ast.parse(Path(rules.__file__).read_text())
    names = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not names & {"flask", "requests", "socket", "threading", "time", "os", "logging"}
