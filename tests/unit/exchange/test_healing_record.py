"""What was healed in a request, as a capture has it, and what of it is something else now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject, dump_json, load_json
from proxy.exchange.healing_record import Healing, healing_differences, without_values
from proxy.healing.heal import HealPlan, heal_request
from proxy.healing.parameters import OfferedTools, Sampling

PLAN = HealPlan(sampling=Sampling(set={"temperature": 0.6}), tools=OfferedTools(drop=("web_*",)))
TOOLS: list[Any] = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("ls", "web_find")]
BROKEN = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a": '}}
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [BROKEN]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ],
    "tools": TOOLS,
}


def record(values: bool, plan: HealPlan = PLAN, learnt: tuple[str, ...] = (), body: JsonObject = BODY) -> Any:
    """As it stands in a capture."""
    told = Healing(body, plan, frozenset(learnt), heal_request(body, plan).repairs).as_record(values=values)
    return load_json(dump_json(told))


def changes(record: JsonObject, plan: HealPlan) -> dict[str, tuple[str, str]]:
    """What is something else by this plan."""
    return {each.what: (each.before, each.now) for each in healing_differences(record, plan)}


def test_without_values_there_is_nothing_of_the_conversation() -> None:
    told = record(values=False)
    assert told.keys() == {"done", "learnt"} and {"rule_tools", "rule_sampling"} < {*told["done"]}
    assert without_values(record(values=True)) == told
    untouched: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert record(values=True, plan=HealPlan(), body={**untouched}) == {"done": [], "learnt": []}


@pytest.mark.parametrize("values", [True, False])
def test_the_same_plan_changes_nothing(values: bool) -> None:
    assert changes(record(values), PLAN) == {}
    learning = replace(PLAN, on=frozenset({"strict_roles"}))
    assert changes(record(values, learning, ("strict_roles",)), PLAN) == {}, "what was learnt is known again"


@pytest.mark.parametrize("values", [True, False])
def test_a_healing_that_is_not_in_force_any_more_is_told(values: bool) -> None:
    told = record(values)
    healed = [id_ for id_ in told["done"] if id_.startswith("heal_")]
    now = HealPlan(off=frozenset({"all"}))
    found = changes(told, now)
    gone = {f"healing {id_}": ("healed", "") for id_ in (*healed, "rule_tools", "rule_sampling")}
    assert healed and gone.items() <= found.items()
    # The question, which no healing has changed, is no difference.
    assert values or found == gone
    assert not values or {"request, messages 1", "request, temperature"} < {*found}
    assert "request, messages 0" not in found


def test_with_values_another_outcome_of_the_same_healings_is_told() -> None:
    told = record(values=True)
    assert changes(told, replace(PLAN, sampling=Sampling(set={"temperature": 1}))) == {
        "request, temperature": ("0.6", "1")
    }
    told["healed"]["messages"][1]["content"] = "something else"
    assert {*changes(told, PLAN)} == {"request, messages 1"}


def test_a_healing_that_is_new_is_told() -> None:
    told = record(values=True, plan=replace(PLAN, sampling=Sampling()))
    assert changes(told, PLAN) == {
        "healing rule_sampling": ("", "healed"),
        "request, temperature": ("", "0.6"),
    }


@pytest.mark.parametrize("odd", [{}, {"done": 7, "learnt": "x"}, {"request": {}, "healed": 3}, {"request": []}])
def test_a_record_that_somebody_else_has_written_is_read_all_the_same(odd: JsonObject) -> None:
    assert changes(odd, HealPlan()) == {}
