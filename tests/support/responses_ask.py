"""What the tests of Responses requests share: small requests, and what becomes of them."""

from __future__ import annotations

from typing import Any

from proxy.dialects.responses.request import translate
from tests.support.translations import MODEL, checked, content, lost, messages_of, options

# What tests take from here beside its own.
__all__ = ["MODEL", "lost"]
Item = dict[str, Any]
PIXEL = "data:image/png;base64,iVBORw0KGgo="
SCHEMA: Item = {"type": "object", "properties": {"x": {"type": "integer"}}}
TOOL: Item = {"type": "function", "name": "run", "parameters": SCHEMA}
FUNCTION: Item = {"type": "function", "function": {"name": "run", "parameters": SCHEMA}}
CUSTOM: Item = {"type": "custom", "name": "apply_patch", "description": "Patches."}
CLOSE: Item = {**TOOL, "name": "close"}
SPACE: Item = {"type": "namespace", "name": "agents", "description": "For agents.", "tools": [CLOSE]}


def ask(*items: Any, **fields: Any) -> dict[str, Any]:
    """A request with these items, or with one that greets."""
    return {"model": "asked", "input": [*items] or [user("hi")], **fields}


def user(*parts: Any, **fields: Any) -> Item:
    """A user's message: of one text, or of these parts."""
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
    """The translation; its body is looked into at any depth."""
    return checked(translate(body, options(**said)))


def messages(*items: Any, **said: Any) -> list[Any]:
    """The chat messages for these items."""
    return messages_of(sent(ask(*items), **said))
