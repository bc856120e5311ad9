"""What the engine says, and the few types that everything below the engine shares.

One frozen, slotted dataclass per event, one union `Event`. An event belongs to a choice (`n > 1` gives several);
`index` counts the calls of a choice 0, 1, 2 in the order in which the client sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from proxy.audit_record import Repair
from proxy.codec.json_text import Json, JsonObject
from proxy.errors import ProxyError

_NOTHING: tuple[Json, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class Chunk:
    """One `chat.completion.chunk`: its parsed body, and the bytes of the event that carried it.

    `sequence` is the event's number in its stream, by which an `Unchanged` says which event leaves. `streamed` is False
    for a whole answer that is read as one chunk: then `raw` is empty.
    """

    body: JsonObject
    raw: bytes
    sequence: int = 0
    streamed: bool = True

    def unchanged(self, events: tuple[ContentEvent, ...]) -> Unchanged:
        """The event by which this chunk leaves as it came; `events` are what it says."""
        return Unchanged(self.raw, events, self.sequence)

    def part(self, entry: JsonObject, *, first: bool) -> Chunk:
        """The chunk of one choice, made of a chunk of several; what that says of no choice goes with the `first`."""
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
    """What an entry of `tool_calls` says beside index, id, name and arguments, and what the function in it does.

    Gemini ties a call to its reasoning by a signature, and rejects the next request that lacks it:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"},
     "extra_content": {"google": {"thought_signature": "CtwB..."}}}
    """

    entry: JsonObject
    function: JsonObject

    @property
    def says_something(self) -> bool:
        """Return whether any of them is not empty."""
        return any(value not in _NOTHING for value in (*self.entry.values(), *self.function.values()))

    def shares_keys(self, other: CallFields) -> bool:
        """Return whether a field has a value in both."""
        return bool(self.entry.keys() & other.entry.keys() or self.function.keys() & other.function.keys())

    def joined(self, other: CallFields) -> CallFields:
        """Return the fields of both; where both have one, that of `other`."""
        return CallFields({**self.entry, **other.entry}, {**self.function, **other.function})

    def without(self, known: CallFields) -> CallFields:
        """Return the fields that are not known with the same value."""
        return CallFields(_new(self.entry, known.entry), _new(self.function, known.function))


NO_FIELDS = CallFields({}, {})


def _new(fields: JsonObject, known: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in known or known[key] != value}


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text. `broken` is the tool that it was to call, if it is a call that cannot be read."""

    choice: int
    text: str
    # The chunk that it came in, if that says more and cannot leave as it came.
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
    """A call begins; id and name are final."""

    choice: int
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next fragment of an open call's arguments, with what else the server says of the call; it may be empty."""

    choice: int
    index: int
    fragment: str
    # As in `Text`.
    source: Chunk | None = field(default=None, compare=False, repr=False)
    fields: CallFields | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The call is whole: all its fragments joined are `call.arguments`."""

    choice: int
    index: int
    call: Call
    fixes: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """A chunk whose texts and calls leave later or not at all, with what else it says: logprobs, tokens, usage
    (contract C1).
    """

    choice: int
    source: Chunk


@dataclass(frozen=True, slots=True)
class Finished:
    """The choice ended. `source` is the upstream's own chunk, if it sent one that says so."""

    choice: int
    reason: str
    source: Chunk | None


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts as the server gave them."""

    usage: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Failed:
    """The reply cannot be finished; nothing follows."""

    error: ProxyError


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An upstream event that needs no change: its bytes, what it says (contract C1), and its number in the stream.

    The number is 0 for an event of which no chunk was made.
    """

    raw: bytes
    events: tuple[ContentEvent, ...]
    sequence: int = field(default=0, compare=False)


# What an event of the upstream can say.
ContentEvent: TypeAlias = Text | Reasoning | CallOpened | CallArguments | Finished | Usage
Event: TypeAlias = (
    Text | Reasoning | CallOpened | CallArguments | CallClosed | Rest | Finished | Usage | Failed | Unchanged
)


# What every chunk of a stream has, and what of a delta is said in another way.
_ENVELOPE = frozenset(("id", "object", "created", "model", "system_fingerprint", "choices"))
_ENTRY = frozenset(("index", "delta", "message", "finish_reason"))
_DELTA = frozenset(("role", "content", "reasoning", "reasoning_content", "thinking", "tool_calls", "function_call"))


def rest_of(body: JsonObject) -> tuple[JsonObject, JsonObject, JsonObject]:
    """Return what a chunk of one choice says beside its texts and calls: fields of its own, its entry and its delta."""
    choices = body.get("choices")
    entry = choices[0] if isinstance(choices, list) and choices else None
    around = entry if isinstance(entry, dict) else {}
    delta = around.get("delta")
    inside = delta if isinstance(delta, dict) else {}
    return _without(body, _ENVELOPE), _without(around, _ENTRY), _without(inside, _DELTA)


def _without(fields: JsonObject, known: frozenset[str]) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in known}


def says_more(chunk: Chunk) -> bool:
    """Return whether a chunk of one choice says something beside its texts and calls."""
    return any(value not in _NOTHING for fields in rest_of(chunk.body) for value in fields.values())


def says_more_at_its_top(chunk: Chunk) -> bool:
    """Return whether a chunk says something that belongs to no choice: usage, or an unknown field."""
    return any(value not in _NOTHING for value in rest_of(chunk.body)[0].values())


def choice_number(index: Json) -> int:
    """A choice's number as a server wrote it; 0 for what is none."""
    if isinstance(index, int) and index >= 0:
        return index
    return 0


def is_end(event: Event) -> bool:
    """True for an event that ends the reply, or counts what it took; a broken call that is asked for again ends it."""
    if isinstance(event, Unchanged):
        return any(map(is_end, event.events))
    if isinstance(event, Text):
        return event.broken != ""
    return isinstance(event, Finished | Usage)
