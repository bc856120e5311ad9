"""Wrappers around the JSON arguments of a call, and a reader of calls that checks every cut."""

from __future__ import annotations

import json
from collections.abc import Callable

from proxy.json import Json
from proxy.notations.toolset import ToolSet
from tests.failures.test_failures_damage import TOOLS
from tests.support.helpers import all_cuts, new_scanner, scan
from tests.support.renderers import RENDERERS

Written = Callable[[str, str], str]


def _around(form: str) -> Written:
    """Return a writer of calls with any text as arguments."""
    return lambda name, text: RENDERERS[form].render([(name, {"@": 0})]).replace('{"@": 0}', text)


WRAPPERS: dict[str, Written] = {
    "Hermes": _around("hermes"),
    "Qwen2.5": _around("qwen25_tools"),
    "Qwen2.5, a list": lambda name, text: f'<tools>[{{"name": "{name}", "arguments": {text}}}]</tools>',
    "Mistral": _around("mistral_v11"),
    "Mistral, before": lambda name, text: f'[TOOL_CALLS][{{"name": "{name}", "arguments": {text}}}]',
    "Kimi": _around("kimi_k2"),
    "DeepSeek V3": _around("deepseek_v3"),
    "DeepSeek V3.1": _around("deepseek_v31"),
    "harmony": _around("harmony"),
    "functionary": lambda name, text: f"<tool_call><function={name}>{text}</function></tool_call>",
    "OpenAI": lambda name, text: (
        f'<tool_call>{{"type": "function", "function": {{"name": "{name}", "arguments": {text}}}}}</tool_call>'
    ),
    "Apertus": _around("apertus"),
    "Llama": _around("llama3_json"),
    "Cohere": _around("cohere"),
}


def read(text: str, cuts: int = 2, tools: ToolSet = TOOLS) -> tuple[list[tuple[str, Json]], str]:
    """Return the calls of a reply and the text around them, the same at every cut."""
    seen = [scan(cut, new_scanner(tools)) for cut in all_cuts(text, cuts)]
    found = [([(name, json.loads(values)) for name, values in each.calls], each.text) for each in seen]
    assert all(each == found[0] for each in found)
    return found[0]
