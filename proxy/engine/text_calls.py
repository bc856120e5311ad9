"""The calls that the model wrote as text: opened, filled and closed at once, for their text is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.codec.json_text import canonical, dump
from proxy.engine.call_assembler import CallAssembler
from proxy.engine.call_writer import WrittenCall
from proxy.engine.choice_records import of_dropped, of_echo
from proxy.engine.events import Call, CallArguments, CallClosed, CallOpened, Event
from proxy.notations.stream import Found, Piece
from proxy.repair.repairer import Repairer


@dataclass(slots=True, kw_only=True)
class TextCalls:
    """The calls of one choice; `calls` counts those that were opened, `empty_calls` those without arguments that they
    need, `audit` are their repairs. `used` are the ids of the conversation's calls.
    """

    number: int
    repairer: Repairer
    new_id: Callable[[int, str, str], str]
    used: set[str]
    one_call: bool = False
    calls: int = 0
    empty_calls: int = 0
    audit: list[Repair] = field(default_factory=list)
    _assembler: CallAssembler | None = None
    _text_calls: list[WrittenCall] = field(default_factory=list)

    def _write_calls(self, piece: Piece, where: str) -> list[Event]:
        """Open, fill and close the calls that were found in a text."""
        self.audit += of_dropped(piece)
        events: list[Event] = []
        for found in piece.calls or ():
            events += self._write_call(found, f"the model wrote the call {where} ({piece.row})")
        return events

    def _write_call(self, found: Found, why: str) -> list[Event]:
        """Open, fill and close a call that the model wrote; nothing, if the client has it or wants no further one."""
        name, arguments = found.name, dump(found.arguments)
        fixes: tuple[Repair, ...] = ()
        repaired = self.repairer.repair(name, arguments, stopped=True)
        if repaired is not None:
            name, arguments, fixes = repaired.name, repaired.arguments, repaired.fixes
        if self._assembler is not None and self._assembler.has(name, arguments):
            self.audit.append(of_echo(arguments))
            return []
        index = self.take_index()
        if index is None:
            self.audit.append(Repair("one_call", name, "", "the client wants one call at a time", name))
            return []
        call = Call(self._id_of(found, index, name), name, arguments)
        self._text_calls.append(WrittenCall(name, canonical(arguments), index))
        fixes = (Repair("text_call", found.written, name, why, name), *fixes)
        self.audit += fixes
        self._count_empty(call)
        return [
            CallOpened(self.number, index, call.id, call.name),
            CallArguments(self.number, index, call.arguments),
            CallClosed(self.number, index, call, fixes),
        ]

    def _id_of(self, found: Found, index: int, name: str) -> str:
        """The id that the model gave, if it is no other call's: Kimi knows its calls by it (F8)."""
        id_ = found.id
        if not id_ or id_ in self.used:
            id_ = self.new_id(index, name, found.id)
        self.used.add(id_)
        return id_

    def take_index(self) -> int | None:
        """The index of the next call; None if the client wants no further one (F52)."""
        if self.one_call and self.calls:
            return None
        self.calls += 1
        return self.calls - 1

    def _count_empty(self, call: Call) -> None:
        """Count a call without arguments whose tool requires some (F25)."""
        if call.arguments.strip() not in ("{}", ""):
            return
        tool = self.repairer.tools.resolve(call.name)
        if tool is not None and tool.required:
            self.empty_calls += 1
