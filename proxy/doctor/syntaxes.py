"""The syntaxes in which models write calls, and the flags by which servers read them.

The table of families says which syntax a model was trained on, and so which parser it needs; its own raw text shows
what it really writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_text import JsonObject, dump, load_json
from proxy.healing.families import Parsers
from proxy.notations.front import Reader
from proxy.tools.toolset import read_tools

NAME = "write_file"
TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Write a text into a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Syntax:
    """One syntax: a call of the tool in it, and the marks that all occur in the text of such a call."""

    id: str
    call: str
    marks: tuple[str, ...]


_JSON = '{"path": "doctor.txt", "content": "hello"}'
# The first one whose marks are all there counts.
SYNTAXES = (
    Syntax(
        "Qwen3-Coder's XML",
        "<tool_call>\n<function=write_file>\n<parameter=path>\ndoctor.txt\n</parameter>\n<parameter=content>\nhello\n"
        "</parameter>\n</function>\n</tool_call>",
        ("<function=", "<parameter="),
    ),
    Syntax(
        "GLM's pairs",
        "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>doctor.txt</arg_value>\n"
        "<arg_key>content</arg_key>\n<arg_value>hello</arg_value>\n</tool_call>",
        ("<tool_call>", "<arg_key>"),
    ),
    Syntax(
        "Hermes' JSON",
        f'<tool_call>\n{{"name": "write_file", "arguments": {_JSON}}}\n</tool_call>',
        ("<tool_call>", "{"),
    ),
    Syntax(
        "MiniMax' XML",
        '<minimax:tool_call>\n<invoke name="write_file">\n<parameter name="path">doctor.txt</parameter>\n'
        '<parameter name="content">hello</parameter>\n</invoke>\n</minimax:tool_call>',
        ("<minimax:tool_call>",),
    ),
    Syntax(
        "Mistral's list",
        f'[TOOL_CALLS][{{"name": "write_file", "arguments": {_JSON}}}]',
        ("[TOOL_CALLS]",),
    ),
    Syntax(
        "Kimi's sections",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>"
        f"{_JSON}<|tool_call_end|><|tool_calls_section_end|>",
        ("<|tool_call_begin|>",),
    ),
    Syntax(
        "DeepSeek's sections",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write_file<｜tool▁sep｜>"
        f"{_JSON}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ("<｜tool▁",),
    ),
    Syntax(
        "gpt-oss' channels",
        f"<|channel|>commentary to=functions.write_file <|constrain|>json<|message|>{_JSON}<|call|>",
        ("<|channel|>",),
    ),
    Syntax("Llama's JSON", f'{{"name": "write_file", "parameters": {_JSON}}}', ('"parameters"',)),
    Syntax("Python's calls", '[write_file(path="doctor.txt", content="hello")]', ("write_file(",)),
)


# The parser for a syntax where the family suggests nothing.
_PARSERS = {
    "Qwen3-Coder's XML": ("qwen3_xml", "qwen3_coder"),
    "GLM's pairs": ("glm45", "glm45"),
    "Hermes' JSON": ("hermes", "qwen25"),
    "MiniMax' XML": ("minimax_m2", "minimax-m2"),
    "Mistral's list": ("mistral", "mistral"),
    "Kimi's sections": ("kimi_k2", "kimi_k2"),
    "DeepSeek's sections": ("deepseek_v3", "deepseekv3"),
    "gpt-oss' channels": ("openai", "gpt-oss"),
    "Llama's JSON": ("llama3_json", "llama3"),
    "Python's calls": ("pythonic", "pythonic"),
}


# llama.cpp has no parsers by name: it reads what its template makes the model write.
_OF_LLAMA = "--jinja, and --chat-template-file with the template that the model was trained on"


def flags(kind: str, own: Parsers | None, syntax: str) -> str:
    """The flags by which a server of this kind reads the syntax that the model writes; "" where none is known.

    `own` are the parsers of the model's family. Where these fit what the model writes, they are the surer ones: several
    share a syntax.
    """
    vllm, sglang = _PARSERS.get(syntax, ("", ""))
    if own is not None and syntax in ("", own.syntax):
        vllm, sglang = own.vllm, own.sglang
    if kind == "vllm" and vllm:
        return f"--enable-auto-tool-choice --tool-call-parser {vllm}"
    if kind == "sglang" and sglang:
        return f"--tool-call-parser {sglang}"
    if kind == "llamacpp" and syntax:
        return _OF_LLAMA
    return ""


@dataclass(frozen=True, slots=True)
class Written:
    """A call in a raw text: its syntax ("" where it is none of the table), and its arguments as JSON."""

    syntax: str
    arguments: str


def written_in(text: str) -> list[Written]:
    """The calls of the tool that a model's raw text holds, as the proxy reads them."""
    reader = Reader(_TOOLS, raw_text=True)
    pieces = (*reader.feed(text), *reader.finish())
    return [Written(_syntax_of(piece.text), dump(call.arguments)) for piece in pieces for call in piece.calls or ()]


def _syntax_of(source: str) -> str:
    return next((syntax.id for syntax in SYNTAXES if all(mark in source for mark in syntax.marks)), "")


def is_an_object(arguments: str) -> bool:
    """True if these arguments are what a client can read: the text of a JSON object."""
    try:
        return isinstance(load_json(arguments), dict)
    except ValueError:
        return False


_TOOLS = read_tools([TOOL])
