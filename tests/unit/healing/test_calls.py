"""The calls of a history as a template can read them: their form, their arguments, their names (F36, F79, F80)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing import calls as steps
from tests.healing.shapes import call, calls, result, said, tool, user

Step = Callable[[JsonObject], JsonObject]
LISTS = tool(parameters={"type": "object", "properties": {"paths": {"type": "array"}, "path": {"type": "string"}}})


def healed(step: Step, *messages: dict[str, Any], tools: list[Any] | None = None) -> list[Any]:
    """What a healing makes of a conversation; of what it made it makes nothing else."""
    offered = [tool()] if tools is None else tools
    once = step({"messages": [*messages], "tools": offered})
    assert step(once) is once
    found = once["messages"]
    assert isinstance(found, list)
    return found


def healed_call(step: Step, given: dict[str, Any], tools: list[Any] | None = None) -> Any:
    (message,) = healed(step, calls(given), tools=tools)
    (found,) = message["tool_calls"]
    return found


def old(name: str = "read_file", **more: Any) -> dict[str, Any]:
    return said(None, function_call={"name": name, "arguments": "{}"}, **more)


def answer(text: str) -> dict[str, Any]:
    return {"role": "function", "name": "read_file", "content": text}


def test_calls_in_the_old_way_are_calls_of_today_with_their_results() -> None:
    found = healed(steps.modern_calls, user(), old(), answer("one"), old(), answer("two"))
    made = [each["tool_calls"][0] for each in found if each["role"] == "assistant"]
    assert [each["function"] for each in made] == [{"name": "read_file", "arguments": "{}"}] * 2
    assert not any("function_call" in each for each in found)
    answers = [(each["tool_call_id"], each["content"]) for each in found if each["role"] == "tool"]
    assert answers == [(made[0]["id"], "one"), (made[1]["id"], "two")]
    assert made[0]["id"] != made[1]["id"]


@pytest.mark.parametrize(
    "given",
    [
        calls(function_call={"name": "a"}),
        said(function_call=None),
        said(function_call={}),
        {**user(), "function_call": {"name": "a"}},
    ],
)
def test_what_is_no_call_in_the_old_way_is_left_alone(given: dict[str, Any]) -> None:
    assert healed(steps.modern_calls, given) == [given]


@pytest.mark.parametrize("none", [None, []])
def test_a_list_of_no_calls_is_left_out(none: Any) -> None:
    assert healed(steps.drop_empty_calls, said("a", tool_calls=none), calls()) == [said("a"), calls()]


def test_a_call_says_that_it_is_one_of_a_function() -> None:
    bare = {key: value for key, value in call().items() if key != "type"}
    assert healed_call(steps.type_calls, bare) == call()
    assert healed_call(steps.type_calls, call(type="custom")) == call(type="custom")
    assert healed_call(steps.type_calls, {"id": "a"}) == {"id": "a"}


ARGUMENTS: dict[str, tuple[Any, Any]] = {
    "an object": ({"path": "a"}, {"path": "a"}),
    "nothing": ("", {}),
    "null": (None, {}),
    "null as text": ("null", {}),
    "Python's marks": ("{'path': 'a', 'all': True}", {"path": "a", "all": True}),
    "encoded twice": (json.dumps('{"path": "a"}'), {"path": "a"}),
    "a comma too many": ('{"path": "a",}', {"path": "a"}),
    "markup behind": ('{"path": "a"}</tool_call>', {"path": "a"}),
    "a list": ('["a"]', {"arguments": ["a"]}),
    "a list as it is": (["a"], {"arguments": ["a"]}),
    "a number": (5, {"arguments": 5}),
    "a word": ("a word", {"arguments": "a word"}),
    "a string": ('"a"', {"arguments": "a"}),
    "cut off": ('{"path": "a', {"arguments": '{"path": "a'}),
}


@pytest.mark.parametrize(("given", "told"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_are_the_text_of_an_object_and_nothing_of_them_is_lost(given: Any, told: Any) -> None:
    for name in ("read_file", "a tool that is not offered"):
        found = healed_call(steps.read_call_arguments, call(name=name, arguments=given))
        assert json.loads(found["function"]["arguments"]) == told
        assert (found["id"], found["function"]["name"]) == (call()["id"], name)


@pytest.mark.parametrize("text", ["{}", '{"path":"a"}', '{ "path": "\\u00e4",\n "n": 1.0}'])
def test_the_text_of_an_object_stays_the_very_same(text: str) -> None:
    """C1."""
    body: JsonObject = {"messages": [calls(call(arguments=text))]}
    assert steps.read_call_arguments(body) is body


def test_what_was_cut_off_is_not_completed() -> None:
    """The model would read that it had said so."""
    found = healed_call(steps.read_call_arguments, call(arguments='{"paths": ["a", "b'), [LISTS])
    assert json.loads(found["function"]["arguments"]) == {"arguments": '{"paths": ["a", "b'}


@pytest.mark.parametrize("given", [{"id": "a"}, {"id": "a", "function": None}, {"id": "a", "function": "read"}])
def test_a_call_that_says_nothing_of_its_function_is_left_alone(given: dict[str, Any]) -> None:
    for step in (steps.read_call_arguments, steps.name_calls):
        assert healed_call(step, given) == given


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("functions.read_file:0", "read_file"),
        ("functions.read_file", "read_file"),
        ("read_file", "read_file"),
        ("other", "other"),
        ("", ""),
    ],
)
def test_a_call_has_the_name_of_the_tool_that_it_means(given: str, told: str) -> None:
    found = healed_call(steps.name_calls, call(name=given))
    assert found == call(name=told)


def test_without_tools_names_stay() -> None:
    for tools in ([], [7]):
        found = healed_call(steps.name_calls, call(name="functions.read_file:0"), tools)
        assert found["function"]["name"] == "functions.read_file:0"


def test_a_call_that_is_none_and_what_others_say_is_left_alone() -> None:
    odd: list[Any] = [{"role": "user", "tool_calls": [call(arguments=7)]}, {**calls(), "tool_calls": [7]}, result()]
    for step in (steps.type_calls, steps.read_call_arguments, steps.name_calls):
        body: JsonObject = {"messages": odd}
        assert step(body) is body
