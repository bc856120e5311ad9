"""A scripted model for the doctor on a real server. Its chat template recognizes the doctor's prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from proxy.doctor.examination import CALL, THINK
from tests.support.renderers import RENDERERS

# A call of the tool in each syntax.
CALLS = {
    syntax: RENDERERS[form].render([("write_file", {"path": "doctor.txt", "content": "hello"})])
    for syntax, form in {
        "Qwen3-Coder's XML": "qwen3_coder",
        "GLM's pairs": "glm45",
        "Hermes' JSON": "hermes",
        "MiniMax' XML": "minimax_m2",
        "Mistral's list": "mistral",
        "Kimi's sections": "kimi_k2",
        "DeepSeek's sections": "deepseek_v31",
        "gpt-oss' channels": "harmony",
        "Llama's JSON": "llama4_json",
        "Python's calls": "pythonic",
    }.items()
}
THOUGHT = "<think>\nTimes.\n</think>\n\nIt is 391."


def scripts(writes: str, thinks: bool = False) -> dict[str, tuple[str, str]]:
    """Return the prompt and the model's reply, by name. Calls are in the syntax `writes`."""
    return {"call": (CALL, CALLS[writes]), "think": (THINK, THOUGHT if thinks else "It is 391.")}


def said(made: Mapping[str, tuple[str, str]]) -> dict[str, list[str]]:
    """Return the scripts for a server: the model's reply, by name."""
    return {name: [text] for name, (_, text) in made.items()}


def marked(made: Mapping[str, tuple[str, str]], template: str, mark: str) -> str:
    """Return a chat template that appends `mark`, with the script's name in it, to the prompts that it recognizes."""
    tests = [
        f"{{%- if messages[-1].content is string and {json.dumps(asked)} in messages[-1].content -%}}"
        f"{mark.format(name)}{{%- endif -%}}"
        for name, (asked, _) in made.items()
    ]
    return template + "{%- if add_generation_prompt -%}" + "".join(tests) + "{%- endif -%}"


def instead(made: Mapping[str, tuple[str, str]], template: str, mark: str) -> str:
    """Return a chat template that replaces these prompts by `mark`, for a model that reads only marks.

    `tests.real.parrot` is such a model.
    """
    tests = [
        f"{{%- {'if' if not at else 'elif'} messages[-1].content is string and add_generation_prompt "
        f"and {json.dumps(asked)} in messages[-1].content -%}}{mark.format(name)}"
        for at, (name, (asked, _)) in enumerate(made.items())
    ]
    return "".join(tests) + "{%- else -%}" + template + "{%- endif -%}"
