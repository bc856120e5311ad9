"""Structured deltas to calls.

Servers send a call in pieces: index, id and name once, then fragments of the arguments. What they leave out or send
wrongly is put right here (F38, F39, F41 to F47, F51), the rest goes on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from proxy.audit_record import Repair
from proxy.codec.json_text import canonical
from proxy.engine.call_chunks import AssignedDelta, DeltaOutcome
from proxy.engine.call_closer import CallCloser
from proxy.engine.call_delta import CallDelta
from proxy.engine.call_fields import CallFields, UnsaidFields
from proxy.engine.call_registry import CallRegistry
from proxy.engine.call_state import CallState
from proxy.engine.call_writer import CallWriter, WrittenCall
from proxy.engine.events import CallArguments, Event
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.engine.release_policy import ReleasePolicy, release_policy
from proxy.repair.repairer import Repairer

_EMPTY_OBJECT = re.compile(r"\s*+\{\s*+\}")


_LIMITS = CallLimits()


class CallAssembler:
    """The calls of one choice. `take_index`, `new_id`, `used`, `written` and `unsaid` are the writer's. `at_once`: the
    calls are those of a whole answer, so that none is opened before it is known what it is.

    `assigned` are the last deltas and their calls, `outcome` is what became of them. `ended` is what they let go of
    earlier calls.
    """

    def __init__(
        self,
        choice: int,
        repairer: Repairer,
        take_index: Callable[[], int | None],
        new_id: Callable[[int, str, str], str],
        *,
        used: set[str],
        written: list[WrittenCall] | None = None,
        unsaid: dict[int, UnsaidFields] | None = None,
        at_once: bool = False,
        limits: CallLimits = _LIMITS,
    ) -> None:
        self._repairer = repairer
        self._at_once = at_once
        self._limits = limits
        self._calls = CallRegistry(repairer.tools, self._limits)
        self._writer = CallWriter(
            choice,
            repairer,
            take_index,
            new_id,
            used=used,
            written=[] if written is None else written,
            calls=self._calls,
            unsaid={} if unsaid is None else unsaid,
        )
        self._closer = CallCloser(self._writer, repairer, self._limits, at_once=at_once)
        self.assigned: list[AssignedDelta] = []
        self.outcome = DeltaOutcome.LEFT
        self.ended: list[Event] = []

    @property
    def unchanged(self) -> bool:
        """True if all that was let go of earlier calls left as it came."""
        return self._writer.unchanged

    @property
    def audit(self) -> Sequence[Repair]:
        """The repairs of no call."""
        return self._writer.audit

    @property
    def refused(self) -> Counter[str]:
        """The numbers of pieces that were no call after all, by the reason."""
        return self._closer.refused

    @property
    def calls(self) -> Iterable[PendingCall]:
        """The calls so far, in the server's order."""
        return self._calls

    def arguments(self) -> tuple[str, ...]:
        """The arguments of each call of which all have come."""
        return tuple(call.text.strip() for call in self._calls if call.has_ended)

    def has(self, name: str, arguments: str) -> bool:
        """True if one of the calls is this one."""
        wanted = canonical(arguments)
        of_name = (call for call in self._calls if call.name == name)
        return any(canonical(self._final_arguments(call)) == wanted for call in of_name)

    def _final_arguments(self, call: PendingCall) -> str:
        """The arguments as the client gets them; empty while they are not whole."""
        if call.final_arguments is not None:
            return call.final_arguments
        if not call.has_ended or call.may_go_on:
            return ""
        repaired = self._repairer.repair(call.name, call.object, stopped=True)
        call.final_arguments = repaired.arguments if repaired else ""
        return call.final_arguments

    def feed(self, deltas: Iterable[CallDelta]) -> tuple[Event, ...]:
        """Take the deltas of one chunk; give what they open and add."""
        self._begin_chunk()
        events: list[Event] = []
        for delta in deltas:
            if delta.complete:
                events += self._feed_complete(delta)
            else:
                events += self._feed_delta(delta)
        self.outcome = self._outcome_of(events)
        return tuple(events)

    def goes_on_live(self, delta: CallDelta) -> bool:
        """True if all of the call that a delta belongs to has left, and what it adds goes on a string of it."""
        call = self._calls.going_on_in(delta)
        if call is None or call.irregular or not call.all_left:
            return False
        return call.has_room(self._limits) and call.live is not None and call.live.in_string

    def end_calls(self) -> None:
        """Say that something else came: of the calls so far no more comes. What may leave is `ended`."""
        self._begin_chunk()
        self._end_before(len(self._calls))

    def finish(self, *, stopped: bool) -> tuple[Event, ...]:
        """Say that no more deltas come; `stopped` if the model ended by itself and was not cut off."""
        events = self._closer.close_all(self._calls, stopped=stopped)
        for call in self._calls:
            call.close()
        self._calls.clear()
        return events

    def _begin_chunk(self) -> None:
        self.assigned = []
        self.ended = []
        self._writer.begin_chunk()

    def _outcome_of(self, events: Sequence[Event]) -> DeltaOutcome:
        """What became of the last deltas, which gave these events."""
        if not self._writer.regular:
            return DeltaOutcome.CHANGED
        # Nearly all deltas leave at once: the other calls are asked for more.
        waiting = [each.call for each in self.assigned if not each.call.all_left]
        if not waiting:
            return DeltaOutcome.LEFT
        if any(call.dropped or call.is_broken for call in waiting):
            return DeltaOutcome.CHANGED
        if all(call.nearly_left for call in waiting):
            return DeltaOutcome.NEAR
        if events:
            return DeltaOutcome.CHANGED
        return DeltaOutcome.WAIT

    def _feed_delta(self, delta: CallDelta) -> list[Event]:
        call, begins = self._calls.call_of(delta)
        self._note(call, delta, begins=begins)
        if call.live is not None:
            return self._feed_arguments(call, delta.fragment, delta.index)
        events: list[Event] = []
        if begins and call.split_from is None:
            # Unless a brace alone says that another call begins, the ones before it are over.
            events = self._end_before(call.number)
        call.collect(delta.fragment)
        if not call.can_begin:
            call.count(self._limits, len(delta.fragment), 0)
            return events
        collected = call.begin(self._policy_of(call))
        # What came before was counted when it came.
        call.count(self._limits, len(delta.fragment) - len(collected), 0)
        return events + self._feed_arguments(call, collected, delta.index)

    def _note(self, call: PendingCall, delta: CallDelta, *, begins: bool) -> None:
        """Note what the next delta of a call says, and whether it says it as clients expect it: name and id in the
        first one and nowhere else (F39, F45).
        """
        # One of those that repeat them:
        #     {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": ""}}
        #     {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{"}}
        call.note(delta)
        self.assigned.append(AssignedDelta(call, begins, delta.fragment, delta.fields))
        if delta.fields is not None:
            self._note_fields(call, delta.fields)
        if not delta.standard:
            self._writer.mark_irregular()
        if delta.index != call.number:
            self._writer.mark_irregular()
        if not _names_as_expected(delta, begins=begins):
            self._writer.mark_irregular()

    def _note_fields(self, call: PendingCall, fields: CallFields) -> None:
        """Note what else a delta says of its call."""
        call.check_fields(self._limits)
        call.fields.add(fields)
        if any(isinstance(event, CallArguments) and event.index == call.index for event in self.ended):
            # They leave with what an earlier delta of the chunk let go of the call, so the chunk cannot say them too.
            self._writer.mark_irregular()

    def _policy_of(self, call: PendingCall) -> ReleasePolicy:
        """What may leave of a call whose name is known: it goes out live, unless a rule may still change its name, or
        all of it.
        """
        tools = self._repairer.tools
        hold_all = any(
            (
                self._at_once,
                # One with the id of the call before it may be that one, sent again, which only the end tells (F27).
                call.maybe_duplicate,
                # It may be a call that is in the text too (F28).
                self._writer.repeats(call.offered_name(tools)),
            )
        )
        return release_policy(self._repairer, call.written_name(tools), hold_all=hold_all)

    def _end_before(self, count: int) -> list[Event]:
        """Let go what may leave of the first calls, because no more of them comes: what came with earlier deltas as
        `ended`. What came with these is given, and belongs to their event.
        """
        events: list[Event] = []
        in_chunk = {each.call.number for each in self.assigned}
        for call in self._calls.first(count):
            if not call.may_end:
                continue
            released = self._end(call)
            if call.number in in_chunk:
                events += released
                continue
            self.ended += released
            if not call.all_left:
                self._writer.mark_changed()
        return events

    def _end(self, call: PendingCall) -> list[Event]:
        """What may leave of a call whose object is closed, and of which no more comes."""
        live = call.live
        assert live is not None, "only what is read can be closed"
        events = self._writer.release(call, live.end())
        if not self._calls.may_open(call):
            return events
        if self._lacks_arguments(call) and not live.policy.hold_all:
            return events + self._writer.open(call)
        return events + self._writer.release_whole(call)

    def _feed_complete(self, delta: CallDelta) -> list[Event]:
        """Take a call that is said as a whole, late: what has not come of it is taken from there (F25)."""
        # {"delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": ""}}]}}
        # {"delta": {}, "message": {"tool_calls": [{"id": "call_1", "function": {"arguments": "{}"}}]}}
        self._writer.mark_irregular()
        call = self._calls.completed_by(delta)
        if call is None:
            index = self._calls.unused_index()
            return self._feed_delta(CallDelta(index, delta.id, delta.name, delta.fragment, fields=delta.fields))
        if delta.fields is not None:
            call.check_fields(self._limits)
            call.fields.add_new(delta.fields)
        if call.live is None and delta.fragment:
            call.forget_collected()
        missing = self._missing_of(call, delta.fragment)
        name = "" if call.names else delta.name
        if not missing and not name:
            return []
        return self._feed_delta(CallDelta(call.server_index, call.server_id, name, missing))

    def _missing_of(self, call: PendingCall, arguments: str) -> str:
        """The part of a call's `arguments`, said as a whole, that has not come yet: `: 1}` of `{"a": 1}`.

        It is "" if all of them have come, or what has come is not their beginning.
        """
        if call.state is CallState.COMPLETE:
            return ""
        received = "" if self._lacks_arguments(call) else call.text.lstrip()
        if not arguments.startswith(received):
            return ""
        if received and call.has_ended:
            return ""
        return arguments[len(received) :]

    def _feed_arguments(self, call: PendingCall, fragment: str, index: int | None, *, left: int = 0) -> list[Event]:
        """The next of a call's arguments, of which the first `left` characters have left already.

        `index` is that of the delta, by which another call is known that begins within the fragment.
        """
        live = call.live
        assert live is not None, "a call that has begun is read"
        new = live.feed(fragment)[left:]
        call.count(self._limits, len(fragment), len(new))
        events = self._writer.release(call, new)
        if not live.closed:
            return events
        excess = live.take_excess()
        if excess:
            events += self._feed_excess(call, excess, index)
        return events

    def _feed_excess(self, call: PendingCall, excess: str, index: int | None) -> list[Event]:
        """What stands behind the object of a call, in a delta of this index."""
        self._writer.mark_irregular()
        if call.trailing:
            call.trailing.append(excess)
            return []
        if self._lacks_arguments(call):
            return self._feed_behind_empty(call, excess, index)
        return self._feed_behind(call, excess, index)

    def _feed_behind_empty(self, call: PendingCall, excess: str, index: int | None) -> list[Event]:
        """Take what stands behind empty arguments: the true ones may, for no more than the brace has left (F25)."""
        # {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
        # {"index": 0, "function": {"arguments": "{\"command\": \"ls\"}"}}
        live = call.live
        assert live is not None, "empty arguments were read"
        call.irregular = True
        at = 0
        while (empty := _EMPTY_OBJECT.match(excess, at)) is not None:
            at = empty.end()
        excess = excess[at:]
        arguments = excess.lstrip()
        if arguments.startswith("{"):
            blanks = live.text.partition("{")[0]
            sent = live.sent
            call.restart()
            return self._feed_arguments(call, blanks + arguments, index, left=sent)
        if arguments:
            call.trailing.append(excess)
        return []

    def _feed_behind(self, call: PendingCall, excess: str, index: int | None) -> list[Event]:
        """Take what stands behind a whole object: another call's, or content."""
        # Servers that count all calls as the first (F41):
        #     {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        #     {"index": 0, "function": {"arguments": "\n{\"command\": \"pwd\"}"}}
        arguments = excess.lstrip()
        if arguments.startswith("{"):
            events = self._feed_delta(CallDelta(index, None, "", arguments))
            self._calls.newest.blanks_before = excess.removesuffix(arguments)
            return events
        if arguments:
            call.trailing.append(excess)
        return []

    def _lacks_arguments(self, call: PendingCall) -> bool:
        """True if a call came without arguments though its tool takes some: they may still come (F25)."""
        return call.lacks_arguments(self._repairer.tools)


def _names_as_expected(delta: CallDelta, *, begins: bool) -> bool:
    """True if a delta has name and id where it is a call's first one, and neither where it is not."""
    if begins:
        return all((delta.name, delta.id))
    if delta.name:
        return False
    return delta.id is None
