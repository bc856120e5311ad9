"""The end of structured calls: completed, left as cut, or given back as text (contract C4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from proxy.audit_record import Repair
from proxy.codec.json_text import canonical, read_json
from proxy.engine.call_fields import UnsaidFields
from proxy.engine.call_registry import check_calls
from proxy.engine.call_state import CallState
from proxy.engine.call_writer import CallWriter
from proxy.engine.events import Call, CallArguments, CallClosed, Event, Failed, Text
from proxy.engine.live_arguments import LiveArguments
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.errors import UpstreamBroken
from proxy.repair.arguments import is_junk, objects_in
from proxy.repair.repairer import Repaired, Repairer


class CallCloser:
    """Closes the calls of one choice. `at_once`: they are those of a whole answer.

    `refused` counts what was no call, by the reason.
    """

    def __init__(self, writer: CallWriter, repairer: Repairer, limits: CallLimits, *, at_once: bool) -> None:
        self._writer = writer
        self._repairer = repairer
        self._limits = limits
        self._at_once = at_once
        self.refused: Counter[str] = Counter()

    def close_all(self, calls: Iterable[PendingCall], *, stopped: bool) -> tuple[Event, ...]:
        """The rest of all calls; a `Failed` is the last of it, if one cannot be finished.

        `stopped` if the model ended by itself and was not cut off.
        """
        self._writer.begin_chunk()
        split = [*split_objects(rejoin_parts(calls), self._limits)]
        events: list[Event] = []
        seen: dict[str, PendingCall] = {}
        for call in split:
            if len(split) > 1:
                original = self._repeated_call(call, seen)
                if original is not None:
                    self._drop_duplicate(call, original)
                    continue
            events += self._close(call, stopped)
            match events:
                case [*_, Failed()]:
                    break
        return tuple(events)

    def _repeated_call(self, call: PendingCall, seen: dict[str, PendingCall]) -> PendingCall | None:
        """The call before this one that it is, sent again (F27); equal calls with ids of their own are two (F51).

        `seen` are those before it by their arguments, to which it is added.
        """
        # vLLM flushes the last delta of a stream twice; the second one is the first, sent again:
        #     {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        #     {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        # With the id `call_2` the second one is another call: models do ask for the same thing twice.
        arguments = canonical(call.text.strip())
        if not arguments:
            return None
        original = seen.setdefault(arguments, call)
        if original is call:
            return None
        if call.maybe_duplicate or not any((call.names, call.server_id)):
            return original
        return None

    def _drop_duplicate(self, call: PendingCall, original: PendingCall) -> None:
        self._writer.mark_changed()
        original.fields.add_all(call.fields)
        self._writer.audit.append(Repair("doubled", call.text, "", "the same object was sent twice", call.name))

    def _close(self, call: PendingCall, stopped: bool) -> list[Event]:
        if call.dropped:
            return self._close_dropped(call)
        if call.state is CallState.COMPLETE:
            return self._close_complete(call)
        if call.may_go_on:
            # {"index": 0, "function": {"arguments": "{\"command\": \"ls\", } -l\"}"}}: its object seemed to end.
            call.rejoin()
            self._writer.mark_changed()
        opening = self._open_as_it_stands(call)
        if call.was_opened:
            return [*opening, *self._close_streaming(call, stopped)]
        if call.unresolved:
            return self._close_unopened(call, stopped)
        return self._close_dropped(call)

    def _close_dropped(self, call: PendingCall) -> list[Event]:
        self._writer.mark_changed()
        events: list[Event] = []
        if not call.may_go_on:
            events = self._trailing_text(call)
        self._writer.audit += [fix for fix in call.fixes if fix.id == "junk"]
        return events

    def _close_complete(self, call: PendingCall) -> list[Event]:
        """Close a call that left as soon as it was whole. Blanks behind it are its own, if it left as it came (C1)."""
        # {"index": 0, "function": {"arguments": "{\"command\": \"ls\"}"}}
        # {"index": 0, "function": {"arguments": "\n"}}
        if call.may_go_on:
            return self._failed()
        arguments = call.final_arguments or ""
        blanks = call.text.removeprefix(arguments)
        if not blanks or blanks.strip():
            return [*self._trailing_text(call), self._closed(call, arguments)]
        last = CallArguments(self._writer.choice, call.index, blanks)
        return [last, *self._trailing_text(call), self._closed(call, arguments + blanks)]

    def _open_as_it_stands(self, call: PendingCall) -> list[Event]:
        """Open a call of which only the end told that it is right as it came."""
        live = call.live
        if live is None:
            return []
        if not live.waits_for_end:
            return []
        if call.was_opened or call.trailing:
            return []
        return self._writer.release(call, live.end())

    def _close_streaming(self, call: PendingCall, stopped: bool) -> list[Event]:
        """Finish a call of which a part has left; an error, if what is missing cannot be told."""
        live = call.live
        assert live is not None, "a call streams what it reads"
        sent = live.text[: len(live.text) - len(live.rest)]
        rest = self._missing_rest(call, live, stopped)
        if rest is None:
            return self._failed()
        events: list[Event] = []
        if rest:
            events.append(CallArguments(self._writer.choice, call.index, rest))
        return [*events, *self._trailing_text(call), self._closed(call, sent + rest)]

    def _failed(self) -> list[Event]:
        """The error of a call of which the client has a part that was not meant, and cannot be taken back."""
        self._writer.mark_changed()
        self.refused["half_call"] += 1
        broken = "a tool call that had begun cannot be finished: its arguments cannot be read or completed"
        return [Failed(UpstreamBroken(broken))]

    def _missing_rest(self, call: PendingCall, live: LiveArguments, stopped: bool) -> str | None:
        """The arguments that an open call still lacks; None if it cannot be finished (C4, half calls)."""
        ready = live.end()
        if live.complete:
            return ready + live.rest
        if not stopped and not live.closed:
            # Cut by `length`, arguments are left as cut: what is missing is not known.
            #     {"index": 0, "function": {"arguments": "{\"command\": \"rm -r build"}}, finish_reason "length"
            return ready + live.rest
        return self._repaired_rest(call, live)

    def _repaired_rest(self, call: PendingCall, live: LiveArguments) -> str | None:
        """The arguments that an open call at its end still lacks; None if it cannot be repaired."""
        repaired = self._repairer.repair(call.name, live.text, stopped=True)
        if repaired is None or repaired.arguments != live.text:
            return self._rest_as(call, live, repaired)
        self._writer.mark_changed()
        if repaired.name != call.name:
            return None
        call.fixes += repaired.fixes
        return live.rest

    def _rest_as(self, call: PendingCall, live: LiveArguments, repaired: Repaired | None) -> str | None:
        """The arguments by which an open call says what it was repaired to; None if none can."""
        self._writer.mark_changed()
        if repaired is None:
            return None
        call.fixes += repaired.fixes
        if repaired.name != call.name:
            return None
        return live.tail(repaired.values)

    def _close_unopened(self, call: PendingCall, stopped: bool) -> list[Event]:
        """A call of which nothing was sent: whole now, or text after all."""
        name = call.written_name(self._repairer.tools)
        repaired = self._repair_unopened(call, name, stopped)
        if repaired is not None:
            events = self._writer.write_whole(call, repaired)
            if call.dropped:
                return events
            return [*events, *self._trailing_text(call), self._closed(call, repaired.arguments)]
        if not stopped and self._leaves_as_cut(call):
            opened = self._writer.open_as(call, name)
            if call.dropped:
                return []
            text = call.text
            return [*opened, CallArguments(self._writer.choice, call.index, text), self._closed(call, text)]
        return self._give_back(call, name)

    def _repair_unopened(self, call: PendingCall, name: str, stopped: bool) -> Repaired | None:
        text = call.text
        if not name and not text.strip():
            return None
        return self._repairer.repair(name, text, stopped=stopped or call.has_ended)

    def _leaves_as_cut(self, call: PendingCall) -> bool:
        """True if a call that was cut by `length` is left as cut, and is no text (C4)."""
        if not call.can_begin:
            return False
        if self._at_once:
            return True
        if call.live is None:
            return False
        return not call.live.policy.hold_all

    def _give_back(self, call: PendingCall, name: str) -> list[Event]:
        """The text of what is no call: nothing that the model wrote is lost."""
        self._writer.mark_changed()
        if name:
            reason, why = "unreadable_arguments", "its arguments cannot be read"
        else:
            reason, why = "no_name", "it has no name, and its arguments do not tell it"
        self.refused[reason] += 1
        before = call.blanks_before if call.split_from is not None else ""
        written = "".join((before, name, call.text, *call.trailing))
        if not written:
            return []
        self._writer.audit.append(Repair("no_call", written, written, why, name))
        tool = self._repairer.tools.resolve(name) if name else None
        return [Text(self._writer.choice, written, broken="" if tool is None else tool.name)]

    def _trailing_text(self, call: PendingCall) -> list[Event]:
        """The text that stood behind a call's object: junk is dropped (F31), everything else is content."""
        # Junk, and content:
        #     {"index": 0, "function": {"arguments": "{\"command\": \"ls\"}</tool_call>"}}
        #     {"index": 0, "function": {"arguments": "{\"command\": \"ls\"} lists the files"}}
        text = "".join(call.trailing)
        if not text:
            return []
        self._writer.mark_changed()
        if is_junk(text):
            call.fixes += (Repair("junk", text, "", "it stood behind the object", call.name),)
            return []
        call.fixes += (Repair("junk", text, text, "it stood behind the object, and is content", call.name),)
        return [Text(self._writer.choice, text)]

    def _closed(self, call: PendingCall, arguments: str) -> CallClosed:
        fixes = call.fixes
        if call.irregular:
            why = "the server said it in another way than clients understand"
            fixes = (*fixes, Repair("form", "", "", why, call.name))
        return CallClosed(self._writer.choice, call.index, Call(call.id, call.name, arguments), fixes)


def split_objects(calls: list[PendingCall], limits: CallLimits) -> Iterator[PendingCall]:
    """The calls, those without a name object by object (F41); UpstreamBroken if they are too many."""
    # Two calls: {"index": 0, "function": {"arguments": "{\"command\": \"ls\"}{\"command\": \"pwd\"}"}}
    count = len(calls)
    for call in calls:
        objects = [] if call.names else objects_in(call.text.strip())
        count += max(0, len(objects) - 1)
        check_calls(count, limits)
        if len(objects) < 2:
            yield call
            continue
        for place, text in enumerate(objects):
            # The id is the first one's, and so are the other fields.
            id_, fields = ("", UnsaidFields()) if place else (call.server_id, call.fields)
            yield PendingCall(id_, collected=[text], irregular=True, fields=fields)


def rejoin_parts(calls: Iterable[PendingCall]) -> list[PendingCall]:
    """The calls without those that began with nothing but a brace, and are no objects after all (F41).

    What came of them stands behind the object of the call before.
    """
    # One call with the code `f("}{")`, whose inner marks lack their backslashes:
    #     {"index": 0, "id": "call_1", "function": {"name": "run", "arguments": "{\"code\": \"f(\"}"}}
    #     {"index": 0, "function": {"arguments": "{\")\"}"}}
    whole: list[PendingCall] = []
    for call in calls:
        if call.split_from is None or _is_objects(call.text):
            whole.append(call)
        elif whole:
            whole[-1].trailing.append(call.blanks_before + call.text)
            whole[-1].fields.add_all(call.fields)
    return whole


def _is_objects(text: str) -> bool:
    """True for one JSON object, or several behind each other."""
    return all(map(_is_object, objects_in(text.strip())))


def _is_object(text: str) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except ValueError:
        return False
