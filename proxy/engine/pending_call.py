"""A structured call that is being gathered, and what its next delta says of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from proxy.audit_record import Repair
from proxy.engine.call_delta import CallDelta
from proxy.engine.call_fields import UnsaidFields
from proxy.engine.call_state import TRANSITIONS, CallState, CallStep
from proxy.engine.live_arguments import LiveArguments
from proxy.engine.release_policy import ReleasePolicy
from proxy.errors import UpstreamBroken
from proxy.limits import MAX_CALLS, MAX_HELD
from proxy.repair.arguments import may_go_on
from proxy.tools.toolset import ToolSet
from proxy.transitions import next_state

_EMPTY = re.compile(r"\s*\{\s*\}\s*")
# A chunk of which a part may leave waits for no more than so many bytes of the call (contract C2).
MAX_NEAR = 64
# What has left of a call is kept for its end; all of it may have so many times what may wait.
_LIVE = 4
_MUCH = 256 * 1024
# Names that are kept of a server that says one with each delta.
_MAX_NAMES = 16
# States in which no arguments are awaited any more, if those that came are known to be all.
_DECIDED = (CallState.COMPLETE, CallState.DROPPED)


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Calls in a reply, and bytes that wait in one of them."""

    calls: int = MAX_CALLS
    held: int = MAX_HELD


@dataclass(slots=True)
class PendingCall:
    """A call that is being gathered; its `state` moves by the table of `call_state`.

    Of the server: `server_id`, `server_index`, `number`, its place among the server's calls, and `names`, each that was
    said of it. `repeated_name` is one that came once more behind all of the arguments: it may be the next call's.
    `irregular`: one of its deltas was not as clients expect it. `maybe_duplicate`: the server reused the previous
    call's id (vLLM flushes the last delta twice, F27), so that only the end tells whether it is that call, sent again.
    `split_from` is the call behind whose object it began with nothing but a brace (F41), `blanks_before` what stands
    between the two.

    Of its arguments: `collected` came before they were read, `live` reads them, `releasable` may leave as soon as the
    call is open, `trailing` followed their object. `size` counts all of their characters, `waiting` those that have not
    left.

    Of the client: `index` (-1 until the call opens), `id` and `name`. `final_arguments` are what the client has in the
    end, once that is known. `fixes` are its repairs, `fields` what else the server says of it.
    """

    server_id: str = ""
    server_index: int | None = None
    number: int = 0
    names: list[str] = field(default_factory=list)
    collected: list[str] = field(default_factory=list)
    irregular: bool = False
    repeated_name: str = ""
    maybe_duplicate: bool = False
    split_from: PendingCall | None = None
    blanks_before: str = ""
    state: CallState = CallState.COLLECTING
    first_character: str = ""
    live: LiveArguments | None = None
    releasable: list[str] = field(default_factory=list)
    trailing: list[str] = field(default_factory=list)
    size: int = 0
    waiting: int = 0
    index: int = -1
    id: str = ""
    name: str = ""
    final_arguments: str | None = None
    fixes: tuple[Repair, ...] = ()
    fields: UnsaidFields = field(default_factory=UnsaidFields)

    # What it is now.

    @property
    def text(self) -> str:
        """All of its arguments."""
        if self.live is None:
            return "".join(self.collected)
        return self.live.text

    @property
    def has_ended(self) -> bool:
        """True if the object of its arguments is closed."""
        if self.live is None:
            return False
        return self.live.closed

    @property
    def may_end(self) -> bool:
        """True if its object is closed, and nothing stands in the way of what may leave when no more of it comes."""
        if not self.has_ended:
            return False
        if self.dropped:
            return False
        return not self.trailing

    @property
    def object(self) -> str:
        """The object of its arguments, without the blanks behind it; all of its arguments while that is not closed."""
        if self.live is None:
            return self.text
        return self.live.object

    @property
    def was_opened(self) -> bool:
        """True if the client has its name and id."""
        return self.index >= 0

    @property
    def dropped(self) -> bool:
        """True if nothing of it leaves."""
        return self.state is CallState.DROPPED

    @property
    def unresolved(self) -> bool:
        """True while it is not told what becomes of it: it may still be a call, or text."""
        return self.state in (CallState.COLLECTING, CallState.READING)

    @property
    def all_left(self) -> bool:
        """True if all that came of it left."""
        if self.index < 0:
            return False
        if self.releasable:
            return False
        return self.live is not None and not self.live.waiting

    @property
    def is_broken(self) -> bool:
        """True if nothing more of its arguments leaves before its end."""
        if self.live is None:
            return False
        return self.live.broken

    @property
    def nearly_left(self) -> bool:
        """True if all that came of it left but for a few bytes, or if only the end of the call tells whether it may."""
        if self.live is None:
            return False
        if self.all_left:
            return True
        if self.live.waits_for_end:
            return True
        return self.live.waiting <= MAX_NEAR

    @property
    def empty(self) -> bool:
        """True if its arguments came whole and say nothing, and still wait at least in part."""
        if self.live is None:
            return False
        if self.state in _DECIDED and self.final_arguments is not None:
            return False
        return bool(_EMPTY.fullmatch(self.live.text))

    def lacks_arguments(self, tools: ToolSet) -> bool:
        """True if it came without arguments though its tool takes some: they may still come (F25).

        {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{}"}}
        {"index": 0, "function": {"arguments": "{\\"command\\": \\"ls\\"}"}}
        """
        if not self.empty:
            return False
        tool = tools.resolve(self.written_name(tools))
        if tool is None:
            return False
        return bool(tool.properties)

    def written_name(self, tools: ToolSet) -> str:
        """The name as the server wrote it: once, in pieces, or growing with each delta (F38, F39).

        {"function": {"name": "read_"}}, {"function": {"name": "file"}} is `read_file`, and so is
        {"function": {"name": "read_"}}, {"function": {"name": "read_file"}}
        """
        if not self.names:
            return ""
        spellings = (self.names[0], self.names[-1], "".join(self.names))
        return next((name for name in spellings if tools.resolve(name) is not None), self.names[0])

    def offered_name(self, tools: ToolSet) -> str:
        """The name of the offered tool that it means; the name as the server wrote it if that is none."""
        written = self.written_name(tools)
        tool = tools.resolve(written)
        return tool.name if tool else written

    @property
    def may_go_on(self) -> bool:
        """True if what followed its object may be a part of it: `{"code": "print("}` and then `")"}`."""
        if not self.trailing:
            return False
        return may_go_on(self.object, "".join(self.trailing))

    # What a delta says of it.

    def note(self, delta: CallDelta) -> None:
        """Note the name in its next delta, and what that says otherwise than clients expect it."""
        if self._is_irregular(delta):
            self.irregular = True
        if delta.name:
            self._note_name(delta)

    def _note_name(self, delta: CallDelta) -> None:
        if self.has_ended and not delta.id:
            self.repeated_name = delta.name
        if len(self.names) < _MAX_NAMES:
            self.names.append(delta.name)

    def _is_irregular(self, delta: CallDelta) -> bool:
        if not delta.standard:
            return True
        if delta.index != self.number:
            return True
        if self.live is None:
            return self._is_late_name(delta.name)
        # Name and id belong into the first delta and into no other (F39, F45).
        if delta.name:
            return True
        return delta.id is not None

    def _is_late_name(self, name: str) -> bool:
        """True if arguments came before the call's name (F38).

        {"index": 0, "id": "call_1", "function": {"arguments": "{\\"command\\": "}}
        {"index": 0, "function": {"name": "bash", "arguments": "\\"ls\\"}"}}
        """
        if not name:
            return False
        if self.names:
            return False
        return any(self.collected)

    def ends_before(self, delta: CallDelta) -> bool:
        """True if another call plainly begins with a delta: with a name and a new id, with a new name behind a finished
        object, or with a new object behind one. A new id alone begins none.

        Servers that count all calls as the first (F41):
            {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\\"command\\": \\"ls\\"}"}}
            {"index": 0, "id": "call_2", "function": {"name": "bash", "arguments": "{\\"command\\": \\"pwd\\"}"}}

        Servers that make a new id for each delta of one call (F46):
            {"index": 0, "id": "call_1", "function": {"name": "bash", "arguments": "{\\"command\\": "}}
            {"index": 0, "id": "call_2", "function": {"arguments": "\\"ls\\"}"}}
        """
        if delta.name and self._is_other_id(delta):
            return not self._goes_on_in(delta)
        if not self.has_ended:
            return False
        if delta.first_character == "{" and not self.trailing:
            return True
        return self._is_other_name(delta)

    def may_take(self, delta: CallDelta) -> bool:
        """True if nothing in a delta says that it is another call's."""
        if self._is_other_name(delta):
            return False
        if not delta.name:
            return True
        return not self._is_other_id(delta)

    def _goes_on_in(self, delta: CallDelta) -> bool:
        """True if its object goes on in a delta that says a name and a new id: some servers say both in each."""
        if self.live is None:
            return False
        if self.live.closed:
            return False
        if delta.first_character in ("", "{"):
            return False
        return delta.name in self.names

    def _is_other_id(self, delta: CallDelta) -> bool:
        if not delta.id:
            return False
        if not self.server_id:
            return False
        return delta.id != self.server_id

    def _is_other_name(self, delta: CallDelta) -> bool:
        if not delta.name:
            return False
        return delta.name not in self.names

    # How it moves.

    def collect(self, fragment: str) -> None:
        """Keep a fragment that comes before the arguments can be read."""
        self.collected.append(fragment)
        if not self.first_character:
            self.first_character = fragment.lstrip()[:1]

    def forget_collected(self) -> None:
        """Forget the fragments so far: all of the arguments come anew."""
        self.collected.clear()
        self.first_character = ""

    @property
    def can_begin(self) -> bool:
        """True if its name is known and its arguments begin as an object."""
        if not self.names:
            return False
        return self.first_character == "{"

    def begin(self, policy: ReleasePolicy) -> str:
        """Read its arguments as they come from now on; give those that came until now, which are to be fed first."""
        self._move(CallStep.BEGIN)
        collected = "".join(self.collected)
        self.collected.clear()
        self.live = LiveArguments(policy)
        return collected

    def restart(self) -> None:
        """Read its arguments anew: those so far were empty, and the true ones follow (F25)."""
        assert self.live is not None, "empty arguments were read"
        self.live = LiveArguments(self.live.policy)

    def rejoin(self) -> None:
        """Put what seemed to follow its object back into its arguments: the object had not ended."""
        assert self.live is not None, "only behind an object that was read something can follow"
        self.live.reopen("".join(self.trailing))
        self.trailing.clear()

    def open(self, index: int, id_: str, name: str) -> None:
        """The client gets its place, its id and its name."""
        self._move(CallStep.OPEN)
        self.index, self.id, self.name = index, id_, name

    def complete(self, arguments: str) -> None:
        """The client gets all of its arguments at once."""
        self._move(CallStep.COMPLETE)
        self.final_arguments = arguments

    def drop(self) -> None:
        """Nothing of it leaves."""
        self._move(CallStep.DROP)

    def close(self) -> None:
        """The reply is over."""
        self._move(CallStep.CLOSE)

    def _move(self, step: CallStep) -> None:
        self.state = next_state(TRANSITIONS, self.state, step)

    def take_releasable(self) -> str:
        """Return the arguments that may leave now; they are not given a second time."""
        text = "".join(self.releasable)
        self.releasable.clear()
        return text

    def check_fields(self, limits: CallLimits) -> None:
        """More of its other fields comes: those that wait are limited too. A single event has a limit of its own."""
        if self.fields.size > limits.held:
            raise UpstreamBroken(f"more than {limits.held} bytes of a tool call had to wait (max_held)")

    def has_room(self, limits: CallLimits) -> bool:
        """True if it is far from its limit, by more than what passes unread."""
        return self.size + _MUCH < _LIVE * limits.held

    def count(self, limits: CallLimits, received: int, released: int) -> None:
        """Count what came of it and what waits in it; over a limit the reply cannot be finished (contract C7)."""
        self.size += received
        self.waiting += received - released
        if self.waiting > limits.held:
            raise UpstreamBroken(f"more than {limits.held} bytes of a tool call had to wait (max_held)")
        if self.size > _LIVE * limits.held:
            raise UpstreamBroken(f"a tool call has more than {_LIVE} times {limits.held} bytes (max_held)")
