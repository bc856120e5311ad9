"""A scripted model for the doctor on a real server. Its chat template recognizes the doctor's prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping

from proxy.doctor.examination import CALL, THINK

_JSON = '{"path": "doctor.txt", "content": "hello"}'
# A call of the tool in each syntax.
CALLS = {
    "Qwen3-Coder's XML": (
        "<tool_call>\n<function=write_file>\n<parameter=path>\ndoctor.txt\n</parameter>\n<parameter=content>\nhello\n"
        "</parameter>\n</function>\n</tool_call>"
    ),
    "GLM's pairs": (
        "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>doctor.txt</arg_value>\n"
        "<arg_key>content</arg_key>\n<arg_value>hello</arg_value>\n</tool_call>"
    ),
    "Hermes' JSON": f'<tool_call>\n{{"name": "write_file", "arguments": {_JSON}}}\n</tool_call>',
    "MiniMax' XML": (
        '<minimax:tool_call>\n<invoke name="write_file">\n<parameter name="path">doctor.txt</parameter>\n'
        '<parameter name="content">hello</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "Mistral's list": f'[TOOL_CALLS][{{"name": "write_file", "arguments": {_JSON}}}]',
    "Kimi's sections": (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>"
        f"{_JSON}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    "DeepSeek's sections": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>"
        f"{_JSON}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "gpt-oss' channels": f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{_JSON}<|call|>",
    "Llama's JSON": f'{{"name": "write_file", "parameters": {_JSON}}}',
    "Python's calls": '[write_file(path="doctor.txt", content="hello")]',
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
    """Return a chat template that replaces these prompts by `mark`, for a model that reads nothing else.

    `tests.real.parrot` is that model.
    """
    tests = [
        f"{{%- {'if' if not at else 'elif'} messages[-1].content is string and add_generation_prompt "
        f"and {json.dumps(asked)} in messages[-1].content -%}}{mark.format(name)}"
        for at, (name, (asked, _)) in enumerate(made.items())
    ]
    return "".join(tests) + "{%- else -%}" + template + "{%- endif -%}"
