"""How a structured call leaves: opened once, then piece by piece, or all at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_text import canonical
from proxy.engine.call_fields import UnsaidFields
from proxy.engine.call_registry import CallRegistry
from proxy.engine.events import CallArguments, CallOpened, Event
from proxy.engine.pending_call import PendingCall
from proxy.repair.repairer import Repaired, Repairer


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call that was found in the text: its name, its canonical arguments, its index."""

    name: str
    arguments: str
    index: int


class CallWriter:
    """Gives the events of one choice's calls.

    `take_index` and `new_id` are shared with the calls that are found in the choice's text; `take_index` gives None
    where the client wants no further call (F52). `written` are those that were found in the text until now: a
    structured one that only repeats one of them is dropped (F28). `unsaid` gets what else the server says of each call
    that opens, by its index.

    `regular`: the last deltas are as clients expect them. `unchanged`: what was let go of earlier calls left as it
    came. Both are true again with each chunk (`begin_chunk`). `audit` are the repairs of no call.
    """

    def __init__(
        self,
        choice: int,
        repairer: Repairer,
        take_index: Callable[[], int | None],
        new_id: Callable[[int, str, str], str],
        *,
        used: set[str],
        written: list[WrittenCall],
        calls: CallRegistry,
        unsaid: dict[int, UnsaidFields],
    ) -> None:
        self.choice = choice
        self._repairer = repairer
        self._take_index = take_index
        self._new_id = new_id
        self._used = used
        self._written = written
        self._unsaid = unsaid
        self._calls = calls
        self.regular = True
        self.unchanged = True
        self.audit: list[Repair] = []

    def begin_chunk(self) -> None:
        """The deltas of another chunk come, or the end of the reply: nothing is known against them."""
        self.regular = self.unchanged = True

    def mark_irregular(self) -> None:
        """The deltas of this chunk are not as clients expect them: they leave in another shape."""
        self.regular = False

    def mark_changed(self) -> None:
        """What is let go of earlier calls leaves otherwise than it came, or not at all."""
        self.unchanged = False

    def repeats(self, name: str) -> bool:
        """True if a call of this name was found in the text."""
        return any(name == call.name for call in self._written)

    def open(self, call: PendingCall) -> list[Event]:
        """Open a call under the name that the server wrote; nothing, if the client wants no further one."""
        tools = self._repairer.tools
        return self._open(call, call.written_name(tools), call.offered_name(tools))

    def open_as(self, call: PendingCall, name: str) -> list[Event]:
        """Open a call under this name, whatever the server wrote."""
        return self._open(call, name, name)

    def release(self, call: PendingCall, new: str) -> list[Event]:
        """Let go what may leave of a call, as soon as it is open: with the first byte of its first value, unless an
        earlier call is not told yet.
        """
        if new:
            call.releasable.append(new)
        if call.dropped or not call.releasable:
            return []
        events: list[Event] = []
        if call.unresolved:
            # Calls leave in the order of the model. Of two whose pieces come in turn (F47) the second one waits:
            #     {"index": 0, "id": "call_1", "function": {"arguments": "{\"path\": "}}, its name comes later (F38)
            #     {"index": 1, "id": "call_2", "function": {"name": "bash", "arguments": "{\"command\": "}}
            if self._calls.must_wait(call):
                return []
            events = self.open(call)
        text = call.take_releasable()
        if not call.was_opened:
            return events
        return [*events, CallArguments(self.choice, call.index, text)]

    def release_whole(self, call: PendingCall) -> list[Event]:
        """Open and fill a call of which nothing left, as soon as all of it came, if it is one."""
        repaired = self._repairer.repair(call.written_name(self._repairer.tools), call.object, stopped=False)
        if repaired is None:
            return []
        return self.write_whole(call, repaired)

    def write_whole(self, call: PendingCall, repaired: Repaired) -> list[Event]:
        """Open and fill a call of which nothing left; nothing, if it is dropped."""
        self.regular = self.unchanged = False
        written = self._written_before(repaired)
        if written is not None:
            # The server parsed the call and left its text in the content, where the proxy found it first (F28):
            #     {"content": "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}</tool_call>"}
            #     {"tool_calls": [{"index": 0, "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}]}
            call.drop()
            why = "the call was in the content already"
            self.audit.append(Repair("echo", repaired.arguments, "", why, repaired.name))
            return self._fields_of_echo(call, written)
        opened = self._open(call, self._written_name(call, repaired), repaired.name)
        if call.dropped:
            # It came whole: an object behind it is another call's.
            call.final_arguments = repaired.arguments
            return []
        call.complete(repaired.arguments)
        call.fixes += repaired.fixes
        return [*opened, CallArguments(self.choice, call.index, repaired.arguments)]

    def _written_before(self, repaired: Repaired) -> WrittenCall | None:
        """The call as it was found in the text already; each of those is repeated once."""
        arguments = canonical(repaired.arguments)
        for written in self._written:
            if written.name == repaired.name and written.arguments == arguments:
                self._written.remove(written)
                return written
        return None

    def _fields_of_echo(self, call: PendingCall, written: WrittenCall) -> list[Event]:
        """What else a call says that the client has already: it belongs to the one that the client has."""
        if not call.fields.waits:
            return []
        self._unsaid[written.index] = call.fields
        return [CallArguments(self.choice, written.index, "")]

    def _written_name(self, call: PendingCall, repaired: Repaired) -> str:
        """The name that is told as repaired: of one that a rule changed, the rule tells it."""
        if any(fix.id.startswith("rule:") for fix in repaired.fixes):
            return repaired.name
        return call.written_name(self._repairer.tools) or repaired.name

    def _open(self, call: PendingCall, written: str, name: str) -> list[Event]:
        index = self._take_index()
        if index is None:
            # `"parallel_tool_calls": false` in the request, which the server did not heed (F52).
            call.drop()
            self.audit.append(Repair("one_call", name, "", "the client wants one call at a time", name))
            return []
        call.open(index, self._id_of(call, index, name), name)
        self._unsaid[index] = call.fields
        if name != written:
            # `functions.bash:0`, `Bash` (F36)
            why = "the only offered tool that this name can mean"
            call.fixes += (Repair("name", written, name, why, name),)
        if call.id != call.server_id:
            why = "the server gave none, or another call's"
            call.fixes += (Repair("id", call.server_id, call.id, why, name),)
        if call.fixes or index != call.server_index:
            # What the server said otherwise leaves otherwise.
            self.regular = self.unchanged = False
        return [CallOpened(self.choice, index, call.id, name)]

    def _id_of(self, call: PendingCall, index: int, name: str) -> str:
        """The server's id if it is one, and no other call's; else a new one."""
        id_ = call.server_id
        # None in any delta (F43); or the same for each call of the reply, or one of an earlier turn (F48):
        #     {"index": 0, "id": "call_0", "function": {"name": "bash", "arguments": "{}"}}
        #     {"index": 1, "id": "call_0", "function": {"name": "read", "arguments": "{}"}}
        if not id_ or id_ in self._used:
            id_ = self._new_id(index, name, call.server_id)
        self._used.add(id_)
        return id_
