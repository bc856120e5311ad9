"""A structured call that is being gathered, and what its next delta says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.codec.json_text import read_json
from proxy.engine.call_delta import CallDelta
from proxy.engine.live_arguments import LiveArguments, ReleasePolicy
from proxy.errors import UpstreamBroken
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.repair.argument_readers import is_junk, objects_in

_EMPTY = re.compile(r"\s*\{\s*\}\s*")
# Empty objects behind each other.
EMPTIES = re.compile(r"(?:\s*+\{\s*+\})*+")
# A chunk of which a part may leave waits for no more than so many bytes of the call (contract C2).
MAX_NEAR = 64
# What has left of a call is kept for its end; all of it may have so many times what may wait.
_LIVE = 4


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Calls in a reply, and bytes that wait in one of them."""

    calls: int = MAX_CALLS
    held: int = MAX_HELD


@dataclass(slots=True)
class PendingCall:
    """A call that is being gathered. `number` is its place among the server's calls, `index` the client's, given when
    the call opens.

    `early` came before the call could be told, `first` is the first of it that is no blank, `ready` what may leave as
    soon as the call is open, `behind` what followed its object; `size` counts all of its characters, `waiting` those
    that have not left. `odd`: one of its deltas was not as clients expect it. `again` is a name that was said once more
    behind all of the arguments. `done` once all of it left before the reply's end, `final` what the client has then.
    `flushed`: it has the id of the call before it, and so may be that one, sent again. `before` is the call of whose
    arguments it is a part if it is no object of its own, because only a brace tells them apart; `gap` are the blanks
    between them. `dropped`: nothing of it is to leave.
    """

    server_id: str = ""
    server_index: int | None = None
    number: int = 0
    names: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    ready: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    first: str = ""
    size: int = 0
    waiting: int = 0
    odd: bool = False
    again: str = ""
    gate: ReleasePolicy | None = None
    live: LiveArguments | None = None
    index: int = -1
    id: str = ""
    name: str = ""
    done: str | None = None
    final: str | None = None
    flushed: bool = False
    before: PendingCall | None = None
    gap: str = ""
    dropped: bool = False
    fixes: tuple[Repair, ...] = ()

    @property
    def text(self) -> str:
        """All of its arguments."""
        return self.live.text if self.live is not None else "".join(self.early)

    @property
    def unresolved(self) -> bool:
        """True while it is not told what becomes of it: it may still be a call, or text."""
        return self.index < 0 and not self.dropped

    @property
    def all_left(self) -> bool:
        """True if all that came of it left."""
        return self.index >= 0 and self.live is not None and not self.ready and not self.live.waiting

    @property
    def waits_shortly(self) -> bool:
        """True if what of it has not left are a few bytes, or if only the end of the call tells whether they leave."""
        return self.live is not None and (self.live.waits_for_end or self.live.waiting <= MAX_NEAR)

    @property
    def empty(self) -> bool:
        """True if its arguments came whole and say nothing, and still wait at least in part."""
        return self.live is not None and self.done is None and bool(_EMPTY.fullmatch(self.live.text))

    @property
    def goes_on_behind(self) -> str:
        """What stands behind its object, if the mark before the object's brace may have been one of a string's own:
        `{"code": "print("}` and then `")"}`. Empty if that says nothing, or if there is nothing.
        """
        behind = "".join(self.behind)
        if self.live is None or not self.live.ends_in_string or is_junk(behind):
            return ""
        return behind

    def see(self, delta: CallDelta) -> None:
        """Note what the next delta says otherwise than clients expect it."""
        late = bool(delta.name) and not self.names and any(self.early)
        again = self.live is not None and (bool(delta.name) or delta.id is not None)
        self.odd = self.odd or late or again or not delta.plain or delta.index != self.number
        if delta.name and not delta.id and self.live is not None and self.live.closed:
            self.again = delta.name

    def ends_before(self, delta: CallDelta) -> bool:
        """True if another call plainly begins with a delta: with a name and a new id, or with a new object behind a
        finished one (F41). A new id alone begins none (F46).
        """
        if delta.name and delta.id and self.server_id and delta.id != self.server_id:
            # Of a server that says the name again with each new id, the rest of an object goes on.
            begun = self.live is not None and not self.live.closed and delta.name in self.names
            return not begun or delta.fragment.lstrip()[:1] in ("", "{")
        if self.live is None or not self.live.closed:
            return False
        another = delta.fragment.lstrip().startswith("{") and not self.behind
        return another or bool(delta.name and delta.name not in self.names)

    def may_take(self, delta: CallDelta) -> bool:
        """True if nothing in a delta says that it is another call's."""
        same = not delta.id or not self.server_id or delta.id == self.server_id
        return (same or not delta.name) and (not delta.name or delta.name in self.names)


def check_calls(count: int, limits: CallLimits) -> None:
    """UpstreamBroken if a reply has more calls than it may (contract C7)."""
    if count > limits.calls:
        raise UpstreamBroken(f"the reply has more than {limits.calls} tool calls (max_calls)")


def count_bytes(call: PendingCall, limits: CallLimits, came: int, left: int) -> None:
    """Count what came of a call and what waits in it; over a limit the reply cannot be finished (contract C7)."""
    call.size += came
    call.waiting += came - left
    if call.waiting > limits.held:
        raise UpstreamBroken(f"more than {limits.held} bytes of a tool call had to wait (max_held)")
    if call.size > _LIVE * limits.held:
        raise UpstreamBroken(f"a tool call has more than {_LIVE} times {limits.held} bytes (max_held)")


def separated(calls: list[PendingCall], limits: CallLimits) -> Iterator[PendingCall]:
    """The calls, those without a name object by object (F41)."""
    count = len(calls)
    for call in calls:
        texts = [] if call.names else objects_in(call.text.strip())
        count += max(0, len(texts) - 1)
        check_calls(count, limits)
        if len(texts) < 2:
            yield call
            continue
        for place, text in enumerate(texts):
            yield PendingCall("" if place else call.server_id, early=[text], odd=True)


def rejoined(calls: list[PendingCall]) -> list[PendingCall]:
    """The calls without those that were told from the one before by a brace alone, and are no objects (F41).

    What came of them stands behind that call's object.
    """
    found: list[PendingCall] = []
    for call in calls:
        if call.before is None or all(map(_is_object, objects_in(call.text.strip()))):
            found.append(call)
        elif found:
            found[-1].behind.append(call.gap + call.text)
    return found


def _is_object(text: str) -> bool:
    try:
        return isinstance(read_json(text), dict)
    except ValueError:
        return False
