"""Builds the calls of one choice from structured deltas and from the text, and decides when to send them.

                    open                       settle
    WAITING ────────────────────> OPEN ─────────────────────> CLOSED
       └─────────── drop ──────────> DROPPED

A structured call opens once its first value has begun, all earlier calls are open, and its name is final. It is settled
when its object is complete and other content follows, or at the end of the reply. The repairer then reads the whole
call, and the part that the client lacks is sent (contracts C4, C5, C9). The server's mistakes (F25, F27, F38 to F47,
F51) are repaired here and in `owners`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from proxy.engine.arguments import Arguments, policy_of
from proxy.engine.events import Call as ClosedCall
from proxy.engine.events import CallArguments, CallClosed, CallOpened, Event, Failed, Text
from proxy.engine.owners import SHORT, Call, Owners, State
from proxy.engine.reading import CallDelta
from proxy.engine.task import NewIds, Task
from proxy.errors import UpstreamBroken
from proxy.json import canonical, dump
from proxy.limits import MAX_RECORDED
from proxy.notations.stream import Found, Piece
from proxy.repair.arguments import ODD, is_junk, may_go_on, objects_in, strict_object
from proxy.repair.record import Repair
from proxy.repair.repairer import Repaired, Repairer

_NAME = "the only offered tool that this name can mean"
# Sent arguments are kept until the call ends. A whole call may be this many times larger than `max_held`.
_LIVE = 4
# Less than this passes the lane before the engine is fed.
_MUCH = 256 * 1024


class Calls:
    """The calls of one choice: structured calls and calls found in the text.

    `count` is the number of opened calls, `empty` the number of calls without required arguments, and `refused` counts
    rejected calls by reason. `in_text`: a call was found in text. `audit` are the repairs. `whole`: the reply is a
    whole answer, so all of it is read before any call is emitted.
    """

    def __init__(self, task: Task, choice: int, repairer: Repairer, *, whole: bool) -> None:
        self._task, self._choice, self._repairer, self._whole = task, choice, repairer, whole
        # The ids already used in the conversation.
        self._used = set(task.ids)
        self._new_id = NewIds(task, choice, self._used)
        self._tools = repairer.tools
        self._owners = Owners(self._tools, task.max_calls)
        # The calls that were sent to the client, to find repeated ones.
        self._sent: list[Call] = []
        self.count = self.empty = 0
        self.in_text = False
        self.audit: list[Repair] = []
        self.refused: Counter[str] = Counter()

    def __bool__(self) -> bool:
        return bool(self._owners.calls)

    @property
    def size(self) -> int:
        """The number of argument bytes that the next step may have to read again."""
        return sum(call.size for call in self._owners)

    def finished_texts(self) -> tuple[str, ...]:
        """Return the arguments of each complete call."""
        return tuple(call.text.strip() for call in self._owners if call.finished)

    def flows(self, delta: CallDelta) -> bool:
        """Return whether such a delta continues a string of the newest call that is sent as it arrives."""
        call = self._owners.newest
        if call is None or call.odd or call.state is not State.OPEN:
            return False
        far = call.size + _MUCH < _LIVE * self._task.max_held
        return far and call.arguments.flows and self._owners.owner(delta) is call

    # Structured deltas.

    def feed(self, deltas: Iterable[CallDelta]) -> list[Event]:
        """Take the deltas of one chunk and return the resulting events."""
        events: list[Event] = []
        for came in deltas:
            delta = self._late(came) if came.complete else came
            if delta is None:
                continue
            call = self._owners.owner(delta)
            if call is None:
                events += self.settle_finished()
                for each in self._owners:
                    events += self._release(each)
                call = self._owners.begin(delta)
            events += self._take(call, delta)
        return events

    def _take(self, call: Call, delta: CallDelta) -> list[Event]:
        """Take the next delta of a call."""
        self._owners.note(call, delta)
        if call.fields_size > self._task.max_held:
            raise self._too_much()
        call.add_fields(delta.fields)
        fragment = delta.fragment
        if call.state is State.CLOSED:
            if may_go_on(call.text, fragment):
                return self._failed()
            fixes = len(call.fixes)
            events = [*self._arguments(call, ""), *self._behind(call, fragment)]
            self.audit += call.fixes[fixes:]
            return events
        if call.state is State.DROPPED:
            return []
        if self._says_all_again(call, fragment):
            call.arguments, call.odd = Arguments(), True
        if not call.arguments.begun and call.begun and (written := call.written_name):
            name, is_tool = call.offered_name, call.tool is not None
            hold = self._whole or call.twin is not None
            # The client may have the call from the text, or the name may go on.
            hold |= any(each.in_text and each.name == name for each in self._sent)
            hold |= not is_tool and any(each.startswith(name) for each in self._tools.names)
            call.arguments.begin(policy_of(self._repairer, written, hold=hold))
        call.ready += call.arguments.feed(fragment)
        self._check(call)
        return self._release(call)

    def _says_all_again(self, call: Call, fragment: str) -> bool:
        """Return whether a fragment restarts the arguments, after empty ones (F25) or after a part of them.

        {"index": 0, "function": {"arguments": "{"}}
        {"index": 0, "function": {"arguments": "{\\"city\\": \\"A\\"}"}}
        """
        if call.arguments.sent or not 0 < call.size <= SHORT:
            return False
        begun, text = call.text.strip(), fragment.lstrip()
        if not begun or not text.startswith("{"):
            return False
        return call.is_empty or (begun.startswith("{") and text.startswith(begun) and text != begun)

    def _check(self, call: Call) -> None:
        """Raise UpstreamBroken if a call is too large, or too much of it is held (contract C7)."""
        held = self._task.max_held
        if call.size - call.arguments.sent > held:
            raise self._too_much()
        if call.size > _LIVE * held:
            raise UpstreamBroken(f"a tool call has more than {_LIVE} times {held} bytes (max_held)")

    def _too_much(self) -> UpstreamBroken:
        return UpstreamBroken(f"more than {self._task.max_held} bytes of a tool call had to wait (max_held)")

    def _release(self, call: Call) -> list[Event]:
        """Send the ready part of a call. Calls open in the model's order."""
        if not call.ready or call.is_over:
            return []
        opened: list[Event] = []
        if call.state is State.WAITING:
            if any(each.state is State.WAITING for each in self._owners.calls[: call.number]):
                return []
            opened = self._open(call, call.written_name, call.offered_name)
            if not opened:
                return []
        text, call.ready = call.ready, ""
        return [*opened, *self._arguments(call, text)]

    def _late(self, delta: CallDelta) -> CallDelta | None:
        """Return the missing part of a call for which the server sends the whole call late (F25), or None.

        {"delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": ""}}]}}
        {"delta": {}, "message": {"tool_calls": [{"id": "call_1", "function": {"arguments": "{}"}}]}}
        """
        call = self._owners.completed_by(delta)
        if call is None:
            # Use an index that no server gives.
            return replace(delta, index=-1 - len(self._owners.calls), complete=False)
        call.odd = True
        begun = "" if call.is_empty else call.text.lstrip()
        missing = "" if (begun and call.finished) or call.is_over else delta.fragment
        missing = missing[len(begun) :] if missing.startswith(begun) else ""
        name = "" if call.names else delta.name
        if not (missing or name or delta.fields):
            return None
        return CallDelta(call.server_index, call.server_id, name, missing, fields=delta.fields)

    # Opening and closing.

    def _open(self, call: Call, written: str, name: str) -> list[Event]:
        """Open a call, or drop it if the client wants only one."""
        if self._task.one_call and self.count:
            call.state = State.DROPPED
            self.audit.append(Repair("one_call", name, "", "the client wants one call at a time", name))
            return []
        call.state = State.OPEN
        call.index, call.name, call.id = self.count, name, call.server_id
        self.count += 1
        if name != written:
            # `functions.bash:0`, `Bash` (F36)
            call.fixes += (Repair("name", written, name, _NAME, name),)
        if not call.id or call.id in self._used:
            # The server gave no id (F43), or one that another call of this reply or an earlier turn has (F48).
            call.id = self._new_id(call.index, name, call.server_id)
            why = "the server sent no id, or one that is already used"
            if not call.in_text:
                call.fixes += (Repair("id", call.server_id, call.id, why, name),)
        self._used.add(call.id)
        return [CallOpened(self._choice, call.index, call.id, name)]

    def _close(self, call: Call, arguments: str) -> CallClosed:
        call.state = State.CLOSED
        tool = self._tools.resolve(call.name)
        if arguments.strip() in ("{}", "") and tool is not None and tool.required:
            self.empty += 1  # F25
        if call.odd:
            why = "clients do not understand the form that the server sent"
            call.fixes += (Repair("form", "", "", why, call.name),)
        self.audit += call.fixes
        call.canonical = canonical(arguments)
        self._sent.append(call)
        return CallClosed(self._choice, call.index, ClosedCall(call.id, call.name, arguments), call.fixes)

    def _arguments(self, call: Call, text: str) -> list[Event]:
        """Return events for the next fragment of a call's arguments, with its waiting extra fields."""
        fields, call.fields, call.fields_size = call.fields, [], 0
        if not text and not any(each.says_something for each in fields):
            return []
        first = CallArguments(self._choice, call.index, text, fields=fields[0] if fields else None)
        return [first, *(CallArguments(self._choice, call.index, "", fields=each) for each in fields[1:])]

    def _send_whole(
        self, call: Call, written: str, name: str, arguments: str, fixes: tuple[Repair, ...] = (), *, behind: str = ""
    ) -> list[Event]:
        """Open, fill and close a call, or drop it if the client wants only one. `behind` follows its object."""
        opened = self._open(call, written, name)
        if not opened:
            return []
        call.fixes += fixes
        said = [*self._arguments(call, arguments), *self._behind(call, behind)]
        return [*opened, *said, self._close(call, arguments)]

    def _same(self, name: str, arguments: str, *, in_text: bool) -> Call | None:
        """Return the sent call with this name and these arguments, or None."""
        wanted = name, canonical(arguments), in_text
        return next((each for each in self._sent if (each.name, each.canonical, each.in_text) == wanted), None)

    # Calls in text.

    def found(self, found: Found, piece: Piece, where: str) -> list[Event]:
        """Return the events of a call found in a text. `where` describes the place for the audit."""
        name, arguments = found.name, dump(found.arguments)
        written, fixes = piece.text.strip()[:MAX_RECORDED], tuple[Repair, ...]()
        odd = [ODD[each] for each in ODD if each in found.odd]
        forms = [Repair(form.id, written, arguments, form.why, name) for form in odd]
        repaired = self._repairer.repair(name, arguments, stopped=True)
        if repaired is not None:
            name, arguments, fixes = repaired.name, repaired.arguments, repaired.fixes
        if self._same(name, arguments, in_text=False) is not None or self._is_structured(name, arguments):
            self.audit.append(Repair("echo", arguments, "", "the content only repeats a call"))
            return []
        sent = f'{{"name": {dump(name)}, "arguments": {arguments}}}'[:MAX_RECORDED]
        why = f"the model wrote the call {where} ({piece.row})"
        named = (Repair("name", found.written, found.name, _NAME, found.name),) if found.written != found.name else ()
        fixes = (Repair("text_call", written, sent, why, name, notation=piece.row), *named, *forms, *fixes)
        # Keep the model's own id: Kimi refers to its calls by id (F8).
        call = Call(self._tools, server_id=found.id, in_text=True)
        events = self._send_whole(call, name, name, arguments, fixes)
        self.in_text |= call.state is State.CLOSED
        return events

    def _is_structured(self, name: str, arguments: str) -> bool:
        """Return whether a structured call that is complete but not closed is the same call."""
        for call in self._owners:
            if call.finished and not call.is_over and call.offered_name == name:
                repaired = self._repairer.repair(name, call.text, stopped=True)
                if repaired is not None and canonical(repaired.arguments) == canonical(arguments):
                    return True
        return False

    # The end of a call.

    def settle_finished(self) -> list[Event]:
        """Settle complete calls because other content follows."""
        events: list[Event] = []
        for call in self._owners:
            if call.is_over:
                continue
            tool = call.tool
            awaits = call.is_empty and tool is not None and bool(tool.required)
            if not call.finished or awaits or not call.names or call.twin is not None or self._whole:
                break
            events += self._settle(call, stopped=True)
        return events

    def settle_all(self, *, stopped: bool) -> list[Event]:
        """Settle all calls at the end of the reply. If a call cannot be finished, the last event is a `Failed`.

        `stopped`: the model ended the reply; it was not cut off.
        """
        events: list[Event] = []
        for call in self._owners:
            if not call.is_over:
                events += self._settle(call, stopped=stopped)
            if events and isinstance(events[-1], Failed):
                break
        self._owners.calls.clear()
        return events

    def _settle(self, call: Call, *, stopped: bool) -> list[Event]:
        twin = call.twin
        if not call.names and call.borrowed:
            call.names.append(call.borrowed)
            twin = self._owners.calls[call.number - 1]
        again = call.text.strip()
        if (
            twin is not None
            and (not call.names or call.offered_name == twin.offered_name)
            and (not again or canonical(again) == canonical(twin.text.strip()))
        ):
            # vLLM flushes the last delta of a stream twice (F27).
            self.audit.append(Repair("doubled", call.text, "", "the same object was sent twice", twin.name))
            call.state = State.DROPPED
            call.fields = [each.without(twin.known_fields) for each in call.fields]
            call.index = twin.index
            return self._arguments(call, "") if twin.index >= 0 else []
        events: list[Event] = []
        texts, behind = self._objects(call)
        for at, text in enumerate(texts):
            part = Call(self._tools, odd=True) if at else call
            events += self._settle_part(part, text, behind if at == len(texts) - 1 else "", stopped=stopped)
        return events

    def _objects(self, call: Call) -> tuple[list[str], str]:
        """Return the objects in a call's arguments as texts (F41), and the text after them.

        Text after an object that may belong to it stays part of it (contract C9).
        """
        text = call.text
        texts = objects_in(text.strip())
        values = [strict_object(each) for each in texts]
        if len(texts) > 1 and None not in values:
            tool = call.tool
            if tool is not None and tool.properties and not values[0]:
                # The real arguments follow empty ones (F25).
                empty = next((at for at, value in enumerate(values) if value), len(values) - 1)
                texts, values, call.odd = texts[empty:], values[empty:], True
            kept = [each for at, each in enumerate(texts) if not at or values[at] != values[0]]
            if len(kept) < len(texts):
                why = "the same object was sent twice"
                self.audit.append(Repair("doubled", text, kept[0], why, call.written_name))
            self._owners.check(len(self._owners.calls) + len(kept) - 1)
            return kept, ""
        if not call.finished:
            return [text], ""
        whole, behind = (
            part.decode("utf-8", "surrogatepass")
            for part in (call.arguments.data[: call.arguments.closed], call.arguments.data[call.arguments.closed :])
        )
        if not behind.strip() or may_go_on(whole, behind):
            return [text], ""
        return [whole], behind

    def _settle_part(self, call: Call, text: str, behind: str, *, stopped: bool) -> list[Event]:
        """Settle a call with these arguments."""
        name = call.written_name
        repaired = None
        if name or text.strip():
            repaired = self._repairer.repair(name, text, stopped=stopped or call.finished)
        if call.state is State.OPEN:
            return self._settle_open(call, text, behind, repaired, stopped=stopped)
        if repaired is not None:
            return self._settle_whole(call, repaired, behind)
        live = self._whole or (call.arguments.begun and call.twin is None)
        if not stopped and name and text.lstrip().startswith("{") and live:
            # A call cut off by `length` stays cut off (C4).
            return self._send_whole(call, name, name, text)
        return self._give_back(call, name, text + behind)

    def _settle_whole(self, call: Call, repaired: Repaired, behind: str) -> list[Event]:
        """Open, fill and close a call, or drop it if the client already has it from the text (F28).

        {"content": "<tool_call>{\\"name\\": \\"bash\\", \\"arguments\\": {\\"command\\": \\"ls\\"}}</tool_call>"}
        {"tool_calls": [{"index": 0, "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}]}
        """
        same = self._same(repaired.name, repaired.arguments, in_text=True)
        if same is not None:
            self._sent.remove(same)
            call.state = State.DROPPED
            why = "the call was already found in the content"
            self.audit.append(Repair("echo", repaired.arguments, "", why, repaired.name))
            call.index = same.index
            return self._arguments(call, "")
        by_rule = any(fix.id.startswith("rule:") for fix in repaired.fixes)
        name = repaired.name
        written = name if by_rule or not call.written_name else call.written_name
        return self._send_whole(call, written, name, repaired.arguments, repaired.fixes, behind=behind)

    def _settle_open(
        self, call: Call, text: str, behind: str, repaired: Repaired | None, *, stopped: bool
    ) -> list[Event]:
        """Finish a call that was partly sent, or fail if the missing part is unknown."""
        arguments = call.arguments
        sent = arguments.data[: arguments.sent].decode("utf-8", "surrogatepass")
        rest: str | None = None
        if not stopped and not call.finished:
            # The call was cut off by `length`, so send the rest of the text unrepaired.
            rest = text[len(sent) :]
        elif repaired is not None and repaired.name == call.name:
            whole = repaired.arguments
            rest = whole[len(sent) :] if whole.startswith(sent) else arguments.tail(repaired.values)
            call.fixes += repaired.fixes
        if rest is None:
            return self._failed()
        return [*self._arguments(call, rest), *self._behind(call, behind), self._close(call, sent + rest)]

    def _failed(self) -> list[Event]:
        """Fail the reply: the client has part of a wrong call, which cannot be taken back."""
        self.refused["half_call"] += 1
        broken = "a tool call that had begun cannot be finished: its arguments cannot be read or completed"
        return [Failed(UpstreamBroken(broken))]

    def _give_back(self, call: Call, name: str, text: str) -> list[Event]:
        """Return a rejected call as text, so that the model's output is not lost."""
        call.state = State.DROPPED
        why = "its arguments cannot be read" if name else "it has no name, and its arguments do not identify the tool"
        self.refused["unreadable_arguments" if name else "no_name"] += 1
        if not name + text:
            return []
        self.audit.append(Repair("no_call", name + text, name + text, why, name))
        tool = self._tools.resolve(name) if name else None
        return [Text(self._choice, name + text, broken="" if tool is None else tool.name)]

    def _behind(self, call: Call, text: str) -> list[Event]:
        """Return the text after a call's object as content. Junk is dropped (F31).

        {"index": 0, "function": {"arguments": "{\\"command\\": \\"ls\\"}</tool_call>"}}
        {"index": 0, "function": {"arguments": "{\\"command\\": \\"ls\\"} lists the files"}}
        """
        if not text.strip():
            return []
        if is_junk(text):
            call.fixes += (Repair("junk", text, "", "it followed the object", call.name),)
            return []
        call.fixes += (Repair("junk", text, text, "it followed the object, and is content", call.name),)
        return [Text(self._choice, text)]
