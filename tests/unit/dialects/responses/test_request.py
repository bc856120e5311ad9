"""Responses requests to chat completions: what is carried, what goes with a record, and what is refused (F94)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.dialects.model_options import ModelOptions
from proxy.dialects.responses.request import translate_count
from tests.support.responses_ask import (
    CUSTOM,
    FUNCTION,
    MODEL,
    SCHEMA,
    TOOL,
    ask,
    assistant,
    call,
    lost,
    output,
    refusal,
    sent,
    user,
)
from tests.support.translations import sources_of

FORM = {"type": "json_schema", "name": "out", "schema": SCHEMA, "strict": True, "description": "d"}


FORM_OUT = {"type": "json_schema", "json_schema": {key: value for key, value in FORM.items() if key != "type"}}


EFFORT = {"thinking": "reasoning_effort"}


CARRIED: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {"model": MODEL, "stream": "absent", "max_tokens": "absent"}, {}),
    ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, {}),
    ({"stream": False}, {"stream": False, "stream_options": "absent"}, {}),
    ({"max_output_tokens": 7}, {"max_tokens": 7}, {}),
    ({"temperature": 0.5, "top_p": 0.9, "user": "me"}, {"temperature": 0.5, "top_p": 0.9, "user": "me"}, {}),
    ({"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [FUNCTION], "parallel_tool_calls": False}, {}),
    ({"reasoning": {"effort": "minimal"}}, {"reasoning_effort": "low"}, EFFORT),
    ({"reasoning": {"effort": "xhigh"}}, {"reasoning_effort": "high"}, EFFORT),
    ({"reasoning": {"effort": "none"}}, {"chat_template_kwargs": {"thinking": False}}, {"thinking": "thinking"}),
    ({"reasoning": {"effort": "low"}}, {"chat_template_kwargs": {"thinking": True}}, {"thinking": "thinking"}),
    ({"text": {"verbosity": "low"}}, {"verbosity": "low", "response_format": "absent"}, {}),
    ({"text": {"format": {"type": "text"}}}, {"response_format": "absent"}, {}),
    ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}, {}),
    ({"text": {"format": FORM}}, {"response_format": FORM_OUT}, {"server_kind": "vllm"}),
    ({"text": {"format": FORM}, "tools": [TOOL]}, {"response_format": FORM_OUT}, {"server_kind": "llamacpp"}),
    ({"metadata": {"a": "b"}, "prompt_cache_key": "k", "truncation": "disabled", "store": False}, {}, {}),
    ({"background": False, "previous_response_id": None, "conversation": None}, {}, {}),
]


@pytest.mark.parametrize(("given", "wanted", "options"), CARRIED, ids=lambda value: json.dumps(value)[:40])
def test_a_field_of_the_body_that_is_carried_leaves_no_record(given: Any, wanted: Any, options: Any) -> None:
    translation = sent(ask(**given), **options)
    assert {name: translation.body.get(name, "absent") for name in wanted} == wanted
    assert lost(translation) == {}


@pytest.mark.parametrize(
    ("given", "options", "kind"),
    [
        ({"store": True}, {}, "store"),
        ({"truncation": "auto"}, {}, "truncation"),
        ({"reasoning": {"effort": "low"}}, {}, "reasoning.effort"),
        ({"text": {"format": FORM}, "tools": [TOOL]}, {"server_kind": "vllm"}, "text.format"),
        ({"text": {"odd": 1}}, {}, "text.odd"),
        ({"odd": 1}, {}, "odd"),
    ],
)
def test_what_is_dropped_only_there_has_a_record(given: Any, options: Any, kind: str) -> None:
    assert lost(sent(ask(**given), **options)) == {kind: 1}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id: this server keeps no responses; configure"),
        ({"conversation": "conv_1"}, "conversation: this server keeps no conversations"),
        ({"prompt": {"id": "p"}}, "prompt: this server keeps no prompts"),
        ({"background": True}, "background: this server makes no responses in the background; send"),
        ({"max_output_tokens": 0}, "max_output_tokens: must be greater"),
        (
            {"text": {"format": {"type": "grammar", "grammar": "a"}}},
            "text.format.type: 'grammar' is not supported",
        ),
        ({"reasoning": {"effort": "x"}}, "reasoning.effort: 'x' is none of"),
        ({"text": {"verbosity": "x"}}, "text.verbosity: 'x' is none of"),
        ({"text": {"format": {"type": "x"}}}, "text.format.type: 'x' is none of"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format.name: Field required"),
        ({"model": ""}, "model: may not be empty"),
        ({"stream": "yes"}, "stream: must be true or false"),
    ],
)
def test_what_cannot_be_carried_is_refused_with_its_place(given: Any, words: str) -> None:
    assert refusal(ask(**given)).startswith(words)


def test_the_count_has_only_what_the_prompt_is_made_of() -> None:
    body = ask(tools=[TOOL], stream=True, max_output_tokens=3, reasoning={"effort": "low"}, instructions="a")
    counted = translate_count(body, ModelOptions(model=MODEL, thinking="thinking")).body
    assert [*counted] == ["model", "tools", "chat_template_kwargs", "messages"]


def test_an_assistants_answer_at_the_end_is_sent_as_it_is() -> None:
    assert sent(ask(user("hi"), assistant("a"))).body["messages"][-1] == {"role": "assistant", "content": "a"}


def test_the_messages_come_last_and_hold_what_was_said() -> None:
    """C8: the next turn begins with the bytes of this one."""
    first = ask(user("a"), instructions="rules", tools=[TOOL], max_output_tokens=9)
    body = sent(first).body
    assert [*body][-1] == "messages"
    longer = sent({**first, "input": [*first["input"], assistant("b"), user("c")]}).body
    assert longer["messages"][: len(body["messages"])] == body["messages"]


def test_calls_may_be_copied_from_all_outputs_and_user_messages() -> None:
    """C3, F89."""
    before = [user("a"), call("c1"), output("old", "c1"), assistant("so"), user("b")]
    found = sent(ask(*before, call("c2"), output("new", "c2"), instructions="rules"))
    assert sources_of(found) == ("a", "old", "b", "new")


@pytest.mark.parametrize(
    ("server", "choice", "dropped"),
    [("vllm", "auto", {"text.format": 1}), ("vllm", "none", {}), ("sglang", "auto", {}), ("", "auto", {})],
)
def test_vllm_calls_no_tool_beside_a_form_so_that_the_form_goes(
    server: str, choice: str, dropped: dict[str, int]
) -> None:
    found = sent(ask(tools=[TOOL], tool_choice=choice, text={"format": {"type": "json_object"}}), server_kind=server)
    assert lost(found) == dropped and ("response_format" in found.body) is not dropped.get("text.format", False)


def test_a_forced_tool_with_a_grammar_is_called_as_any_other() -> None:
    """Its grammar is in its description."""
    grammar = {**CUSTOM, "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}}
    found = sent(ask(tools=[grammar], tool_choice={"type": "custom", "name": "apply_patch"}), server_kind="vllm")
    assert found.body["tool_choice"] == {"type": "function", "function": {"name": "apply_patch"}}
    assert "start: /a/" in str(found.body["tools"]) and "structured_outputs" not in found.body


@pytest.mark.parametrize(
    ("text", "wants"),
    [
        ({"format": {"type": "json_object"}}, True),
        ({"format": FORM}, True),
        ({"format": {"type": "text"}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_who_asks_for_a_form_wants_json(text: Any, wants: bool) -> None:
    assert sent(ask(text=text)).json_reply is wants
