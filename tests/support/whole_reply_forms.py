"""Forms in which models write a call as a whole reply, and calls to write in them (contract C3, F6)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.helpers import function, offered

Arguments = dict[str, Any]
Form = Callable[[str, Arguments], str]

OPEN = function("bash", {"command": {"type": "string"}, "timeout": {"type": "integer"}}, "command")
CLOSED = function(
    "write_file",
    {"path": {"type": "string"}, "content": {"type": "string"}},
    *("path", "content"),
    additionalProperties=False,
)
OPTIONAL = function("search", {"query": {"type": "string"}, "options": {"type": "object"}, "tags": {"type": "array"}})
NONE = function("now")
TOOLS = offered(OPEN, CLOSED, OPTIONAL, NONE)
# Offered tools: several, and each one alone.
OFFERS = (TOOLS, offered(OPEN), offered(CLOSED), offered(OPTIONAL))


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def python(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def python_lines(name: str, arguments: Arguments) -> str:
    lines = "".join(f"    {key} = {value!r},\n" for key, value in arguments.items())
    return f"{name}(\n{lines})"


def braces(name: str, arguments: Arguments) -> str:
    return f"{name}{{{', '.join(f'{key}: {dump(value)}' for key, value in arguments.items())}}}"


def encoded(shape: Form) -> Form:
    """Return the form with the arguments as JSON in a string."""
    return lambda name, arguments: shape(name, dump(arguments))  # type: ignore[arg-type]


def members(name_key: str, arguments_key: str) -> Form:
    return lambda name, arguments: dump({name_key: name, arguments_key: arguments})


# Forms that are also calls at the end of a longer reply, with any arguments.
PLAIN: dict[str, Form] = {
    "name, arguments": members("name", "arguments"),
    "name, parameters": members("name", "parameters"),
    "tool_name, parameters": members("tool_name", "parameters"),
}
# Objects with a name and arguments under keys that are also used in ordinary JSON answers.
WIDER: dict[str, Form] = {
    "function, args": members("function", "args"),
    "function, args encoded": encoded(members("function", "args")),
    "tool, input": members("tool", "input"),
    "OpenAI's": lambda name, arguments: dump({"type": "function", "function": {"name": name, "arguments": arguments}}),
    "OpenAI's encoded": lambda name, arguments: dump(
        {"type": "function", "id": "c1", "function": {"name": name, "arguments": dump(arguments)}}
    ),
    "tool_call, parameters": members("tool_call", "parameters"),
    "tool_call, arguments": members("tool_call", "arguments"),
    "tool_call is an object": lambda name, arguments: dump({"tool_call": {"name": name, "arguments": arguments}}),
    "tool_call is OpenAI's": lambda name, arguments: dump(
        {"tool_call": {"type": "function", "function": {"name": name, "arguments": dump(arguments)}}}
    ),
    "tool_name, params": members("tool_name", "params"),
    "name, params": members("name", "params"),
    "action, action_input": members("action", "action_input"),
    "action, action_input encoded": encoded(members("action", "action_input")),
    "tool_calls": lambda name, arguments: dump({"tool_calls": [{"name": name, "arguments": arguments}]}),
    "tool_calls, OpenAI's": lambda name, arguments: dump(
        {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": dump(arguments)}}]}
    ),
    "pretty": lambda name, arguments: json.dumps({"action": name, "action_input": arguments}, indent=2),
    "Python's marks": lambda name, arguments: repr({"tool_call": name, "parameters": arguments}),
}
# Forms that do not mark the name and the arguments.
NOTATIONS: dict[str, Form] = {
    "the name as the key": lambda name, arguments: dump({name: arguments}),
    "Python": python,
    "Python over lines": python_lines,
    "a namespace": lambda name, arguments: python(f"functions.{name}", arguments),
    "braces": braces,
    "braces over lines": lambda name, arguments: braces(name, arguments).replace("{", "{\n  ", 1),
}
EXPLICIT = {**PLAIN, **WIDER}
FORMS = {**EXPLICIT, **NOTATIONS}

DRESSES: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "blanks around it": lambda text: f"\n \n{text}\n\n",
    "a fence": lambda text: f"```json\n{text}\n```",
    "a fence without a language": lambda text: f"```\n{text}\n```",
    "a fence of code": lambda text: f"```python\n{text}\n```\n",
    "a fence for calls": lambda text: f"```tool_call\n{text}\n```",
    "an open fence": lambda text: f"```json\n{text}",
    "an open fence, a line end": lambda text: f"```tool_code\n{text}\n",
    "an end-of-turn token": lambda text: f"{text}<|im_end|>",
    "a fence and an end-of-turn token": lambda text: f"```\n{text}\n```\n<|im_end|>\n",
    "an open fence and an end-of-turn token": lambda text: f"```json\n{text}\n<|eot_id|>",
    "a leaked token before it": lambda text: f"<|im_start|>assistant\n{text}",
}

CALLS: list[tuple[str, Arguments]] = [
    ("bash", {"command": "ls -la | grep 'x' \"y\""}),
    ("bash", {"command": "a\nb\\n</tool_call>```", "timeout": 5}),
    ("write_file", {"path": "ü/a b.py", "content": "f(x)\n{y: 1} = '''z'''\n"}),
    ("search", {"query": "a, b) c"}),
    ("search", {"options": {"deep": [1, {"x": "}"}]}, "tags": ["a", "b"]}),
]
