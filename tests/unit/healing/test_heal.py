"""Which healings are in force, and what is told of what they made of a request."""

from __future__ import annotations

from typing import Any

from proxy.healing.heal import ALL, HEALINGS, NO_HEALING, REPEATS, HealPlan, Level, heal, heal_request
from proxy.healing.parameters import OfferedTools, Sampling

ALWAYS = {healing.id for healing in HEALINGS if healing.level is Level.ALWAYS} | {REPEATS}
LATE: Any = [
    {"role": "user", "content": "a"},
    {"role": "developer", "content": "b"},
    {"role": "user", "content": "c"},
]
TOOL: Any = {"type": "function", "function": {"name": "web_search", "parameters": {"type": "object"}}}


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
