"""The tools of a Messages request, and its choice among them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.messages_ask import FUNCTION, TOOL, ask, lost, refusal, sent

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
DROP = {"server_tools": "drop"}


def choice(given: dict[str, Any], tools: Any = (TOOL,), **options: Any) -> dict[str, Any]:
    """What a choice becomes."""
    body = sent(ask(tools=[*tools], tool_choice=given), **options).body
    return {name: body[name] for name in ("tool_choice", "parallel_tool_calls") if name in body}


def test_a_tool_is_a_function_with_its_schema_as_it_is() -> None:
    schema = {"$schema": "x", "type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    tool = {"name": "read", "description": "reads", "input_schema": schema}
    assert sent(ask(tools=[tool])).body["tools"] == [
        {"type": "function", "function": {"name": "read", "description": "reads", "parameters": schema}}
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_strict_goes_only_if_it_is_said(strict: bool) -> None:
    body: dict[str, Any] = sent(ask(tools=[{**TOOL, "strict": strict}])).body
    (tool,) = body["tools"]
    assert tool["function"]["strict"] is strict
    assert sent(ask(tools=[{**TOOL, "strict": None, "type": None}])).body["tools"] == [FUNCTION]


@pytest.mark.parametrize("tools", [[], None])
def test_no_tools_are_none(tools: Any) -> None:
    """Servers refuse an empty list."""
    translation = sent(ask(tools=tools))
    assert "tools" not in translation.body
    assert lost(translation) == {}


def test_hints_of_many_tools_are_one_record_each() -> None:
    translation = sent(
        ask(tools=[{**TOOL, "name": f"t{index}", "defer_loading": True, "new": 1} for index in range(9)])
    )
    assert lost(translation) == {"tools[].defer_loading": 9, "tools[].new": 9}


@pytest.mark.parametrize(
    ("given", "out"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "run"}, {"tool_choice": {"type": "function", "function": {"name": "run"}}}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
        (
            {"type": "any", "disable_parallel_tool_use": True},
            {"tool_choice": "required", "parallel_tool_calls": False},
        ),
    ],
)
def test_each_choice(given: dict[str, Any], out: dict[str, Any]) -> None:
    assert choice(given) == out


def test_a_choice_without_tools() -> None:
    for given in ({"type": "auto", "disable_parallel_tool_use": True}, {"type": "none"}):
        assert choice(given, ()) == {}
        assert lost(sent(ask(tool_choice=given))) == {"tool_choice": 1}
    assert refusal(ask(tool_choice={"type": "any"})).startswith("tool_choice: any needs tools")


def test_a_tool_of_anthropics_own_is_refused_with_the_rule_to_write() -> None:
    message = refusal(ask(tools=[TOOL, SEARCH]))
    assert message.startswith("tools.1: the tool 'web_search' of type 'web_search_20250305' works only on")
    assert "`server_tools: drop` in the model's entry of rules.yaml" in message


def test_a_tool_of_anthropics_own_goes_if_the_rules_say_so() -> None:
    translation = sent(ask(tools=[SEARCH, TOOL], tool_choice={"type": "any"}), **DROP)
    assert translation.body["tools"] == [FUNCTION]
    assert translation.body["tool_choice"] == "required"
    assert lost(translation) == {"tools[] of type 'web_search_20250305'": 1}


@pytest.mark.parametrize("kind", ["auto", "any", "none"])
def test_with_the_last_tool_the_choice_goes(kind: str) -> None:
    translation = sent(ask(tools=[SEARCH], tool_choice={"type": kind}), **DROP)
    assert {"tools", "tool_choice", "parallel_tool_calls"} & translation.body.keys() == set()
    assert lost(translation)["tool_choice"] == 1


def test_a_choice_of_a_tool_that_went_is_refused() -> None:
    body = ask(tools=[SEARCH, TOOL], tool_choice={"type": "tool", "name": "web_search"})
    assert refusal(body, **DROP).startswith("tool_choice.name: the rules leave the tool 'web_search' out")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tools": {}}, "tools: must be a list"),
        ({"tools": ["run"]}, "tools.0: must be an object"),
        ({"tools": [{**TOOL, "name": ""}]}, "tools.0.name: may not be empty"),
        ({"tools": [TOOL, {"name": "a"}]}, "tools.1.input_schema: Field required"),
        ({"tools": [{**TOOL, "input_schema": "x"}]}, "tools.0.input_schema: must be an object"),
        ({"tools": [{**TOOL, "description": 1}]}, "tools.0.description: must be a string"),
        ({"tools": [{**TOOL, "strict": "yes"}]}, "tools.0.strict: must be true or false"),
        ({"tools": [{**TOOL, "type": 7}]}, "tools.0.type: must be a string"),
        ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice: must be an object"),
        ({"tools": [TOOL], "tool_choice": {}}, "tool_choice.type: Field required"),
        ({"tools": [TOOL], "tool_choice": {"type": "required"}}, "tool_choice.type: 'required' is none of auto, any"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name: Field required"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "b"}}, "tool_choice.name: 'b' is none of the tools"),
        ({"tool_choice": {"type": "tool", "name": "b"}}, "tool_choice.name: 'b' is none of the tools"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "any", "disable_parallel_tool_use": 1}},
            "tool_choice.disable_parallel_tool_use: must be true or false",
        ),
    ],
)
def test_what_is_no_tool_or_choice(fields: dict[str, Any], words: str) -> None:
    assert refusal(ask(**fields)).startswith(words)


def test_a_long_type_is_not_repeated() -> None:
    refusal(ask(tools=[{"type": "x" * 5000, "name": "y" * 5000}]))
