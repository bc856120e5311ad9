"""Wrappers around the JSON arguments of a call, and a reader of calls that checks every cut."""

from __future__ import annotations

import json
from collections.abc import Callable

from proxy.json import Json
from proxy.notations.toolset import ToolSet
from tests.failures.test_failures_damage import TOOLS
from tests.support.helpers import all_cuts, new_scanner, scan

Written = Callable[[str, str], str]
_KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
_DEEPSEEK = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
WRAPPERS: dict[str, Written] = {
    "Hermes": lambda name, text: f'<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>',
    "Qwen2.5": lambda name, text: f'<tools>\n{{"name": "{name}", "arguments": {text}}}\n</tools>',
    "Qwen2.5, a list": lambda name, text: f'<tools>[{{"name": "{name}", "arguments": {text}}}]</tools>',
    "Mistral": lambda name, text: f"[TOOL_CALLS]{name}[ARGS]{text}",
    "Mistral, before": lambda name, text: f'[TOOL_CALLS][{{"name": "{name}", "arguments": {text}}}]',
    "Kimi": lambda name, text: _KIMI.format(name, text) + "<|tool_calls_section_end|>",
    "DeepSeek V3": lambda name, text: _DEEPSEEK.format(f"function<｜tool▁sep｜>{name}\n```json\n{text}\n```"),
    "DeepSeek V3.1": lambda name, text: _DEEPSEEK.format(f"{name}<｜tool▁sep｜>{text}"),
    "harmony": lambda name, text: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{text}<|call|>"
    ),
    "functionary": lambda name, text: f"<tool_call><function={name}>{text}</function></tool_call>",
    "OpenAI": lambda name, text: (
        f'<tool_call>{{"type": "function", "function": {{"name": "{name}", "arguments": {text}}}}}</tool_call>'
    ),
    "Apertus": lambda name, text: f'<|tools_prefix|>[{{"{name}": {text}}}]<|tools_suffix|>',
    "Llama": lambda name, text: f'<|python_tag|>{{"name": "{name}", "parameters": {text}}}',
    "Cohere": lambda name, text: (
        f'<|START_ACTION|>[\n    {{"tool_call_id": "0", "tool_name": "{name}", "parameters": {text}}}\n]<|END_ACTION|>'
    ),
}


def read(text: str, cuts: int = 2, tools: ToolSet = TOOLS) -> tuple[list[tuple[str, Json]], str]:
    """Return the calls of a reply and the text around them, the same at every cut."""
    seen = [scan(cut, new_scanner(tools)) for cut in all_cuts(text, cuts)]
    found = [([(name, json.loads(values)) for name, values in each.calls], each.text) for each in seen]
    assert all(each == found[0] for each in found)
    return found[0]
