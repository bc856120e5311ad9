"""Builds calls from structured deltas and decides when to send them.

A call opens once its first value has begun, all earlier calls are open, and its name is final. The server's mistakes
(F25, F27, F38 to F47, F51) are repaired here and in `owners`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from proxy.engine.arguments import Arguments, policy_of
from proxy.engine.call_output import CallOutput
from proxy.engine.events import Event
from proxy.engine.owners import SHORT, Call, State
from proxy.engine.reading import CallDelta
from proxy.errors import UpstreamBroken
from proxy.repair.arguments import may_go_on

# Sent arguments are kept until the call ends. A whole call may be this many times larger than `max_held`.
_LIVE = 4
# Less than this passes the lane before the engine is fed.
_MUCH = 256 * 1024


class Calls(CallOutput):
    """The calls of one choice."""

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
        if call is None or call.arguments is None or call.odd or call.state is not State.OPEN:
            return False
        far = call.size + _MUCH < _LIVE * self._task.max_held
        return far and call.arguments.flows and self._owners.owner(delta) is call

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
                waiting = [each for each in self._owners if each.state is State.WAITING]
                events += [event for each in waiting for event in self._release(each)]
                call = self._owners.begin(delta)
            events += self._take(call, delta)
        return events

    def _take(self, call: Call, delta: CallDelta) -> list[Event]:
        """Take the next delta of a call."""
        call.note(delta)
        self._owners.note_id(call, delta)
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
            call.early, call.early_size, call.arguments, call.odd = [], 0, None, True
        if call.arguments is None:
            call.early.append(fragment)
            call.early_size += len(fragment)
            written = call.written_name(self._tools)
            if not (written and call.begun):
                self._check(call)
                return []
            name, is_tool = self._offered(call), call.tool(self._tools) is not None
            hold = self._whole or call.twin is not None
            # The client may have the call from the text, or the name may go on.
            hold |= any(each.in_text and each.name == name for each in self._written)
            hold |= not is_tool and any(each.startswith(name) for each in self._tools.names)
            call.arguments = Arguments(policy_of(self._repairer, written, hold=hold))
            fragment, call.early = "".join(call.early), []
        call.ready += call.arguments.feed(fragment)
        self._check(call)
        return self._release(call)

    def _says_all_again(self, call: Call, fragment: str) -> bool:
        """Return whether a fragment restarts the arguments, after empty ones (F25) or after a part of them.

        {"index": 0, "function": {"arguments": "{"}}
        {"index": 0, "function": {"arguments": "{\\"city\\": \\"A\\"}"}}
        """
        if call.sent or not 0 < call.size <= SHORT:
            return False
        begun, text = call.text.strip(), fragment.lstrip()
        if not begun or not text.startswith("{"):
            return False
        return call.is_empty or (begun.startswith("{") and text.startswith(begun) and text != begun)

    def _check(self, call: Call) -> None:
        """Raise UpstreamBroken if a call is too large, or too much of it is held (contract C7)."""
        held = self._task.max_held
        if call.size - call.sent > held:
            raise self._too_much()
        if call.size > _LIVE * held:
            raise UpstreamBroken(f"a tool call has more than {_LIVE} times {held} bytes (max_held)")

    def _too_much(self) -> UpstreamBroken:
        return UpstreamBroken(f"more than {self._task.max_held} bytes of a tool call had to wait (max_held)")

    def _release(self, call: Call) -> list[Event]:
        """Send the ready part of a call. Calls open in the model's order."""
        if not call.ready:
            return []
        opened: list[Event] = []
        if call.state is State.WAITING:
            if any(each.state is State.WAITING for each in self._owners.calls[: call.number]):
                return []
            opened = self._open(call, call.written_name(self._tools), self._offered(call))
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
