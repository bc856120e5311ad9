"""The key of a conversation: a digest of how it begins, the same in each of its requests."""

from __future__ import annotations

from hashlib import blake2b

from proxy.codec.json_text import Json, JsonObject
from proxy.dialects.chat.request import content_text

# A line of Claude Code's that is another one at each turn.
_CHANGING = "x-anthropic-billing-header:"


def conversation_key(model: str, body: JsonObject) -> bytes:
    """What all requests of one conversation have in common, as a digest: the model, the first system message and the
    first user message, in a Chat Completions request as in a Messages one. Empty if there is no such text.
    """
    system, user = content_text(body.get("system")), ""
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            user = _text(message)
            break
        if role in ("system", "developer") and not system:
            system = _text(message)
    lines = [line for line in system.split("\n") if not line.startswith(_CHANGING)]
    system = "\n".join(lines)
    if not system and not user:
        return b""
    return blake2b("\0".join((model, system, user)).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _text(message: Json) -> str:
    return content_text(message.get("content")) if isinstance(message, dict) else ""
