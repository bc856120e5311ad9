"""Request of the benchmarks: a coding agent's turn with ten tools, so that the proxy scans all text."""

from __future__ import annotations

import json
from typing import Any

MODEL = "bench"

SYSTEM = (
    "You are a coding agent that works in the user's repository. Read before you edit, keep every change small, "
    "run the tests after each change and report what they said. Use the tools for everything that touches files or "
    "the shell; never guess what a file holds. Answer in plain sentences when no tool is needed."
)
USER = "Explain in plain words how the event loop of this program decides what to send next, and why it is fair."

# (name, description, {parameter: (type, description)}, required parameters)
_TOOLS: tuple[tuple[str, str, dict[str, tuple[str, str]], tuple[str, ...]], ...] = (
    (
        "read",
        "Read a text file and return its lines with their numbers.",
        {
            "path": ("string", "The file's path, absolute or from the repository's root."),
            "offset": ("integer", "The first line to return, counted from 1."),
            "limit": ("integer", "How many lines to return at most."),
        },
        ("path",),
    ),
    (
        "write",
        "Write a file, replacing what it held.",
        {"path": ("string", "The file's path."), "content": ("string", "The whole new content of the file.")},
        ("path", "content"),
    ),
    (
        "edit",
        "Replace one exact piece of text in a file by another.",
        {
            "path": ("string", "The file's path."),
            "old_text": ("string", "The text to replace; it must occur exactly once unless replace_all is true."),
            "new_text": ("string", "The text to put in its place."),
            "replace_all": ("boolean", "Replace every occurrence."),
        },
        ("path", "old_text", "new_text"),
    ),
    (
        "bash",
        "Run a command in a shell and return what it printed and its exit code.",
        {
            "command": ("string", "The command line."),
            "timeout": ("number", "Seconds after which the command is ended."),
            "background": ("boolean", "Return at once and leave the command running."),
        },
        ("command",),
    ),
    (
        "grep",
        "Search files for a regular expression.",
        {
            "pattern": ("string", "The regular expression."),
            "path": ("string", "The folder or file to search."),
            "ignore_case": ("boolean", "Take upper and lower case as equal."),
        },
        ("pattern",),
    ),
    (
        "glob",
        "List files whose path matches a pattern, the newest first.",
        {"pattern": ("string", "For example src/**/*.py"), "path": ("string", "The folder to start from.")},
        ("pattern",),
    ),
    (
        "list",
        "List the files and folders in a folder.",
        {"path": ("string", "The folder."), "depth": ("integer", "How many levels to go down.")},
        ("path",),
    ),
    (
        "fetch",
        "Fetch a web page and return it as text.",
        {"url": ("string", "The page's address."), "max_length": ("integer", "Characters to return at most.")},
        ("url",),
    ),
    (
        "todo_write",
        "Replace the list of things to do.",
        {"items": ("array", "The things to do, in order, each one short sentence.")},
        ("items",),
    ),
    (
        "ask_user",
        "Ask the user one question and wait for the answer.",
        {"question": ("string", "The question."), "options": ("object", "Possible answers by their letter.")},
        ("question",),
    ),
)


# Parameters of the `write` that the upstream calls (script.py). With those of the `write` above, the proxy would
# attribute the arguments to another tool and hold them.
_WRITE_PARAMETERS = {
    "file_path": {"type": "string", "description": "The file's path."},
    "content": {"type": "string", "description": "The whole new content of the file."},
    "overwrite": {"type": "boolean", "description": "Replace a file that is there."},
}
WRITE = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Write a file.",
        "parameters": {
            "type": "object",
            "properties": _WRITE_PARAMETERS,
            "required": ["file_path", "content"],
            "additionalProperties": False,
        },
    },
}


def tools() -> list[dict[str, Any]]:
    """Return the `tools` list in OpenAI's shape."""
    return [_tool(*row) for row in _TOOLS]


def request(bench: dict[str, Any], stream: bool = True) -> dict[str, Any]:
    """Return a chat request. Its field `bench` configures the upstream's response."""
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}],
        "tools": tools(),
        "tool_choice": "auto",
        "temperature": 0.2,
        "stream": stream,
        "bench": bench,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body


def call_request(bench: dict[str, Any], stream: bool = True) -> dict[str, Any]:
    """Return the same request with the `write` that the upstream calls instead of the other one."""
    asked = request(bench, stream)
    asked["tools"] = [*(tool for tool in asked["tools"] if tool["function"]["name"] != "write"), WRITE]
    return asked


def messages_request(bench: dict[str, Any], stream: bool = True) -> dict[str, Any]:
    """Return the same request for the Messages API, with `bench` encoded in the user id."""
    offered = [tool["function"] for tool in tools()]
    return {
        "model": MODEL,
        "max_tokens": 32_000,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": USER}],
        "tools": [
            {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
            for tool in offered
        ],
        "tool_choice": {"type": "auto"},
        "temperature": 0.2,
        "stream": stream,
        "metadata": {"user_id": json.dumps(bench)},
    }


def responses_request(bench: dict[str, Any], stream: bool = True) -> dict[str, Any]:
    """Return the same request for the Responses API, with `bench` encoded in the user name."""
    return {
        "model": MODEL,
        "instructions": SYSTEM,
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": USER}]}],
        "tools": [{"type": "function", **tool["function"]} for tool in tools()],
        "tool_choice": "auto",
        "temperature": 0.2,
        "store": False,
        "stream": stream,
        "user": json.dumps(bench),
    }


def _tool(name: str, about: str, parameters: dict[str, tuple[str, str]], required: tuple[str, ...]) -> dict[str, Any]:
    """Return one entry of the `tools` list."""
    properties = {key: {"type": kind, "description": text} for key, (kind, text) in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": schema}}
