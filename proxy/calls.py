"""Structured deltas to calls, by index.

Servers send a call in pieces, `delta.tool_calls[]`: index, id and name once, then fragments of the arguments. What
they leave out or send wrongly is put right here (F26, F38, F42 to F47, F51), what is right goes on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .arguments import LiveArguments
from .errors import ProxyError, UpstreamBroken
from .events import (
    Call,
    CallArguments,
    CallClosed,
    CallOpened,
    Event,
    Failed,
    Json,
    JsonObject,
    Repair,
    Text,
    dump_json,
    load_json,
)
from .limits import MAX_CALLS, MAX_HELD
from .literals import missing_closers
from .tools import Tools


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Calls in a reply, and bytes that wait in one of them."""

    calls: int = MAX_CALLS
    held: int = MAX_HELD


@dataclass(slots=True)
class _Pending:
    """A call that is being gathered; `index` is the client's, given when the call opens."""

    server_id: str = ""
    name: str = ""
    early: list[str] = field(default_factory=list)
    waiting: int = 0
    begins: str = ""
    live: LiveArguments | None = None
    index: int = -1
    id: str = ""
    fixes: tuple[Repair, ...] = ()

    @property
    def complete(self) -> bool:
        """True once its arguments are a whole object."""
        return self.live is not None and self.live.complete


class CallGatherer:
    """The calls of one choice. `take_index` and `new_id` are shared with the calls that are found in its text.

    `clean` is true if the last deltas left exactly as they came, so that their event need not be written anew.
    """

    def __init__(
        self,
        choice: int,
        tools: Tools,
        take_index: Callable[[], int],
        new_id: Callable[[int], str],
        *,
        limits: CallLimits | None = None,
    ) -> None:
        self._choice = choice
        self._tools = tools
        self._take_index = take_index
        self._new_id = new_id
        self._limits = limits or CallLimits()
        self._calls: list[_Pending] = []
        self._ids: set[str] = {""}
        self._by_index: dict[int, _Pending] = {}
        self._last: _Pending | None = None
        self.clean = True

    def feed(self, deltas: Iterable[Json]) -> tuple[Event, ...]:
        """Take the `tool_calls` list of one delta; give what it opens and adds."""
        events: list[Event] = []
        self.clean = True
        for delta in deltas:
            if isinstance(delta, dict):
                events += self._delta(delta)
        return tuple(events)

    def finish(self, *, stopped: bool) -> tuple[Event, ...]:
        """Say that no more deltas come; `stopped` if the model ended by itself and was not cut off."""
        events: list[Event] = []
        for call in self._calls:
            events += self._close(call, stopped)
            if events and isinstance(events[-1], Failed):
                break
        self._calls.clear()
        return tuple(events)

    def _delta(self, delta: JsonObject) -> list[Event]:
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        arguments = function.get("arguments")
        fragment = _text(arguments)
        self.clean = self.clean and (arguments is None or isinstance(arguments, str))
        call = self._call(delta, name, fragment)
        call.name = call.name or name
        if call.live is not None:
            # Name and id were said; a repetition is not passed on (F39, F45).
            self.clean = self.clean and not name and delta.get("id") is None
            return self._fragment(call, delta, fragment)
        call.early.append(fragment)
        call.begins = call.begins or fragment.lstrip()[:1]
        if not call.name or call.begins != "{":
            self.clean = False
            self._limit(call, len(fragment))
            return []
        early = "".join(call.early)
        call.early.clear()
        self.clean = self.clean and bool(name) and early == fragment and delta.get("id") == call.server_id
        return self._opened(call) + self._fragment(call, delta, early)

    def _limit(self, call: _Pending, more: int) -> None:
        """Count what waits in a call; over the limit the reply cannot be finished (contract C7)."""
        call.waiting += more
        if call.waiting > self._limits.held:
            raise UpstreamBroken(f"more than {self._limits.held} bytes of a tool call had to wait (max_held)")

    def _fragment(self, call: _Pending, delta: JsonObject, fragment: str) -> list[Event]:
        assert call.live is not None
        new = call.live.feed(fragment)
        self._limit(call, len(fragment) - len(new))
        self.clean = self.clean and new == fragment and delta.get("index") == call.index
        return [CallArguments(self._choice, call.index, new)] if new else []

    def _call(self, delta: JsonObject, name: str, fragment: str) -> _Pending:
        """The call that a delta belongs to: that of its index, else the last one, unless a new one plainly begins: a
        name with a new id, or after whole arguments a name without an id and a new object (F41).
        """
        index, given = delta.get("index"), delta.get("id")
        given = given if isinstance(given, str) or given is None else str(given)
        call = self._by_index.get(index) if isinstance(index, int) else self._last
        if call is None or (name and _renewed(call, given or "", fragment)):
            if len(self._calls) >= self._limits.calls:
                raise UpstreamBroken(f"the reply has more than {self._limits.calls} tool calls (max_calls)")
            call = _Pending()
            self._calls.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        call.server_id = call.server_id or given or ""
        self._last = call
        return call

    def _opened(self, call: _Pending) -> list[Event]:
        tool = self._tools.resolve(call.name)
        name = tool.name if tool else call.name
        call.index = self._take_index()
        call.id = call.server_id if call.server_id not in self._ids else ""
        call.id = call.id or self._new_id(call.index)
        self._ids.add(call.id)
        if name != call.name:
            call.fixes += (Repair("name", call.name, name, "the only offered tool that this name can mean"),)
        if call.id != call.server_id:
            call.fixes += (Repair("id", call.server_id, call.id, "the server gave none, or another call's"),)
        self.clean = self.clean and not call.fixes
        call.name = name
        call.live = LiveArguments(tool)
        return [CallOpened(self._choice, call.index, call.id, name)]

    def _close(self, call: _Pending, stopped: bool) -> list[Event]:
        if call.live is None:
            return self._close_unopened(call, stopped)
        live = call.live
        closers = "" if live.complete else self._closers(live, stopped)
        if isinstance(closers, ProxyError):
            return [Failed(closers)]
        if closers:
            why = "the model stopped, and only these were missing"
            call.fixes += (Repair("closers", "", closers, why),)
        rest = live.rest + closers
        events: list[Event] = [CallArguments(self._choice, call.index, rest)] if rest else []
        done = Call(call.id, call.name, live.text + closers)
        return [*events, CallClosed(self._choice, call.index, done, call.fixes)]

    def _closers(self, live: LiveArguments, stopped: bool) -> str | ProxyError:
        """What an open call's arguments lack; an error if it cannot be finished (C4, half calls)."""
        # Cut by `length`, they are left as cut: what is missing is not known.
        if not stopped or _is_object(live.text):
            return ""
        closers = missing_closers(live.text)
        if closers and _is_object(live.text + closers):
            return closers
        return UpstreamBroken("the model ended in the middle of a tool call, and its arguments cannot be completed")

    def _close_unopened(self, call: _Pending, stopped: bool) -> list[Event]:
        """A call of which nothing was sent: whole now, or text after all."""
        early = "".join(call.early)
        arguments = early.strip() or "{}"
        if not (call.name and stopped and _is_object(arguments)):
            written = call.name + early
            return [Text(self._choice, written)] if written else []
        events: list[Event] = [*self._opened(call), CallArguments(self._choice, call.index, arguments)]
        return [*events, CallClosed(self._choice, call.index, Call(call.id, call.name, arguments), call.fixes)]


def said_call(choice: int, delta: Json) -> tuple[CallOpened | CallArguments, ...]:
    """What a call's delta says, as it stands; nothing is put right."""
    if not isinstance(delta, dict):
        return ()
    index, function = delta.get("index"), delta.get("function")
    at = index if isinstance(index, int) else 0
    function = function if isinstance(function, dict) else {}
    name = function.get("name")
    opened = (CallOpened(choice, at, str(delta.get("id") or ""), name),) if isinstance(name, str) else ()
    return (*opened, CallArguments(choice, at, _text(function.get("arguments"))))


def _renewed(call: _Pending, given: str, fragment: str) -> bool:
    if given and call.server_id:
        return given != call.server_id
    return not given and call.complete and fragment.lstrip().startswith("{")


def _text(arguments: Json) -> str:
    """The text of a delta's `arguments`; servers that send an object mean its JSON."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    return dump_json(arguments).decode()


def _is_object(text: str) -> bool:
    try:
        return isinstance(load_json(text), dict)
    except ValueError:
        return False
