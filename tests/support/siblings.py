"""Several calls in one wrapper, one of them of a tool that was not offered (C3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.harm.writing import dump
from tests.support.renderers import RENDERERS, Renderer

Arguments = dict[str, Any]
# X is not offered; its values contain text that ends or starts other calls.
X: Arguments = {"path": "a </tool_call> [ ] { } \\ 'b' ```\n<tool_call>now</tool_call>", "n": 1}
BASH: Arguments = {"command": "ls -la", "timeout": 5}
READ: Arguments = {"path": "a.py"}
GIVEN = {"x": ("nope", X), "b": ("bash", BASH), "r": ("read", READ)}


HERMES, HUNYUAN = RENDERERS["hermes"], RENDERERS["hy_v3"]
FAMILIES = {
    "hermes_array": replace(HERMES, section=("<tool_call>\n[", "]\n</tool_call>"), opener="", closer="", between=", "),
    "hermes_lines": replace(HERMES, section=("<tool_call>\n", "\n</tool_call>"), opener="", closer=""),
    "hermes_openai": Renderer(
        "hermes_openai",
        section=("<tool_call>[", "]</tool_call>"),
        between=",",
        head='{"type": "function", "function": {"name": "{name}", "arguments": ',
        foot="}}",
        encode=dump,
    ),
    "hunyuan": replace(HUNYUAN, section=("<tool_calls>\n", "\n</tool_calls>"), closer="</tool_call>", between="\n"),
    **{
        name: RENDERERS[name]
        for name in (
            *("apertus", "mistral", "granite3", "llama3_json", "minimax_m1", "jamba", "anthropic", "minimax_m2"),
            *("deepseek_v4", "qwen3_coder_one_wrapper", "kimi_k2", "kimi_k3", "deepseek_v3", "deepseek_v31"),
            *("lfm2", "llama4_pythonic", "olmo3"),
        )
    },
}


def parts(family: str) -> tuple[str, Callable[[str, Arguments], str], str, str]:
    """Return the start of the wrapper, a renderer of a body, the separator, and the end of the wrapper."""
    each = FAMILIES[family]
    start, end = each.section
    return start, lambda name, arguments: each.call(0, (name, arguments)), each.between, end


def reply(family: str, order: str) -> tuple[str, list[tuple[str, Arguments]]]:
    """Return a wrapper with bodies in this order, and its calls."""
    begins, body, between, closes = parts(family)
    text = begins + between.join(body(*GIVEN[each]) for each in order) + closes
    return text, [GIVEN[each] for each in order if each != "x"]


def content(family: str, order: str) -> str:
    """Return the text that is not part of a call.

    It has the bodies of tools not offered, the separators between them, and before a first one, the wrapper's start.
    """
    begins, body, between, _ = parts(family)
    runs = (between.join([body(*GIVEN["x"])] * len(run)) for run in re.findall("x+", order))
    return (begins if order.startswith("x") else "") + "".join(runs)
