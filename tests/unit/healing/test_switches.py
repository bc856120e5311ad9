"""Thinking switches of clients, translated for the model."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.healing.families import family_of
from proxy.healing.reasoning import effort_words, switched
from proxy.json import JsonObject, dump_json
from tests.support.rows import rows

BODY: JsonObject = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "stream": True}
_ON = {"enable_thinking": True}
ON: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": True}}
OFF: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}


def without_messages(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in BODY}


@rows(__file__, "name,asked,wanted")
def test_a_clients_switch_is_translated_for_the_model(
    name: str, asked: dict[str, Any], wanted: dict[str, Any]
) -> None:
    made, repairs = switched({**BODY, **asked}, family_of("", name))
    assert without_messages(made) == wanted
    assert [repair.id for repair in repairs] == ["thinking"]
    assert {**BODY, **made} == made
    again, said = switched(made, family_of("", name))
    assert again is made and said == ()


@rows(__file__, "name,asked")
def test_a_request_that_needs_no_change_is_the_same_object(name: str | None, asked: dict[str, Any]) -> None:
    """C1."""
    body = {**BODY, **asked}
    made, repairs = switched(body, family_of("", name) if name else None)
    assert made is body and repairs == ()


def test_the_templates_own_variable_takes_precedence() -> None:
    made, _ = switched({**BODY, "reasoning_effort": "none", **ON}, family_of("", "qwen3"))
    assert without_messages(made) == ON


def test_a_suffix_takes_precedence_over_everything_else() -> None:
    qwen = family_of("", "qwen3")
    assert without_messages(switched({**BODY, **ON}, qwen, "nothink")[0]) == OFF
    assert without_messages(switched({**BODY, "reasoning_effort": "none"}, qwen, "think")[0]) == ON
    made, _ = switched({**BODY, "reasoning_effort": "low"}, family_of("", "gpt-oss"), "high")
    assert without_messages(made) == {"reasoning_effort": "high"}
    made, _ = switched({**BODY, **ON}, family_of("", "hy3"), "nothink")
    assert without_messages(made) == {"chat_template_kwargs": {"reasoning_effort": "no_think"}}


def test_new_fields_precede_the_messages() -> None:
    """C8: the next turn begins with the bytes of this turn."""
    made, _ = switched({"model": "m", "messages": [], "reasoning_effort": "none"}, family_of("", "qwen3"))
    assert [*made].index("chat_template_kwargs") < [*made].index("messages")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-oss-20b", ("low", "medium", "high")),
        ("Kimi-K3", ("none", "low", "high", "xhigh")),
        ("Hy3", ("none", "low", "high")),
        ("solar-open-100b", ("none", "low", "medium", "high")),
        ("Qwen3.5-9B", ("none", "medium")),
        ("DeepSeek-R1", ()),
        ("unknown", ()),
    ],
)
def test_offered_efforts_all_have_different_effects(model: str, words: tuple[str, ...]) -> None:
    family = family_of(model)
    assert effort_words(family) == words
    asked: JsonObject = {"messages": [], "chat_template_kwargs": {}}
    made = [dump_json(switched({**asked, "reasoning_effort": word}, family)[0]) for word in words]
    assert len({*made}) == len(words)
