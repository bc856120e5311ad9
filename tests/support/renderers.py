"""Renderers of calls in the text formats of models, for reading them back. The formats are in renderers.yaml."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from benchmarks.harm.families import Body, Family, Tags, Type
from benchmarks.harm.writing import CLEAN, Style, dump
from proxy.json import Json, JsonObject

Call: TypeAlias = tuple[str, JsonObject]


@dataclass(frozen=True)
class Renderer(Family):
    """One format. `own` writes the arguments of a format whose notation no other has."""

    own: Callable[[JsonObject], str] | None = None

    def arguments(self, values: JsonObject, style: Style = CLEAN) -> str:
        """Return only the arguments."""
        return self.own(values) if self.own else Family.arguments(self, values, style)

    def render(self, calls: Sequence[Call]) -> str:
        """Return a reply with these calls."""
        return self.write(calls, 0)


def _raw(value: Json) -> str:
    """Return a string verbatim, without quotation marks, and other values as Python literals."""
    return value if isinstance(value, str) else repr(value)


def _minicpm5(values: JsonObject) -> str:
    """Write strings with markup or line ends as CDATA, and other types as Python literals."""
    texts = {key: _raw(value) for key, value in values.items()}
    written = {key: f"<![CDATA[{text}]]>" if re.search(r"[<>&\r\n]", text) else text for key, text in texts.items()}
    return "".join(f'<param name="{key}">{text}</param>' for key, text in written.items())


_IFM_TYPES = {dict: "object", list: "array", bool: "boolean", int: "integer", float: "number", str: "string"}


def _k2_horizon(values: JsonObject) -> str:
    """Write keys, types and values."""
    return "".join(
        f"<ifm|arg_key>{key}</ifm|arg_key><ifm|arg_type>{_IFM_TYPES.get(type(value), 'null')}</ifm|arg_type>"
        f"<ifm|arg_value>{value if isinstance(value, str) else dump(value)}</ifm|arg_value>"
        for key, value in values.items()
    )


def _lfm2(values: JsonObject) -> str:
    """Write Python arguments, with objects and arrays as JSON."""
    texts = {key: dump(value) if isinstance(value, dict | list) else repr(value) for key, value in values.items()}
    return ", ".join(f"{key}={text}" for key, text in texts.items())


def _functiongemma(values: JsonObject) -> str:
    """Write every value in delimiters; types other than strings as Python literals."""
    return "{" + ",".join(f"{key}:<escape>{_raw(value)}<escape>" for key, value in values.items()) + "}"


_OWN = {"minicpm5": _minicpm5, "k2_horizon_typed": _k2_horizon, "lfm2": _lfm2, "functiongemma": _functiongemma}


def _ends(closer: str, tags: str) -> str:
    """Return a pattern for a closing tag that is followed by one of `tags`, by the same tag, or by the end."""
    return rf"(?:{closer})\s*(?:\Z|{closer}|{tags})"


_TAGS = r"</?(?:\w+:)?(?:parameter|function|invoke|\w*tool_calls?|\w+_calls?)\b"
_PARAMETER = _ends("</parameter>", _TAGS)
# If a function and its wrapper end together, the last parameter may be unclosed.
_UNCLOSED = r"</function>\s*</(?:seed:)?tool_call>"
# Likewise for pairs, if the next call begins after this one.
_NEXT_CALL = r"</\w*tool_call(?::\w+)?>\s*<\w*tool_call(?::\w+)?>"
# Text that a value must not contain: its closing tag, followed by another tag of a call or by the value's end.
_CANNOT = {
    "qwen_lines": rf"{_PARAMETER}|{_UNCLOSED}|\r\Z",
    "qwen_compact": rf"{_PARAMETER}|{_UNCLOSED}|\A\r?\n",
    "invoke": _PARAMETER,
    **{prefix: _ends(f"</{prefix}:parameter>", _TAGS) for prefix in ("antml", "atem")},
    "pairs": _ends(r"</arg_value(?::\w+)?>", r"<arg_key(?::\w+)?>|</\w*tool_calls?(?::\w+)?>") + f"|{_NEXT_CALL}",
    "ifm": _ends(r"</ifm\|arg_value>", r"<ifm\|arg_key>|</ifm\|tool_calls?>"),
    # In an object, a text ends at the first end tag of its key. Text after that makes the call unreadable.
    "minimax_m3": _ends(r"\]<\]minimax\[>\[</\w+>", r"\]<\]minimax\[>\[|<[/｜]{0,2}\w") + "|</note>",
    "xtml": _ends(r"<\|close\|>\s*argument\s*<\|sep\|>", r"<\|(?:open|close)\|>"),
    "element": _ends(r"</\w+>", r"</?\w+>"),
    "dsml": _ends(r"</\W*[DG]\w+\W*parameter>", r"</?\W*[DG]"),
    "step": _ends("</steptml:parameter>", "<[/｜]?(?:steptml|tool_call)"),
    "beam": _ends("</rfl:parameter>", r"<rfl:parameter|<\|") + r"|\r\Z",
    "cdata": r"\]\]>",
    "gemma4": r'<\|"\|>',
    "functiongemma": "<escape>",
}


def _renderer(name: str, row: dict[str, Any]) -> Renderer:
    """Return the renderer of a format's row."""
    tags = row.get("tags", {})
    given = {**row, "body": Body(row.get("body", "json")), "section": tuple(row.get("section", ("", "")))}
    given["tags"] = Tags(**{"open": "", "close": "", **tags, "type": Type(tags.get("type", "schema"))})
    if "cannot" in row:
        pattern = re.compile(_CANNOT[row["cannot"]])
        given["cannot"] = lambda text: pattern.search(text) is not None
    return Renderer(name, **given, own=_OWN.get(name))


_ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))["formats"]
RENDERERS: dict[str, Renderer] = {name: _renderer(name, row) for name, row in _ROWS.items()}
