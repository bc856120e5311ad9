"""Facts of thinking models by family: one row each.

How thoughts are marked in the text, whether the chat template opens them in the prompt, by which word thinking is
switched and how much of it is asked for, and in which fields the template takes earlier thoughts back. The names are
those that model servers use; the first row that fits counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from proxy.codec.json_text import Json
from proxy.formats import reasoning
from proxy.formats.reasoning import ReasoningMarkers, shown

_LONG_NAME = 256
# Thoughts among the parts of the content: `{"type": "thinking", "thinking": "…"}`.
PARTS = "parts"


class Opens(Enum):
    """True, false or unknown: the prompt ends in the opener of a thought."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompts that open a thought, or do not: where the request switches thinking on, off, or says nothing of it."""

    on: Opens = Opens.NO
    off: Opens = Opens.NO
    unsaid: Opens = Opens.NO


@dataclass(frozen=True, slots=True)
class Switch:
    """The template's variable that switches thinking, its two values, and its other names."""

    name: str
    on: Json = True
    off: Json = False
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Efforts:
    """The template's variable for how much to think, and its word for each that clients use; a word that is missing
    switches thinking off. `top`: it is the field of the request, in which servers hand it on.
    """

    name: str
    words: Mapping[str, str] = field(default_factory=dict)
    top: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """One family. `fields` are those in which its template reads earlier thoughts, the best one first; `alone`: it
    takes no text beside a thought and a call.
    """

    name: str
    match: tuple[str, ...]
    markers: tuple[ReasoningMarkers, ...] = (reasoning.THINK,)
    prompt: Prompt = field(default_factory=Prompt)
    switch: Switch | None = None
    efforts: Efforts | None = None
    fields: tuple[str, ...] = ()
    alone: bool = False


_RESPONSE = shown("<|START_RESPONSE|>", "<|END_RESPONSE|>")
_XML_RESPONSE = shown("<response>", "</response>")
_APRIEL = ReasoningMarkers("Here are my reasoning steps:\n", ("[BEGIN FINAL RESPONSE]",))
_CONTENT = ("reasoning_content",)
_BOTH = ("reasoning_content", "reasoning")
_ENABLE = Switch("enable_thinking")
_THINKING = Switch("thinking")
_EITHER = Switch("thinking", also=("enable_thinking",))
_ALWAYS = Prompt(Opens.YES, Opens.YES, Opens.YES)
_ON = Prompt(on=Opens.YES, unsaid=Opens.YES)
_ASKED = Prompt(on=Opens.YES)
_MAYBE = Prompt(on=Opens.UNKNOWN, unsaid=Opens.UNKNOWN)


def _words(low: str, medium: str, high: str, most: str, **others: str) -> Mapping[str, str]:
    """The words of a template for the usual ones."""
    words = {"minimal": low, "low": low, "medium": medium, "high": high, "xhigh": most, "max": most}
    return MappingProxyType({**words, **others})


FAMILIES = (
    Family(
        "gpt-oss",
        ("*gpt-oss*",),
        reasoning.HARMONY,
        efforts=Efforts("reasoning_effort", _words("low", "medium", "high", "high", none="low"), top=True),
        fields=("thinking",),
        alone=True,
    ),
    Family(
        "kimi-k3",
        ("*kimi-k3*",),
        (reasoning.KIMI_K3, shown("<|open|>response<|sep|>", "<|close|>response<|sep|>")),
        _ON,
        _THINKING,
        Efforts("thinking_effort", _words("low", "high", "high", "max")),
        _BOTH,
    ),
    Family("kimi-k2.5", ("*kimi-k2.[5-9]*",), prompt=_ON, switch=_THINKING, fields=_CONTENT),
    Family("kimi-k2-thinking", ("*kimi-k2-thinking*",), fields=_CONTENT),
    Family("deepseek-r1-distill", ("*deepseek-r1-distill*",), prompt=Prompt(Opens.YES, unsaid=Opens.UNKNOWN)),
    Family("deepseek-r1", ("*deepseek-r1*",), prompt=_ALWAYS),
    Family("deepseek-v3.1", ("*deepseek-v3.1*",), prompt=_ASKED, switch=_EITHER),
    Family("deepseek", ("*deepseek-v3.[2-9]*", "*deepseek-v4*"), prompt=_ASKED, switch=_EITHER, fields=_CONTENT),
    Family(
        "minimax-m3",
        ("*minimax-m3*",),
        (reasoning.MM_THINK,),
        _ASKED,
        Switch("thinking_mode", "enabled", "disabled"),
        fields=_CONTENT,
    ),
    Family("minimax-m2", ("*minimax-m2*",), prompt=_ALWAYS, fields=_CONTENT),
    Family("qwen3-thinking", ("*qwen3*thinking*", "*qwq*"), prompt=_ALWAYS, fields=_CONTENT),
    # The smallest ones think only where they are asked to.
    Family("qwen3.5-small", ("*qwen3.5-0.8b*", "*qwen3.5-2b*"), prompt=_ASKED, switch=_ENABLE, fields=_CONTENT),
    Family("qwen3.5", ("*qwen3.[5-9]*",), prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family("qwen3", ("*qwen3-[0-9]*b*",), switch=_ENABLE, fields=_CONTENT),
    Family("glm-4.7", ("*glm-4.[7-9]*", "*glm-5*"), prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family("glm-4.5", ("*glm-4.[56]*",), switch=_ENABLE, fields=_CONTENT),
    Family("gemma-4", ("*gemma-4*",), (reasoning.GEMMA,), switch=_ENABLE, fields=_BOTH),
    Family("seed-oss", ("*seed-oss*",), (reasoning.SEED_THINK,), fields=_CONTENT),
    Family("mistral", ("*magistral*", "*ministral*reasoning*"), (reasoning.MISTRAL,), fields=(PARTS,)),
    Family("step", ("*step-3*", "*step3*"), prompt=_ALWAYS, fields=_CONTENT),
    Family("nemotron-nano-v2", ("*nemotron-nano*v2*",), prompt=_MAYBE),
    Family("nemotron-3", ("*nemotron-3*",), prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family("bielik", ("*bielik*",), prompt=_ASKED, switch=_ENABLE, fields=_CONTENT),
    Family("reka", ("*reka*",), prompt=_ASKED, switch=_ENABLE, fields=_CONTENT),
    Family("spark", ("*spark*2.5*",), prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family("ling-3", ("*ling-3*",), prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family("minicpm5", ("*minicpm5*",), prompt=_ASKED, switch=_ENABLE, fields=_CONTENT),
    Family("laguna", ("*laguna*",), prompt=_ASKED, switch=_ENABLE, fields=_BOTH),
    Family(
        "hy3",
        ("*hy3*", "*hunyuan-3*"),
        (reasoning.HY3,),
        _ASKED,
        efforts=Efforts(
            "reasoning_effort", _words("low", "low", "high", "high", none="no_think", minimal="no_think", on="high")
        ),
        fields=_BOTH,
    ),
    Family(
        "hunyuan-a13b",
        ("*hunyuan-a13b*",),
        (reasoning.THINK, shown("<answer>", "</answer>")),
        switch=_ENABLE,
    ),
    Family(
        "command-r7b",
        ("*command-r7b*", "*command-a-03*", "*command-a-vision*", "*command-a-translate*"),
        (reasoning.COHERE, _RESPONSE),
        switch=_ENABLE,
    ),
    Family(
        "cohere",
        ("*command-a*", "*cohere*moe*"),
        (reasoning.COHERE, shown("<|START_TEXT|>", "<|END_TEXT|>"), _RESPONSE),
        _ON,
        Switch("reasoning"),
        fields=("reasoning", "reasoning_content", "thinking"),
    ),
    Family("apertus", ("*apertus*",), (reasoning.APERTUS,), switch=_ENABLE),
    Family("apriel", ("*apriel*",), (_APRIEL,), _ALWAYS, fields=_CONTENT),
    Family("lfm2.5", ("*lfm2.5*",), fields=("thinking",)),
    Family(
        "solar",
        ("*solar-open*",),
        (*reasoning.SOLAR, shown("<|begin|>assistant<|content|>", "<|end|>"), shown("<|content|>", "<|end|>")),
        efforts=Efforts("reasoning_effort", _words("low", "medium", "high", "high", none="minimal", minimal="minimal")),
        fields=("reasoning",),
    ),
    Family(
        "muse",
        ("*muse*",),
        (
            ReasoningMarkers(" to=self<|message|>", ("<|eom|>",)),
            ReasoningMarkers("<|start|>assistant to=self<|message|>", ("<|eom|>",)),
            shown("<|start|>assistant to=user<|message|>", "<|eom|>", "<|eot|>"),
            shown(" to=user<|message|>", "<|eom|>", "<|eot|>"),
        ),
        fields=_CONTENT,
    ),
    Family(
        "inkling",
        ("*inkling*",),
        (
            *reasoning.INKLING,
            shown("<|message_model|><|content_text|>", "<|end_message|>"),
            shown("<|content_text|>", "<|end_message|>"),
        ),
        fields=_CONTENT,
    ),
    Family("plamo-3", ("*plamo*3*",), (reasoning.PLAMO,), fields=_CONTENT),
    Family(
        "granite-3",
        ("*granite-3*",),
        (reasoning.THINK, _XML_RESPONSE),
        switch=_THINKING,
    ),
    Family("ernie", ("*ernie*thinking*",), (reasoning.THINK, _XML_RESPONSE), _MAYBE, fields=_CONTENT),
    Family("exaone-4", ("*exaone-4*",), prompt=_ASKED, switch=_ENABLE),
    Family("smollm3", ("*smollm3*",), switch=_ENABLE),
    Family("mimo", ("*mimo*",), prompt=_MAYBE, switch=_ENABLE, fields=_CONTENT),
    Family("olmo-3-think", ("*olmo-3*think*",), prompt=_MAYBE),
    Family("intern-s1", ("*intern-s1*",), prompt=_MAYBE, switch=_ENABLE),
    Family("phi-4-reasoning", ("*phi-4*reasoning*",)),
)
NAMES = tuple(family.name for family in FAMILIES)


def family_of(model: str, name: str = "") -> Family | None:
    """The family of a model, by the `name` that the rules give for it, else by the model's own; None if unknown."""
    if name:
        return next((family for family in FAMILIES if family.name == name), None)
    written = model.lower()
    # What clients write is kept no longer than this.
    if len(written) > _LONG_NAME:
        return _find_family(written)
    return _known_family(written)


def _find_family(model: str) -> Family | None:
    return next((family for family in FAMILIES if any(fnmatchcase(model, glob) for glob in family.match)), None)


# It is asked several times with each request, mostly for the same few.
_known_family = lru_cache(maxsize=256)(_find_family)
