"""Compaction: a conversation as the summary that the model writes of it, and what goes on from that summary later.

The client keeps the summary, in one item, and sends it in the place of what it stands for. It is in clear, so that
people can read it; a digest before it shows what was changed on the way, or was cut:

    {"type": "compaction", "encrypted_content": "summary.1.2cf24dba5fb0a30e.The user wants a parser that …"}

Source: OpenAI's API reference, "Compact a response"; `compaction_trigger` is from Codex's requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from proxy.codec.json_text import JsonObject
from proxy.dialects.chat_turns import UserTurn, text_part
from proxy.dialects.validation import FieldPath, string

TRIGGER = "compaction_trigger"
# What the model is asked behind the conversation.
INSTRUCTION = (
    "The conversation so far is about to be replaced by a summary of it, and you will go on from that summary alone. "
    "Write it now, as plain text, and call no tool. Keep all that is needed to go on: what the user asked for, in the "
    "user's own words where they matter, and every rule that was given; what was done, with the exact names of files, "
    "functions, commands and values; what was found out, errors among it; what was decided and why; what is left to "
    "do, and the next step."
)
_HEADING = "This is a summary of the conversation so far, which it replaces:"
_MARK = "summary.1"
_DIGITS = 16


def packed(summary: str) -> str:
    """The summary as a client keeps it: a lone surrogate is no character, and two halves of one are it."""
    readable = summary.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return f"{_MARK}.{_digest(readable)}.{readable}"


def unpacked(content: str) -> str:
    """The summary that a client has kept; "" if it is none of ours, or was changed."""
    head = f"{_MARK}."
    if not content.startswith(head):
        return ""
    digest, _, summary = content[len(head) :].partition(".")
    if digest != _digest(summary):
        return ""
    return summary


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def recall(turn: UserTurn, item: JsonObject, path: FieldPath) -> None:
    """Put the summary that an item holds into the user's turn. BadRequest for one that cannot be read."""
    summary = unpacked(string(item, "encrypted_content", path))
    if not summary:
        raise path.field("encrypted_content").bad(
            "only the server that wrote it can read it, and only as it was; send the conversation itself"
        )
    turn.parts.append(text_part(f"{_HEADING}\n\n{summary}"))


def asks_for_summary(items: Sequence[tuple[JsonObject, FieldPath]]) -> bool:
    """True if the conversation ends with the wish to compact it."""
    return bool(items) and items[-1][0].get("type") == TRIGGER


def check_allowed(policy: str, path: FieldPath) -> None:
    """BadRequest if the rules refuse compaction, with what clients can do instead."""
    if policy == "refuse":
        raise path.bad(
            "this server writes no compactions for this model; let the client compact by an ordinary request "
            "(Codex: a provider that is not named OpenAI)"
        )
