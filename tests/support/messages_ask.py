"""Helpers of tests of Messages requests: small requests, and their translations."""

from __future__ import annotations

from typing import Any

from proxy.dialects.messages.request import Translation, translate
from tests.support.translations import MODEL, checked, lost, messages_of, options, refused

# Re-exports.
__all__ = ["MODEL", "lost", "messages_of"]
Block = dict[str, Any]
PICTURE: Block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
TOOL: Block = {"name": "run", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def ask(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request with these messages, or with a greeting."""
    return {"model": "asked", "max_tokens": 10, "messages": [*messages] or [user("hi")], **fields}


def text(said: str) -> Block:
    return {"type": "text", "text": said}


def user(*blocks: Any, **fields: Any) -> dict[str, Any]:
    """Return a user message with a text or these blocks."""
    return {"role": "user", "content": blocks[0] if isinstance(blocks[0], str) else [*blocks], **fields}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "assistant"}


def system(*blocks: Any, **fields: Any) -> dict[str, Any]:
    return {**user(*blocks), "role": "system", **fields}


def call(id_: str = "toolu_1", name: str = "run", **fields: Any) -> Block:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"x": 1}, **fields}


def result(content: Any = "done", id_: str = "toolu_1", **fields: Any) -> Block:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def sent(body: dict[str, Any], **said: Any) -> Translation:
    """Return the translation, which must be JSON with the messages last (C8)."""
    return checked(translate(body, options(**said)))


def messages(*given: Any, **said: Any) -> list[Any]:
    """Return the chat messages for these Messages."""
    return messages_of(sent(ask(*given), **said))


def refusal(body: dict[str, Any], **said: Any) -> str:
    """Return the client's error message for an invalid request."""
    return refused(lambda: sent(body, **said))
