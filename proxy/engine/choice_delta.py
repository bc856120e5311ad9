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
# The words of the API reference for a reply without calls; every client knows them.
USUAL_ENDS = frozenset(("stop", "length", "content_filter"))
# Words of servers that gave the generation up, or lost it. DeepSeek's for a server that is too busy is the last one.
GAVE_UP = frozenset(("abort", "aborted", "cancelled", "error", "timeout", "insufficient_system_resource"))


def was_cut(finish: str | None) -> bool:
    """True if a finish reason says that the model did not stop by itself; None is a stream that only ended."""
    return finish is not None and finish not in NATURAL


# Fields of a delta, or of the entry around it, that say nothing where they are empty, and signs of life that some
# servers send (F64).
_NOTHING: tuple[Json, ...] = (None, "", [], {}, False)
_SIGNS = frozenset(("tool_call_generating",))
_NEVER_SAY_ANYTHING = frozenset(("index", "delta", *_SIGNS))


@dataclass(frozen=True, slots=True)
class ChoiceDelta:
    """What one entry of a chunk's `choices` says: text, reasoning, pieces of calls, and the finish reason.

    `empty_calls`: it has a list of no calls. `sign_of_life`: it says nothing, not even a role.
    """

    text: str
    reasoning: str
    calls: tuple[CallDelta, ...]
    finish: str | None
    empty_calls: bool = False
    sign_of_life: bool = False

    @property
    def has_content(self) -> bool:
        """True if it has text or reasoning."""
        return any((self.text, self.reasoning))

    @property
    def has_only_calls(self) -> bool:
        """True if it has calls, and neither content nor a finish reason."""
        if self.finish:
            return False
        return not self.has_content

    @property
    def has_only_content(self) -> bool:
        """True if it has neither calls nor a finish reason."""
        return not any((self.calls, self.finish))

    def content(self, choice: int) -> list[Text | Reasoning]:
        """The events of its reasoning and its text, as they are if nothing else is in it."""
        events: list[Text | Reasoning] = []
        if self.reasoning:
            events.append(Reasoning(choice, self.reasoning))
        if self.text:
            events.append(Text(choice, self.text))
        return events


def read_choice(entry: JsonObject) -> ChoiceDelta:
    """Read an entry of `choices`; what has the wrong type counts as not said (F64).

    {"index": 0, "delta": {"content": "Let me look."}, "finish_reason": null}
    {"index": 0, "delta": {}, "message": {"tool_calls": [...]}, "finish_reason": "tool_calls"}: the calls once more
    """
    delta = entry.get("delta")
    if not isinstance(delta, dict):
        delta = {}
    content = delta.get("content")
    if isinstance(content, list):
        content = _joined(content)
    reasoning = delta.get("reasoning") or delta.get("reasoning_content")
    calls = tuple(read_deltas(delta))
    message = entry.get("message")
    if isinstance(message, dict):
        calls += tuple(read_message_calls(message))
    listed = delta.get("tool_calls")
    silent = not any((content, reasoning, listed))
    if silent:
        silent = _says_nothing(entry, delta)
    return ChoiceDelta(
        _text(content),
        _text(reasoning),
        calls,
        finish_of(entry),
        listed == [],
        silent,
    )


def text_alone(entry: Json) -> str:
    """The text of an entry that says nothing else, and ends as replies do; "" for any other."""
    if not isinstance(entry, dict):
        return ""
    match read_choice(entry):
        case ChoiceDelta(text=text, reasoning="", calls=(), finish=str() as finish, empty_calls=False):
            return text if finish in USUAL_ENDS else ""
    return ""


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return ""


def finish_of(entry: JsonObject) -> str | None:
    """The finish reason of an entry, None if it has none."""
    finish = entry.get("finish_reason")
    if isinstance(finish, str):
        return finish
    return None


def _joined(content: list[Json]) -> str:
    """The text of a content in parts, as some servers answer: `[{"type": "text", "text": "Let me look."}]`."""
    parts = (part for part in content if isinstance(part, dict))
    return "".join(_text(part.get("text")) for part in parts if part.get("type") == "text")


def _says_nothing(*objects: JsonObject) -> bool:
    """True if no field of these objects says anything."""
    fields = (field for fields in objects for field in fields.items())
    return all(value in _NOTHING for key, value in fields if key not in _NEVER_SAY_ANYTHING)
