"""The healings of a request (F36, F48 to F50, F79 to F84): the effect of each, and rules for all."""

from __future__ import annotations

import cProfile
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.healing.families import FAMILIES
from proxy.healing.heal import ALL, HEALINGS, IDS, Healing, HealPlan, heal, heal_request
from proxy.json import JsonObject
from tests.healing.shapes import HEALTHY, SHAPES, bodies, call, calls, result, said, system, tool, user
from tests.support.conversations import CONVERSATIONS
from tests.support.rows import rows

READ: JsonObject = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "properties": {}}},
}
# These healings change every conversation of a model that needs them.
NOT_FOR_ALL = {"kimi_ids", "reasoning_back", "text_calls", "no_system", "call_text", "tool_descriptions"}
PLANS = [HealPlan(), *(HealPlan(on=frozenset(family.healings)) for family in FAMILIES), HealPlan(on=frozenset(IDS))]


def body_of(healing: Healing, items: list[JsonObject] | None) -> JsonObject:
    return {"messages": [user()], "tools": [READ], healing.key: None if items is None else [*items]}


@pytest.mark.parametrize("healing", HEALINGS, ids=lambda healing: healing.id)
def test_a_healing_does_what_its_example_says(healing: Healing) -> None:
    before, after = healing.example
    body = body_of(healing, before)
    healed = heal(body, {healing.id})
    assert healed.body == body_of(healing, after)
    (repair,) = healed.repairs
    assert (repair.id, repair.why) == (f"heal_{healing.id}", healing.why)
    assert repair.before != repair.after
    others = heal(body, {*IDS} - {healing.id})
    assert others.body[healing.key] != after


def test_default_healings_and_those_switched_on_or_off_are_in_force() -> None:
    always = {healing.id for healing in HEALINGS if healing.always}
    always.add("repeated_calls")
    assert HealPlan().ids == always
    assert HealPlan(frozenset({"one_call"}), frozenset({"developer"})).ids == always - {"developer"} | {"one_call"}
    assert HealPlan(frozenset({"one_call"}), frozenset({"one_call"})).ids == always
    assert HealPlan(frozenset({"one_call"}), frozenset({ALL})).ids == set()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(messages=CONVERSATIONS, plan=st.sampled_from(PLANS))
def test_healing_twice_changes_nothing_more(messages: list[dict[str, Any]], plan: HealPlan) -> None:
    once = heal_request({"tools": [READ], "messages": [*messages]}, plan).body
    twice = heal_request(once, plan)
    assert twice.body == once
    assert twice.repairs == ()


@pytest.mark.slow
@settings(max_examples=400, deadline=None, derandomize=True)
@given(messages=CONVERSATIONS, plan=st.sampled_from(PLANS))
def test_the_next_turn_begins_with_this_turn(messages: list[dict[str, Any]], plan: HealPlan) -> None:
    """C8: the messages sent before an answer are the beginning of those sent after it."""
    whole = healed_messages(messages, plan)
    for index, message in enumerate(messages):
        if message["role"] == "assistant" and index:
            asked = healed_messages(messages[:index], plan)
            assert whole[: len(asked)] == asked


def healed_messages(messages: list[dict[str, Any]], plan: HealPlan) -> list[Any]:
    body = heal_request({"tools": [READ], "messages": [*messages]}, plan).body
    found = body["messages"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("ids", [HealPlan().ids, {*IDS} - NOT_FOR_ALL], ids=["always", "all"])
def test_a_healthy_conversation_is_the_same_object(name: str, ids: set[str]) -> None:
    """C1."""
    body: JsonObject = {"model": "m", "tools": [tool()], "messages": [*HEALTHY[name]]}
    assert heal(body, ids).body is body


@pytest.mark.parametrize("shape,body", [*bodies()], ids=[name for name, _ in bodies()])
def test_no_text_of_a_conversation_is_lost(shape: str, body: dict[str, Any]) -> None:
    """Text of the user, the model and the tools is kept, whatever the template requires."""
    for plan in PLANS:
        healed = json.dumps(heal_request(body, plan).body["messages"])
        for message in body["messages"]:
            for mark in _markers(message):
                assert mark in healed, (shape, plan.on)


def _markers(message: dict[str, Any]) -> list[str]:
    text = json.dumps({key: message.get(key) for key in ("content", "tool_calls", "function_call")})
    return [word for word in text.replace("\\", " ").replace('"', " ").replace("'", " ").split() if word[:2] == "mk"]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(messages=CONVERSATIONS)
def test_after_healing_every_call_is_followed_by_its_result(messages: list[dict[str, Any]]) -> None:
    """F79 to F81: arguments are objects, ids are unique, and results follow their calls in order."""
    healed = healed_messages(messages, HealPlan())
    seen: set[str] = set()
    waiting: list[str] = []
    for message in healed:
        assert message["role"] not in ("developer", "function")
        assert isinstance(message["content"], str | list) or message.get("tool_calls")
        if message["role"] == "tool":
            assert waiting and message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        calls = message.get("tool_calls", [])
        waiting = [call["id"] for call in calls]
        assert not seen & {*waiting} and len({*waiting}) == len(waiting)
        seen |= {*waiting}
        assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    assert waiting == []


@rows(__file__, "body")
def test_malformed_conversations_raise_nothing(body: JsonObject) -> None:
    once = heal(body, IDS).body
    assert heal(once, IDS).body == once


def steps(messages: list[JsonObject]) -> int:
    """Return the number of function calls, including built-in functions, that all healings make."""
    profile = cProfile.Profile()
    profile.enable()
    heal({"tools": [READ], "messages": [*messages]}, IDS)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


SAME_ID = [call(number, id="same") for number in range(800)]
LONG: dict[str, Callable[[int], list[JsonObject]]] = {
    "every shape": lambda size: [message for shape in SHAPES.values() for message in shape * (size // 100)],
    "calls of one id": lambda size: [user(), calls(*SAME_ID[:size]), *([result(tool_call_id="same")] * size)],
    "results of none": lambda size: [user(), calls(), *([result(tool_call_id="none")] * size)],
    "user, user": lambda size: [user()] * size,
    "systems": lambda size: [system()] * size,
    "late systems": lambda size: [user(), calls(), result(), *([system()] * size)],
    "answers": lambda size: [said()] * size,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_twice_as_many_messages_take_twice_the_steps(name: str) -> None:
    """C7."""
    assert steps(LONG[name](800)) < 2.5 * steps(LONG[name](400))


@pytest.mark.parametrize("place", ["additionalProperties", "propertyNames", "contains", "items", "not", "if", "then"])
def test_every_reference_is_replaced_by_its_definition(place: str) -> None:
    """F84: the definitions are removed, so every use must be replaced wherever it is."""
    inside: JsonObject = {"$ref": "#/$defs/place"}
    path: JsonObject = {place: inside, "anyOf": [inside], "patternProperties": {"^x": inside}}
    definitions: JsonObject = {"place": {"type": ["string", "null"]}}
    referring: JsonObject = {"type": "object", "properties": {"path": path}, "$defs": definitions}
    healed = heal({"messages": [user()], "tools": [tool(parameters=referring)]}, {"plain_schemas"}).body["tools"]
    string: JsonObject = {"type": "string"}
    plain: JsonObject = {place: string, "anyOf": [string], "patternProperties": {"^x": string}}
    assert healed == [tool(parameters={"type": "object", "properties": {"path": plain}})]
