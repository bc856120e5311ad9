"""What is recorded of the changes that rules make to a request."""

from __future__ import annotations

from typing import Any

from proxy.healing.heal import ALL, HealPlan, heal_request
from proxy.healing.parameters import OfferedTools, Sampling

TALK: Any = [{"role": "user", "content": "a"}]
TOOL: Any = {"type": "function", "function": {"name": "web_search", "parameters": {"type": "object"}}}


def test_what_the_rules_change_is_told_without_the_conversation() -> None:
    plan = HealPlan(
        off=frozenset((ALL,)),
        sampling=Sampling(set={"temperature": 0.5}, strip=("seed",)),
        tools=OfferedTools(drop=("web_*",)),
    )
    body: Any = {"messages": TALK, "tools": [TOOL], "temperature": 1, "seed": 7}
    healed = heal_request(body, plan)
    assert healed.body == {"messages": TALK, "temperature": 0.5}
    assert [(repair.id, repair.before, repair.after) for repair in healed.repairs] == [
        ("rule_tools", '{"tools": 1}', '{"tools": 0}'),
        ("rule_sampling", '{"seed": 7, "temperature": 1, "tools": 0}', '{"temperature": 0.5, "tools": 0}'),
    ]
