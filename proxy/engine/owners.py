"""Assigns each delta to its call (F41 to F47, F51).

1. A delta with a known id belongs to the call with that id, at any index. It begins another call if it has `{` after a
   complete object, another name, or only a name under a new index. The second call with one id is the twin of the
   first: it is sent only if it differs (F27).
2. A delta with a name or a new id belongs to the call at its index, unless it begins another call: with a name and
   another id (except within an unfinished object), or with `{` or another name after a complete object. A call with
   `{}` is not complete if its tool takes arguments (F25). A name alone under a new index belongs to the call without a
   name if that call's arguments are incomplete or the index is not the next one.
3. Any other delta belongs to the first of: the unfinished call whose arguments arrive under this index, the newest
   unfinished call whose arguments have no index yet, the call at this index (as text after its object). If names arrive
   after the arguments, or the call has none yet, `{` begins another call.

SGLang numbers names by the tool and arguments by the call:

    {"index": 3, "id": "call_1", "function": {"name": "bash", "arguments": ""}}
    {"index": 0, "function": {"arguments": "{\\"command\\": "}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from proxy.engine.arguments import Arguments
from proxy.engine.events import NO_FIELDS, CallFields
from proxy.engine.reading import CallDelta
from proxy.errors import UpstreamBroken
from proxy.json import dump_json
from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.arguments import strict_object
from proxy.repair.record import Repair

_EMPTY = re.compile(r"(?:\s*\{\s*\})*\s*")
# The maximum length of empty arguments, and of a start of arguments that a server repeats.
SHORT = 64
# The maximum number of names to keep if a server sends one with each delta.
_MAX_NAMES = 16


class State(Enum):
    """The part of a call that the client has."""

    # Nothing: the call may still change.
    WAITING = auto()
    # The id, the name and part of the arguments.
    OPEN = auto()
    CLOSED = auto()
    DROPPED = auto()


@dataclass(slots=True, eq=False)
class Call:
    """A call.

    From the server: `number` is the call's position. `begun`: its arguments have begun, under `arguments_index`.
    `twin` is the earlier call with the same id.
    `name_again`: the name was repeated after the object, so it may belong to the next call. `named_late`: the name
    arrived after arguments. `borrowed` is the previous call's name, used if this call gets none. `odd`: clients would
    not understand the form in which the server sent it. `in_text`: it was found in the text.

    For the client: `ready` is text to send once the call is open. `index`, `id` and `name` are the values it gets.
    `canonical` are all its arguments in canonical form, once it is closed.
    """

    tools: ToolSet
    number: int = 0
    server_id: str = ""
    server_index: int | None = None
    arguments_index: int | None = None
    names: list[str] = field(default_factory=list)
    begun: bool = False
    arguments: Arguments = field(default_factory=Arguments)
    twin: Call | None = None
    name_again: bool = False
    named_late: bool = False
    borrowed: str = ""
    odd: bool = False
    in_text: bool = False
    state: State = State.WAITING
    ready: str = ""
    index: int = -1
    id: str = ""
    name: str = ""
    canonical: str = ""
    fixes: tuple[Repair, ...] = ()
    # Extra fields: the waiting ones, their size in bytes, and all that have arrived.
    fields: list[CallFields] = field(default_factory=list)
    fields_size: int = 0
    known_fields: CallFields = NO_FIELDS

    @property
    def text(self) -> str:
        """All arguments received so far."""
        return self.arguments.text

    @property
    def size(self) -> int:
        """The size of the arguments in bytes."""
        return len(self.arguments.data)

    @property
    def is_empty(self) -> bool:
        """True if the call has no arguments, or empty ones."""
        return self.size < SHORT and _EMPTY.fullmatch(self.text) is not None

    @property
    def finished(self) -> bool:
        """True if the arguments are a complete object."""
        return self.arguments.closed >= 0

    @property
    def is_over(self) -> bool:
        """True if nothing more of the call will be sent."""
        return self.state in (State.CLOSED, State.DROPPED)

    @property
    def tool(self) -> Tool | None:
        """The offered tool that the call means, or None."""
        return self.tools.resolve(self.written_name)

    @property
    def offered_name(self) -> str:
        """The name of that tool, or else the name as the server wrote it."""
        tool = self.tool
        return tool.name if tool else self.written_name

    @property
    def written_name(self) -> str:
        """The name as the server wrote it: once, in pieces, or growing with each delta (F38, F39).

        {"function": {"name": "read_"}}, {"function": {"name": "file"}} is `read_file`, and so is
        {"function": {"name": "read_"}}, {"function": {"name": "read_file"}}
        """
        if len(self.names) < 2:
            return self.names[0] if self.names else ""
        spellings = (self.names[0], self.names[-1], "".join(self.names))
        return next((name for name in spellings if self.tools.resolve(name) is not None), self.names[0])

    @property
    def lacks_arguments(self) -> bool:
        """True if the call has no arguments yet although its tool takes some (F25).

        {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
        {"index": 0, "function": {"arguments": "{\\"command\\": \\"ls\\"}"}}
        """
        if not self.is_empty:
            return False
        tool = self.tool
        return tool is None or bool(tool.properties)

    def add_fields(self, came: CallFields | None) -> None:
        """Keep extra fields for the next event. Fields that a server repeats in each delta are kept once."""
        new = NO_FIELDS if came is None else came.without(self.known_fields)
        if new == NO_FIELDS:
            return
        self.known_fields = self.known_fields.joined(new)
        try:
            self.fields_size += len(dump_json({**new.entry, "function": new.function}))
        except RecursionError:
            raise UpstreamBroken("a field of a tool call is nested too deeply") from None
        self.fields.append(new)


class Owners:
    """The calls of one choice in the order in which they began, by index and by id."""

    def __init__(self, tools: ToolSet, max_calls: int) -> None:
        self._tools, self._max_calls = tools, max_calls
        self.calls: list[Call] = []
        self._by_index: dict[int, Call] = {}
        self._by_id: dict[str, Call] = {}

    def __iter__(self) -> Iterator[Call]:
        return iter(self.calls)

    @property
    def newest(self) -> Call | None:
        """The call that began last."""
        return self.calls[-1] if self.calls else None

    def owner(self, delta: CallDelta) -> Call | None:
        """Return the call that a delta belongs to, or None if it begins another call."""
        at_index = self._by_index.get(delta.index) if delta.index is not None else None
        if delta.id and (of_id := self._by_id.get(delta.id)) is not None:
            if at_index is not None and at_index.server_id == delta.id:
                of_id = at_index  # the latest call with this id
            return None if self._begins_twin(of_id, delta) else of_id
        if delta.name or delta.id:
            call = at_index if delta.index is not None else self.newest
            call = call or self._nameless(delta)
            return None if call is None or self._begins_other(call, delta) else call
        new: Call | None = None
        for call in reversed(self.calls):
            if call.finished or call.state is State.CLOSED:
                continue
            index = call.server_index if call.arguments_index is None else call.arguments_index
            if delta.index is not None and delta.index == index:
                return call
            if new is None and (call.arguments_index is None or delta.index is None):
                new = call
        if new is not None:
            return new
        call = at_index or self.newest
        if call is None or not delta.begins_object:
            return call
        another = at_index is None and delta.index is not None and not call.names
        late = call.named_late and not call.lacks_arguments
        return None if another or call.name_again or late else call

    def _nameless(self, delta: CallDelta) -> Call | None:
        """Return the call that lacks a name and gets it from this delta under a new index, or None."""
        call = next((call for call in self.calls if not call.names and call.begun), None)
        if call is None or delta.fragment or not delta.name:
            return None
        return call if delta.index != len(self.calls) or strict_object(call.text) is None else None

    def _begins_twin(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta with the id of a call begins another call."""
        elsewhere = delta.index != call.server_index
        if self._is_other_name(call, delta) and (call.size or elsewhere):
            return True
        again = call.finished or bool(delta.name and elsewhere and call.size)
        # A name under a new index comes before its arguments.
        head = delta.name and not delta.fragment and delta.index is not None and delta.index not in self._by_index
        return bool(again and (delta.begins_object or head)) and not call.lacks_arguments

    def _begins_other(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta with a name or a new id begins another call than the one at its index."""
        other_name = self._is_other_name(call, delta)
        if delta.name and delta.id and call.server_id:
            # Some servers send both with each delta.
            within = call.size and not call.finished and delta.fragment and not delta.begins_object
            return other_name or not within
        if not call.finished or (call.lacks_arguments and not other_name):
            return False
        return other_name or delta.begins_object

    def _is_other_name(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta has a name that is neither the call's name nor the next piece of it.

        {"id": "call_1", "function": {"name": "ba", "arguments": "{\\"comm"}}
        {"id": "call_1", "function": {"name": "sh", "arguments": "and\\": \\"ls\\"}"}}
        """
        if not delta.name or not call.names or delta.name in call.names:
            return False
        joined = "".join((*call.names, delta.name))
        goes_on = not call.finished and not delta.begins_object and self._tools.resolve(delta.name) is None
        return not (goes_on and self._tools.resolve(joined) is not None)

    def begin(self, delta: CallDelta) -> Call:
        """Return a new call for a delta. Raises UpstreamBroken if there are too many calls."""
        self.check(len(self.calls) + 1)
        call = Call(self._tools, len(self.calls), server_index=delta.index)
        before = self._by_index.get(delta.index) if delta.index is not None else self.newest
        if before is not None and before.name_again and not delta.name:
            call.names.append(before.names[-1])
        elif self.newest is not None and self.newest.named_late:
            call.borrowed = self.newest.names[-1]
        if delta.id:
            call.twin = self._by_id.get(delta.id)
        if delta.index is not None:
            self._by_index[delta.index] = call
        self.calls.append(call)
        return call

    def check(self, count: int) -> None:
        """Raise UpstreamBroken if `count` calls are too many (contract C7)."""
        if count > self._max_calls:
            raise UpstreamBroken(f"the reply has more than {self._max_calls} tool calls (max_calls)")

    def note(self, call: Call, delta: CallDelta) -> None:
        """Record the facts in the next delta of a call other than the arguments. Its first id counts."""
        late_name = bool(delta.name and not call.names and call.size)
        call.named_late |= late_name
        again = call.arguments.begun and bool(delta.name or delta.id is not None)
        call.odd |= not delta.standard or delta.index != call.number or late_name or again
        call.name_again |= bool(call.finished and delta.name and not delta.id)
        if delta.name and len(call.names) < _MAX_NAMES:
            call.names.append(delta.name)
        if not call.begun and delta.fragment.strip():
            call.begun, call.arguments_index = True, delta.index
        if delta.id and not call.server_id:
            call.server_id = delta.id
            self._by_id.setdefault(delta.id, call)

    def completed_by(self, delta: CallDelta) -> Call | None:
        """Return the call that a late, complete delta repeats, or None if it is a new call (F25)."""
        if delta.id and (call := self._by_id.get(delta.id)) is not None:
            return call
        if delta.index is None or delta.index >= len(self.calls):
            return None
        call = self.calls[delta.index]
        return None if delta.name and call.names and delta.name not in call.names else call
