"""What one entry of a chunk's `choices` says."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject
from proxy.engine.call_delta import CallDelta, read_deltas, read_message_calls
from proxy.engine.events import Reasoning, Text

# The words by which servers say that the model stopped by itself. Every other one says that the reply was cut, vLLM's
# `repetition` too: it stays, and nothing is completed (contract C4).
NATURAL = frozenset(
    ("stop", "tool_calls", "function_call", "eos", "eos_token", "stop_sequence", "end_turn"),
)


# Words of servers that gave the generation up, or lost it. DeepSeek's for a server that is too busy is the last one.
GAVE_UP = frozenset(("abort", "aborted", "cancelled", "error", "timeout", "insufficient_system_resource"))


def was_cut(finish: str | None) -> bool:
    """True if a finish reason says that the model did not stop by itself; None is a stream that only ended."""
    return finish is not None and finish not in NATURAL


# Fields of a delta, or of the entry around it, that say nothing where they are empty, and signs of life that some
# servers send (F64).
_NOTHING: tuple[Json, ...] = (None, "", [], {}, False)
_SIGNS = frozenset(("tool_call_generating",))


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one entry of a chunk's `choices` says. `nothing`: not even a role; `empty_calls`: a list of no calls."""

    text: str
    reasoning: str
    deltas: tuple[CallDelta, ...]
    finish: str | None
    empty_calls: bool = False
    nothing: bool = False

    def plain(self, choice: int) -> list[Text | Reasoning]:
        """The events of its reasoning and its text, as they are if nothing else is in it."""
        reasoning = [Reasoning(choice, self.reasoning)] if self.reasoning else []
        return [*reasoning, *([Text(choice, self.text)] if self.text else [])]


def read_entry(entry: JsonObject) -> ChoiceDelta:
    """Read an entry of `choices`; what has the wrong type counts as not said (F64)."""
    delta = entry.get("delta")
    delta = delta if isinstance(delta, dict) else {}
    message = entry.get("message")
    content = delta.get("content")
    text = _parts(content) if isinstance(content, list) else content
    reasoning = delta.get("reasoning") or delta.get("reasoning_content")
    finish = entry.get("finish_reason")
    late = read_message_calls(message) if isinstance(message, dict) else ()
    return ChoiceDelta(
        text if isinstance(text, str) else "",
        reasoning if isinstance(reasoning, str) else "",
        (*read_deltas(delta), *late),
        finish if isinstance(finish, str) else None,
        delta.get("tool_calls") == [],
        not (text or reasoning or delta.get("tool_calls")) and _says_nothing(entry) and _says_nothing(delta),
    )


def _parts(content: list[Json]) -> str:
    """The text of a content in parts, as some servers answer."""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _says_nothing(fields: JsonObject) -> bool:
    known = ("index", "delta", *_SIGNS)
    return all(key in known or value in _NOTHING for key, value in fields.items())
