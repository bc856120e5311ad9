"""What the engine says, and the few types that everything below the engine shares.

One frozen, slotted dataclass per event, one union `Event`. An event belongs to a choice (`n > 1` gives several);
`index` counts the calls of a choice 0, 1, 2 in the order in which the client sees them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

import orjson

from .errors import ProxyError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True)
class Chunk:
    """One `chat.completion.chunk`: its parsed body, and the bytes of the event that carried it."""

    body: JsonObject
    raw: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a client can execute: `arguments` is the text of one JSON object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Repair:
    """An audit record (contract C6): which fix, what it was before, what after, why, and to which tool's call."""

    id: str
    before: str
    after: str
    why: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text."""

    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of the model's reasoning, from `reasoning` or `reasoning_content` (F73)."""

    choice: int
    text: str


@dataclass(frozen=True, slots=True)
class CallOpened:
    """A call begins; id and name are final."""

    choice: int
    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next fragment of an open call's arguments."""

    choice: int
    index: int
    fragment: str
    # The chunk that it came in, if that says more and cannot leave as it came.
    source: Chunk | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The call is whole: all its fragments joined are `call.arguments`."""

    choice: int
    index: int
    call: Call
    fixes: tuple[Repair, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """A chunk whose calls leave later or not at all, with what else it says: logprobs, tokens, usage (contract C1)."""

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
class Passed:
    """An upstream event that needs no change: its bytes, and what it says (contract C1)."""

    raw: bytes
    events: tuple[Text | Reasoning | CallOpened | CallArguments | Finished | Usage, ...]


Event: TypeAlias = (
    Text | Reasoning | CallOpened | CallArguments | CallClosed | Rest | Finished | Usage | Failed | Passed
)


# What every chunk of a stream has, and what of a delta is said in another way.
_ENVELOPE = frozenset(("id", "object", "created", "model", "system_fingerprint", "choices"))
_ENTRY = frozenset(("index", "delta", "message", "finish_reason"))
_DELTA = frozenset(("role", "content", "reasoning", "reasoning_content", "tool_calls", "function_call"))
_NOTHING: tuple[Json, ...] = (None, "", [], {})


def rest_of(body: JsonObject) -> tuple[JsonObject, JsonObject, JsonObject]:
    """What a chunk of one choice says beside its texts and calls: its own fields, its entry's and its delta's."""
    choices = body.get("choices")
    entry = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    said = entry.get("delta")
    delta = said if isinstance(said, dict) else {}
    return _without(body, _ENVELOPE), _without(entry, _ENTRY), _without(delta, _DELTA)


def _without(fields: JsonObject, known: frozenset[str]) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in known}


def with_rest(choice: int, events: tuple[Event, ...], chunk: Chunk) -> tuple[Event, ...]:
    """The events of a chunk of calls that cannot leave as it came, so that what else it says leaves with the first."""
    if not any(value not in _NOTHING for fields in rest_of(chunk.body) for value in fields.values()):
        return events
    for at, event in enumerate(events):
        if isinstance(event, CallArguments):
            return (*events[:at], replace(event, source=chunk), *events[at + 1 :])
    return (*events, Rest(choice, chunk))


def choice_number(index: Json) -> int:
    """A choice's number as a server wrote it; 0 for what is none."""
    return index if isinstance(index, int) and index >= 0 else 0


def load_json(data: bytes | str) -> Json:
    """Parse strict JSON (RFC 8259) exactly; raise ValueError if it is none.

    Huge integers stay what they are, and escaped lone surrogates, which models do write, are taken. NaN and numbers
    beyond a float are none.
    """
    try:
        value: Json = json.loads(data, parse_constant=_refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def load_chunk(data: bytes) -> Json:
    """Parse an event of a stream, fast; what orjson refuses, exactly. Raises ValueError if it is no JSON.

    What is no UTF-8 is read as a client of the stream would (HTML standard, 9.2.6): with U+FFFD.
    """
    try:
        value: Json = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = load_json(data)
        except UnicodeDecodeError:
            value = load_json(data.decode("utf-8", "replace"))
    return value


def dump_json(value: object) -> bytes:
    """Write compact JSON, UTF-8 as it is; what orjson cannot (lone surrogates, huge integers), escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def dump_strict(value: object) -> bytes:
    """The same for what every client must be able to read: a lone surrogate, which is no character, as U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def finite(text: str) -> float:
    """The number that a JSON text says; ValueError if it is beyond a float, which would be written as no JSON."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:32]} is beyond a number's range")
    return number
