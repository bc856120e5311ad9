"""What the table says of families, held against the chat templates of real models."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.formats.reasoning import ALL_MARKERS, Thoughts
from proxy.thinking.families import FAMILIES, NAMES, Family, Opens, family_of
from proxy.thinking.splitting import is_on, thoughts_of
from proxy.thinking.switches import switched
from tests.support.chat_templates import FOLDER, render
from tests.support.each_case import each_case

# The templates of families that think, with a name under which a server has such a model.
TEMPLATES = {
    "Apertus-8B-Instruct": "apertus",
    "Apriel-1.6-15b-Thinker-fixed": "apriel",
    "Bielik-11B-v3.0-Instruct": "bielik",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command-r7b",
    "Cohere2MoE": "cohere",
    "GLM-4.7-Flash": "glm-4.7",
    "Kimi-K2-Thinking": "kimi-k2-thinking",
    "Kimi-K3": "kimi-k3",
    "LFM2.5-8B-A1B": "lfm2.5",
    "MiniMax-M2": "minimax-m2",
    "MiniMax-M3": "minimax-m3",
    "Qwen-Qwen3-0.6B": "qwen3",
    "Reka-Edge": "reka",
    "Spark2.5": "spark",
    "StepFun3.5-Flash": "step",
    "deepseek-ai-DeepSeek-V3.1": "deepseek-v3.1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek",
    "deepseek-ai-DeepSeek-V4": "deepseek",
    "google-gemma-4-31B-it": "gemma-4",
    "inclusionai-ling-3.0-flash": "ling-3",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
    "muse-glimmer": "muse",
    "openai-gpt-oss-120b": "gpt-oss",
    "openbmb-MiniCPM5-1B": "minicpm5",
    "poolside-Laguna-XS-2.1": "laguna",
    "poolside-Laguna-XS.2": "laguna",
    "tencent-Hy3": "hy3",
    "upstage-Solar-Open-100B": "solar",
    "llama-cpp-deepseek-r1": "deepseek-r1",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B": "deepseek-r1-distill",
}
ASKED: dict[str, dict[str, Any]] = {
    "unsaid": {},
    "on": {"enable_thinking": True},
    "off": {"enable_thinking": False},
    "high": {"reasoning_effort": "high"},
    "low": {"reasoning_effort": "low"},
    "none": {"reasoning_effort": "none"},
    "minimal": {"reasoning_effort": "minimal"},
    "most": {"reasoning_effort": "max"},
}
needed = pytest.mark.skipif(not FOLDER.is_dir(), reason="the templates are no part of the repository")


def known(name: str) -> Family:
    family = family_of("", name)
    assert family is not None
    return family


@needed
@pytest.mark.parametrize("asked", ASKED)
@each_case("template", TEMPLATES)
def test_the_prompt_opens_the_thought_where_the_table_says_so(template: str, asked: str) -> None:
    """By family, and by the request's own switch, in whatever words the client says it."""
    family = known(TEMPLATES[template])
    body, _ = switched({"messages": [{"role": "user", "content": "Q"}], **ASKED[asked]}, family)
    prompt = render(template, dict(body))
    given = thoughts_of(body, family)
    opened = prompt.rstrip().endswith(family.markers[0].opener.rstrip())
    if not given.unknown:
        assert opened == bool(given.begun)


def test_names_are_told_as_servers_have_them() -> None:
    names = {
        "openai/gpt-oss-120b": "gpt-oss",
        "Qwen/Qwen3-8B-FP8": "qwen3",
        "Qwen/Qwen3-30B-A3B-Thinking-2507": "qwen3-thinking",
        "Qwen3.6-35B-A3B": "qwen3.5",
        "Qwen/Qwen3.5-27B": "qwen3.5",
        "Qwen/Qwen3.5-2B": "qwen3.5-small",
        "CohereLabs/c4ai-command-a-03-2025": "command-r7b",
        "CohereLabs/command-a-reasoning-08-2025": "cohere",
        "Qwen/Qwen3-Coder-30B-A3B-Instruct": None,
        "Qwen2.5-7B-Instruct": None,
        "zai-org/GLM-4.6": "glm-4.5",
        "GLM-4.7-Flash": "glm-4.7",
        "moonshotai/Kimi-K2-Thinking": "kimi-k2-thinking",
        "Kimi-K2-Instruct": None,
        "deepseek-ai/DeepSeek-R1-0528": "deepseek-r1",
        "DeepSeek-R1-Distill-Llama-8B": "deepseek-r1-distill",
        "deepseek-ai/DeepSeek-V3.2-Exp": "deepseek",
        "my-model": None,
    }
    for name, wanted in names.items():
        family = family_of(name)
        assert (family.name if family else None) == wanted, name
    assert family_of("my-model", "qwen3") is known("qwen3")


def test_each_family_is_there_once_and_closes_what_it_opens() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for family in FAMILIES:
        assert all(marker.opener and marker.closers for marker in family.markers)
        assert all(glob == glob.lower() for glob in family.match)


def test_a_switch_decides_what_the_prompt_opens() -> None:
    qwen = known("qwen3.5")
    cases: list[tuple[JsonObject, bool | None, str]] = [
        ({}, None, "<think>"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True, "<think>"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False, ""),
    ]
    for body, on, begun in cases:
        assert is_on(body, qwen) is on
        assert thoughts_of(body, qwen).begun == begun
    assert thoughts_of({}, None) == Thoughts(ALL_MARKERS, unknown=True)
    assert known("mimo").prompt.unsaid is Opens.UNKNOWN and thoughts_of({}, known("mimo")).unknown
    assert is_on({"reasoning_effort": "low"}, known("gpt-oss")) is False
    assert is_on({"reasoning_effort": "high"}, known("gpt-oss")) is True


NOT_OPENED: list[JsonObject] = [
    # The prompt ends in what the client began the answer with.
    {"continue_final_message": True},
    {"add_generation_prompt": False},
    # The server's grammar decides how the reply begins.
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "bash"}}},
    {"response_format": {"type": "json_object"}},
    {"structured_outputs": {"regex": "a+"}, "tool_choice": "none"},
    {"grammar": "root ::= [a-z]+"},
]
OPENED: list[JsonObject] = [
    {"continue_final_message": False, "add_generation_prompt": True},
    {"tool_choice": "auto", "response_format": {"type": "text"}},
    {"tool_choice": "none", "response_format": None, "structured_outputs": None},
]


def test_where_the_reply_begins_with_something_else_it_is_unknown() -> None:
    """Text is an answer then, until the end of a thought comes."""
    qwen = known("qwen3.5")
    for body in NOT_OPENED:
        assert thoughts_of(body, qwen) == Thoughts(qwen.markers, unknown=True)
        assert thoughts_of(body, known("qwen3")) == Thoughts(qwen.markers)
    for body in OPENED:
        assert thoughts_of(body, qwen) == Thoughts(qwen.markers, "<think>")
