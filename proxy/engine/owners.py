"""Which call a delta belongs to (F41 to F47, F51).

1. A known id names its call, whatever the index, unless the delta begins another call: `{` behind a whole object, or
   another name, or a name alone under a new index. The second call of one id is the first one's twin: it is sent only
   if it says something else (F27).
2. A name or a new id belongs to the call of its index, unless that one is over: a name with another id (but not within
   an object that continues), `{` or another name behind a whole object. A call with `{}` whose tool takes arguments is
   not over (F25). A name under a new index is of a call without a name whose arguments are not whole, or if the index
   does not count calls.
3. Anything else belongs to the unfinished call whose arguments come under this index, else to the newest unfinished
   call whose arguments have no index yet, else to the call of this index: it follows that call's object. Where names
   come after the arguments, or calls have none yet, `{` begins another call.

SGLang numbers names by the tool and arguments by the call:

    {"index": 3, "id": "call_1", "function": {"name": "bash", "arguments": ""}}
    {"index": 0, "function": {"arguments": "{\\"command\\": "}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from proxy.audit_record import Repair
from proxy.codec.json_text import dump_json
from proxy.engine.arguments import Arguments
from proxy.engine.events import NO_FIELDS, CallFields
from proxy.engine.reading import CallDelta
from proxy.errors import UpstreamBroken
from proxy.repair.arguments import strict_object
from proxy.tools.toolset import Tool, ToolSet

_EMPTY = re.compile(r"(?:\s*\{\s*\})*\s*")
# Empty arguments, or the beginning of those that a server sends again, are not longer.
SHORT = 64
# Names that are kept of a server that says one with each delta.
_MAX_NAMES = 16


class State(Enum):
    """What the client has of a call."""

    # Nothing: it may still become anything.
    WAITING = auto()
    # Its id, its name and a part of its arguments.
    OPEN = auto()
    CLOSED = auto()
    DROPPED = auto()


_NEXT = {
    State.WAITING: (State.OPEN, State.DROPPED),
    State.OPEN: (State.CLOSED,),
    State.CLOSED: (),
    State.DROPPED: (),
}


@dataclass(slots=True, eq=False)
class Call:
    """A call.

    Of the server: `number` counts its calls; `arguments_index` is the index under which the arguments come, once one
    has `begun` them; `early` came before they could be read; `twin` is the earlier call of the same id; `name_again`:
    the name came again behind the object, so it may be the next call's; `named_late`: it came after arguments;
    `borrowed` is the name of the call before, which counts if no other comes; `odd`: clients would not understand how
    the server said it.

    Of the client: `ready` may leave as soon as the call is open; `index`, `id` and `name` are what the client knows.
    """

    number: int = 0
    server_id: str = ""
    server_index: int | None = None
    arguments_index: int | None = None
    names: list[str] = field(default_factory=list)
    begun: bool = False
    early: list[str] = field(default_factory=list)
    early_size: int = 0
    arguments: Arguments | None = None
    twin: Call | None = None
    name_again: bool = False
    named_late: bool = False
    borrowed: str = ""
    odd: bool = False
    state: State = State.WAITING
    ready: str = ""
    index: int = -1
    id: str = ""
    name: str = ""
    fixes: tuple[Repair, ...] = ()
    # Other fields: those that wait, their bytes, and all that came.
    fields: list[CallFields] = field(default_factory=list)
    fields_size: int = 0
    known_fields: CallFields = NO_FIELDS

    def move(self, state: State) -> None:
        """Change the state."""
        assert state in _NEXT[self.state], (self.state, state)
        self.state = state

    @property
    def text(self) -> str:
        """All of its arguments."""
        return "".join(self.early) if self.arguments is None else self.arguments.text

    @property
    def size(self) -> int:
        """About the number of bytes of that."""
        return self.early_size if self.arguments is None else len(self.arguments.data)

    @property
    def sent(self) -> int:
        """The number of bytes of its arguments that may have left."""
        return 0 if self.arguments is None else self.arguments.sent

    @property
    def is_empty(self) -> bool:
        """True if it has no arguments, or empty ones."""
        return self.size < SHORT and _EMPTY.fullmatch(self.text) is not None

    @property
    def finished(self) -> bool:
        """True if its object is whole."""
        return self.arguments is not None and self.arguments.closed >= 0

    @property
    def is_over(self) -> bool:
        """True if nothing more of it leaves."""
        return self.state in (State.CLOSED, State.DROPPED)

    def tool(self, tools: ToolSet) -> Tool | None:
        """Return the offered tool that it means."""
        return tools.resolve(self.written_name(tools))

    def written_name(self, tools: ToolSet) -> str:
        """Return the name as the server wrote it: once, in pieces, or growing with each delta (F38, F39).

        {"function": {"name": "read_"}}, {"function": {"name": "file"}} is `read_file`, and so is
        {"function": {"name": "read_"}}, {"function": {"name": "read_file"}}
        """
        if len(self.names) < 2:
            return self.names[0] if self.names else ""
        spellings = (self.names[0], self.names[-1], "".join(self.names))
        return next((name for name in spellings if tools.resolve(name) is not None), self.names[0])

    def lacks_arguments(self, tools: ToolSet) -> bool:
        """Return whether it came without arguments though its tool takes some: they may still come (F25).

        {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
        {"index": 0, "function": {"arguments": "{\\"command\\": \\"ls\\"}"}}
        """
        if not self.is_empty:
            return False
        tool = self.tool(tools)
        return tool is None or bool(tool.properties)

    def note(self, delta: CallDelta) -> None:
        """Note what the next delta says of it beside the arguments."""
        late_name = bool(delta.name and not self.names and self.early_size)
        self.named_late |= late_name
        again = self.arguments is not None and bool(delta.name or delta.id is not None)
        self.odd |= not delta.standard or delta.index != self.number or late_name or again
        self.name_again |= bool(self.finished and delta.name and not delta.id)
        if delta.name and len(self.names) < _MAX_NAMES:
            self.names.append(delta.name)
        if not self.begun and delta.fragment.strip():
            self.begun, self.arguments_index = True, delta.index

    def add_fields(self, came: CallFields | None) -> None:
        """Let other fields wait; those that a server says with each piece wait once."""
        new = NO_FIELDS if came is None else came.without(self.known_fields)
        if new == NO_FIELDS:
            return
        self.known_fields = self.known_fields.joined(new)
        try:
            self.fields_size += len(dump_json({**new.entry, "function": new.function}))
        except RecursionError:
            raise UpstreamBroken("a field of a tool call is nested too deeply") from None
        if self.fields and not self.fields[-1].shares_keys(new):
            self.fields[-1] = self.fields[-1].joined(new)
        else:
            self.fields.append(new)


class Owners:
    """The calls of one choice by index and by id, in the order in which they began."""

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
        """Return the call that a delta belongs to; None if it begins another one."""
        at_index = self._by_index.get(delta.index) if delta.index is not None else None
        if delta.id and (of_id := self._by_id.get(delta.id)) is not None:
            if at_index is not None and at_index.server_id == delta.id:
                of_id = at_index  # the last one of this id
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
        late = call.named_late and not call.lacks_arguments(self._tools)
        return None if another or call.name_again or late else call

    def _nameless(self, delta: CallDelta) -> Call | None:
        """Return the call without a name whose name a delta under a new index says."""
        call = next((call for call in self.calls if not call.names and call.begun), None)
        if call is None or delta.fragment or not delta.name:
            return None
        return call if delta.index != len(self.calls) or strict_object(call.text) is None else None

    def _begins_twin(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta with the id of a call begins another one."""
        elsewhere = delta.index != call.server_index
        if self._is_other_name(call, delta) and (call.size or elsewhere):
            return True
        again = call.finished or bool(delta.name and elsewhere and call.size)
        # A name under a new index comes before its arguments.
        head = delta.name and not delta.fragment and delta.index is not None and delta.index not in self._by_index
        return bool(again and (delta.begins_object or head)) and not call.lacks_arguments(self._tools)

    def _begins_other(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta with a name or a new id is not of the call of its index."""
        other_name = self._is_other_name(call, delta)
        if delta.name and delta.id and call.server_id:
            # Some servers say both with each piece.
            within = call.size and not call.finished and delta.fragment and not delta.begins_object
            return other_name or not within
        if not call.finished or (call.lacks_arguments(self._tools) and not other_name):
            return False
        return other_name or delta.begins_object

    def _is_other_name(self, call: Call, delta: CallDelta) -> bool:
        """Return whether a delta has a name that is not the call's, or the next piece of it.

        {"id": "call_1", "function": {"name": "ba", "arguments": "{\\"comm"}}
        {"id": "call_1", "function": {"name": "sh", "arguments": "and\\": \\"ls\\"}"}}
        """
        if not delta.name or not call.names or delta.name in call.names:
            return False
        joined = "".join((*call.names, delta.name))
        goes_on = not call.finished and not delta.begins_object and self._tools.resolve(delta.name) is None
        return not (goes_on and self._tools.resolve(joined) is not None)

    def begin(self, delta: CallDelta) -> Call:
        """Return a new call for a delta; UpstreamBroken if it is one too many."""
        self.check(len(self.calls) + 1)
        call = Call(len(self.calls), server_index=delta.index)
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
        """Raise UpstreamBroken if a reply has more calls than it may (contract C7)."""
        if count > self._max_calls:
            raise UpstreamBroken(f"the reply has more than {self._max_calls} tool calls (max_calls)")

    def note_id(self, call: Call, delta: CallDelta) -> None:
        """Note the id of a call: the first one that the server gave."""
        if delta.id and not call.server_id:
            call.server_id = delta.id
            self._by_id.setdefault(delta.id, call)

    def completed_by(self, delta: CallDelta) -> Call | None:
        """Return the call all of whose arguments a delta says, late; None if it is one of its own (F25)."""
        if delta.id and (call := self._by_id.get(delta.id)) is not None:
            return call
        if delta.index is None or delta.index >= len(self.calls):
            return None
        call = self.calls[delta.index]
        return None if delta.name and call.names and delta.name not in call.names else call
