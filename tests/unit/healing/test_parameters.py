"""Changes that rules make to requests: parameters (F59 to F61, F85) and offered tools."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.config.rules import Rules, entry_with, parse_rules
from proxy.healing.families import family_of
from proxy.healing.heal import ALL, HealPlan, heal_request
from proxy.healing.parameters import KEPT, OfferedTools, Sampling, cut
from proxy.json import JsonObject
from tests.healing.shapes import tool, user
from tests.support.rows import rows

MODEL = """
models:
  - match: "m"
    server: vllm
    thinking: enable_thinking
    formats: {off: [json]}
    heal: {off: [all]}
    sampling: {set: {top_p: 0.5}, default: {temperature: 1, store: false}, strip: [seed], at_most: {max_tokens: 100}}
    tools: {drop: ["web_*", "b"], describe: 12}
"""


def rules(text: str = MODEL) -> Rules:
    return parse_rules(text.encode(), "r.yaml", Rules())


def sent(**fields: Any) -> dict[str, Any]:
    return dict(heal_request(fields, rules().heal_plan("m")).body)


@rows(__file__, "given,changed")
def test_parameters_are_set_stripped_limited_and_defaulted(given: dict[str, Any], changed: dict[str, Any]) -> None:
    assert sent(model="m", **given) == {"model": "m", **changed}


def test_the_messages_stay_last() -> None:
    """C8."""
    assert [*sent(model="m", messages=[user()])][-1] == "messages"


def test_a_request_that_follows_the_rules_is_the_same_object() -> None:
    """C1."""
    body: JsonObject = {"model": "m", "top_p": 0.5, "temperature": 0, "store": True, "max_tokens": 7}
    healed = heal_request(body, rules().heal_plan("m"))
    assert healed.body is body and healed.repairs == ()


def test_a_stripped_field_gets_the_default_of_the_rules() -> None:
    plan = rules('models: [{match: "*", sampling: {strip: [top_k], default: {top_k: 1}}}]').heal_plan("x")
    assert heal_request({"top_k": 9}, plan).body == {"top_k": 1}


def test_replacing_one_field_by_another_is_a_change() -> None:
    plan = rules('models: [{match: "*", sampling: {strip: [a], default: {b: 1}}}]').heal_plan("x")
    assert heal_request({"a": 1}, plan).body == {"b": 1}


def test_tools_are_dropped_and_descriptions_shortened() -> None:
    offered = [tool("web_search"), tool("read"), tool("b")]
    (kept,) = sent(tools=offered, tool_choice="auto")["tools"]
    assert kept["function"]["name"] == "read"
    assert kept["function"]["description"] == "Reads a…"
    assert kept["function"]["parameters"]["properties"]["path"]["description"] == "Where the…"
    assert kept["function"]["parameters"]["required"] == ["path"]


def test_fields_about_tools_are_removed_with_the_last_tool() -> None:
    body = sent(tools=[tool("b")], tool_choice="auto", parallel_tool_calls=False)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_a_forced_tool_is_not_dropped() -> None:
    choice = {"type": "function", "function": {"name": "b"}}
    body = sent(tools=[tool("b"), tool("web_x")], tool_choice=choice)
    assert [each["function"]["name"] for each in body["tools"]] == ["b"] and body["tool_choice"] == choice


@pytest.mark.parametrize("text,short", [("a b", "a b"), ("a" * 12, "a" * 12), ("a" * 13, "a" * 11 + "…")])
def test_a_text_is_cut_between_words(text: str, short: str) -> None:
    assert cut(text, 12) == short
    assert cut("one two three", 12) == "one two…"


def test_essential_fields_cannot_be_changed() -> None:
    assert {"messages", "model", "tools", "stream"} <= KEPT


def test_an_entry_extends_the_healings_of_the_family() -> None:
    text = """
models: [{match: "big-*", heal: {on: [pictures], off: [alternate]}}, {match: odd, family: granite-3}]
"""
    read = rules(text)
    assert read.heal_plan("Kimi-K2").on == {"kimi_ids"}
    assert read.heal_plan("odd").on == {"text_calls"} and read.heal_plan("x").on == set()
    assert read.heal_plan("big-KIMI-K2") == HealPlan(
        on=frozenset(("kimi_ids", "pictures")), off=frozenset(("alternate",))
    )
    assert read.heal_plan("x", family_of("gemma-4")).on == {"call_text"}


@pytest.mark.parametrize("name", ["m", "a[b]*?", 'with "quotes" and \u00e9'])
def test_a_stored_lesson_keeps_all_settings_of_the_entry(name: str) -> None:
    before = rules(MODEL.replace('"m"', '"*"'))
    line = entry_with(before.entry(name), name, ["one_call"])
    after = rules(f"models:\n{line}\n")
    assert after.entry(name).match != "*"
    assert after.profile(name, "") == before.profile(name, "") and after.policy(name) == before.policy(name)
    plan, other = after.heal_plan(name), before.heal_plan(name)
    assert plan == other.learnt(["one_call"]) and plan.off == {ALL}
    assert after.entry("another").match == "*"


def test_repair_records_do_not_contain_the_conversation() -> None:
    plan = HealPlan(
        off=frozenset((ALL,)),
        sampling=Sampling(set={"temperature": 0.5}, strip=("seed",)),
        tools=OfferedTools(drop=("web_*",)),
    )
    body: Any = {"messages": [user()], "tools": [tool("web_search")], "temperature": 1, "seed": 7}
    healed = heal_request(body, plan)
    assert healed.body == {"messages": [user()], "temperature": 0.5}
    assert [(repair.id, repair.before, repair.after) for repair in healed.repairs] == [
        ("rule_request", '{"seed": 7, "temperature": 1, "tools": 1}', '{"temperature": 0.5, "tools": 0}'),
    ]
