"""What of a request, and of the rules, says how its model thinks."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.config.rules import Parse, Profile, Rules, parse_rules
from proxy.formats.reasoning import Thoughts
from proxy.web.thinking import switch_of, thoughts_told, with_thinking

BODY: JsonObject = {"model": "m", "messages": []}
OFF: JsonObject = {"chat_template_kwargs": {"enable_thinking": False}}
GIVEN = Thoughts(begun="<think>")


def rules(text: str) -> Rules:
    return parse_rules(text.encode(), "r.yaml", Rules())


def test_the_family_is_known_by_the_name_of_the_model_else_by_the_rules() -> None:
    asked: JsonObject = {**BODY, "reasoning_effort": "none"}
    for model, profile in (("qwen3-8b", Profile()), ("mine", Profile(family="qwen3"))):
        made = with_thinking(asked, Rules(), profile, model=model, requested=model)
        assert made.body["chat_template_kwargs"] == OFF["chat_template_kwargs"]
    assert with_thinking(asked, Rules(), Profile(), model="mine", requested="mine").body is asked


def test_a_suffix_counts_where_an_alias_takes_it() -> None:
    read = rules('aliases: {"*:nothink": "qwen3-8b"}')
    made = with_thinking(BODY, read, Profile(), model="qwen3-8b", requested="any:nothink")
    assert made.body["chat_template_kwargs"] == OFF["chat_template_kwargs"]
    assert with_thinking(BODY, read, Profile(), model="qwen3-8b", requested="any").body is BODY


@pytest.mark.parametrize(
    ("model", "text", "switch"),
    [
        ("unknown", "", "none"),
        ("qwen3-8b", "", "enable_thinking"),
        ("deepseek-v3.1", "", "enable_thinking"),
        ("gpt-oss-20b", "", "reasoning_effort"),
        ("qwen3-8b", 'models: [{match: "qwen3*", thinking: none}]', "none"),
        ("unknown", 'models: [{match: "*", thinking: thinking}]', "thinking"),
    ],
)
def test_what_the_rules_name_is_the_switch_else_what_becomes_the_familys(model: str, text: str, switch: str) -> None:
    read = rules(text) if text else Rules()
    assert switch_of(read, read.profile(model, ""), model) == switch


@pytest.mark.parametrize(
    ("telling", "model", "parse", "blocks", "told"),
    [
        ("auto", "qwen3-8b", "proxy", False, GIVEN),
        ("auto", "qwen3-8b", "server", False, None),
        ("auto", "qwen3-8b", "server", True, Thoughts()),
        ("auto", "unknown", "proxy", False, None),
        ("auto", "unknown", "proxy", True, Thoughts()),
        ("split", "unknown", "server", False, GIVEN),
        ("server", "qwen3-8b", "proxy", False, None),
        ("server", "qwen3-8b", "proxy", True, Thoughts()),
    ],
)
def test_thoughts_are_told_from_the_text_where_the_proxy_reads_it_and_knows_the_family(
    telling: Any, model: str, parse: Parse, blocks: bool, told: Thoughts | None
) -> None:
    assert thoughts_told(GIVEN, model, Profile(telling=telling), parse, blocks=blocks) == told
