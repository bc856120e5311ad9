"""The key of a conversation: a digest of how it begins, the same in each of its requests."""

from __future__ import annotations

from hashlib import blake2b

from proxy.codec.json_access import objects_in
from proxy.codec.json_text import JsonObject
from proxy.dialects.chat.request import content_text

# A line of Claude Code's that is another one at each turn.
_CHANGING = "x-anthropic-billing-header:"


def conversation_key(model: str, body: JsonObject) -> bytes:
    """A digest that all requests of one conversation share: of the model, the first system message and the
    first user message, in a Chat Completions request as in the other dialects. Empty if there is no such text.

    The key that a Responses client names for its conversation stands for the rest.
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
    """The first system message and the first user message; "" for what is not there."""
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
