"""Reading the parts of a Messages or Responses request: checks that name the place, and what is lost.

A value that is null is as one that is not there, everywhere. Source: the Anthropic API reference, "Errors"; the places
in errors are written as the API writes them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from proxy.audit_record import Repair
from proxy.codec.json_text import Json, JsonObject
from proxy.errors import BadRequest

# Kinds of field in the account of one request; those that come later go under one name (C7).
MAX_KINDS = 100
_MORE = "(more)"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
NO_FIELD = "chat completions has no such field"
_UNKNOWN = "unknown field"
CACHE = "the model server keeps its own prefix cache"
# Characters of what the client wrote, in an error.
_QUOTED = 40
_KINDS: dict[type, str] = {
    **{dict: "an object", list: "a list", str: "a string"},
    **{bool: "true or false", int: "a whole number", float: "a number"},
}
_RULE = "write `server_tools: drop` in the model's entry of rules.yaml"


class FieldPath:
    """A place in the request: the body, or a field or an entry of what is at another place.

    It is written out only when something is wrong there or lost, because there are very many.
    """

    __slots__ = ("_parent", "_step")

    def __init__(self, parent: FieldPath | None = None, step: str | int = "") -> None:
        self._parent = parent
        self._step = step

    @property
    def where(self) -> str:
        """The place as errors name it: `messages.0.content.1`; "" for the body."""
        above = self._parent.where if self._parent else ""
        return f"{above}.{self._step}" if above else str(self._step)

    @property
    def kind(self) -> str:
        """The path that stands for all such places in audit records: `messages[].content[]`."""
        above = self._parent.kind if self._parent else ""
        if isinstance(self._step, int):
            return f"{above}[]"
        return f"{above}.{self._step}" if above else self._step

    def field(self, name: str) -> FieldPath:
        """The place of a field of the object here."""
        return FieldPath(self, name)

    def at(self, index: int) -> FieldPath:
        """The place of an entry of the list here."""
        return FieldPath(self, index)

    def bad(self, text: str) -> BadRequest:
        """The error for this place."""
        where = self.where
        return BadRequest(f"{where}: {text}" if where else text, where)


BODY = FieldPath()


class DroppedFields:
    """The fields of a request that could not be carried: one audit record for each kind of field, not one for each
    place.

    `server_tools` (refuse, drop) says what becomes of what only the servers of the dialect's maker can do, `whose`.
    """

    def __init__(self, server_tools: str, whose: str = "Anthropic") -> None:
        self._drops = server_tools == "drop"
        self._whose = whose
        self._counts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}

    def lost(self, kind: str, why: str) -> None:
        """Something of this kind goes."""
        if kind not in self._counts and len(self._counts) >= MAX_KINDS:
            kind, why = _MORE, NO_FIELD
        self._counts[kind] = self._counts.get(kind, 0) + 1
        self._reasons.setdefault(kind, why)

    def server_only(self, path: FieldPath, what: str, kind: str = "") -> None:
        """Something that only the maker's servers do: it goes with a record if the rules say so, else BadRequest."""
        if not self._drops:
            where = f"{self._whose}'s own servers"
            raise path.bad(f"{what} works only on {where}; leave it out of the request, or {_RULE}")
        self.lost(kind or path.kind, f"only {self._whose}'s own servers do this")

    def leave(self, fields: JsonObject, reasons: Mapping[str, str], path: FieldPath) -> None:
        """Count the fields of the object at `path` that are not carried.

        `reasons` has "" for each field that is carried and the reason for each that is dropped. A field that it lacks
        is unknown, and dropped too.
        """
        unknown = _UNKNOWN if path is BODY else NO_FIELD
        for name, value in fields.items():
            why = reasons.get(name, unknown)
            if why and value is not None:
                self.lost(path.field(name if _NAME.fullmatch(name) else "(odd name)").kind, why)

    def records(self) -> tuple[Repair, ...]:
        """Return the audit records, in the order in which the kinds were met; `before` holds the count of each kind.

        The log also has those of the unknown fields of the body: a client may expect an effect of them.
        """
        return tuple(
            Repair("dropped_field", f"{kind}: {count}", "", f"{kind}: {why}", logged=why == _UNKNOWN)
            for (kind, count), why in zip(self._counts.items(), self._reasons.values(), strict=True)
        )


def shown(text: str) -> str:
    """The beginning of what the client wrote, for an error: never much of it, and on one line."""
    return ascii(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}...")


def entry(value: Json, path: FieldPath) -> JsonObject:
    """The object that is an entry of a list, at its place; BadRequest if it is none."""
    if not isinstance(value, dict):
        raise path.bad(f"must be {_KINDS[dict]}")
    return value


def mapping(fields: JsonObject, name: str, path: FieldPath, *, needed: bool = True) -> JsonObject:
    """The object in the field `name` of the object at a place; BadRequest if it is none.

    Unless it is `needed`, an empty one stands for what is not there.
    """
    value = {} if fields.get(name) is None and not needed else fields.get(name)
    if not isinstance(value, dict):
        raise _wrong(value, path.field(name), dict)
    return value


def listing(fields: JsonObject, name: str, path: FieldPath, *, needed: bool = True) -> list[Json]:
    """The same for the list in that field."""
    value = [] if fields.get(name) is None and not needed else fields.get(name)
    if not isinstance(value, list):
        raise _wrong(value, path.field(name), list)
    return value


def string(fields: JsonObject, name: str, path: FieldPath) -> str:
    """The string in that field; BadRequest if it is none."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise _wrong(value, path.field(name), str)
    return value


def nonempty_string(fields: JsonObject, name: str, path: FieldPath) -> str:
    """The string in that field, which may not be empty; BadRequest if it is or is none."""
    text = string(fields, name, path)
    if not text:
        raise path.field(name).bad("may not be empty")
    return text


def optional(fields: JsonObject, name: str, path: FieldPath) -> str:
    """The string in that field, "" if there is nothing; BadRequest if it is something else."""
    return "" if fields.get(name) is None else string(fields, name, path)


def flag(fields: JsonObject, name: str, path: FieldPath) -> bool:
    """The boolean in that field, false if there is nothing; BadRequest if it is something else."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, path.field(name), bool)
    return value is True


def number(fields: JsonObject, name: str, path: FieldPath) -> int | float:
    """The number in that field; BadRequest if it is none."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, path.field(name), float)
    return value


def whole_number(fields: JsonObject, name: str, path: FieldPath) -> int:
    """The whole number in that field; BadRequest if it is none."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(value, path.field(name), int)
    return value


def _wrong(value: Json, path: FieldPath, kind: type) -> BadRequest:
    return path.bad("Field required" if value is None else f"must be {_KINDS[kind]}")
