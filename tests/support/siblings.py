"""Several calls in one wrapper, one of them of a tool that was not offered (C3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.support.renderers import OBJECT, RENDERERS, Renderer, around, dump, pairs

Arguments = dict[str, Any]
# X is not offered; its values contain text that ends or starts other calls.
X: Arguments = {"path": "a </tool_call> [ ] { } \\ 'b' ```\n<tool_call>now</tool_call>", "n": 1}
BASH: Arguments = {"command": "ls -la", "timeout": 5}
READ: Arguments = {"path": "a.py"}
GIVEN = {"x": ("nope", X), "b": ("bash", BASH), "r": ("read", READ)}


def openai(number: int, name: str, arguments: Arguments) -> str:
    return dump({"type": "function", "function": {"name": name, "arguments": dump(arguments)}})


HUNYUAN = around("<tool_call>", pairs("<tool_sep>\n", "\n", "\n"), "</tool_call>")
RENDERED = {
    "hermes_array": Renderer(OBJECT, "<tool_call>\n[", "]\n</tool_call>", ", "),
    "hermes_lines": Renderer(OBJECT, "<tool_call>\n", "\n</tool_call>", "\n"),
    "hermes_openai": Renderer(openai, "<tool_call>[", "]</tool_call>", ","),
    "hunyuan": Renderer(HUNYUAN, "<tool_calls>\n", "\n</tool_calls>", "\n"),
    **{
        name: RENDERERS[name]
        for name in (
            *("apertus", "mistral", "granite3", "llama3_json", "minimax_m1", "jamba", "anthropic", "minimax_m2"),
            *("deepseek_v4", "qwen3_coder_one_wrapper", "kimi_k2", "kimi_k3", "deepseek_v3", "deepseek_v31"),
            *("lfm2", "llama4_pythonic", "olmo3"),
        )
    },
}


def _parts(each: Renderer) -> tuple[str, Callable[[str, Arguments], str], str, str]:
    """Return the start of the wrapper, a renderer of a body, the separator, and the end of the wrapper."""
    return each.start, lambda name, arguments: each.shape(0, name, arguments), each.between, each.end


FAMILIES = {name: _parts(each) for name, each in RENDERED.items()}


def reply(family: str, order: str) -> tuple[str, list[tuple[str, Arguments]]]:
    """Return a wrapper with bodies in this order, and its calls."""
    begins, body, between, closes = FAMILIES[family]
    text = begins + between.join(body(*GIVEN[each]) for each in order) + closes
    return text, [GIVEN[each] for each in order if each != "x"]


def content(family: str, order: str) -> str:
    """Return the text that is not part of a call.

    It has the bodies of tools not offered, the separators between them, and before a first one, the wrapper's start.
    """
    begins, body, between, _ = FAMILIES[family]
    runs = (between.join([body(*GIVEN["x"])] * len(run)) for run in re.findall("x+", order))
    return (begins if order.startswith("x") else "") + "".join(runs)
