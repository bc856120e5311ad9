"""Several calls in one wrapper, one of them of a tool that was not offered (C3)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.support.helpers import call_json

Arguments = dict[str, Any]
# X is not offered; its values contain text that ends or starts other calls.
X: Arguments = {"path": "a </tool_call> [ ] { } \\ 'b' ```\n<tool_call>now</tool_call>", "n": 1}
BASH: Arguments = {"command": "ls -la", "timeout": 5}
READ: Arguments = {"path": "a.py"}
GIVEN = {"x": ("nope", X), "b": ("bash", BASH), "r": ("read", READ)}
DSML = "｜DSML｜"


def invoke(name: str, arguments: Arguments, mark: str = "") -> str:
    kinds = {True: "false", False: "true"}
    inside = "".join(
        f'<{mark}parameter name="{key}" string="{kinds[isinstance(value, int)]}">{value}</{mark}parameter>\n'
        for key, value in arguments.items()
    )
    return f'<{mark}invoke name="{name}">\n{inside}</{mark}invoke>'


def function_tags(name: str, arguments: Arguments) -> str:
    inside = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
    return f"<function={name}>\n{inside}</function>"


def pairs(name: str, arguments: Arguments) -> str:
    inside = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in arguments.items())
    return f"<tool_call>{name}<tool_sep>\n{inside}</tool_call>"


def python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def xtml(name: str, arguments: Arguments) -> str:
    kinds = {True: "number", False: "string"}
    inside = "".join(
        f'<|open|>argument key="{key}" type="{kinds[isinstance(value, int)]}"<|sep|>{value}<|close|>argument<|sep|>'
        for key, value in arguments.items()
    )
    return f'<|open|>call tool="{name}"<|sep|>{inside}<|close|>call<|sep|>'


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def json_call(name: str, arguments: Arguments) -> str:
    return call_json(name, **arguments)


def kimi(name: str, arguments: Arguments) -> str:
    return f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{dump(arguments)}<|tool_call_end|>"


def deepseek(name: str, arguments: Arguments) -> str:
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{dump(arguments)}\n```<｜tool▁call▁end｜>"


def deepseek31(name: str, arguments: Arguments) -> str:
    return f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dump(arguments)}<｜tool▁call▁end｜>"


# Start of the wrapper, renderer of a body, separator, end of the wrapper.
FAMILIES: dict[str, tuple[str, Callable[[str, Arguments], str], str, str]] = {
    "Hermes, an array": ("<tool_call>\n[", json_call, ", ", "]\n</tool_call>"),
    "Hermes, lines": ("<tool_call>\n", json_call, "\n", "\n</tool_call>"),
    "Hermes, OpenAI's": (
        "<tool_call>[",
        lambda name, arguments: dump({"type": "function", "function": {"name": name, "arguments": dump(arguments)}}),
        ",",
        "]</tool_call>",
    ),
    "Apertus": ("<|tools_prefix|>[", lambda name, arguments: dump({name: arguments}), ", ", "]<|tools_suffix|>"),
    "Mistral": ("[TOOL_CALLS][", json_call, ", ", "]"),
    "Granite 3": ("<|tool_call|>[", json_call, ", ", "]"),
    "Llama": ("<|python_tag|>", json_call, "; ", ""),
    "MiniMax M1": ("<tool_calls>\n", json_call, "\n", "\n</tool_calls>"),
    "Jamba": ("<tool_calls>[\n", json_call, ",\n", "\n]</tool_calls>"),
    "Claude's": ("<function_calls>\n", invoke, "\n", "\n</function_calls>"),
    "MiniMax M2": ("<minimax:tool_call>\n", invoke, "\n", "\n</minimax:tool_call>"),
    "DSML": (
        f"<{DSML}tool_calls>\n",
        lambda name, arguments: invoke(name, arguments, DSML),
        "\n",
        f"\n</{DSML}tool_calls>",
    ),
    "Qwen": ("<tool_call>\n", function_tags, "\n", "\n</tool_call>"),
    "Hunyuan": ("<tool_calls>\n", pairs, "\n", "\n</tool_calls>"),
    "Kimi K2": ("<|tool_calls_section_begin|>", kimi, "", "<|tool_calls_section_end|>"),
    "Kimi K3": ("<|open|>tools<|sep|>", xtml, "", "<|close|>tools<|sep|>"),
    "DeepSeek V3": ("<｜tool▁calls▁begin｜>", deepseek, "\n", "<｜tool▁calls▁end｜>"),
    "DeepSeek V3.1": ("<｜tool▁calls▁begin｜>", deepseek31, "", "<｜tool▁calls▁end｜>"),
    "LFM2": ("<|tool_call_start|>[", python, ", ", "]<|tool_call_end|>"),
    "Llama 4": ("<|python_start|>[", python, ", ", "]<|python_end|>"),
    "OLMo 3": ("<function_calls>", python, "\n", "</function_calls>"),
}


def reply(family: str, order: str) -> tuple[str, list[tuple[str, Arguments]]]:
    """Return a wrapper with bodies in this order, and its calls."""
    begins, body, between, closes = FAMILIES[family]
    text = begins + between.join(body(*GIVEN[each]) for each in order) + closes
    return text, [GIVEN[each] for each in order if each != "x"]


def content(family: str, order: str) -> str:
    """Return the remaining text: bodies of tools not offered, separators between two of them, and the start of the
    wrapper if one of them is first.
    """
    begins, body, between, _ = FAMILIES[family]
    runs = (between.join([body(*GIVEN["x"])] * len(run)) for run in re.findall("x+", order))
    return (begins if order.startswith("x") else "") + "".join(runs)
