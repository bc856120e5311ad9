"""Structured deltas to calls.

Servers send a call in pieces: index, id and name once, then fragments of the arguments. What they leave out or send
wrongly is put right here (F38, F39, F41 to F47, F51), the rest goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from proxy.audit_record import Repair
from proxy.codec.json_text import Json, canonical
from proxy.engine.call_chunks import Piece, Pieces
from proxy.engine.call_delta import CallDelta
from proxy.engine.events import Call, CallArguments, CallClosed, CallOpened, Event, Failed, Text
from proxy.engine.live_arguments import LiveArguments, ReleasePolicy
from proxy.engine.pending_call import EMPTIES, CallLimits, PendingCall, check_calls, count_bytes, rejoined, separated
from proxy.errors import UpstreamBroken
from proxy.repair.argument_readers import is_junk
from proxy.repair.repairer import Repaired, Repairer
from proxy.repair.rule_actions import apply_rule, renames, touched

_MAX_NAMES = 16


class CallAssembler:
    """The calls of one choice. `take_index` and `new_id` are shared with the calls that are found in its text;
    `take_index` gives None where the client wants no further call (F52). `written` are those that were found in the
    text until now, by name and canonical arguments: a structured one that only repeats one of them is dropped (F28).
    `at_once`: the calls are those of a whole answer, so that none is opened before it is known what it is.

    `said` are the last deltas and their calls, `pieces` is what became of them. `ended` is what they let go of earlier
    calls; `unchanged`: all of that left as it came. `audit` are repairs of no call, `refused` counts what was none.
    """

    def __init__(
        self,
        choice: int,
        repairer: Repairer,
        take_index: Callable[[], int | None],
        new_id: Callable[[int, str, str], str],
        *,
        used: set[str],
        written: list[tuple[str, str]] | None = None,
        at_once: bool = False,
        limits: CallLimits | None = None,
    ) -> None:
        self._choice = choice
        self._repairer = repairer
        self._take_index = take_index
        self._new_id = new_id
        self._used = used
        self._at_once = at_once
        self._written = [] if written is None else written
        self._limits = limits or CallLimits()
        self._calls: list[PendingCall] = []
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None
        self.said: list[Piece] = []
        self.pieces = Pieces.LEFT
        self.ended: list[Event] = []
        self.unchanged = True
        # True while the last deltas are as clients expect them.
        self._regular = True
        self.audit: list[Repair] = []
        self.refused: Counter[str] = Counter()

    def arguments(self) -> tuple[str, ...]:
        """The arguments of each call of which all have come."""
        return tuple(call.text.strip() for call in self._calls if call.live is not None and call.live.closed)

    def has(self, name: str, arguments: str) -> bool:
        """True if one of the calls is this one."""
        wanted = canonical(arguments)
        return any(call.name == name and canonical(self._as_sent(call)) == wanted for call in self._calls)

    def _as_sent(self, call: PendingCall) -> str:
        """The arguments as the client gets them; empty while they are not whole."""
        if call.done is None and call.final is None and call.live is not None and call.live.closed:
            found = self._repairer.repair(call.name, call.live.object, stopped=True)
            call.final = found.arguments if found else ""
        return call.done or call.final or ""

    def feed(self, deltas: Iterable[CallDelta]) -> tuple[Event, ...]:
        """Take the deltas of one chunk; give what they open and add."""
        events: list[Event] = []
        self.said, self.ended, self.unchanged, self._regular = [], [], True, True
        for delta in deltas:
            events += self._completed(delta) if delta.whole else self._delta(delta)
        self.pieces = self._became(events)
        return tuple(events)

    def _became(self, events: Iterable[Event]) -> Pieces:
        """What became of the last deltas."""
        calls = [piece.call for piece in self.said]
        if not self._regular or any(call.dropped for call in calls):
            return Pieces.CHANGED
        if all(call.all_left for call in calls):
            return Pieces.LEFT
        if any(call.live is not None and call.live.broken for call in calls):
            return Pieces.CHANGED
        if all(call.all_left or call.waits_shortly for call in calls):
            return Pieces.NEAR
        return Pieces.CHANGED if [*events] else Pieces.WAIT

    def end_calls(self) -> None:
        """Say that something else came: of the calls so far no more comes. What may leave is `ended`."""
        self.said, self.ended, self.unchanged = [], [], True
        self._end_before(len(self._calls))

    def finish(self, *, stopped: bool) -> tuple[Event, ...]:
        """Say that no more deltas come; `stopped` if the model ended by itself and was not cut off."""
        events: list[Event] = []
        before: set[str] = set()
        calls = [*separated(rejoined(self._calls), self._limits)]
        self.unchanged = True
        for call in calls:
            text = canonical(call.text.strip()) if len(calls) > 1 else ""
            if (call.flushed or not (call.names or call.server_id)) and text and text in before:
                self.unchanged = False
                self.audit.append(Repair("doubled", call.text, "", "the same object was sent twice", call.name))
                continue
            before.add(text)
            events += self._close(call, stopped)
            if events and isinstance(events[-1], Failed):
                break
        self._calls.clear()
        return tuple(events)

    def _delta(self, delta: CallDelta) -> list[Event]:
        known = len(self._calls)
        call = self._call_of(delta)
        begins = len(self._calls) > known
        self._see(call, delta, begins)
        if call.live is not None:
            return self._fragment(call, delta.fragment, delta.index)
        # Unless a brace alone says that another call begins, the ones before it are over.
        events: list[Event] = []
        if begins and call.before is None:
            events = self._end_before(call.number)
        call.early.append(delta.fragment)
        call.first = call.first or delta.fragment.lstrip()[:1]
        if not call.names or call.first != "{":
            count_bytes(call, self._limits, len(delta.fragment), 0)
            return events
        early = call.text
        call.early.clear()
        self._begin(call)
        # What came before was counted when it came.
        count_bytes(call, self._limits, len(delta.fragment) - len(early), 0)
        return events + self._fragment(call, early, delta.index)

    def _see(self, call: PendingCall, delta: CallDelta, begins: bool) -> None:
        """Note what the next delta of a call says, and whether it says it as clients expect it: name and id in the
        first one and nowhere else (F39, F45).
        """
        call.see(delta)
        if delta.name and len(call.names) < _MAX_NAMES:
            call.names.append(delta.name)
        self.said.append(Piece(call, begins, delta.fragment))
        named = bool(delta.name and delta.id) if begins else not delta.name and delta.id is None
        self._regular = self._regular and named and delta.plain and delta.index == call.number

    def _end_before(self, number: int) -> list[Event]:
        """Let go what may leave of the first calls, because no more of them comes: what came with earlier deltas as
        `ended`. What came with these is given, and belongs to their event.
        """
        events: list[Event] = []
        for call in self._calls[:number]:
            live = call.live
            if live is None or not live.closed or call.dropped or call.behind:
                continue
            left = self._leave(call, live.end())
            if call.unresolved and not self._waits(call) and call.gate is not None:
                hollow = self._is_hollow(call) and not call.gate.shut
                left += self._open(call) if hollow else self._open_whole(call)
            if any(call is piece.call for piece in self.said):
                events += left
                continue
            self.ended += left
            self.unchanged = self.unchanged and call.all_left
        return events

    def _leave(self, call: PendingCall, new: str) -> list[Event]:
        """Let go what may leave of a call, as soon as it is open: with the first byte of its first value, unless an
        earlier call is not told yet.
        """
        if new:
            call.ready.append(new)
        if call.dropped or not call.ready:
            return []
        if call.unresolved and self._waits(call):
            return []
        events = self._open(call) if call.unresolved else []
        text = "".join(call.ready)
        call.ready.clear()
        return events if call.dropped else [*events, CallArguments(self._choice, call.index, text)]

    def _completed(self, delta: CallDelta) -> list[Event]:
        """A call that is said as a whole, late: what has not come of it is taken from there (F25)."""
        self._regular = False
        by_id = self._by_id.get(delta.id or "")
        there = delta.index is not None and delta.index < len(self._calls)
        waiting = [call for call in self._calls if call.live is None or not call.live.closed]
        unplaced = waiting[0] if waiting else self._last
        known = by_id or (unplaced if delta.index is None else self._calls[delta.index] if there else None)
        if known is None or (known is not by_id and delta.name and known.names and delta.name not in known.names):
            # An index that no server gives: it is a call of its own.
            return self._delta(CallDelta(-1 - len(self._calls), delta.id, delta.name, delta.fragment))
        if known.live is None and delta.fragment:
            known.early.clear()
            known.first = ""
        had = "" if self._is_hollow(known) else known.text.lstrip()
        if known.done is not None or (had and known.live is not None and known.live.closed):
            rest = ""
        else:
            rest = delta.fragment[len(had) :] if delta.fragment.startswith(had) else ""
        name = "" if known.names else delta.name
        return self._delta(CallDelta(known.server_index, known.server_id, name, rest)) if rest or name else []

    def _fragment(self, call: PendingCall, fragment: str, index: int | None, *, left: int = 0) -> list[Event]:
        """The next of a call's arguments, of which the first `left` characters have left already."""
        live = call.live
        assert live is not None
        was_closed = live.closed
        new = live.feed(fragment)[left:]
        count_bytes(call, self._limits, len(fragment), len(new))
        events = self._leave(call, new)
        hollow = live.closed and (bool(live.excess) or not was_closed) and self._is_hollow(call)
        whole = live.closed and not was_closed and not hollow and not live.ends_in_string
        if whole and call.unresolved and not self._waits(call):
            events += self._open_whole(call)
        if live.excess:
            excess, live.excess = live.excess, ""
            self._regular = False
            if hollow and call.gate is not None and not call.behind:
                # The true arguments may come behind empty ones, of which no more than the brace has left (F25).
                excess, call.odd = EMPTIES.sub("", excess, count=1), True
                if excess.lstrip().startswith("{"):
                    begun, call.live = live.text.partition("{")[0], LiveArguments(call.gate)
                    return [*events, *self._fragment(call, begun + excess.lstrip(), index, left=live.sent)]
            elif excess.lstrip().startswith("{") and not call.behind:
                # Behind a whole object another one begins: servers that count all calls as the first (F41).
                begun = excess.lstrip()
                events += self._delta(CallDelta(index, None, "", begun))
                self._calls[-1].gap = excess.removesuffix(begun)
                return events
            if call.behind or excess.strip():
                call.behind.append(excess)
        return events

    def _is_hollow(self, call: PendingCall) -> bool:
        """True if a call came without arguments though its tool takes some: they may still come (F25)."""
        tool = self._repairer.tools.resolve(self._written_name(call)) if call.empty else None
        return tool is not None and bool(tool.properties)

    def _call_of(self, delta: CallDelta) -> PendingCall:
        """The call that a delta belongs to, a new one if one plainly begins: with a new index, with a name and a new
        id, or with a new object behind a finished one (F41). A new id alone begins none (F46).
        """
        call = self._known(delta)
        if call is None or (call.ends_before(delta) and not (call.may_take(delta) and self._is_hollow(call))):
            check_calls(len(self._calls) + 1, self._limits)
            call = self._next_call(call, delta)
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id and not call.server_id:
            call.server_id = delta.id
            self._by_id.setdefault(delta.id, call)
        self._last = call
        return call

    def _next_call(self, last: PendingCall | None, delta: CallDelta) -> PendingCall:
        """A new call behind the last one of its index."""
        call = PendingCall(server_index=delta.index, number=len(self._calls))
        self._calls.append(call)
        if last is None:
            return call
        call.flushed = bool(delta.id) and last.server_id == delta.id
        if last.again and not delta.name:
            call.names.append(last.again)
        if last.live is not None and delta.fragment.lstrip().startswith("{"):
            call.gap = last.live.drop_blanks()
        if not delta.name and not delta.id and not call.names:
            call.before = last
        return call

    def _known(self, delta: CallDelta) -> PendingCall | None:
        """By index; where that does not tell them apart, by id; else the last one."""
        named = self._by_id.get(delta.id or "")
        if delta.index is None:
            return named or self._last
        if named is not None and named.server_index == delta.index:
            return named
        return self._by_index.get(delta.index)

    def _begin(self, call: PendingCall) -> None:
        """The call can be told now: it goes out live, unless a rule may still change its name, or all of it."""
        written = self._written_name(call)
        tool = self._repairer.tools.resolve(written)
        name = tool.name if tool else written
        rules = self._repairer.rules(name)
        repeated = any(name == known for known, _ in self._written)
        # One with the id of the call before it may be that one, sent again, which only the end tells (F27).
        shut = repeated or self._at_once or self._repairer.policy.whole or call.flushed
        shut = shut or renames((*rules, *self._repairer.guarded(name)))

        def keeps(key: str, value: Json) -> bool:
            own = (rule for rule in rules if rule.parameter[:1] == (key,))
            return all(apply_rule(rule, name, {key: value}, self._repairer.tools)[1].get(key) is value for rule in own)

        call.gate = ReleasePolicy(tool, touched(rules), keeps, lambda text: self._is_right(name, text), shut)
        call.live = LiveArguments(call.gate)

    def _waits(self, call: PendingCall) -> bool:
        """True if an earlier call is not told yet, for calls leave in the order in which the model made them; or if it
        may be an earlier one, sent again (F27).
        """
        return call.flushed or any(earlier.unresolved for earlier in self._calls[: call.number])

    def _is_right(self, name: str, text: str) -> bool:
        found = self._repairer.repair(name, text, stopped=True)
        # Of a call without arguments, these may still come (F25).
        takes = found is not None and found.tool is not None and bool(found.tool.properties)
        return found is not None and not found.fixes and (bool(found.values) or not takes)

    def _written_name(self, call: PendingCall) -> str:
        """The name as the server said it: once, in pieces, or growing with each delta (F38, F39)."""
        tools = self._repairer.tools
        spellings = [call.names[0], call.names[-1], "".join(call.names)] if call.names else [""]
        return next((name for name in spellings if tools.resolve(name) is not None), spellings[0])

    def _open(self, call: PendingCall, written: str = "", name: str = "") -> list[Event]:
        """Open a call, under the name that the server said unless another one is given."""
        written = written or self._written_name(call)
        tool = self._repairer.tools.resolve(written)
        name = name or (tool.name if tool else written)
        index = self._take_index()
        if index is None:
            call.dropped = True
            self.audit.append(Repair("one_call", name, "", "the client wants one call at a time", name))
            return []
        call.index, call.name = index, name
        call.id = call.server_id if call.server_id not in self._used else ""
        call.id = call.id or self._new_id(index, name, call.server_id)
        self._used.add(call.id)
        if name != written:
            why = "the only offered tool that this name can mean"
            call.fixes += (Repair("name", written, name, why, name),)
        if call.id != call.server_id:
            why = "the server gave none, or another call's"
            call.fixes += (Repair("id", call.server_id, call.id, why, name),)
        # What was said of it otherwise leaves otherwise.
        self._regular = self._regular and not call.fixes and index == call.server_index
        self.unchanged = self.unchanged and not call.fixes and index == call.server_index
        return [CallOpened(self._choice, index, call.id, name)]

    def _open_whole(self, call: PendingCall) -> list[Event]:
        """Open and fill a call of which nothing was sent, as soon as all of it came, if it is one."""
        text = call.live.object if call.live is not None else call.text
        found = self._repairer.repair(self._written_name(call), text, stopped=False)
        return [] if found is None else self._sent_whole(call, found)

    def _sent_whole(self, call: PendingCall, found: Repaired) -> list[Event]:
        self._regular = self.unchanged = False
        same = (found.name, canonical(found.arguments))
        if same in self._written:
            self._written.remove(same)
            call.dropped = True
            self.audit.append(Repair("echo", found.arguments, "", "the call was in the content already", found.name))
            return []
        written = self._written_name(call)
        renamed = any(fix.id.startswith("rule:") for fix in found.fixes)
        opened = self._open(call, found.name if renamed or not written else written, found.name)
        call.done = found.arguments
        call.fixes += found.fixes
        if not opened:
            return []
        return [*opened, CallArguments(self._choice, call.index, found.arguments)]

    def _close(self, call: PendingCall, stopped: bool) -> list[Event]:
        if call.dropped:
            self.unchanged = False
            behind = self._behind(call)
            self.audit += [fix for fix in call.fixes if fix.id == "junk"]
            return behind
        if call.done is not None:
            return self._close_done(call, call.done)
        opening = self._open_as_it_stands(call)
        if call.index < 0:
            return self._close_unopened(call, stopped)
        return [*opening, *self._close_open(call, stopped)]

    def _open_as_it_stands(self, call: PendingCall) -> list[Event]:
        """Open a call of which only the end told that it is right as it came."""
        live = call.live
        if call.index >= 0 or live is None or not live.waits_for_end or call.behind:
            return []
        return self._leave(call, live.end())

    def _close_open(self, call: PendingCall, stopped: bool) -> list[Event]:
        live = call.live
        assert live is not None
        sent = live.text[: len(live.text) - len(live.rest)]
        rest = self._rest(call, stopped)
        if rest is None:
            self.unchanged = False
            self.refused["half_call"] += 1
            broken = "a tool call that had begun cannot be finished: its arguments cannot be read or completed"
            return [Failed(UpstreamBroken(broken))]
        events: list[Event] = [CallArguments(self._choice, call.index, rest)] if rest else []
        return [*events, *self._behind(call), self._closed(call, sent + rest)]

    def _close_done(self, call: PendingCall, done: str) -> list[Event]:
        """Close a call that left as soon as it was whole. Blanks behind it are its own, if it left as it came (C1)."""
        rest = call.text.removeprefix(done)
        events = [] if rest.strip() or not rest else [CallArguments(self._choice, call.index, rest)]
        return [*events, *self._behind(call), self._closed(call, done + rest if events else done)]

    def _behind(self, call: PendingCall) -> list[Event]:
        """What stood behind a call's object: junk is dropped (F31), everything else is content."""
        text = "".join(call.behind)
        if not text:
            return []
        self.unchanged = False
        junk = is_junk(text)
        why = "it stood behind the object" if junk else "it stood behind the object, and is content"
        call.fixes += (Repair("junk", text, "" if junk else text, why, call.name),)
        return [] if junk else [Text(self._choice, text)]

    def _closed(self, call: PendingCall, arguments: str) -> CallClosed:
        why = "the server said it in another way than clients understand"
        odd = (Repair("form", "", "", why, call.name),) if call.odd else ()
        return CallClosed(self._choice, call.index, Call(call.id, call.name, arguments), (*call.fixes, *odd))

    def _rest(self, call: PendingCall, stopped: bool) -> str | None:
        """What an open call still lacks; None if it cannot be finished (C4, half calls)."""
        live = call.live
        assert live is not None
        behind = call.goes_on_behind
        if behind and not stopped:
            self.unchanged = False
            call.behind.clear()
            return live.rest + behind
        both = self._read_both(call, call.name, stopped)
        if both is not None:
            self.unchanged = False
            call.fixes += both.fixes
            return live.tail(both.values) if both.name == call.name else None
        if _has_mark(behind):
            return None  # nobody knows what is the string's
        ready = live.end()
        # Cut by `length`, they are left as cut: what is missing is not known.
        if (not live.broken and live.complete) or not (stopped or live.closed):
            return ready + live.rest
        self.unchanged = False
        found = self._repairer.repair(call.name, live.text, stopped=stopped or live.closed)
        if found is None or found.name != call.name:
            return None
        call.fixes += found.fixes
        return live.rest if found.arguments == live.text else live.tail(found.values)

    def _read_both(self, call: PendingCall, name: str, stopped: bool) -> Repaired | None:
        """The call whose object seemed to end within a string, with what stands behind it."""
        behind = call.goes_on_behind
        found = self._repairer.repair(name, call.text + behind, stopped=True) if behind and stopped else None
        if found is not None:
            call.behind.clear()
        return found

    def _close_unopened(self, call: PendingCall, stopped: bool) -> list[Event]:
        """A call of which nothing was sent: whole now, or text after all."""
        name, text = self._written_name(call), call.text
        ended = stopped or (call.live is not None and call.live.closed)
        found = self._read_both(call, name, stopped)
        if found is None and not _has_mark(call.goes_on_behind):
            found = self._repairer.repair(name, text, stopped=ended) if name or text.strip() else None
        if found is not None:
            events = self._sent_whole(call, found)
            return [*events, *self._behind(call), self._closed(call, found.arguments)] if events else []
        live_or_whole = self._at_once or (call.gate is not None and not call.gate.shut)
        if live_or_whole and name and not stopped and call.first == "{":
            # What was cut by `length` is left as cut (C4).
            opened = self._open(call, name, name)
            return [*opened, CallArguments(self._choice, call.index, text), self._closed(call, text)] if opened else []
        self.unchanged = False
        self.refused["unreadable_arguments" if name else "no_name"] += 1
        written = "".join((name, text, *call.behind))
        if not written:
            return []
        why = "its arguments cannot be read" if name else "it has no name, and its arguments do not tell it"
        self.audit.append(Repair("no_call", written, written, why, name))
        return [Text(self._choice, written)]


def _has_mark(text: str) -> bool:
    return '"' in text or "'" in text
