"""A healing that is not asked, because nothing of what it needs is there, would have changed nothing."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from proxy.codec.json_text import Json, JsonObject
from proxy.healing.conversation import traits_of
from proxy.healing.heal import HEALINGS, Healing

TEXT: Any = {"type": "text", "text": "Hi"}
CALL: Any = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
OLD_CALL: JsonObject = {"name": "read", "arguments": "{}"}
MARKUP = 'So.\n<tool_call>{"name": "read", "arguments": {}}</tool_call>'
ROLES: tuple[Json, ...] = ("system", "developer", "user", "assistant", "tool", "function", "", None, 7, ["tool"])
CONTENTS: Any = (
    *("Hi", "", None, MARKUP, "<total_tokens>9 tokens left</total_tokens>", {"found": 1}, 7, 0.5, True, [], [TEXT]),
    *(["Hi"], [{"type": "input_text", "text": "Hi"}], [{"text": "Hi"}], [TEXT, TEXT]),
)
CALLS: Any = (
    *(None, [], [CALL], [CALL, CALL], [{"function": {"name": "read", "arguments": "{'path': 'a'}"}}]),
    *([{**CALL, "id": 7}], [{**CALL, "function": {"name": "functions.read:0", "arguments": {}}}], "call", [7]),
)
TOOLS: Any = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def message(rng: random.Random) -> JsonObject:
    """A message in which each thing may be missing."""
    made: JsonObject = {}
    for key, values in (("role", ROLES), ("content", CONTENTS)):
        if rng.random() < 0.9:
            made[key] = rng.choice(values)
    if rng.random() < 0.3:
        made["tool_calls"] = rng.choice(CALLS)
    if rng.random() < 0.3:
        made["tool_call_id"] = rng.choice(("call_1", "call_9", 7, None))
    if rng.random() < 0.1:
        made["function_call"] = rng.choice((OLD_CALL, None))
    return made


def bodies() -> list[JsonObject]:
    rng = random.Random(1)
    made: list[JsonObject] = [{}, {"messages": None}, {"messages": []}, {"messages": [7]}, {"messages": [{}, "Hi"]}]
    for _ in range(4000):
        messages: list[Json] = [message(rng) for _ in range(rng.randint(1, 4))]
        made.append({"messages": messages, "tools": TOOLS})
    return made


BODIES = [(body, traits_of(body)) for body in bodies()]


@pytest.mark.parametrize("healing", HEALINGS, ids=lambda healing: healing.id)
def test_where_nothing_of_what_it_needs_is_there_it_changes_nothing(healing: Healing) -> None:
    for body, traits in BODIES:
        if healing.needs.isdisjoint(traits):
            assert healing.apply(body) is body, json.dumps(body)


@pytest.mark.parametrize("healing", HEALINGS, ids=lambda healing: healing.id)
def test_its_example_has_what_it_needs(healing: Healing) -> None:
    before, _ = healing.example
    assert not healing.needs.isdisjoint(traits_of({healing.key: [*(before or ())]}))
