"""Events of the engine, and the types shared by the modules of the engine.

Each event is a frozen dataclass and part of the union `Event`. `choice` is the number of the choice: a request with
`n > 1` has several. `index` numbers the calls of a choice in the order in which the client sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from proxy.errors import ProxyError
from proxy.json import Json, JsonObject, without
from proxy.repair.record import Repair

_NOTHING: tuple[Json, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class Chunk:
    """One `chat.completion.chunk`: its parsed body, and the bytes of the event that carried it.

    `sequence` is the event's number in its stream; an `Unchanged` refers to it. `streamed` is False for a whole answer
    that is read as one chunk; `raw` is then empty.
    """

    body: JsonObject
    raw: bytes
    sequence: int = 0
    streamed: bool = True

    def unchanged(self, events: tuple[ContentEvent, ...]) -> Unchanged:
        """Return the event that forwards this chunk unchanged. `events` are its contents."""
        return Unchanged(self.raw, events, self.sequence)

    def part(self, entry: JsonObject, *, first: bool) -> Chunk:
        """Return the chunk for one choice of this chunk. Fields outside of `choices` go with the `first` choice."""
        body = self.body
        if body["choices"] == [entry]:
            return self
        if not first:
            body = {key: value for key, value in body.items() if key in _ENVELOPE}
        return replace(self, body={**body, "choices": [entry]})


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a client can execute: `arguments` is the text of one JSON object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallFields:
    """Extra fields of an entry of `tool_calls` and of its function, besides index, id, name and arguments.

    Gemini ties a call to its reasoning by a signature, and rejects the next request that lacks it:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"},
     "extra_content": {"google": {"thought_signature": "CtwB..."}}}
    """

    entry: JsonObject
    function: JsonObject

    @property
    def says_something(self) -> bool:
        """True if any field is not empty."""
        return any(value not in _NOTHING for value in (*self.entry.values(), *self.function.values()))

    def joined(self, other: CallFields) -> CallFields:
        """Return the fields of both. The values of `other` win."""
        return CallFields({**self.entry, **other.entry}, {**self.function, **other.function})

    def without(self, known: CallFields) -> CallFields:
        """Return the fields that are not in `known` with the same value."""
        return CallFields(_new(self.entry, known.entry), _new(self.function, known.function))


NO_FIELDS = CallFields({}, {})


def _new(fields: JsonObject, known: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in known or known[key] != value}


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text. If the text is an unreadable call, `broken` is its tool."""

    choice: int
    text: str
    # The chunk whose other fields are sent with this event, if it cannot be forwarded unchanged.
    source: Chunk | None = field(default=None, compare=False, repr=False)
    broken: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning, from `reasoning`, `reasoning_content` or `thinking` (F73)."""

    choice: int
    text: str
    # As in `Text`.
    source: Chunk | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallOpened:
    """Start of a call. Its id and name are final."""

    choice: int
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next fragment of an open call's arguments, with extra fields of the call. The fragment may be empty."""

    choice: int
    index: int
    fragment: str
    # As in `Text`.
    source: Chunk | None = field(default=None, compare=False, repr=False)
    fields: CallFields | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class CallClosed:
    """End of a call. `call.arguments` are all its fragments joined."""

    choice: int
    index: int
    call: Call
    fixes: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """A chunk whose other fields (logprobs, tokens, usage) must be sent without its text and calls (contract C1)."""

    choice: int
    source: Chunk


@dataclass(frozen=True, slots=True)
class Finished:
    """End of a choice. `source` is the upstream's chunk with the finish reason, if there was one."""

    choice: int
    reason: str
    source: Chunk | None


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's token counts."""

    usage: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Failed:
    """The reply cannot be finished. No event follows."""

    error: ProxyError


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An upstream event that needs no change: its bytes, its contents (contract C1), and its number in the stream.

    The number is 0 for an event that was not parsed.
    """

    raw: bytes
    events: tuple[ContentEvent, ...]
    sequence: int = field(default=0, compare=False)


# Contents of an upstream event.
ContentEvent: TypeAlias = Text | Reasoning | CallOpened | CallArguments | Finished | Usage
Event: TypeAlias = (
    Text | Reasoning | CallOpened | CallArguments | CallClosed | Rest | Finished | Usage | Failed | Unchanged
)


# Fields that every chunk has, and the fields of an entry and a delta that have events of their own.
_ENVELOPE = frozenset(("id", "object", "created", "model", "system_fingerprint", "choices"))
_ENTRY = frozenset(("index", "delta", "message", "finish_reason"))
_DELTA = frozenset(("role", "content", "reasoning", "reasoning_content", "thinking", "tool_calls", "function_call"))


def rest_of(body: JsonObject) -> tuple[JsonObject, JsonObject, JsonObject]:
    """Return the other fields of a chunk with one choice: of the chunk, of the entry, and of the delta."""
    choices = body.get("choices")
    entry = choices[0] if isinstance(choices, list) and choices else None
    around = entry if isinstance(entry, dict) else {}
    delta = around.get("delta")
    inside = delta if isinstance(delta, dict) else {}
    return without(body, *_ENVELOPE), without(around, *_ENTRY), without(inside, *_DELTA)


def says_more(chunk: Chunk) -> bool:
    """Return whether a chunk with one choice has other fields besides its text and calls."""
    return any(value not in _NOTHING for fields in rest_of(chunk.body) for value in fields.values())


def says_more_at_its_top(chunk: Chunk) -> bool:
    """Return whether a chunk has fields outside of `choices`: usage, or an unknown field."""
    return any(value not in _NOTHING for value in rest_of(chunk.body)[0].values())


def choice_number(index: Json) -> int:
    """Return a choice's number from the server's `index`, or 0 if it is invalid."""
    if isinstance(index, int) and index >= 0:
        return index
    return 0


def is_end(event: Event) -> bool:
    """Return whether an event belongs to the end of a reply: a finish, a usage, or a broken call to be retried."""
    if isinstance(event, Unchanged):
        return any(map(is_end, event.events))
    if isinstance(event, Text):
        return event.broken != ""
    return isinstance(event, Finished | Usage)
