"""Which call a delta belongs to (F41, F42, F46, F47).

Servers tell their calls apart by index; where that is missing or the same for all of them, by id; else the delta is the
last call's. Fragments of several calls may come in turn (F47):

    {"tool_calls": [{"index": 0, "function": {"arguments": "{\\"command\\": "}}]}
    {"tool_calls": [{"index": 1, "function": {"arguments": "{\\"command\\": "}}]}
    {"tool_calls": [{"index": 0, "function": {"arguments": "\\"ls\\"}"}}]}
"""

from __future__ import annotations

from collections.abc import Iterator

from proxy.engine.call_delta import CallDelta
from proxy.engine.pending_call import CallLimits, PendingCall
from proxy.errors import UpstreamBroken
from proxy.tools.toolset import ToolSet


class CallRegistry:
    """The calls of one choice, in the order in which they began."""

    def __init__(self, tools: ToolSet, limits: CallLimits) -> None:
        self._tools = tools
        self._limits = limits
        self._calls: list[PendingCall] = []
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}
        self._last: PendingCall | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[PendingCall]:
        return iter(self._calls)

    @property
    def newest(self) -> PendingCall:
        """The call that began last."""
        return self._calls[-1]

    def first(self, count: int) -> list[PendingCall]:
        """The first so many calls."""
        return self._calls[:count]

    def clear(self) -> None:
        """Forget all calls: the reply is over."""
        self._calls.clear()

    def must_wait(self, call: PendingCall) -> bool:
        """True if an earlier call is not told yet, for calls leave in the order in which the model made them; or if it
        may be an earlier one, sent again (F27).
        """
        if call.maybe_duplicate:
            return True
        return any(earlier.unresolved for earlier in self._calls[: call.number])

    def may_open(self, call: PendingCall) -> bool:
        """True if a call is not told yet, and has not to wait for another one."""
        if not call.unresolved:
            return False
        return not self.must_wait(call)

    def call_of(self, delta: CallDelta) -> tuple[PendingCall, bool]:
        """The call that a delta belongs to, and True if it begins with it; UpstreamBroken if it is one too many."""
        known = self._known(delta)
        call = known
        if call is None or self._ends_before(call, delta):
            call = self._add(delta, known)
        if delta.index is not None:
            self._by_index[delta.index] = call
        if delta.id and not call.server_id:
            call.server_id = delta.id
            self._by_id.setdefault(delta.id, call)
        self._last = call
        return call, call is not known

    def going_on_in(self, delta: CallDelta) -> PendingCall | None:
        """The last call, if it is the newest one, and this delta would be its."""
        call = self._known(delta)
        if call is None or call is not self._last or call is not self._calls[-1]:
            return None
        return call

    def completed_by(self, delta: CallDelta) -> PendingCall | None:
        """The call of which a delta says all arguments; None if it is one of its own (F25)."""
        known = self._with_id_of(delta)
        if known is not None:
            return known
        call = self._at_place_of(delta)
        if call is None or self._is_named_otherwise(call, delta):
            return None
        return call

    def unused_index(self) -> int:
        """An index below zero, which no server gives, for a call that can be told from the others by nothing else."""
        return -1 - len(self._calls)

    def _known(self, delta: CallDelta) -> PendingCall | None:
        """By index; where that does not tell them apart, by id; else the last one."""
        named = self._with_id_of(delta)
        if delta.index is None:
            # {"id": "call_1", "function": {"arguments": "{\"command\": \"ls\"}"}}, without an index (F42)
            return self._last if named is None else named
        if named is not None and named.server_index == delta.index:
            return named
        at_index = self._by_index.get(delta.index)
        return self._named_last(delta, at_index) or at_index

    def _named_last(self, delta: CallDelta, at_index: PendingCall | None) -> PendingCall | None:
        """The newest call, if it has a name only, and arguments begin at the index of no call that is open.

        SGLang numbers names by the tool and arguments by the call:

            {"index": 3, "id": "call_1", "function": {"name": "bash", "arguments": ""}}
            {"index": 0, "function": {"arguments": "{\"command\": "}}
        """
        newest = self._calls[-1] if self._calls else None
        if newest is None or newest.size or not newest.names or delta.name or delta.id:
            return None
        if delta.first_character != "{" or (at_index is not None and not at_index.has_ended):
            return None
        return newest

    def _with_id_of(self, delta: CallDelta) -> PendingCall | None:
        if delta.id is None:
            return None
        return self._by_id.get(delta.id)

    def _ends_before(self, call: PendingCall, delta: CallDelta) -> bool:
        """True if a delta begins another call. One that has no arguments yet may take those of the delta (F25)."""
        # {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
        # {"index": 0, "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        if not call.ends_before(delta):
            return False
        if not call.may_take(delta):
            return True
        return not call.lacks_arguments(self._tools)

    def _add(self, delta: CallDelta, previous: PendingCall | None) -> PendingCall:
        """A new call behind the last one of its index."""
        check_calls(len(self._calls) + 1, self._limits)
        call = PendingCall(server_index=delta.index, number=len(self._calls))
        self._calls.append(call)
        if previous is not None:
            self._relate(call, previous, delta)
        return call

    def _relate(self, call: PendingCall, previous: PendingCall, delta: CallDelta) -> None:
        """Note what the call before it, of the same index, says of a new one."""
        # The last delta, flushed twice (vLLM, F27):
        # {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        # {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\"command\": \"ls\"}"}}
        if delta.id:
            call.maybe_duplicate = previous.server_id == delta.id
        if previous.repeated_name and not delta.name:
            call.names.append(previous.repeated_name)
        if previous.live is not None and delta.first_character == "{":
            call.blanks_before = previous.live.drop_blanks()
        if not any((delta.name, delta.id, call.names)):
            call.split_from = previous

    def _at_place_of(self, delta: CallDelta) -> PendingCall | None:
        """The call of a delta that has no known id: by its index, else the first one that is not over."""
        if delta.index is None:
            return next((call for call in self._calls if not call.has_ended), self._last)
        if delta.index < len(self._calls):
            return self._calls[delta.index]
        return None

    def _is_named_otherwise(self, call: PendingCall, delta: CallDelta) -> bool:
        if not delta.name:
            return False
        if not call.names:
            return False
        return delta.name not in call.names


def check_calls(count: int, limits: CallLimits) -> None:
    """UpstreamBroken if a reply has more calls than it may (contract C7)."""
    if count > limits.calls:
        raise UpstreamBroken(f"the reply has more than {limits.calls} tool calls (max_calls)")
