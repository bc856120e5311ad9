"""How many of a reply's tokens were thoughts, where the proxy tells those from the text and a server counts them."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject
from proxy.engine.events import Chunk

_DETAILS, _COUNT = "completion_tokens_details", "reasoning_tokens"


def says_usage(chunk: Chunk) -> bool:
    """True for a chunk of nothing but token counts, among them none of thoughts."""
    usage = as_object(chunk.body.get("usage"))
    if not usage or chunk.body.get("choices"):
        return False
    return not as_object(usage.get(_DETAILS)).get(_COUNT)


def with_thought_tokens(usage: Mapping[str, Json], tokens: int) -> JsonObject:
    """The counts with that of the thoughts, which is never more than all that was said."""
    reported = usage.get("completion_tokens")
    if isinstance(reported, int):
        tokens = min(tokens, reported)
    return {**usage, _DETAILS: {**as_object(usage.get(_DETAILS)), _COUNT: tokens}}
