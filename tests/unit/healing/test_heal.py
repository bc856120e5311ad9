"""Which healings are in force, and what is told of what they made of a request."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.healing.heal import ALL, HEALINGS, IDS, NO_HEALING, REPEATS, HealPlan, Level, heal, heal_request, in_force
from proxy.healing.parameters import OfferedTools, Sampling

ALWAYS = {healing.id for healing in HEALINGS if healing.level is Level.ALWAYS} | {REPEATS}
LATE: Any = [
    {"role": "user", "content": "a"},
    {"role": "developer", "content": "b"},
    {"role": "user", "content": "c"},
]
TOOL: Any = {"type": "function", "function": {"name": "web_search", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("on", "off", "ids"),
    [
        ((), (), ALWAYS),
        (("no_system",), (), ALWAYS | {"no_system"}),
        (("no_system",), ("no_system", REPEATS), ALWAYS - {REPEATS}),
        (IDS, (ALL,), set()),
    ],
)
def test_what_is_off_wins_over_what_is_on(on: tuple[str, ...], off: tuple[str, ...], ids: set[str]) -> None:
    assert in_force(on, off) == HealPlan(frozenset(on), frozenset(off)).ids == ids
    assert "no_system" not in ALWAYS


def test_what_a_refusal_teaches_is_on_unless_it_is_off() -> None:
    plan = HealPlan(off=frozenset(("late_system",)))
    assert plan.learnt(()) is plan
    assert plan.learnt(("no_system", "late_system")).ids == plan.ids | {"no_system"}


def test_a_body_in_which_nothing_is_healed_stays_the_very_same() -> None:
    body: Any = {"messages": LATE, "temperature": 1}
    for healed in (heal_request(body, NO_HEALING), heal(body, ()), heal({**body}, ("mistral_ids",))):
        assert healed.repairs == () and not healed.changed
    assert heal_request(body, NO_HEALING).body is body


def test_each_healing_works_on_what_the_one_before_has_made() -> None:
    healed = heal({"messages": LATE}, {"developer", "late_system"})
    assert [repair.id for repair in healed.repairs] == ["heal_developer", "heal_late_system"]
    assert healed.changed
    roles = [message["role"] for message in healed.body["messages"]]  # type: ignore[union-attr, call-overload, index]
    assert roles == ["user", "user", "user"]
    assert LATE[1]["role"] == "developer", "what the client sent is not changed"


def test_what_the_rules_change_is_told_without_the_conversation() -> None:
    plan = HealPlan(
        off=frozenset((ALL,)),
        sampling=Sampling(set={"temperature": 0.5}, strip=("seed",)),
        tools=OfferedTools(drop=("web_*",)),
    )
    body: Any = {"messages": LATE, "tools": [TOOL], "temperature": 1, "seed": 7}
    healed = heal_request(body, plan)
    assert healed.body == {"messages": LATE, "temperature": 0.5}
    assert [(repair.id, repair.before, repair.after) for repair in healed.repairs] == [
        ("rule_tools", '{"tools": 1}', '{"tools": 0}'),
        ("rule_sampling", '{"seed": 7, "temperature": 1, "tools": 0}', '{"temperature": 0.5, "tools": 0}'),
    ]
