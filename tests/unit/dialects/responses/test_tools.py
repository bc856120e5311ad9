"""The tools of a Responses request as functions, their names, and the choice among them (C8)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from proxy.dialects.responses.tools import Called, Kind, joined_name
from tests.support.responses_ask import CUSTOM, FUNCTION, SCHEMA, SPACE, TOOL, ask, lost, refusal, sent

SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds.", "parameters": SCHEMA}
WEB = {"type": "web_search", "external_web_access": True}


def functions(*tools: Any, **fields: Any) -> list[dict[str, Any]]:
    found = sent(ask(tools=[*tools], **fields)).body["tools"]
    assert isinstance(found, list)
    return [each["function"] for each in found]


def choice(given: Any, *tools: Any) -> dict[str, Any]:
    body = sent(ask(tools=[*tools], tool_choice=given)).body
    return {name: body[name] for name in ("tools", "tool_choice") if name in body}


def test_a_function_goes_as_it_is() -> None:
    assert sent(ask(tools=[TOOL])).body["tools"] == [FUNCTION]
    given = {**TOOL, "description": "runs", "strict": False, "parameters": None}
    assert functions(given) == [
        {"name": "run", "description": "runs", "parameters": {"type": "object", "properties": {}}, "strict": False}
    ]


def test_a_custom_tool_is_a_function_of_one_string_and_its_grammar_is_told() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
    (made,) = functions({**CUSTOM, "format": grammar})
    assert made["name"] == "apply_patch"
    assert made["parameters"] == {
        "type": "object",
        "properties": {"input": {"type": "string"}},
        "required": ["input"],
        "additionalProperties": False,
    }
    assert made["description"].startswith("Patches.\n\n")
    assert made["description"].endswith("The text must match this grammar (lark):\nstart: /.+/")
    (plain,) = functions({"type": "custom", "name": "run", "format": {"type": "text"}})
    assert plain["description"] == "Write the whole text as the string `input`."


def test_the_functions_of_a_namespace_have_joined_names_and_come_back_under_their_own() -> None:
    translation = sent(ask(tools=[TOOL, SPACE, CUSTOM]))
    names = [each["function"]["name"] for each in translation.body["tools"]]
    assert names == ["run", "agents__close", "apply_patch"]
    assert translation.body["tools"][1]["function"]["description"] == "agents: For agents."
    assert [translation.tools.called(name) for name in (*names, "odd")] == [
        Called(Kind.FUNCTION, "run"),
        Called(Kind.FUNCTION, "close", "agents"),
        Called(Kind.CUSTOM, "apply_patch"),
        Called(Kind.FUNCTION, "odd"),
    ]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("a" * 60, "b" * 60), ("a.b", "c"), ("a" * 32, "b" * 31), ("é", "c")],
)
def test_a_joined_name_is_short_plain_and_its_own(namespace: str, name: str) -> None:
    found = joined_name(namespace, name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found)
    assert found == joined_name(namespace, name) != joined_name(namespace, f"{name}x")


@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
def test_a_function_with_a_joined_name_keeps_it(first: bool) -> None:
    plain = {**TOOL, "name": "agents__close"}
    tools = [plain, SPACE] if first else [SPACE, plain]
    translation = sent(ask(tools=tools))
    names = [each["function"]["name"] for each in translation.body["tools"]]
    assert len(set(names)) == 2
    assert translation.tools.called("agents__close") == Called(Kind.FUNCTION, "agents__close")
    (other,) = [name for name in names if name != "agents__close"]
    assert translation.tools.called(other) == Called(Kind.FUNCTION, "close", "agents")


@pytest.mark.parametrize(
    ("tools", "name", "namespace"),
    [
        ([SPACE, TOOL], "close", "agents"),
        ([SPACE, {**SPACE, "name": "files"}], "close", ""),
        ([SPACE, {**TOOL, "name": "close"}], "close", ""),
        ([SPACE], "open", ""),
    ],
)
def test_a_call_without_its_namespace_is_of_the_only_tool_of_that_name(tools: Any, name: str, namespace: str) -> None:
    """Codex answers "unsupported call" to a bare name."""
    called = sent(ask(tools=tools)).tools.called(name)
    assert (called.kind, called.name, called.namespace) == (Kind.FUNCTION, name, namespace)


def test_names_of_two_namespaces_that_join_to_one_are_told_apart() -> None:
    one = {**SPACE, "name": "a__b", "tools": [{**TOOL, "name": "c"}]}
    two = {**SPACE, "name": "a", "tools": [{**TOOL, "name": "b__c"}]}
    tools = sent(ask(tools=[one, two])).tools
    assert sorted(map(str, tools.by_name.values())) == sorted(
        map(str, (Called(Kind.FUNCTION, "c", "a__b"), Called(Kind.FUNCTION, "b__c", "a")))
    )


def test_a_tool_that_is_offered_twice_counts_once() -> None:
    translation = sent(ask(tools=[TOOL, {**TOOL, "description": "again"}]))
    assert translation.body["tools"] == [FUNCTION] and lost(translation) == {"tools[] offered twice": 1}


def test_a_search_that_the_client_runs_is_a_function() -> None:
    assert functions(SEARCH) == [{"name": "tool_search", "description": "Finds.", "parameters": SCHEMA}]
    assert sent(ask(tools=[SEARCH])).tools.called("tool_search").kind is Kind.SEARCH


HOSTED = [WEB, {"type": "tool_search"}, {"type": "file_search", "vector_store_ids": ["a"]}, {"type": "mcp"}]


@pytest.mark.parametrize("tool", HOSTED, ids=lambda tool: tool["type"])
def test_openais_own_tools_go_with_a_record_unless_the_rules_refuse_them(tool: Any) -> None:
    for options in ({}, {"server_tools": "drop"}):
        translation = sent(ask(tools=[TOOL, tool]), **options)
        assert translation.body["tools"] == [FUNCTION]
        assert lost(translation) == {f"tools[] of type '{tool['type']}'": 1}
    words = refusal(ask(tools=[TOOL, tool]), server_tools="refuse")
    assert words.startswith("tools.1: the tool of type") and "`server_tools: drop`" in words


@pytest.mark.parametrize("kind", ["apply_patch", "shell", "local_shell", "computer", "computer_use_preview"])
@pytest.mark.parametrize("rule", ["", "drop", "refuse"])
def test_tools_that_the_client_runs_by_a_hidden_schema_are_refused(kind: str, rule: str) -> None:
    """Dropped, the agent would be without its hands, and nobody knew."""
    words = refusal(ask(tools=[{"type": kind}]), server_tools=rule)
    assert words == (
        f"tools.0: the tool of type '{kind}': only OpenAI's models know its schema; "
        "offer a function or a custom tool for it"
    )


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_choice_in_a_word_goes_as_it_is(word: str) -> None:
    assert choice(word, TOOL) == {"tools": [FUNCTION], "tool_choice": word}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"type": "function", "name": "run"}, "run"),
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "function", "name": "close"}, "agents__close"),
        ({"type": "function", "name": "close", "namespace": "agents"}, "agents__close"),
        ({"type": "tool_search"}, "tool_search"),
    ],
)
def test_a_tool_can_be_chosen(given: Any, name: str) -> None:
    found = choice(given, TOOL, CUSTOM, SPACE, SEARCH)
    assert found["tool_choice"] == {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_of_allowed_tools_only_those_are_offered(mode: str) -> None:
    allowed = [{"type": "function", "name": "run"}, {"type": "web_search"}]
    translation = sent(
        ask(tools=[TOOL, CUSTOM, SPACE, WEB], tool_choice={"type": "allowed_tools", "mode": mode, "tools": allowed})
    )
    assert (translation.body["tools"], translation.body["tool_choice"]) == ([FUNCTION], mode)
    assert lost(translation) == {"tools[] of type 'web_search'": 1, "tool_choice.tools of type 'web_search'": 1}


def test_a_namespace_can_be_allowed() -> None:
    found = choice(
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "namespace", "name": "agents"}]}, TOOL, SPACE
    )
    assert [each["function"]["name"] for each in found["tools"]] == ["agents__close"]


@pytest.mark.parametrize("given", ["auto", "none", "required", {"type": "allowed_tools", "mode": "auto", "tools": []}])
@pytest.mark.parametrize("tools", [[], [WEB]], ids=["none", "hosted"])
def test_without_tools_the_choice_goes(given: Any, tools: list[Any]) -> None:
    """vLLM refuses a choice without tools; Codex compacts so."""
    translation = sent(ask(tools=tools, tool_choice=given, parallel_tool_calls=False))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & translation.body.keys()
    assert {"tool_choice", "parallel_tool_calls"} <= lost(translation).keys()


@pytest.mark.parametrize("kind", ["function", "custom", "web_search", "mcp"])
@pytest.mark.parametrize("tools", [[], None], ids=["empty", "none"])
def test_without_tools_a_choice_by_name_goes_too(kind: str, tools: Any) -> None:
    translation = sent(ask(tools=tools, tool_choice={"type": kind, "name": "run"}))
    assert not {"tools", "tool_choice"} & translation.body.keys()
    assert "tool_choice" in lost(translation)


@pytest.mark.parametrize(
    ("given", "tools", "words"),
    [
        ("any", [TOOL], "tool_choice: must be one of auto, none, required, or an object"),
        (7, [TOOL], "tool_choice: must be one of"),
        ({"type": "function", "name": "no"}, [TOOL], "tool_choice.name: 'no' is none of the tools"),
        ({"type": "function", "name": "run", "namespace": "x"}, [TOOL], "tool_choice.name: 'run' is none of the tools"),
        ({"type": "function", "name": "run"}, [WEB], "tool_choice: there are no tools; offer"),
        ({"type": "web_search_preview"}, [TOOL], "tool_choice: the tool of type 'web_search_preview' is not offered"),
        ({"type": "web_search_preview"}, [WEB], "tool_choice: the tool of type 'web_search_preview' is not offered"),
        ({"type": "allowed_tools", "mode": "x", "tools": []}, [TOOL], "tool_choice.mode: 'x' is none of"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, [TOOL], "tool_choice.tools: none of them is a tool"),
        ({}, [TOOL], "tool_choice.type: Field required"),
        ({}, [], "tool_choice.type: Field required"),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused(given: Any, tools: list[Any], words: str) -> None:
    assert refusal(ask(tools=tools, tool_choice=given)).startswith(words)


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ({"name": "a"}, "tools.0.type: Field required"),
        ({"type": "function"}, "tools.0.name: Field required"),
        ({**TOOL, "parameters": 7}, "tools.0.parameters: must be an object"),
        ({**SPACE, "tools": [WEB]}, "tools.0.tools.0.type: 'web_search' cannot stand in a namespace"),
        ({**CUSTOM, "format": {"type": "grammar"}}, "tools.0.format.syntax: Field required"),
        (7, "tools.0: must be an object"),
    ],
)
def test_what_is_no_tool_is_refused(tool: Any, words: str) -> None:
    assert refusal(ask(tools=[tool])).startswith(words)
