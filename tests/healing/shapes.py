"""Shapes of conversations and of tools, as agents send them.

Every text that must reach the model contains a marker, `mk` and letters. Reasoning of earlier turns has none, because
templates drop it by design.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Message = dict[str, Any]
MARKER = re.compile(r"mk[a-z]+[0-9]+")


def tool(name: str = "read_file", **function: Any) -> Message:
    """Return an offered tool without the fields that are None."""
    parameters = {
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where the file is."}},
        "required": ["path"],
    }
    said = {"name": name, "description": "Reads a file.", "parameters": parameters, **function}
    return {"type": "function", "function": {key: value for key, value in said.items() if value is not None}}


def system(text: Any = "mks1 rules") -> Message:
    return {"role": "system", "content": text}


def user(text: Any = "mku1 question") -> Message:
    return {"role": "user", "content": text}


def said(text: Any = "mka1 answer", **more: Any) -> Message:
    return {"role": "assistant", "content": text, **more}


def call(number: int = 1, **more: Any) -> Message:
    """Return a call with an id that Mistral accepts. By default, its arguments are JSON."""
    arguments = more.pop("arguments", json.dumps({"path": f"mkp{number}"}))
    function = {"name": more.pop("name", "read_file"), "arguments": arguments}
    return {"id": f"abcdefgh{number}", "type": "function", "function": function, **more}


def calls(*entries: Message, content: Any = "", **more: Any) -> Message:
    """Return an assistant message with these calls, by default one."""
    return {"role": "assistant", "content": content, "tool_calls": list(entries or (call(),)), **more}


def result(number: int = 1, text: Any = "", **more: Any) -> Message:
    """Return a tool's result, without the fields whose value is "without"."""
    said = {"role": "tool", "tool_call_id": f"abcdefgh{number}", "content": text or f"mkr{number} found", **more}
    return {key: value for key, value in said.items() if value != "without"}


def turn(first: Message, *results: Message) -> list[Message]:
    """Return a conversation around one assistant turn with calls."""
    return [system(), user(), first, *(results or (result(),)), said(), user("mku2 more")]


# Every template accepts the healthy shapes.
_ROWS = [json.loads(line) for line in Path(__file__).with_name("shapes.jsonl").read_text("utf-8").splitlines()]


def _group(group: str) -> dict[str, Any]:
    return {row["name"]: row["shape"] for row in _ROWS if row["group"] == group}


HEALTHY, CALLS, RESULTS, ROLES, CONTENTS, TOOLS = map(
    _group, ("healthy", "calls", "results", "roles", "contents", "tools")
)
SHAPES: dict[str, list[Message]] = {**HEALTHY, **CALLS, **RESULTS, **ROLES, **CONTENTS}
# A template of a real model, and the shapes that it refuses.
TEMPLATE = "mistralai-Mistral-Nemo-Instruct-2407"
POISONED = (
    *("arguments cut off", "arguments with trailing markup", "function_call", "ids of OpenAI", "call without result"),
    *("system later", "user, user", "user behind a result", "picture", "result an object"),
)


def bodies() -> Iterator[tuple[str, Message]]:
    """Yield the name of each shape, and a request with it."""
    for name, messages in SHAPES.items():
        yield name, {"model": "m", "messages": messages, "tools": [tool()]}
    for name in ("plain", "answered", "one call"):
        yield f"no tools: {name}", {"model": "m", "messages": SHAPES[name]}
    for name, offered in TOOLS.items():
        called = str(offered["function"]["name"])
        conversation = turn(calls(call(name=called)))
        yield f"tool: {name}", {"model": "m", "messages": conversation, "tools": [offered]}


def products() -> Iterator[tuple[str, Message]]:
    """Yield the name of each shape of a conversation, and a request with it for each shape of a tool."""
    for name, messages in SHAPES.items():
        for offered in TOOLS.values():
            yield name, {"model": "m", "messages": messages, "tools": [offered]}
