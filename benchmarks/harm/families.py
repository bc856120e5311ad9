"""Families of formats: writers of replies with calls, as in the models' templates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from benchmarks.harm.writing import CLEAN, GEMMA_MARK, JsonStyle, Style, dump, write_gemma, write_json, write_python

Values = dict[str, Any]
Call = tuple[str, Values]


class Body(Enum):
    """Notation of the arguments."""

    JSON = "json"
    TAGS = "tags"
    GEMMA = "gemma"
    PYTHON = "python"


class Type(Enum):
    """How a tag format declares types of values: not at all, or by an attribute, a word, nested elements, or JSON."""

    SCHEMA = "schema"
    DSML = "dsml"
    XTML = "xtml"
    ELEMENTS = "elements"
    JSON = "json"


_XTML = {dict: "object", list: "array", bool: "boolean", int: "number", float: "number", str: "string"}
M3 = "]<]minimax[>["


@dataclass(frozen=True, slots=True)
class Tags:
    """A parameter in tags: opening tag for `{key}`, end tag, and the text around and after the value.

    `escapes`: U+200B follows the `<` of a tag inside a value.
    """

    open: str
    close: str
    edge: str = ""
    behind: str = ""
    type: Type = Type.SCHEMA
    escapes: bool = False

    def opener(self, key: str, value: Any, style: Style) -> str:
        """Return the opening tag."""
        said = style.typed.get(key)
        if self.type is Type.DSML:
            said = said or dump(isinstance(value, str))
        elif self.type is Type.XTML:
            said = said or _XTML.get(type(value), "null")
        return self.open.replace("{key}", key).replace("{type}", said or "")

    def closer(self, key: str) -> str:
        """Return the end tag."""
        return self.close.replace("{key}", key)

    def raw(self, value: Any) -> str:
        """Return the value between the tags. Strings are unchanged."""
        if isinstance(value, str) and self.type is not Type.JSON:
            return re.sub("<(?=[/｜])", "<\u200b", value) if self.escapes else value
        if self.type is not Type.ELEMENTS or not isinstance(value, dict | list):
            return dump(value)
        if isinstance(value, dict):
            return "".join(f"{M3}<{key}>{self.raw(inner)}{M3}</{key}>" for key, inner in value.items())
        return "".join(f"{M3}<item>{self.raw(inner)}{M3}</item>" for inner in value)

    def write(self, values: Values, style: Style) -> str:
        """Return all parameters."""
        return "".join(self._one(number, key, value, style) for number, (key, value) in enumerate(values.items()))

    def _one(self, number: int, key: str, value: Any, style: Style) -> str:
        begun = f"{self.opener(key, value, style)}{self.edge}{self.raw(value)}"
        if number in style.no_end:
            # The line end in front of the next tag stays.
            return begun + (self.edge or self.behind)
        closer = self.closer(key)
        if "parameter" in style.twice:
            closer += self.edge + closer
        return begun + self.edge + closer + self.behind


@dataclass(frozen=True, slots=True)
class Family:
    """One format. A reply is `section` around calls with `between` them; a call is `opener`, `head`, the arguments,
    `foot`, `closer`. `{name}` and `{n}` stand for the call's name and number.

    `lead`, `tail`: prose may precede it, and follow it on the next line. `several`: calls may be parallel. `weak`: it
    has no wrapper, so it counts only at the end of a reply. `keys` is the pattern of the keys that it can write.
    `reader`: the judge can read it strictly. `single`: a call is the text of its only required string. `encode` changes
    the text of the arguments, `rewrite` that of a call.
    """

    name: str
    body: Body = Body.JSON
    section: tuple[str, str] = ("", "")
    between: str = ""
    opener: str = ""
    head: str = "{name}"
    foot: str = ""
    closer: str = ""
    tags: Tags = Tags("", "")
    lead: bool = True
    tail: bool = True
    several: bool = True
    weak: bool = False
    structured: bool = False
    cannot: Callable[[str], bool] | None = None
    keys: str = ".+"
    reader: bool = True
    single: bool = False
    encode: Callable[[str], str] | None = None
    rewrite: Callable[[str], str] | None = None

    def fits(self, text: str) -> bool:
        """Return whether the format can write this string."""
        return self.cannot is None or not self.cannot(text)

    def arguments(self, values: Values, style: Style = CLEAN) -> str:
        """Return only the arguments."""
        match self.body:
            case Body.JSON:
                text = write_json(values, style.json)
            case Body.PYTHON:
                text = write_python(values, _python_style(style.json))
            case Body.GEMMA:
                text = write_gemma(values, _gemma_style(style.json))
            case Body.TAGS:
                text = self.tags.write(values, style)
        text = style.text(text) if style.text else text
        return self.encode(text) if self.encode else text

    def call(self, number: int, call: Call, style: Style = CLEAN) -> str:
        """Return one call with its opener and closer."""
        name, values = call
        written = style.name or name
        parts = {"opener": self.opener, "head": self.head, "foot": self.foot, "closer": self.closer}
        for part in style.twice & parts.keys():
            parts[part] *= 2
        for part in style.without & parts.keys():
            parts[part] = ""
        filled = {part: text.replace("{name}", written).replace("{n}", str(number)) for part, text in parts.items()}
        inside = self.arguments(values, style)
        text = f"{filled['opener']}{filled['head']}{inside}{filled['foot']}{filled['closer']}"
        return self.rewrite(text) if self.rewrite else text

    def write(self, calls: Sequence[Call], target: int, style: Style = CLEAN) -> str:
        """Return the reply with call number `target` in this style."""
        start, end = self.section
        if "start" in style.twice:
            # Only the marker, not the bracket after it.
            start = start.removesuffix("[") + start
        end *= 1 + ("end" in style.twice)
        if "end" in style.without:
            end = ""
        styles = [style if number == target else CLEAN for number in range(len(calls))]
        written = [
            self.call(number, call, style) for number, (call, style) in enumerate(zip(calls, styles, strict=True))
        ]
        return start + self.between.join(written) + end


def _python_style(style: JsonStyle) -> JsonStyle:
    """Return the style with Python's words as defaults."""
    clean = JsonStyle()
    return replace(
        style,
        string=style.string if style.string is not clean.string else lambda text, path: repr(text),
        key=style.key if style.key is not clean.key else lambda key, path: key,
    )


def _gemma_style(style: JsonStyle) -> JsonStyle:
    """Return the style with Gemma's string delimiters as defaults."""
    clean = JsonStyle()
    return replace(
        style,
        string=style.string if style.string is not clean.string else lambda text, path: GEMMA_MARK + text + GEMMA_MARK,
        key=style.key if style.key is not clean.key else lambda key, path: key,
        between=style.between if style.between is not clean.between else lambda number, path: ",",
    )


def _starts_with_line_end(text: str) -> bool:
    """Return whether a value's first line end is indistinguishable from one added by the template."""
    return text.startswith(("\r", "\n"))


def _ends_in_return(text: str) -> bool:
    return text.endswith("\r")


def _holds_mark(text: str) -> bool:
    return GEMMA_MARK in text


_OBJECT = '{"name": "{name}", "arguments": '
_QWEN = Tags("<parameter={key}>", "</parameter>", "\n", "\n")
_INVOKE = Tags('<parameter name="{key}">', "</parameter>", "", "\n")
_DSML = "｜DSML｜"
_TICKS = "```"

STRUCTURED = Family("structured", structured=True)
_JSON = (
    Family("hermes", between="\n", opener="<tool_call>\n", head=_OBJECT, foot="}", closer="\n</tool_call>"),
    Family("tools", between="\n", opener="<tools>\n", head=_OBJECT, foot="}", closer="\n</tools>"),
    Family(
        "mistral",
        section=("[TOOL_CALLS][", "]"),
        between=", ",
        head=_OBJECT,
        foot="}",
        tail=False,
    ),
    Family("mistral_v11", opener="[TOOL_CALLS]", head="{name}[ARGS]", tail=False),
    Family(
        "kimi_k2",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        opener="<|tool_call_begin|>",
        head="functions.{name}:{n}<|tool_call_argument_begin|>",
        closer="<|tool_call_end|>",
    ),
    Family(
        "deepseek_v3",
        section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        between="\n",
        opener="<｜tool▁call▁begin｜>",
        head=f"function<｜tool▁sep｜>{{name}}\n{_TICKS}json\n",
        foot=f"\n{_TICKS}",
        closer="<｜tool▁call▁end｜>",
    ),
    Family(
        "deepseek_v31",
        section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        opener="<｜tool▁call▁begin｜>",
        head="{name}<｜tool▁sep｜>",
        closer="<｜tool▁call▁end｜>",
    ),
    Family(
        "harmony",
        between="<|start|>assistant",
        opener="<|channel|>commentary to=functions.",
        head="{name} <|constrain|>json<|message|>",
        closer="<|call|>",
        lead=False,
        tail=False,
    ),
    Family(
        "llama3",
        section=("<|python_tag|>", ""),
        between="; ",
        head='{"name": "{name}", "parameters": ',
        foot="}",
        tail=False,
    ),
    Family(
        "bare_json",
        between="\n",
        head='{"name": "{name}", "parameters": ',
        foot="}",
        tail=False,
        weak=True,
    ),
)
_TAGGED = (
    Family(
        "qwen_xml",
        Body.TAGS,
        between="\n",
        opener="<tool_call>\n",
        head="<function={name}>\n",
        foot="</function>",
        closer="\n</tool_call>",
        tags=_QWEN,
        cannot=_ends_in_return,
    ),
    Family(
        "mimo",
        Body.TAGS,
        opener="<tool_call>",
        head="<function={name}>",
        foot="</function>",
        closer="</tool_call>",
        tags=Tags("<parameter={key}>", "</parameter>"),
        cannot=_starts_with_line_end,
    ),
    Family(
        "seed_oss",
        Body.TAGS,
        between="\n",
        opener="<seed:tool_call>\n",
        head="<function={name}>\n",
        foot="</function>",
        closer="\n</seed:tool_call>",
        tags=Tags("<parameter={key}>", "</parameter>", "", "\n"),
        cannot=_starts_with_line_end,
    ),
    Family(
        "minimax_m2",
        Body.TAGS,
        section=("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
        between="\n",
        head='<invoke name="{name}">\n',
        foot="</invoke>",
        tags=_INVOKE,
    ),
    Family(
        "claude",
        Body.TAGS,
        section=("<function_calls>\n", "\n</function_calls>"),
        between="\n",
        head='<invoke name="{name}">\n',
        foot="</invoke>",
        tags=_INVOKE,
    ),
    Family(
        "dsml",
        Body.TAGS,
        section=(f"<{_DSML}tool_calls>\n", f"\n</{_DSML}tool_calls>"),
        between="\n",
        head=f'<{_DSML}invoke name="{{name}}">\n',
        foot=f"</{_DSML}invoke>",
        tags=Tags(f'<{_DSML}parameter name="{{key}}" string="{{type}}">', f"</{_DSML}parameter>", "", "\n", Type.DSML),
    ),
    Family(
        "glm",
        Body.TAGS,
        between="\n",
        opener="<tool_call>",
        head="{name}\n",
        closer="</tool_call>",
        tags=Tags("<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>", "", "\n"),
    ),
    Family(
        "hunyuan",
        Body.TAGS,
        section=("<tool_calls>\n", "</tool_calls>"),
        opener="<tool_call>",
        head="{name}<tool_sep>\n",
        closer="</tool_call>\n",
        tags=Tags("<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>", "", "\n"),
    ),
    Family(
        "kimi_k3",
        Body.TAGS,
        section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        head='<|open|>call tool="{name}" index="{n}"<|sep|>',
        foot="<|close|>call<|sep|>",
        tags=Tags('<|open|>argument key="{key}" type="{type}"<|sep|>', "<|close|>argument<|sep|>", type=Type.XTML),
    ),
    Family(
        "minimax_m3",
        Body.TAGS,
        section=(f"{M3}<tool_call>\n", f"\n{M3}</tool_call>"),
        between="\n",
        head=f'{M3}<invoke name="{{name}}">',
        foot=f"{M3}</invoke>",
        tags=Tags(f"{M3}<{{key}}>", f"{M3}</{{key}}>", type=Type.ELEMENTS),
        keys=r"[\w.-]+",
    ),
    Family(
        "call_element",
        Body.TAGS,
        between="\n",
        opener="<Call>",
        head="<Function>{name}</Function><Parameters>",
        foot="</Parameters>",
        closer="</Call>",
        tags=Tags("<{key}>", "</{key}>"),
        keys=r"\w[\w.-]*",
        cannot=_starts_with_line_end,
    ),
)
_OTHERS = (
    Family(
        "pythonic",
        Body.PYTHON,
        section=("[", "]"),
        between=", ",
        head="{name}(",
        foot=")",
        lead=False,
        tail=False,
        weak=True,
        keys=r"[^\W\d]\w*",
    ),
    Family(
        "gemma4",
        Body.GEMMA,
        opener="<|tool_call>",
        head="call:{name}",
        closer="<tool_call|>",
        tail=False,
        cannot=_holds_mark,
    ),
)
FAMILIES: dict[str, Family] = {family.name: family for family in (STRUCTURED, *_JSON, *_TAGGED, *_OTHERS)}
