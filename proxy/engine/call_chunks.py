r"""Chunks that hold nothing but pieces of structured calls: they leave as they came if nothing of them is changed (C1).

A piece may have to wait: a call opens with the first byte of its first value, and a mark that could end a string waits
for what follows it. Until that is told the chunks wait with it, whole. If all of their bytes leave unchanged then, they
leave as the very bytes that came; else what of them may leave is written anew, with what else the chunks say.

    {"delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "read", "arguments": "{\"path\": "}}]}}
    {"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "\"a."}}]}}

The first of these waits for the second, with whose first mark the call opens; then both leave as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from proxy.engine.call_fields import CallFields, UnsaidFields
from proxy.engine.events import CallArguments, CallClosed, CallOpened, Chunk, Event, with_rest
from proxy.engine.pending_call import PendingCall

# More chunks than this do not wait to leave as they came: each holds far more bytes than its piece of a call.
MAX_WAITING = 64
MAX_WAITING_BYTES = 256 * 1024


class DeltaOutcome(Enum):
    """What became of the pieces of calls in one chunk."""

    # All of them left, byte for byte, and so did all that came before them.
    LEFT = auto()
    # They are in order; what waits are a few bytes of a call, or only its end tells whether they leave.
    NEAR = auto()
    # They are in order, and nothing of them left; they may wait for long.
    WAIT = auto()
    # They left in another shape than they came, or in part.
    CHANGED = auto()


@dataclass(frozen=True, slots=True)
class AssignedDelta:
    """One delta of a chunk: the call it belongs to, whether it is its first one, its fragment of the arguments, and its
    other fields.
    """

    call: PendingCall
    opens: bool
    fragment: str
    fields: CallFields | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A chunk that waits, and what it says once its calls are open."""

    chunk: Chunk
    assigned: Sequence[AssignedDelta]


class CallChunks:
    """The chunks of one choice that wait. Every event of its calls goes through here, in order.

    `unsaid` is what else the server says of each open call, by its index: what is written anew takes it along.
    """

    __slots__ = ("_bytes", "_choice", "_parted", "_released", "_waiting", "unsaid")

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._waiting: list[_Waiting] = []
        self._bytes = 0
        # What of the waiting chunks may leave already.
        self._released: list[Event] = []
        # Calls of which a part of a chunk has left, and the rest has not, by number.
        self._parted: dict[int, PendingCall] = {}
        self.unsaid: dict[int, UnsaidFields] = {}

    @property
    def idle(self) -> bool:
        """True if no chunk waits, nor the rest of one."""
        return not (self._waiting or self._parted)

    def take(
        self,
        chunk: Chunk,
        assigned: Sequence[AssignedDelta],
        outcome: DeltaOutcome,
        events: tuple[Event, ...],
    ) -> tuple[Event, ...]:
        """The next chunk; give the events that leave. `events` are what its deltas let go."""
        if not self._may_wait(chunk, assigned, outcome):
            return self.beside(assigned, with_rest(self._choice, events, chunk))
        self._waiting.append(_Waiting(chunk, assigned))
        self._bytes += len(chunk.raw)
        self._released += events
        if not self._all_left():
            return ()
        return self._passed()

    def _may_wait(self, chunk: Chunk, assigned: Sequence[AssignedDelta], outcome: DeltaOutcome) -> bool:
        """True if a chunk may still leave as it came, and there is room for it until then."""
        if outcome is DeltaOutcome.CHANGED:
            return False
        if outcome is DeltaOutcome.WAIT and self._released:
            return False  # what may leave of the others does not wait so long
        if len(self._waiting) >= MAX_WAITING:
            return False
        if self._bytes + len(chunk.raw) > MAX_WAITING_BYTES:
            return False
        if not self._parted:
            return True
        return not any(each.call.number in self._parted for each in assigned)

    def beside(self, assigned: Sequence[AssignedDelta], events: Sequence[Event]) -> tuple[Event, ...]:
        """The events of deltas that came in a chunk beside other things, and leave by themselves."""
        given = self._given_up()
        self._part(each.call for each in assigned)
        return self._with_fields((*given, *events))

    def end(self, events: Sequence[Event], *, unchanged: bool, final: bool = False) -> tuple[Event, ...]:
        """Return the events of earlier chunks that leave because something else came, or the reply is over (`final`).

        `unchanged`: what the events let go of the calls is what their chunks say.
        """
        if not unchanged or not self._may_pass(final):
            return self._with_fields((*self._given_up(), *events))
        indexes = {each.call.index for waiting in self._waiting for each in waiting.assigned}
        others = [event for event in events if not _is_piece(event, indexes)]
        return (*self._passed(), *self._with_fields(others))

    def _may_pass(self, final: bool) -> bool:
        """True if all chunks that wait may leave as they came."""
        if not self._waiting:
            return False
        if final:
            return True
        return self._all_left()

    def give_up(self) -> tuple[Event, ...]:
        """Return all that may leave of the chunks that wait, written anew."""
        return self._with_fields(self._given_up())

    def _given_up(self) -> tuple[Event, ...]:
        """The events of the chunks that wait, which are not forwarded any more."""
        given = tuple(self._released)
        if self._waiting:
            # All of the pieces leave with the first chunk; the others may say something else too.
            first, *others = self._waiting
            given = with_rest(self._choice, given, first.chunk)
            for waiting in others:
                given += with_rest(self._choice, (), waiting.chunk)
        self._part(each.call for waiting in self._waiting for each in waiting.assigned)
        self._clear()
        return given

    def _with_fields(self, events: Sequence[Event]) -> tuple[Event, ...]:
        """Events that are written anew, with what else the server says of their calls. No chunk waits any more."""
        released: list[Event] = []
        for event in events:
            match event:
                case CallArguments():
                    released += self._arguments_with_fields(event)
                case CallClosed():
                    released += self._last_fields(event)
                    released.append(event)
                case _:
                    released.append(event)
        return tuple(released)

    def _arguments_with_fields(self, event: CallArguments) -> list[CallArguments]:
        """A fragment with the fields of its call; one more for each field that has another value meanwhile."""
        unsaid = self.unsaid.get(event.index)
        if unsaid is None or not unsaid.waits:
            return [event]
        first, *others = unsaid.take()
        return [replace(event, fields=first), *self._fields_alone(event.index, others)]

    def _last_fields(self, event: CallClosed) -> list[CallArguments]:
        """What has not left of the fields of a call that ends."""
        unsaid = self.unsaid.get(event.index)
        if unsaid is None:
            return []
        return self._fields_alone(event.index, unsaid.take())

    def _fields_alone(self, index: int, taken: Iterable[CallFields]) -> list[CallArguments]:
        return [CallArguments(self._choice, index, "", fields=each) for each in taken if each.says_something]

    def _part(self, calls: Iterable[PendingCall]) -> None:
        """Note the calls of which a rest waits that belongs to no chunk any more."""
        known = self._parted | {call.number: call for call in calls}
        self._parted = {number: call for number, call in known.items() if not call.all_left}

    def _all_left(self) -> bool:
        return all(each.call.all_left for waiting in self._waiting for each in waiting.assigned)

    def _clear(self) -> None:
        self._waiting.clear()
        self._released.clear()
        self._bytes = 0

    def _passed(self) -> tuple[Event, ...]:
        passed = tuple(each.chunk.unchanged(tuple(self._events(each.assigned))) for each in self._waiting)
        for waiting in self._waiting:
            for each in waiting.assigned:
                if each.fields is not None:
                    each.call.fields.leave(each.fields)
        self._clear()
        return passed

    def _events(self, assigned: Sequence[AssignedDelta]) -> Iterable[CallOpened | CallArguments]:
        for each in assigned:
            if each.opens:
                yield CallOpened(self._choice, each.call.index, each.call.id, each.call.name)
            if each.fragment:
                yield CallArguments(self._choice, each.call.index, each.fragment)


def _is_piece(event: Event, indexes: set[int]) -> bool:
    return isinstance(event, CallArguments | CallOpened) and event.index in indexes
