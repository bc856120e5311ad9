"""Renderers of calls in the text formats of models, for reading them back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from proxy.json import Json, JsonObject

Call: TypeAlias = tuple[str, JsonObject]
# Renders one call, given its number from 0, name and arguments.
Shape: TypeAlias = Callable[[int, str, JsonObject], str]


def nothing(text: str) -> bool:
    """Return False: JSON and Python literals can express every value."""
    return False


@dataclass(frozen=True, slots=True)
class Renderer:
    """One format: `start` and `end` enclose the calls, and `between` separates them.

    `several`: a reply may have several calls. `lead`: prose may precede the first call. `cannot` returns whether the
    format cannot express a text in a value, because the text would end the value.
    """

    shape: Shape
    start: str = ""
    end: str = ""
    between: str = ""
    several: bool = True
    lead: bool = True
    cannot: Callable[[str], bool] = nothing

    def render(self, calls: Sequence[Call]) -> str:
        return self.start + self.between.join(self.shape(at, *call) for at, call in enumerate(calls)) + self.end


def dump(value: Json) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def raw(value: Json) -> str:
    """Return a string verbatim, without quotation marks, and other values as JSON."""
    return value if isinstance(value, str) else dump(value)


def python(value: Json) -> str:
    """Return a string verbatim, without quotation marks, and other values as Python literals."""
    return value if isinstance(value, str) else repr(value)


def around(before: str, shape: Shape, after: str) -> Shape:
    """Return a shape with text before and after each call."""
    return lambda number, name, arguments: before + shape(number, name, arguments) + after


def keyed(name_key: str = "name", arguments_key: str = "arguments", id_key: str = "") -> Shape:
    """Return the shape of a JSON object with these keys."""

    def shape(number: int, name: str, arguments: JsonObject) -> str:
        identity: JsonObject = {id_key: str(number)} if id_key else {}
        return dump({**identity, name_key: name, arguments_key: arguments})

    return shape


OBJECT = keyed()
PARAMETERS = keyed(arguments_key="parameters")
MISTRAL_OBJECT = keyed(id_key="id")
COHERE_OBJECT = keyed("tool_name", "parameters", "tool_call_id")


def named(between: str, before: str = "", after: str = "") -> Shape:
    """Return the shape of a name and JSON arguments with this text around them; `#` becomes the call's number."""

    def shape(number: int, name: str, arguments: JsonObject) -> str:
        parts = (part.replace("#", str(number)) for part in (before, between, after))
        start, middle, end = parts
        return start + name + middle + dump(arguments) + end

    return shape


def apertus(number: int, name: str, arguments: JsonObject) -> str:
    """Render an object with the name as its key."""
    return dump({name: arguments})


def tagged(head: str, one: Callable[[str, Json], str], foot: str = "") -> Shape:
    """Return the shape of a head with `{name}` and `{n}` (the number from 1), and parameters that `one` renders."""

    def shape(number: int, name: str, arguments: JsonObject) -> str:
        inside = "".join(one(key, value) for key, value in arguments.items())
        return head.replace("{name}", name).replace("{n}", str(number + 1)) + inside + foot

    return shape


def functions(separator: str, edge: str = "") -> Shape:
    """Return the shape of Qwen XML: `separator` between the tags, `edge` around each value as part of the markup."""
    return tagged(
        f"<function={{name}}>{separator}",
        lambda key, value: f"<parameter={key}>{edge}{raw(value)}{edge}</parameter>{separator}",
        "</function>",
    )


def invoke(prefix: str = "", separator: str = "\n", *, typed: bool = False) -> Shape:
    """Return the shape of Anthropic's invoke with a prefix. `typed`: an attribute says if a value is text or JSON."""

    def parameter(key: str, value: Json) -> str:
        attribute = f' string="{dump(isinstance(value, str))}"' if typed else ""
        return f'<{prefix}parameter name="{key}"{attribute}>{raw(value)}</{prefix}parameter>{separator}'

    return tagged(f'<{prefix}invoke name="{{name}}">{separator}', parameter, f"</{prefix}invoke>")


def _cdata(text: str) -> str:
    return f"<![CDATA[{text}]]>" if re.search(r"[<>&\r\n]", text) else text


# Strings with markup or line ends are CDATA, and other types Python literals.
minicpm5 = tagged(
    '<function name="{name}">',
    lambda key, value: f'<param name="{key}">{_cdata(python(value))}</param>',
    "</function>",
)
# A Harmony header with parameters instead of JSON.
beam = tagged(
    "<|channel|>commentary to=functions.{name} <|constrain|>xml<|message|>",
    lambda key, value: f'<rfl:parameter name="{key}">\n{raw(value)}\n</rfl:parameter>',
    "<|call|>",
)
# Elements named after the parameters, in an enclosing element.
call_element = tagged(
    "<Call><Function>{name}</Function><Parameters>",
    lambda key, value: f"<{key}>{raw(value)}</{key}>",
    "</Parameters></Call>",
)


def muse(number: int, name: str, arguments: JsonObject) -> str:
    return f" to={name}<|message|><atem:function_calls>\n{invoke('atem:')(0, name, arguments)}\n</atem:function_calls>"


def pairs(name_end: str, between: str, end: str, last: str = "", suffix: str = "") -> Shape:
    """Return the shape of GLM's keys and values. Released checkpoints add `suffix` to each tag."""
    return tagged(
        f"{{name}}{name_end}",
        lambda key, value: (
            f"<arg_key{suffix}>{key}</arg_key{suffix}>{between}<arg_value{suffix}>{raw(value)}</arg_value{suffix}>{end}"
        ),
        last,
    )


_IFM_TYPES = {dict: "object", list: "array", bool: "boolean", int: "integer", float: "number", str: "string"}


def k2_horizon(*, typed: bool) -> Shape:
    """Return the shape of keys, values and, if `typed`, a tag with the type."""

    def pair(key: str, value: Json) -> str:
        kind = f"<ifm|arg_type>{_IFM_TYPES.get(type(value), 'null')}</ifm|arg_type>" if typed else ""
        return f"<ifm|arg_key>{key}</ifm|arg_key>{kind}<ifm|arg_value>{raw(value)}</ifm|arg_value>"

    return tagged("{name}", pair)


_M3 = "]<]minimax[>["


def _element(key: str, value: Json) -> str:
    """Render an element named after the parameter, with a token before each tag; arrays are repeated items."""
    if isinstance(value, dict):
        inside = "".join(_element(*member) for member in value.items())
    elif isinstance(value, list):
        inside = "".join(_element("item", item) for item in value)
    else:
        inside = raw(value)
    return f"{_M3}<{key}>{inside}{_M3}</{key}>"


minimax_m3 = tagged(f'{_M3}<invoke name="{{name}}">', _element, f"{_M3}</invoke>")


def pythonic(number: int, name: str, arguments: JsonObject) -> str:
    """Render a function call in Python."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def lfm2(number: int, name: str, arguments: JsonObject) -> str:
    """Render a function call in Python, with objects and arrays as JSON."""

    def literal(value: Json) -> str:
        return dump(value) if isinstance(value, dict | list) else repr(value)

    return f"{name}({', '.join(f'{key}={literal(value)}' for key, value in arguments.items())})"


def gemma4(number: int, name: str, arguments: JsonObject) -> str:
    """Render bare keys, and strings in special delimiters."""
    return f"<|tool_call>call:{name}{_gemma(arguments)}<tool_call|>"


def _gemma(value: Json) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{key}:{_gemma(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_gemma, value)) + "]"
        case str():
            return f'<|"|>{value}<|"|>'
        case _:
            return dump(value)


def functiongemma(number: int, name: str, arguments: JsonObject) -> str:
    """Render every value in delimiters; types other than strings as Python literals."""
    inside = ",".join(f"{key}:<escape>{python(value)}<escape>" for key, value in arguments.items())
    return f"<start_function_call>call:{name}{{{inside}}}<end_function_call>"


_XTML_TYPES = {dict: "object", list: "array", bool: "boolean", int: "number", float: "number", str: "string"}


# XTML: tags of special tokens, each value with its type.
kimi_k3 = tagged(
    '<|open|>call tool="{name}" index="{n}"<|sep|>',
    lambda key, value: (
        f'<|open|>argument key="{key}" type="{_XTML_TYPES.get(type(value), "null")}"<|sep|>'
        f"{raw(value)}<|close|>argument<|sep|>"
    ),
    "<|close|>call<|sep|>",
)


def plamo(word: str) -> tuple[str, str]:
    """Return PLaMo's opening and closing marker for a word."""
    return f"<|plamo:begin_{word}:plamo|>", f"<|plamo:end_{word}:plamo|>"


def plamo3(number: int, name: str, arguments: JsonObject) -> str:
    """Render a marker before and after each part."""
    (call, call_end), (title, title_end), (values, values_end) = map(
        plamo, ("tool_request", "tool_name", "tool_arguments")
    )
    body = f"<|plamo:constrain|>json<|plamo:msg|>{dump(arguments)}"
    return f"{call}{title}{name}{title_end}{values}{body}{values_end}{call_end}"


# Text that a value must not contain: its closing tag, followed by another tag of a call or by the value's end.


def found(pattern: str) -> Callable[[str], bool]:
    """Return a function that tests whether a text contains the pattern."""
    compiled = re.compile(pattern)
    return lambda text: compiled.search(text) is not None


def ends(closer: str, tags: str) -> str:
    """Return a pattern for a closing tag that is followed by one of `tags`, by the same tag, or by the end."""
    return rf"(?:{closer})\s*(?:\Z|{closer}|{tags})"


_TAGS = r"</?(?:\w+:)?(?:parameter|function|invoke|\w*tool_calls?|\w+_calls?)\b"
_PARAMETER = ends("</parameter>", _TAGS)
# If a function and its wrapper end together, the last parameter may be unclosed.
_UNCLOSED = r"</function>\s*</(?:seed:)?tool_call>"
QWEN_LINES = found(rf"{_PARAMETER}|{_UNCLOSED}|\r\Z")
QWEN_COMPACT = found(rf"{_PARAMETER}|{_UNCLOSED}|\A\r?\n")
# Likewise for pairs, if the next call begins after this one.
_NEXT_CALL = r"</\w*tool_call(?::\w+)?>\s*<\w*tool_call(?::\w+)?>"
PAIRS_END = found(ends(r"</arg_value(?::\w+)?>", r"<arg_key(?::\w+)?>|</\w*tool_calls?(?::\w+)?>") + f"|{_NEXT_CALL}")
IFM_END = found(ends(r"</ifm\|arg_value>", r"<ifm\|arg_key>|</ifm\|tool_calls?>"))
# In an object, a text ends at the first end tag of its key. Text after that makes the call unreadable.
M3_END = found(ends(r"\]<\]minimax\[>\[</\w+>", r"\]<\]minimax\[>\[|<[/｜]{0,2}\w") + "|</note>")
XTML_END = found(ends(r"<\|close\|>\s*argument\s*<\|sep\|>", r"<\|(?:open|close)\|>"))
CALL_END = found(ends(r"</\w+>", r"</?\w+>"))
DSML_END = found(ends(r"</\W*[DG]\w+\W*parameter>", r"</?\W*[DG]"))
STEP_END = found(ends("</steptml:parameter>", "<[/｜]?(?:steptml|tool_call)"))
BEAM_END = found(ends("</rfl:parameter>", r"<rfl:parameter|<\|") + r"|\r\Z")
CDATA_END = found(r"\]\]>")

DSML = "｜DSML｜"
GCML = "｜GCML｜"
ANTHROPIC = "antml:"
TICKS = "```"


def dsml(wrapper: str, prefix: str = DSML) -> Renderer:
    """Return the format of a section of typed invokes, with the token before its tags."""
    name = f"{prefix}{wrapper}>"
    return Renderer(invoke(prefix, typed=True), f"<{name}\n", f"\n</{name}", "\n", cannot=DSML_END)


def invokes(wrapper: str, prefix: str = "") -> Renderer:
    """Return the format of a section of invokes without types."""
    cannot = found(ends(f"</{prefix}parameter>", _TAGS))
    return Renderer(invoke(prefix), f"<{prefix}{wrapper}>\n", f"\n</{prefix}{wrapper}>", "\n", cannot=cannot)


def lines(before: str, shape: Shape, after: str, cannot: Callable[[str], bool] = nothing) -> Renderer:
    """Return the format of a wrapper around each call, on separate lines."""
    return Renderer(around(f"{before}\n", shape, f"\n{after}"), between="\n", cannot=cannot)


RENDERERS: dict[str, Renderer] = {
    # A tag around a JSON object.
    "hermes": lines("<tool_call>", OBJECT, "</tool_call>"),
    "falcon": Renderer(around(f"<tool_call>\n{TICKS}json\n", OBJECT, f"\n{TICKS}\n</tool_call>"), between="\n"),
    "qwen25_tools": lines("<tools>", OBJECT, "</tools>"),
    "longcat": lines("<longcat_tool_call>", OBJECT, "</longcat_tool_call>"),
    "minimax_m1": Renderer(OBJECT, "<tool_calls>\n", "\n</tool_calls>", "\n"),
    "nemotron_nano_v2": Renderer(OBJECT, "<TOOLCALL>[", "]</TOOLCALL>", ", "),
    "internlm2": Renderer(around("<|action_start|><|plugin|>\n", PARAMETERS, "<|action_end|>")),
    "granite_20b": Renderer(around("<function_call> ", OBJECT, ""), between="\n"),
    "gigachat3": Renderer(
        around("<|message_sep|>\n\nfunction call<|role_sep|>\n", OBJECT, "<|message_sep|>\n\n"), several=False
    ),
    "gigachat31": Renderer(around("<|function_call|>", OBJECT, "<|message_sep|>\n\n"), several=False),
    # A marker and a JSON array, or bare JSON.
    "mistral": Renderer(MISTRAL_OBJECT, "[TOOL_CALLS][", "]", ", "),
    "mistral_spaced": Renderer(MISTRAL_OBJECT, "[TOOL_CALLS] [", "]", ", "),
    "granite3": Renderer(OBJECT, "<|tool_call|>[", "]", ", "),
    "granite31": Renderer(OBJECT, "<tool_call> [", "]", ", "),
    "hunyuan_a13b": Renderer(OBJECT, "<tool_calls>[", "]</tool_calls>", ", "),
    "jamba": Renderer(OBJECT, "<tool_calls>[\n    ", "\n]</tool_calls>", ",\n    "),
    "cohere": Renderer(COHERE_OBJECT, "<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>", ",\n    "),
    "command_r_plus": Renderer(
        keyed("tool_name", "parameters"), f"Action: {TICKS}json\n[", f"]\n{TICKS}", ", ", lead=False
    ),
    "phi4_mini": Renderer(OBJECT, "functools[", "]", ", ", lead=False),
    "xlam": Renderer(OBJECT, "[", "]", ", "),
    "apertus": Renderer(apertus, "<|tools_prefix|>[", "]<|tools_suffix|>", ", "),
    "llama3_json": Renderer(PARAMETERS, "<|python_tag|>", between="; "),
    "llama4_json": Renderer(PARAMETERS),
    "inkling": Renderer(
        around("<|message_model|><|content_invoke_tool_json|>", keyed(arguments_key="args"), "<|end_message|>")
    ),
    "glm4_0414": Renderer(named("\n"), several=False, lead=False),
    # A marker, the name and JSON.
    "mistral_v11": Renderer(named("[ARGS]", "[TOOL_CALLS]")),
    "mistral_small32": Renderer(named("[CALL_ID]abc12345#[ARGS]", "[TOOL_CALLS]")),
    "kimi_k2": Renderer(
        named(":#<|tool_call_argument_begin|>", "<|tool_call_begin|>functions.", "<|tool_call_end|>"),
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
    ),
    "deepseek_v3": Renderer(
        named(f"\n{TICKS}json\n", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", f"\n{TICKS}<｜tool▁call▁end｜>"),
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "\n",
    ),
    "deepseek_v31": Renderer(
        named("<｜tool▁sep｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
    ),
    "functionary_v31": Renderer(named(">", "<function=", "</function>")),
    "functionary_v32": Renderer(named("\n"), between=">>>", lead=False),
    "solar_open": Renderer(
        named("<|tool_call:args|>", "<|tool_call:begin|>id#<|tool_call:name|>", "<|tool_call:end|>"),
        "<|tool_calls|>",
        "<|calls|>",
    ),
    "harmony": Renderer(
        named(" <|constrain|>json<|message|>", "<|channel|>commentary to=functions.", "<|call|>"),
        between="<|start|>assistant",
    ),
    "harmony_role": Renderer(
        named("<|channel|>commentary json<|message|>", "<|start|>assistant to=functions.", "<|call|>")
    ),
    # Qwen XML.
    "qwen3_coder": lines("<tool_call>", functions("\n", "\n"), "</tool_call>", cannot=QWEN_LINES),
    "qwen3_coder_one_wrapper": Renderer(
        functions("\n", "\n"), "<tool_call>\n", "\n</tool_call>", "\n", cannot=QWEN_LINES
    ),
    "qwen3_coder_bare": Renderer(
        functions("\n", "\n"), between="\n</tool_call>\n", end="\n</tool_call>", cannot=QWEN_LINES
    ),
    "seed_oss": lines("<seed:tool_call>", functions("\n"), "</seed:tool_call>", cannot=QWEN_COMPACT),
    "mimo": Renderer(around("<tool_call>", functions(""), "</tool_call>"), cannot=QWEN_COMPACT),
    # Invokes.
    "minimax_m2": invokes("minimax:tool_call"),
    "deepseek_v32": dsml("function_calls"),
    "deepseek_v4": dsml("tool_calls"),
    "deepseek_v41": dsml("calls", f"{DSML} "),
    "gigachat35": dsml("tool_calls", GCML),
    "muse": Renderer(
        muse, between="<|eom|><|start|>assistant", lead=False, cannot=found(ends("</atem:parameter>", _TAGS))
    ),
    "dots": invokes("dots_function_call"),
    "step3": Renderer(
        around("<｜tool_call_begin｜>function<｜tool_sep｜>", invoke("steptml:", ""), "<｜tool_call_end｜>"),
        "<｜tool_calls_begin｜>",
        "<｜tool_calls_end｜>",
        cannot=STEP_END,
    ),
    "beam": Renderer(beam, between="<|start|>assistant", cannot=BEAM_END),
    "minicpm5": Renderer(minicpm5, between="\n", cannot=CDATA_END),
    "anthropic": invokes("function_calls"),
    "anthropic_prefixed": invokes("function_calls", ANTHROPIC),
    "anthropic_call": Renderer(call_element, between="\n", cannot=CALL_END),
    # Keys and values.
    "glm45": Renderer(around("<tool_call>", pairs("\n", "\n", "\n"), "</tool_call>"), between="\n", cannot=PAIRS_END),
    "glm47": Renderer(around("<tool_call>", pairs("", "", ""), "</tool_call>"), cannot=PAIRS_END),
    "ling3": Renderer(
        around("<tool_call>", pairs("\n", "\n", "", "\n"), "</tool_call>"), between="\n", cannot=PAIRS_END
    ),
    "hy_v3": Renderer(
        around("<tool_call>", pairs("<tool_sep>\n", "\n", "\n"), "</tool_call>\n"),
        "<tool_calls>\n",
        "</tool_calls>",
        cannot=PAIRS_END,
    ),
    "hy_v3_suffix": Renderer(
        around(
            "<tool_call:opensource>",
            pairs("<tool_sep:opensource>\n", "\n", "\n", suffix=":opensource"),
            "</tool_call:opensource>\n",
        ),
        "<tool_calls:opensource>\n",
        "</tool_calls:opensource>",
        cannot=PAIRS_END,
    ),
    "iquest_q1": Renderer(
        around("<iquest_tool_call>", pairs("", "", ""), "</iquest_tool_call>"), between="\n", cannot=PAIRS_END
    ),
    "k2_horizon": Renderer(
        around("<ifm|tool_call>", k2_horizon(typed=False), "</ifm|tool_call>"),
        "<ifm|tool_calls>",
        "</ifm|tool_calls>",
        cannot=IFM_END,
    ),
    "k2_horizon_typed": Renderer(
        around("<ifm|tool_call>", k2_horizon(typed=True), "</ifm|tool_call>"),
        "<ifm|tool_calls>",
        "</ifm|tool_calls>",
        cannot=IFM_END,
    ),
    "k2_horizon_json": Renderer(
        around("<ifm|tool_call>", OBJECT, "</ifm|tool_call>"), "<ifm|tool_calls>", "</ifm|tool_calls>"
    ),
    # Elements named after the parameters.
    "minimax_m3": Renderer(minimax_m3, f"{_M3}<tool_call>\n", f"\n{_M3}</tool_call>", "\n", cannot=M3_END),
    # Python.
    "pythonic": Renderer(pythonic, "[", "]", ", ", lead=False),
    "llama4_pythonic": Renderer(pythonic, "<|python_start|>[", "]<|python_end|>", ", "),
    "olmo3": Renderer(pythonic, "<function_calls>", "</function_calls>", "\n"),
    "lfm2": Renderer(lfm2, "<|tool_call_start|>[", "]<|tool_call_end|>", ", "),
    "minicpm3": Renderer(pythonic, f"<|tool_call_start|>{TICKS}python\n", f"\n{TICKS}<|tool_call_end|>", "\n"),
    # Special literals.
    "gemma4": Renderer(gemma4, cannot=found(r'<\|"\|>')),
    "functiongemma": Renderer(functiongemma, cannot=found("<escape>")),
    "kimi_k3": Renderer(kimi_k3, "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", cannot=XTML_END),
    "plamo3": Renderer(plamo3, *plamo("tool_requests")),
}
