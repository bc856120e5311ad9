"""What an entry of `tool_calls` says beside index, id, name and arguments (contract C1).

Gemini ties a call to its thoughts by a signature, and refuses the next request that lacks it:

    {"index": 0, "id": "call_1", "type": "function", "function": {"name": "bash", "arguments": "{}"},
     "extra_content": {"google": {"thought_signature": "CtwB..."}}}

Such fields leave with the chunk that they came in, if that leaves as it came; else with the next of the call's
arguments that leave, at its end at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_text import Json, JsonObject, dump_json
from proxy.errors import UpstreamBroken

# What servers call the arguments.
ARGUMENTS = ("arguments", "parsed_arguments", "args", "input")
# What is said in another way.
_FUNCTION = frozenset(("name", *ARGUMENTS))
_ENTRY = frozenset(("index", "id", "type", "function", *_FUNCTION))
_NOTHING: tuple[Json, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class CallFields:
    """The other fields of one entry, and of the function in it."""

    entry: JsonObject
    function: JsonObject

    @property
    def says_something(self) -> bool:
        """False if all of them are empty."""
        values = (*self.entry.values(), *self.function.values())
        return any(value not in _NOTHING for value in values)

    @property
    def size(self) -> int:
        """Bytes of their JSON."""
        try:
            return len(dump_json({**self.entry, "function": self.function}))
        except RecursionError:
            raise UpstreamBroken("a field of a tool call is nested too deeply") from None

    def may_join(self, other: CallFields) -> bool:
        """True if no field of the other has another value here."""
        return _agree(self.entry, other.entry) and _agree(self.function, other.function)

    def joined(self, other: CallFields) -> CallFields:
        """The fields of both; where both have one, that of the other."""
        return CallFields({**self.entry, **other.entry}, {**self.function, **other.function})

    def without(self, known: CallFields) -> CallFields:
        """Those that are not known already."""
        return CallFields(_new(self.entry, known.entry), _new(self.function, known.function))


NO_FIELDS = CallFields({}, {})


def _agree(fields: JsonObject, others: JsonObject) -> bool:
    return all(fields[key] == others[key] for key in fields.keys() & others.keys())


def _new(fields: JsonObject, known: JsonObject) -> JsonObject:
    return {key: value for key, value in fields.items() if key not in known or known[key] != value}


def other_fields(entry: JsonObject, function: JsonObject) -> CallFields | None:
    """The other fields of an entry; None if it has none. `function` is the entry itself where there is no object around
    name and arguments.
    """
    # Nearly no entry has any.
    if entry.keys() <= _ENTRY and (function is entry or function.keys() <= _FUNCTION):
        return None
    around = {key: value for key, value in entry.items() if key not in _ENTRY}
    inside: JsonObject = {}
    if function is not entry:
        inside = {key: value for key, value in function.items() if key not in _FUNCTION}
    return CallFields(around, inside)


class UnsaidFields:
    """The fields of one call that its client does not have yet, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[CallFields] = []
        self._known = NO_FIELDS
        # Bytes of those that wait.
        self.size = 0

    def add(self, fields: CallFields) -> None:
        """Fields came; those that a server says with each piece wait once."""
        if self._waiting and self._waiting[-1] == fields:
            return
        self._waiting.append(fields)
        self._known = self._known.joined(fields)
        self.size += fields.size

    def add_new(self, fields: CallFields) -> None:
        """Fields came in what repeats the call, or a part of it: those that it has said are not said again."""
        new = fields.without(self._known)
        if new != NO_FIELDS:
            self.add(new)

    def add_all(self, others: UnsaidFields) -> None:
        """Take over the fields that another call has not said: it was a part of this one, or the same."""
        for fields in others._waiting:
            self.add_new(fields)

    @property
    def waits(self) -> bool:
        """True if there are any."""
        return bool(self._waiting)

    def leave(self, fields: CallFields) -> None:
        """These left, in the chunk that they came in."""
        if fields in self._waiting:
            self._waiting.remove(fields)
            self.size -= fields.size

    def take(self) -> list[CallFields]:
        """All of them, to be said now; as few as can be without one value in the place of another."""
        taken: list[CallFields] = []
        for fields in self._waiting:
            if taken and taken[-1].may_join(fields):
                taken[-1] = taken[-1].joined(fields)
            else:
                taken.append(fields)
        self._waiting = []
        self.size = 0
        return taken
