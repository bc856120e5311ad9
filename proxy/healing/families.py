"""The one table of model families, and how a model's family is found.

A row holds everything that is known of a family: the names of its models, the healings that its chat template needs,
how its reasoning is marked, switched and sent back, and the parsers of model servers for its calls. `family_of` finds
the row by the rules, the served name, and what the model server shows of the model, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType

from proxy.codec.json_text import Json
from proxy.notations import thoughts as reasoning
from proxy.notations.thoughts import ReasoningMarkers, shown

_LONG_NAME = 256
_SLASHES = re.compile(r"[/\\]+")
# One word of a quantization or format: `gguf`, `q4` of `Q4_K_M`, `fp8`.
_FORMAT = (
    r"(?:[it]?q\d|(?:nv|mx|b)?fp?\d+|int\d|\dbit|w\d+a\d+|gguf|ggml|safetensors"
    r"|awq|gptq|exl\d|mlx|onnx|hqq|bnb|marlin)"
)
_MORE = rf"(?:[-_.](?:{_FORMAT}|model|of|\d+|[klms]|x+[sl]|nl|dynamic))*"
# Parts of a path that name no model, in lower case: a revision, a quantization or format, a file of weights.
# `snapshots`, `0123abc`, `q4_k_m`, `awq-4bit`, `model-00001-of-00002.safetensors`
_NAMELESS = re.compile(
    rf"snapshots|main|weights|checkpoint-\d+|[0-9a-f]{{7,64}}|(?:ud-)?{_FORMAT}{_MORE}"
    rf"|(?:model|weights|pytorch|consolidated|ggml){_MORE}\.(?:gguf|safetensors|bin|pth?|onnx)"
)
_DIGIT = re.compile(r"\d")
# Reasoning in the parts of the content: `{"type": "thinking", "thinking": "…"}`.
PARTS = "parts"


class Opens(Enum):
    """Whether the prompt ends in the opening mark of reasoning."""

    NO = "no"
    YES = "yes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Whether the prompt opens reasoning if the request switches it on, off, or does not mention it."""

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
    """The template's variable for the effort, and its word for each word of the clients.

    An effort without a word switches thinking off. `top`: servers take the effort from this field of the request.
    """

    name: str
    words: Mapping[str, str] = field(default_factory=dict)
    top: bool = False


@dataclass(frozen=True, slots=True)
class Parsers:
    """The syntax of calls that a family was trained on, and the parser of vLLM and of SGLang for it; "" if unknown."""

    syntax: str
    vllm: str
    sglang: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One family.

    `match`, `template` and `heals` are separated by blanks: globs on lower-case names of models, texts that must all
    occur in the chat template (without white space), and healings in addition to those of every model. Without
    `markers`, its reasoning is unknown. `fields` are those in which its template reads earlier reasoning, the best one
    first. `alone`: the template takes no text next to reasoning and a call.
    """

    name: str
    match: str
    markers: tuple[ReasoningMarkers, ...] = (reasoning.THINK,)
    prompt: Prompt = field(default_factory=Prompt)
    switch: Switch | None = None
    efforts: Efforts | None = None
    fields: tuple[str, ...] = ()
    alone: bool = False
    template: str = field(default="", kw_only=True)
    heals: str = field(default="", kw_only=True)
    parsers: Parsers | None = field(default=None, kw_only=True)

    @property
    def healings(self) -> tuple[str, ...]:
        """The ids in `heals`."""
        return tuple(self.heals.split())


@dataclass(frozen=True, slots=True)
class Shown:
    """One fact that a model server reports: the name or path of the loaded model, or its chat template."""

    name: str = ""
    template: str = ""


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
_SYSTEM = "one_system late_system"
_SCHEMAS = "tool_descriptions plain_schemas"
_TURNS = f"{_SYSTEM} call_text user_first user_after_result alternate mistral_ids"
_MISTRAL = Parsers("Mistral's list", "mistral", "mistral")
_HERMES = Parsers("Hermes' JSON", "hermes", "qwen25")
_QWEN_XML = Parsers("Qwen3-Coder's XML", "qwen3_xml", "qwen3_coder")


def _words(low: str, medium: str, high: str, most: str, **others: str) -> Mapping[str, str]:
    """Return the template's words for the usual efforts."""
    words = {"minimal": low, "low": low, "medium": medium, "high": high, "xhigh": most, "max": most}
    return MappingProxyType({**words, **others})


# Parsers are named as in vLLM 0.32 and SGLang.
FAMILIES = (
    Family(
        "gpt-oss",
        "*gpt-oss*",
        reasoning.HARMONY,
        efforts=Efforts("reasoning_effort", _words("low", "medium", "high", "high", none="low"), top=True),
        fields=("thinking",),
        alone=True,
        template="<|channel|>analysis<|message|>",
        heals=f"{_SYSTEM} one_call call_text {_SCHEMAS}",
        parsers=Parsers("gpt-oss' channels", "openai", "gpt-oss"),
    ),
    Family(
        "kimi-k3",
        "*kimi-k3*",
        (reasoning.KIMI_K3, shown("<|open|>response<|sep|>", "<|close|>response<|sep|>")),
        _ON,
        _THINKING,
        Efforts("thinking_effort", _words("low", "high", "high", "max")),
        _BOTH,
        template="'<|open|>' thinking_effort",
        parsers=Parsers("", "kimi_k3"),
    ),
    Family("kimi-k2.5", "*kimi-k2.[5-9]*", prompt=_ON, switch=_THINKING, fields=_CONTENT),
    Family(
        "kimi-k2-thinking",
        "*kimi-k2-thinking*",
        fields=_CONTENT,
        template="<think> <|im_assistant|>assistant<|im_middle|>{%-endif-%}",
    ),
    Family(
        "kimi-k2",
        "*kimi-k2*",
        (),
        template="<|tool_calls_section_begin|>",
        heals="kimi_ids",
        parsers=Parsers("Kimi's sections", "kimi_k2", "kimi_k2"),
    ),
    Family(
        "deepseek-r1-distill",
        "*deepseek-r1-distill*",
        prompt=Prompt(Opens.YES, unsaid=Opens.UNKNOWN),
        template="<｜Assistant｜><think>\\n ifnotenable_thinking",
        heals=f"{_SYSTEM} call_text",
    ),
    Family(
        "deepseek-r1",
        "*deepseek-r1*",
        prompt=_ALWAYS,
        template="<｜Assistant｜><think>\\n",
        heals=f"{_SYSTEM} call_text",
    ),
    Family(
        "deepseek-v3.1",
        "*deepseek-v3.1*",
        prompt=_ASKED,
        switch=_EITHER,
        template="<｜Assistant｜> <think></think> ifnotthinking",
        parsers=Parsers("DeepSeek's sections", "deepseek_v31", "deepseekv31"),
    ),
    Family("deepseek-v3.2", "*deepseek-v3.2*", (), parsers=Parsers("", "deepseek_v32", "deepseekv32")),
    Family(
        "deepseek",
        "*deepseek-v3.[2-9]* *deepseek-v4*",
        prompt=_ASKED,
        switch=_EITHER,
        fields=_CONTENT,
        template="<｜Assistant｜> thinking_start_token",
    ),
    Family(
        "minimax-m3",
        "*minimax-m3*",
        (reasoning.MM_THINK,),
        _ASKED,
        Switch("thinking_mode", "enabled", "disabled"),
        fields=_CONTENT,
        template="<mm:think>",
        parsers=Parsers("", "minimax_m3"),
    ),
    Family(
        "minimax-m2",
        "*minimax-m2*",
        prompt=_ALWAYS,
        fields=_CONTENT,
        template="]~b]ai <think>",
        parsers=Parsers("MiniMax' XML", "minimax_m2", "minimax-m2"),
    ),
    Family("minimax", "*minimax-m*", (), heals=_SYSTEM),
    Family(
        "step",
        "*step-3* *step3*",
        prompt=_ALWAYS,
        fields=_CONTENT,
        template="<|im_start|>tool_response {{-'<|im_start|>assistant\\n<think>\\n'}}",
    ),
    Family(
        "qwen3-thinking",
        "*qwen3*thinking* *qwq*",
        prompt=_ALWAYS,
        fields=_CONTENT,
        template="{{-'<|im_start|>assistant\\n<think>\\n'}}",
    ),
    # The smallest models think only on request.
    Family(
        "qwen3.5-small",
        "*qwen3.5-0.8b* *qwen3.5-2b*",
        prompt=_ASKED,
        switch=_ENABLE,
        fields=_CONTENT,
        template="enable_thinkingistrue%}{{-'<think>\\n'}}{%-else%}{{-'<think>\\n\\n</think>",
    ),
    Family(
        "qwen3.5",
        "*qwen3.[5-9]*",
        prompt=_ON,
        switch=_ENABLE,
        fields=_CONTENT,
        template="enable_thinkingisfalse%}{{-'<think>\\n\\n</think>\\n\\n'}}{%-else%}{{-'<think>\\n'}}",
        heals=f"{_SYSTEM} user_first",
        parsers=_QWEN_XML,
    ),
    Family(
        "qwen3",
        "*qwen3-[0-9]*b*",
        switch=_ENABLE,
        fields=_CONTENT,
        template="enable_thinkingisfalse%}{{-'<think>\\n\\n</think>\\n\\n'}}{%-endif%}",
    ),
    Family("qwen3-coder", "*qwen3-coder*", (), template="<|im_start|> <function=", parsers=_QWEN_XML),
    Family(
        "glm-4.7",
        "*glm-4.[7-9]* *glm-5*",
        prompt=_ON,
        switch=_ENABLE,
        fields=_CONTENT,
        template="[gMASK]<sop> else'<think>'",
        parsers=Parsers("GLM's pairs", "glm47", "glm47"),
    ),
    Family(
        "glm-4.5",
        "*glm-4.[56]*",
        switch=_ENABLE,
        fields=_CONTENT,
        template="[gMASK]<sop> '\\n<think></think>'if",
    ),
    Family("glm-4", "*glm-4*", (), parsers=Parsers("GLM's pairs", "glm45", "glm45")),
    Family(
        "functiongemma",
        "*functiongemma*",
        (),
        template="<start_function_call>",
        heals="no_tools call_text",
        parsers=Parsers("", "functiongemma"),
    ),
    Family(
        "gemma-4",
        "*gemma-4*",
        (reasoning.GEMMA,),
        switch=_ENABLE,
        fields=_BOTH,
        template="<|channel>thought",
        heals="call_text",
        parsers=Parsers("", "gemma4"),
    ),
    Family(
        "gemma-3",
        "*gemma-3*",
        (),
        template="<start_of_turn>model Invalidcontenttype",
        heals=f"{_SYSTEM} null_beside_calls text_calls user_first alternate",
    ),
    Family(
        "gemma-2",
        "*gemma-2*",
        (),
        template="<start_of_turn>model Systemrolenotsupported",
        heals=f"no_system {_SYSTEM} text_calls user_first alternate",
    ),
    Family(
        "seed-oss",
        "*seed-oss*",
        (reasoning.SEED_THINK,),
        fields=_CONTENT,
        template="<seed:think>",
        parsers=Parsers("", "seed_oss"),
    ),
    Family(
        "nemotron-nano-v2",
        "*nemotron-nano*v2*",
        prompt=_MAYBE,
        template="</TOOLCALL> ns.enable_thinking",
        heals=f"{_SYSTEM} user_first",
    ),
    Family("nemotron-3", "*nemotron-3*", prompt=_ON, switch=_ENABLE, fields=_CONTENT),
    Family(
        "bielik",
        "*bielik*",
        prompt=_ASKED,
        switch=_ENABLE,
        fields=_CONTENT,
        template="<|function_output|> <think>",
        heals=_SYSTEM,
    ),
    Family(
        "reka",
        "*reka*",
        prompt=_ASKED,
        switch=_ENABLE,
        fields=_CONTENT,
        template='"assistant:<think>\\n"',
        heals=_SYSTEM,
    ),
    Family(
        "spark",
        "*spark2.5* *spark[-_]2.5*",
        prompt=_ON,
        switch=_ENABLE,
        fields=_CONTENT,
        template="<|Bot|> <think>",
    ),
    Family(
        "ling-3",
        "*ling-3*",
        prompt=_ON,
        switch=_ENABLE,
        fields=_CONTENT,
        template="<role>ASSISTANT</role> thinking_option",
    ),
    Family(
        "minicpm5",
        "*minicpm5*",
        prompt=_ASKED,
        switch=_ENABLE,
        fields=_CONTENT,
        template="{%-elifenable_thinkingistrue%}{{-'<think>\\n'}}{%-endif%}",
    ),
    Family(
        "laguna",
        "*laguna*",
        prompt=_ASKED,
        switch=_ENABLE,
        fields=_BOTH,
        template="{{-\"<assistant>\\n\"-}} '<think>'",
    ),
    Family(
        "hy3",
        "*hy3* *hunyuan-3*",
        (reasoning.HY3,),
        _ASKED,
        efforts=Efforts(
            "reasoning_effort", _words("low", "low", "high", "high", none="no_think", minimal="no_think", on="high")
        ),
        fields=_BOTH,
        template="'<think{}>'",
    ),
    Family(
        "hunyuan-a13b",
        "*hunyuan-a13b*",
        (reasoning.THINK, shown("<answer>", "</answer>")),
        switch=_ENABLE,
    ),
    Family("command-r-plus", "*command-r-plus*", (), heals=_SCHEMAS),
    Family(
        "command-r7b",
        "*command-r7b* *command-a-03* *command-a-vision* *command-a-translate*",
        (reasoning.COHERE, _RESPONSE),
        switch=_ENABLE,
        template="<|START_THINKING|> enable_thinking",
        heals="call_text",
    ),
    Family(
        "cohere",
        "*command-a* *cohere*moe*",
        (reasoning.COHERE, shown("<|START_TEXT|>", "<|END_TEXT|>"), _RESPONSE),
        _ON,
        Switch("reasoning"),
        fields=("reasoning", "reasoning_content", "thinking"),
        template="<|START_THINKING|>",
        heals="call_text",
    ),
    Family("command-r", "*command-r* *cohere*", (), heals="call_text"),
    Family(
        "apertus",
        "*apertus*",
        (reasoning.APERTUS,),
        switch=_ENABLE,
        template="<|inner_prefix|>",
        heals=f"{_SYSTEM} {_SCHEMAS} flat_texts",
    ),
    Family(
        "apriel",
        "*apriel*",
        (_APRIEL,),
        _ALWAYS,
        fields=_CONTENT,
        template="Herearemyreasoningsteps:",
        heals="flat_texts",
    ),
    Family("lfm2.5", "*lfm2.5*", fields=("thinking",), template='"<think>"+message.thinking'),
    Family("lfm2-instruct", "*lfm2*-instruct*", (), heals="text_calls"),
    Family("lfm2", "*lfm2*", (), parsers=Parsers("", "lfm2")),
    Family(
        "solar",
        "*solar-open*",
        (*reasoning.SOLAR, shown("<|begin|>assistant<|content|>", "<|end|>"), shown("<|content|>", "<|end|>")),
        efforts=Efforts("reasoning_effort", _words("low", "medium", "high", "high", none="minimal", minimal="minimal")),
        fields=("reasoning",),
        template="<|begin|>assistant<|think|>",
    ),
    Family("solar-pro", "*solar*", (), heals="call_text"),
    Family(
        "muse",
        "*muse*",
        (
            ReasoningMarkers(" to=self<|message|>", ("<|eom|>",)),
            ReasoningMarkers("<|start|>assistant to=self<|message|>", ("<|eom|>",)),
            shown("<|start|>assistant to=user<|message|>", "<|eom|>", "<|eot|>"),
            shown(" to=user<|message|>", "<|eom|>", "<|eot|>"),
        ),
        fields=_CONTENT,
        template="assistantto=self<|message|>",
        heals="call_text tool_descriptions",
    ),
    Family(
        "inkling",
        "*inkling*",
        (
            *reasoning.INKLING,
            shown("<|message_model|><|content_text|>", "<|end_message|>"),
            shown("<|content_text|>", "<|end_message|>"),
        ),
        fields=_CONTENT,
        template="<|content_thinking|>",
    ),
    Family("plamo-3", "*plamo-3* *plamo3*", (reasoning.PLAMO,), fields=_CONTENT, template="plamo:begin_think"),
    Family(
        "granite-3",
        "*granite-3*",
        (reasoning.THINK, _XML_RESPONSE),
        switch=_THINKING,
        template="<think></think>andwriteyourresponsebetween<response></response>",
        heals="text_calls",
    ),
    Family("granite-4", "*granite-4*", (), parsers=Parsers("Hermes' JSON", "granite4")),
    Family("ernie", "*ernie*thinking*", (reasoning.THINK, _XML_RESPONSE), _MAYBE, fields=_CONTENT),
    Family("exaone-4", "*exaone-4*", prompt=_ASKED, switch=_ENABLE),
    Family("smollm3", "*smollm3*", switch=_ENABLE),
    Family("mimo", "*mimo*", prompt=_MAYBE, switch=_ENABLE, fields=_CONTENT),
    Family("olmo-3-think", "*olmo-3*think*", prompt=_MAYBE),
    Family("intern-s1", "*intern-s1*", prompt=_MAYBE, switch=_ENABLE),
    Family("phi-4-reasoning", "*phi-4*reasoning*"),
    Family("phi-3", "*phi-3*", (), heals="text_calls"),
    Family("functionary", "*functionary*", (), template="<|start_header_id|> >>>all", heals="text_calls"),
    Family("gigachat", "*gigachat*", (), heals="one_call plain_schemas"),
    Family(
        "hermes",
        "*hermes-*",
        (),
        template="json_to_python_type <|im_start|>",
        heals=f"call_text {_SCHEMAS}",
        parsers=_HERMES,
    ),
    Family(
        "llama-3",
        "*llama-3*",
        (),
        template="singletool-callsatonce",
        heals="one_call call_text user_first",
        parsers=Parsers("Llama's JSON", "llama3_json", "llama3"),
    ),
    Family("llama-4", "*llama-4*", (), parsers=Parsers("Python's calls", "llama4_pythonic", "pythonic")),
    Family("toolace", "*toolace*", (), parsers=Parsers("Python's calls", "pythonic", "pythonic")),
    Family(
        "ministral",
        "*ministral*",
        (),
        heals=f"{_SYSTEM} call_text user_first user_after_result empty_answers alternate",
        parsers=_MISTRAL,
    ),
    Family(
        "mistral",
        "*magistral* *ministral*reasoning*",
        (reasoning.MISTRAL, reasoning.THINK),
        fields=(PARTS,),
        template="[THINK]",
    ),
    # The organization `mistralai` names these, too.
    Family(
        "mistral-instruct",
        "*mistral* *magistral* *mixtral* *codestral* *pixtral*",
        (),
        template="[AVAILABLE_TOOLS] [INST]",
        heals=f"no_system {_TURNS}",
        parsers=_MISTRAL,
    ),
    Family("devstral", "*devstral*", (), heals=_TURNS, parsers=_MISTRAL),
    Family("rwkv", "*rwkv*", (), heals=f"{_SYSTEM} text_calls"),
    Family(
        "deepseek-v3",
        "*deepseek-v3* *deepseek-r1-0528*",
        (),
        parsers=Parsers("DeepSeek's sections", "deepseek_v3", "deepseekv3"),
    ),
    Family("qwen", "*qwen* *qwq* *hermes*", (), parsers=_HERMES),
)
NAMES = tuple(family.name for family in FAMILIES)


def family_of(model: str, named: str = "", shown: Iterable[Shown] = ()) -> Family | None:
    """Return the family of a model, or None if it is unknown.

    The family that the rules name for it comes first (`named`), then the name under which it is served, then what its
    server shows of it, in the order given. `shown` is read only until the reasoning is known, so it may ask the server.
    """
    if named:
        return _named(named)
    known = _by_name(model)
    if known is None or not known.markers:
        for each in shown:
            more = _by_name(each.name) or _by_template(each.template)
            known = _joined(filter(None, (known, more)))
            if known is not None and known.markers:
                break
    return known


def _joined(families: Iterable[Family]) -> Family | None:
    """Merge several rows about one model: each fact comes from the first row that has it."""
    known: Family | None = None
    for family in families:
        known = known or family
        base = known if known.markers or not family.markers else family
        heals, parsers = known.heals or family.heals, known.parsers or family.parsers
        if base is not known or (heals, parsers) != (known.heals, known.parsers):
            known = replace(base, heals=heals, parsers=parsers)
    return known


def _matching(name: str) -> Iterator[Family]:
    return (family for family in FAMILIES if any(fnmatchcase(name, glob) for glob in family.match.split()))


@lru_cache(maxsize=256)
def _named(name: str) -> Family | None:
    """Return the family of this name, with what the rows for such models have in common."""
    row = next((family for family in FAMILIES if family.name == name), None)
    return row and _joined((row, *_matching(name)))


def _by_name(name: str) -> Family | None:
    """Return the family of a served name or of a path."""
    # Clients choose the names, so long ones are not kept.
    if len(name) > _LONG_NAME:
        return _find_by_name(name)
    return _known_by_name(name)


def _find_by_name(name: str) -> Family | None:
    """Match the last part of a path that names a model; of `ORGANIZATION/MODEL` also both together.

    The folder above a nameless part must have a digit, as sizes and versions have: `/home/reka/gguf` is a user's.
    """
    parts = [part for part in _SLASHES.split(name.lower()) if part]
    at = next((at for at in reversed(range(len(parts))) if not _NAMELESS.fullmatch(parts[at])), None)
    if at is None:
        return None
    part = parts[at]
    if part.startswith("models--"):
        return _joined(_matching(part.rpartition("--")[2]))
    if at < len(parts) - 1:
        return _joined(_matching(part)) if _DIGIT.search(part) else None
    found = [*_matching(part)]
    organization, _, model = name.lower().partition("/")
    if organization and "/" not in model:
        # `qwen3/thinking-4b`: what the organization alone matches does not count.
        alone = [*_matching(organization)]
        found += [family for family in _matching(name.lower()) if family not in alone]
    return _joined(found)


# A request asks several times, and most requests are for the same few models.
_known_by_name = lru_cache(maxsize=256)(_find_by_name)


@lru_cache(maxsize=8)
def _by_template(template: str) -> Family | None:
    """Return the family of a chat template."""
    text = "".join(template.split())
    known = (family for family in FAMILIES if family.template)
    name = next((family.name for family in known if all(part in text for part in family.template.split())), "")
    return _named(name)
