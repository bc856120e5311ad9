"""Earlier reasoning is sent in the field that the chat template reads, checked with the templates themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.healing.families import FAMILIES, Family, Opens, Prompt, Switch, family_of
from proxy.healing.heal import HealPlan, heal_request
from proxy.healing.reasoning import field_back, given_back, think, thoughts_of
from proxy.json import JsonObject
from proxy.notations.thoughts import ALL_MARKERS, Thoughts
from tests.support.chat_templates import render
from tests.support.rows import rows
from tests.unit.healing.test_families import TEMPLATES, known, needed

THOUGHT = "I must look at it first"
CALL = {"id": "callabcde", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string", "description": "p"}}},
    },
}
RESULT = {"role": "tool", "tool_call_id": "callabcde", "name": "read", "content": "text"}
DETAILS = [{"type": "reasoning.text", "text": THOUGHT}]
BROUGHT: dict[str, dict[str, Any]] = {
    "reasoning_content": {"reasoning_content": THOUGHT},
    "reasoning": {"reasoning": THOUGHT},
    "reasoning_details": {"reasoning_details": DETAILS},
}
# Templates that ignore the reasoning of earlier messages, or of messages with calls.
READ_NONE = {"apertus", "command-r7b", "deepseek-v3.1", "deepseek-r1", "deepseek-r1-distill", "apriel"}
# Templates that read it only if thinking is on.
ONLY_ON = {
    "deepseek": {"thinking": True},
    "reka": {"enable_thinking": True},
    "hy3": {"reasoning_effort": "high"},
}


def conversation(**said: Any) -> dict[str, Any]:
    answer = {"role": "assistant", "content": "", "tool_calls": [CALL], **said}
    return {"messages": [{"role": "user", "content": "Q"}, answer, RESULT], "tools": [TOOL]}


@needed
@pytest.mark.parametrize("field", BROUGHT)
@pytest.mark.parametrize("template", [name for name, family in TEMPLATES.items() if family not in READ_NONE])
def test_the_next_prompt_contains_the_reasoning_of_the_current_turn(template: str, field: str) -> None:
    family = known(TEMPLATES[template])
    body = conversation(**BROUGHT[field])
    body["chat_template_kwargs"] = ONLY_ON.get(family.name, {})
    made = given_back(body, family)
    prompt = render(template, dict(made))
    assert prompt.count(THOUGHT) == 1
    assert prompt[: prompt.index(THOUGHT)].rstrip().endswith(family.markers[0].opener.rstrip())


@needed
def test_text_with_reasoning_and_a_call_moves_if_the_template_raises() -> None:
    body = conversation(reasoning_content=THOUGHT, content="I look.")
    family = known("gpt-oss")
    healed = heal_request(given_back(body, family), HealPlan(on=frozenset(family.healings))).body
    prompt = render("openai-gpt-oss-120b", dict(healed))
    assert prompt.index("I look.") < prompt.index(THOUGHT) < prompt.index("functions.read")


@rows(__file__, "name,said")
def test_a_conversation_that_needs_no_change_is_the_same_object(name: str | None, said: dict[str, Any]) -> None:
    """C1."""
    body = conversation(**said)
    assert given_back(body, family_of("", name) if name else None) is body


@pytest.mark.parametrize(
    ("family", "field"), [(None, "reasoning_content"), ("gemma-4", "reasoning_content"), ("lfm2.5", "thinking")]
)
def test_reasoning_in_an_unknown_field_moves_to_the_familys_field(family: str | None, field: str) -> None:
    body = conversation(reasoning_details=DETAILS)
    made: Any = given_back(body, family_of("", family) if family else None)
    assert {key: value for key, value in made["messages"][1].items() if value == THOUGHT} == {field: THOUGHT}
    assert "reasoning_details" not in made["messages"][1]


@rows(__file__, "family,wanted,field")
def test_the_field_is_used_if_the_family_or_the_server_reads_it(
    family: str | None, wanted: bool, field: str
) -> None:
    """F74."""
    assert field_back(family_of("", family) if family else None, wanted=wanted) == field


def test_reasoning_and_text_are_sent_as_parts() -> None:
    made: Any = given_back(conversation(reasoning_content=THOUGHT, content="Hm."), known("mistral"))
    assert made["messages"][1]["content"] == [
        {"type": "thinking", "thinking": THOUGHT},
        {"type": "text", "text": "Hm."},
    ]


@pytest.mark.parametrize("family", [each for each in FAMILIES if each.markers], ids=lambda family: family.name)
def test_the_next_turn_begins_with_the_bytes_of_this_turn(family: Any) -> None:
    """C8. Reasoning that was already moved stays."""
    first = conversation(reasoning_content=THOUGHT, content="Hm.")
    longer = {**first, "messages": [*first["messages"], {"role": "assistant", "content": "Done.", "reasoning": "x"}]}
    made, long = given_back(first, family), given_back(longer, family)
    start = json.dumps(made["messages"])[:-1]
    assert json.dumps(long["messages"]).startswith(start)
    assert given_back(made, family) is made


SWITCH = Switch("enable_thinking", also=("thinking",))
FAMILY = Family("f", prompt=Prompt(on=Opens.YES, off=Opens.NO, unsaid=Opens.UNKNOWN), switch=SWITCH)
(MARKERS,) = FAMILY.markers
BEGUN, UNKNOWN = Thoughts((MARKERS,), MARKERS.opener), Thoughts((MARKERS,), "", unknown=True)


def kwargs(**said: Any) -> dict[str, Any]:
    return {"chat_template_kwargs": said}


@pytest.mark.parametrize(
    ("more", "thoughts"),
    [
        ({}, BEGUN),
        ({"tool_choice": "auto"}, BEGUN),
        ({"response_format": {"type": "text"}}, BEGUN),
        # A grammar of the server, or the last message, begins the reply.
        ({"tool_choice": "required"}, UNKNOWN),
        ({"tool_choice": {"type": "function"}}, UNKNOWN),
        ({"response_format": {"type": "json_object"}}, UNKNOWN),
        ({"guided_json": {}}, BEGUN),
        ({"guided_json": {"type": "object"}}, UNKNOWN),
        ({"structured_outputs": {"grammar": "g"}}, UNKNOWN),
        ({"continue_final_message": True}, UNKNOWN),
        ({"add_generation_prompt": False}, UNKNOWN),
    ],
)
def test_the_prompt_opens_reasoning_unless_something_else_begins_the_reply(
    more: dict[str, Any], thoughts: Thoughts
) -> None:
    assert thoughts_of({**kwargs(enable_thinking=True), **more}, FAMILY) == thoughts


BODY: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "stream": True}
OFF: JsonObject = {"chat_template_kwargs": {"enable_thinking": False}}


def without_messages(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in BODY}


@pytest.mark.parametrize("name", ["", "qwen3", "gpt-oss"])
def test_a_request_without_a_thinking_switch_is_the_same_object(name: str) -> None:
    """C1."""
    made = think(BODY, family_of("", name))
    assert made.body is BODY and made.audit == ()


@pytest.mark.parametrize("name", ["", "llama-3"])
def test_for_an_unknown_family_every_marker_counts_and_the_prompt_is_unknown(name: str) -> None:
    thoughts = think(BODY, family_of("", name)).thoughts
    assert (thoughts.markers, thoughts.begun, thoughts.unknown) == (ALL_MARKERS, "", True)


def test_whether_the_prompt_opens_reasoning_depends_on_the_translated_request() -> None:
    """The client sends `enable_thinking`; the template reads `thinking`."""
    family = family_of("", "deepseek")
    assert think({**BODY, "enable_thinking": True}, family).thoughts.begun == "<think>"
    assert think({**BODY, "enable_thinking": False}, family).thoughts.begun == ""


def test_a_suffix_of_an_unknown_model_uses_the_switch_of_the_rules() -> None:
    made = think(BODY, None, "enable_thinking", suffix="nothink")
    assert without_messages(made.body) == OFF
    made = think(BODY, None, "reasoning_effort", suffix="high")
    assert without_messages(made.body) == {"reasoning_effort": "high"}
    made = think(BODY, family_of("llama-3"), "reasoning_effort", suffix="high")
    assert without_messages(made.body) == {"reasoning_effort": "high"}
    assert think(BODY, None, "none", suffix="high").body is BODY
