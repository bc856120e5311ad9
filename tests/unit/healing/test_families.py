"""The table of model families, compared with the chat templates of real models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from proxy.healing.families import FAMILIES, NAMES, Family, Shown, family_of
from proxy.healing.reasoning import switched, thoughts_of
from tests.support.chat_templates import FOLDER, render, sources
from tests.support.each_case import each_case

# Templates of reasoning families, each with a model's name as a server lists it.
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


def thinking(model: str, named: str = "", shown: Iterable[Shown] = ()) -> str | None:
    """Return the name of the model's family if its reasoning markers are known."""
    family = family_of(model, named, shown)
    return family.name if family is not None and family.markers else None


def known(name: str) -> Family:
    family = family_of("", name)
    assert family is not None
    return family


@pytest.mark.slow
@needed
@pytest.mark.parametrize("asked", ASKED)
@each_case("template", TEMPLATES)
def test_the_prompt_opens_reasoning_as_the_table_says(template: str, asked: str) -> None:
    """The request's own switch counts, in every spelling that clients use."""
    family = known(TEMPLATES[template])
    body, _ = switched({"messages": [{"role": "user", "content": "Q"}], **ASKED[asked]}, family)
    prompt = render(template, dict(body))
    given = thoughts_of(body, family)
    opened = prompt.rstrip().endswith(family.markers[0].opener.rstrip())
    if not given.unknown:
        assert opened == bool(given.begun)


def test_families_are_found_by_the_names_that_servers_use() -> None:
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
        assert thinking(name) == wanted, name
    assert thinking("my-model", "qwen3") == "qwen3"


PATHS = ["{0}", "org/{0}", "/models/{0}", "/models/{0}/", "D:\\\\models\\\\{0}", "/data/{0}/weights/model.gguf"]
PATHS += ["/hub/models--org--{0}/snapshots/0123456789abcdef", "/data/{0}/gguf/Q4_K_M/model-00001.gguf"]
PATHS += ["/data/{0}/gguf/q4/model.gguf", "/data/{0}/main/model-00001-of-00002.safetensors", "/data/{0}/AWQ-4bit"]
PATHS += ["/data/{0}/UD-Q4_K_XL/model.Q4_K_M.gguf", "/out/{0}/checkpoint-500", "/models/org/{0}-Q4_K_M.gguf"]


@pytest.mark.parametrize("path", PATHS)
def test_a_family_is_found_in_a_path(path: str) -> None:
    for name, family in (("Qwen3-8B", "qwen3"), ("deepseek-v3.2", "deepseek"), ("GLM-4.7-Flash", "glm-4.7")):
        assert thinking("local-model", shown=[Shown(path.format(name))]) == family
        assert thinking(path.format(name)) == family


OTHERS = ["/home/{0}/llama", "/home/{0}/models/llama-3.1-8b", "/srv/{0}/m", "{0}/llama"]
OTHERS += ["/srv/{0}/gguf/llama-3-8b.gguf"]
OTHERS += ["/home/{0}/gguf/model.gguf", "/home/{0}/main", "/hub/models--{0}--llama/snapshots/0123456789abcdef"]


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("owner", ["reka", "apriel", "mimo"])
def test_the_folder_of_a_user_or_organization_names_no_family(owner: str, path: str) -> None:
    assert thinking("m", shown=[Shown(path.format(owner))]) is None
    assert thinking(path.format(owner)) is None


def test_a_served_name_is_also_matched_as_a_whole() -> None:
    assert thinking("qwen3/thinking-4b") == "qwen3-thinking"
    assert thinking("qwen3/glm-4.6-thinking") == "glm-4.5"
    assert thinking("spark/qwen2.5-7b") is None and thinking("iFlytek/Spark2.5") == "spark"
    assert thinking("models--RekaAI--Reka-Edge") == "reka"


def test_a_long_unknown_name_is_read_in_linear_time() -> None:
    for word in ("q4_0_", "q4_k_q4_k_", "model-", "gguf.", "0a1b2c3"):
        assert thinking(f"/qwen3-8b/{word * 5000}?") is None


def test_the_end_of_a_path_takes_precedence_over_its_folders() -> None:
    assert thinking("m", shown=[Shown("/models/gpt-oss-and-others/Qwen3-8B")]) == "qwen3"
    assert thinking("m", shown=[Shown("/gpt-oss/a/b/c/llama-3.1-8b")]) is None


def test_the_first_source_that_names_the_family_is_the_last_one_read() -> None:
    def shown(*names: str) -> Iterator[Shown]:
        yield from map(Shown, names)
        raise AssertionError("one more source was asked")

    assert thinking("Qwen3-8B", "gpt-oss", shown()) == "gpt-oss"
    assert thinking("Qwen3-8B", shown=shown()) == "qwen3"
    assert thinking("m", shown=shown("", "/data", "glm-4.6")) == "glm-4.5"


@needed
def test_every_chat_template_identifies_only_its_family() -> None:
    found = {name: thinking("m", shown=[Shown(template=source)]) for name, source in sources().items()}
    identified = {name: family for name, family in found.items() if family is not None}
    of_their_own = {"NVIDIA-Nemotron-Nano-v2": "nemotron-nano-v2", "ibm-granite-granite-3.3-2B-Instruct": "granite-3"}
    assert identified == {**TEMPLATES, **of_their_own}


@needed
def test_a_chat_template_selects_the_same_healings_as_its_name() -> None:
    """A model with an unknown template learns its healings from the server's refusals."""
    for name, source in sources().items():
        shown, by_name = family_of("m", shown=[Shown(template=source)]), family_of(name)
        # Magistral and Ministral use the same reasoning markers.
        if shown is not None and by_name is not None and shown.name != "mistral":
            assert set(shown.healings) == set(by_name.healings), name


def test_facts_that_the_name_lacks_come_from_the_server() -> None:
    """Each fact comes from the first source that has it."""
    family = family_of("Llama-3.1-8B-R1", shown=[Shown("my/thing"), Shown("Qwen3-8B-GGUF")])
    assert family is not None and (family.name, family.switch) == ("qwen3", known("qwen3").switch)
    assert family.healings == known("llama-3").healings and family.parsers == known("llama-3").parsers


QWEN = "{%- if add_generation_prompt %}\n {{- '<|im_start|>assistant\\n' }}\n {%- if enable_thinking is defined and "
ENDINGS = {
    "enable_thinking is false %}\n        {{- '<think>\\n\\n</think>\\n\\n' }}\n    {%- endif %}": "qwen3",
    "enable_thinking is false %}\n {{- '<think>\\n\\n</think>\\n\\n' }}\n {%- else %} {{- '<think>\\n' }}": "qwen3.5",
    "enable_thinking is true %}\n {{- '<think>\\n' }}{%- else %}{{- '<think>\\n\\n</think>\\n\\n' }}": "qwen3.5-small",
}


def test_templates_that_differ_only_at_the_end_are_distinguished() -> None:
    for ending, family in ENDINGS.items():
        assert family_of("m", shown=[Shown(template=f"{QWEN}{ending}")]) == known(family)


def test_families_are_unique_and_every_marker_has_a_closer() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for family in FAMILIES:
        assert all(marker.opener and marker.closers for marker in family.markers)
        assert all(glob == glob.lower() for glob in family.match)
