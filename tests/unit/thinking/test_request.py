"""A request for a model that thinks: the switch, the suffix and the earlier thoughts, in one step."""

from __future__ import annotations

import pytest

from proxy.codec.json_text import Json, JsonObject
from proxy.healing.families import family_of
from proxy.healing.reasoning import ThinkingRules, think
from proxy.notations.thoughts import ALL_MARKERS

BODY: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "stream": True}
OFF: JsonObject = {"chat_template_kwargs": {"enable_thinking": False}}
THOUGHT: list[Json] = [
    {"role": "user", "content": "Q"},
    {"role": "assistant", "content": "A", "reasoning_content": "Hm."},
    {"role": "user", "content": "R"},
]


def without_messages(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in BODY}


@pytest.mark.parametrize("name", ["", "qwen3", "gpt-oss"])
def test_a_request_that_says_nothing_of_thinking_is_the_very_same(name: str) -> None:
    """C1."""
    made = think(BODY, ThinkingRules(family_of("", name)))
    assert made.body is BODY and made.audit == ()


def test_of_an_unknown_model_every_mark_counts_and_nothing_is_known_of_the_prompt() -> None:
    thoughts = think(BODY, ThinkingRules(None)).thoughts
    assert (thoughts.markers, thoughts.begun, thoughts.unknown) == (ALL_MARKERS, "", True)


def test_whether_the_prompt_opens_a_thought_is_told_from_the_request_as_it_goes_up() -> None:
    """The client says `enable_thinking`, the template knows `thinking`."""
    rules = ThinkingRules(family_of("", "deepseek"))
    assert think({**BODY, "enable_thinking": True}, rules).thoughts.begun == "<think>"
    assert think({**BODY, "enable_thinking": False}, rules).thoughts.begun == ""


def test_the_switch_is_told() -> None:
    body: JsonObject = {**BODY, "messages": THOUGHT, "enable_thinking": True}
    made = think(body, ThinkingRules(family_of("", "deepseek")))
    assert made.body["chat_template_kwargs"] == {"thinking": True}
    assert len(made.audit) == 1


def test_a_suffix_of_an_unknown_model_is_said_by_the_rules_switch() -> None:
    made = think(BODY, ThinkingRules(None, "enable_thinking", suffix="nothink"))
    assert without_messages(made.body) == OFF
    made = think(BODY, ThinkingRules(None, "reasoning_effort", suffix="high"))
    assert without_messages(made.body) == {"reasoning_effort": "high"}
    assert think(BODY, ThinkingRules(None, "none", suffix="high")).body is BODY
