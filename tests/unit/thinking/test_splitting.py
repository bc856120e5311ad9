"""How the thoughts of a reply are told from its text, by family and request."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.healing.families import Efforts, Family, Opens, Prompt, Switch
from proxy.healing.reasoning import is_on, thoughts_of
from proxy.notations.thoughts import ALL_MARKERS, Thoughts

SWITCH = Switch("enable_thinking", also=("thinking",))
FAMILY = Family("f", ("*",), prompt=Prompt(on=Opens.YES, off=Opens.NO, unsaid=Opens.UNKNOWN), switch=SWITCH)
EFFORTS = Family("e", ("*",), efforts=Efforts("reasoning_effort", {"none": "minimal"}))
(MARKERS,) = FAMILY.markers
BEGUN, UNKNOWN = Thoughts((MARKERS,), MARKERS.opener), Thoughts((MARKERS,), "", unknown=True)


def kwargs(**said: Any) -> dict[str, Any]:
    return {"chat_template_kwargs": said}


@pytest.mark.parametrize(
    ("body", "on"),
    [
        (kwargs(enable_thinking=True), True),
        (kwargs(enable_thinking=False), False),
        (kwargs(thinking=False), False),
        (kwargs(enable_thinking=True, thinking=False), True),
        (kwargs(other=1), None),
        ({}, None),
    ],
)
def test_the_switch_of_the_family_is_read(body: dict[str, Any], on: bool | None) -> None:
    assert is_on(body, FAMILY) is on


@pytest.mark.parametrize(
    ("body", "on"),
    [
        ({"reasoning_effort": "high"}, True),
        ({"reasoning_effort": "minimal"}, False),
        (kwargs(reasoning_effort="low"), True),
    ],
)
def test_so_are_its_words_for_how_much(body: dict[str, Any], on: bool) -> None:
    assert is_on(body, EFFORTS) is on
    assert is_on({}, EFFORTS) is None


@pytest.mark.parametrize(
    ("more", "thoughts"),
    [
        ({}, BEGUN),
        ({"tool_choice": "auto"}, BEGUN),
        ({"response_format": {"type": "text"}}, BEGUN),
        # What begins the reply is the server's grammar, or the last message.
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
def test_a_thought_is_open_where_the_prompt_opens_it_and_nothing_else_begins_the_reply(
    more: dict[str, Any], thoughts: Thoughts
) -> None:
    assert thoughts_of({**kwargs(enable_thinking=True), **more}, FAMILY) == thoughts


def test_without_a_word_of_it_the_family_says() -> None:
    assert thoughts_of({}, FAMILY) == UNKNOWN
    assert thoughts_of(kwargs(enable_thinking=False), FAMILY) == Thoughts((MARKERS,), "")


def test_of_no_known_family_nothing_is_known() -> None:
    assert thoughts_of(kwargs(enable_thinking=True), None) == Thoughts(ALL_MARKERS, unknown=True)
