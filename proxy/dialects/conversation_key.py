"""The key of a conversation: a digest of its start, the same in all its requests."""

from __future__ import annotations

from hashlib import blake2b

from proxy.codec.json_access import objects_in
from proxy.codec.json_text import JsonObject
from proxy.dialects.chat.request import content_text

# A line of Claude Code's that changes with each turn.
_CHANGING = "x-anthropic-billing-header:"


def conversation_key(model: str, body: JsonObject) -> bytes:
    """Return a digest of the model, the first system message and the first user message, in any dialect.

    A Responses client's own key replaces the messages. Empty if there is neither text nor key.
    """
    named = body.get("prompt_cache_key")
    if "input" in body and isinstance(named, str) and named:
        return _digest(model, named)
    system, user = _beginning(body)
    lines = [line for line in system.split("\n") if not line.startswith(_CHANGING)]
    system = "\n".join(lines)
    if not system and not user:
        return b""
    return _digest(model, system, user)


def _digest(*texts: str) -> bytes:
    return blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _beginning(body: JsonObject) -> tuple[str, str]:
    """Return the first system message and the first user message; "" for a missing one."""
    system = content_text(body.get("system")) or content_text(body.get("instructions"))
    input_value = body.get("input")
    if isinstance(input_value, str):
        return system, input_value
    for message in objects_in(body.get("messages")) or objects_in(input_value):
        role = message.get("role")
        if role == "user":
            return system, content_text(message.get("content"))
        if role in ("system", "developer"):
            system = system or content_text(message.get("content"))
    return system, ""
