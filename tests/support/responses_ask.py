"""Helpers of tests of Responses requests: small requests, and their translations."""

from __future__ import annotations

from typing import Any

from proxy.dialects.responses.request import translate
from tests.support.translations import MODEL, checked, content, lost, messages_of, options

# Re-exports.
__all__ = ["MODEL", "lost"]
Item = dict[str, Any]
SCHEMA: Item = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOL: Item = {"type": "function", "name": "run", "parameters": SCHEMA}
FUNCTION: Item = {"type": "function", "function": {"name": "run", "parameters": SCHEMA}}
CUSTOM: Item = {"type": "custom", "name": "apply_patch", "description": "Patches."}
CLOSE: Item = {**TOOL, "name": "close"}
SPACE: Item = {"type": "namespace", "name": "agents", "description": "For agents.", "tools": [CLOSE]}


def ask(*items: Any, **fields: Any) -> dict[str, Any]:
    """Return a request with these items, or with a greeting."""
    return {"model": "asked", "input": [*items] or [user("hi")], **fields}


def user(*parts: Any, **fields: Any) -> Item:
    """Return a user message with a text or these parts."""
    return {"type": "message", "role": "user", "content": content(parts), **fields}


def assistant(text: str, **fields: Any) -> Item:
    part = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part], **fields}


def developer(*parts: Any, role: str = "developer", **fields: Any) -> Item:
    return {"type": "message", "role": role, "content": content(parts), **fields}


def text(said: str) -> Item:
    return {"type": "input_text", "text": said}


def call(id_: str = "c1", name: str = "run", arguments: str = '{"x":1}', **fields: Any) -> Item:
    return {"type": "function_call", "call_id": id_, "name": name, "arguments": arguments, **fields}


def output(said: Any = "done", id_: str = "c1", **fields: Any) -> Item:
    return {"type": "function_call_output", "call_id": id_, "output": said, **fields}


def sent(body: dict[str, Any], **said: Any) -> Any:
    """Return the translation, typed as Any so that tests can index its body."""
    return checked(translate(body, options(**said)))


def messages(*items: Any, **said: Any) -> list[Any]:
    """Return the chat messages for these items."""
    return messages_of(sent(ask(*items), **said))
