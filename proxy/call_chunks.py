"""Chunks that hold nothing but pieces of structured calls: they leave as they came if nothing of them is changed (C1).

A piece may have to wait: a call opens with the first byte of its first value, and a mark that could end a string waits
for what follows it. Until that is told the chunks wait with it, whole. If all of their bytes leave unchanged then, they
leave as the very bytes that came; else what of them may leave is written anew, with what else the chunks say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from .events import CallArguments, CallOpened, Chunk, Event, Passed, with_rest
from .pending import Pending

# More chunks than this do not wait to leave as they came: each holds far more bytes than its piece of a call.
MAX_WAITING = 64


class Pieces(Enum):
    """What became of the pieces of calls in one chunk."""

    # All of them left, byte for byte, and so did all that came before them.
    LEFT = auto()
    # They are in order; some wait, and none of them left but before the end of a call.
    WAIT = auto()
    # They left in another shape than they came, or in part.
    CHANGED = auto()


@dataclass(frozen=True, slots=True)
class Piece:
    """One delta of a chunk: the call it belongs to, whether it is its first one, and its fragment of the arguments."""

    call: Pending
    opens: bool
    fragment: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A chunk that waits, and what it says once its calls are open."""

    chunk: Chunk
    said: Sequence[Piece]


class CallChunks:
    """The chunks of one choice that wait. Every event of its calls goes through here, in order."""

    def __init__(self, choice: int) -> None:
        self._choice = choice
        self._waiting: list[_Waiting] = []
        # What of the waiting chunks may leave already.
        self._given: list[Event] = []
        # True while a part of a chunk waits of which another part has left.
        self._parted = False

    def take(self, chunk: Chunk, said: Sequence[Piece], pieces: Pieces, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """The next chunk; give the events that leave. `events` are what its pieces let go."""
        if self._parted or pieces is Pieces.CHANGED or len(self._waiting) >= MAX_WAITING:
            return self.beside(pieces, with_rest(self._choice, events, chunk))
        self._waiting.append(_Waiting(chunk, said))
        if pieces is Pieces.LEFT:
            return self._passed()
        self._given += events
        return ()

    def beside(self, pieces: Pieces, events: Sequence[Event]) -> tuple[Event, ...]:
        """The events of pieces that came in a chunk beside other things, and leave by themselves."""
        given = self.give_up()
        self._parted = pieces is not Pieces.LEFT
        return (*given, *events)

    def end(self, events: Iterable[Event], *, left: bool) -> tuple[Event, ...]:
        """What leaves of earlier chunks because something else came; `left` if nothing of them waits any more."""
        if not self._waiting or not left:
            return (*self.give_up(), *events)
        others = [event for event in events if not isinstance(event, CallArguments | CallOpened)]
        return (*self._passed(), *others)

    def give_up(self) -> tuple[Event, ...]:
        """What may leave of the chunks that wait, written anew."""
        given = tuple(self._given)
        for number, waiting in enumerate(self._waiting):
            if number == 0:
                given = with_rest(self._choice, given, waiting.chunk)
            else:
                given += with_rest(self._choice, (), waiting.chunk)
        self._parted = self._parted or bool(self._waiting)
        self._waiting.clear()
        self._given.clear()
        return given

    def _passed(self) -> tuple[Event, ...]:
        passed = tuple(Passed(each.chunk.raw, tuple(self._events(each.said))) for each in self._waiting)
        self._waiting.clear()
        self._given.clear()
        return passed

    def _events(self, said: Sequence[Piece]) -> Iterable[CallOpened | CallArguments]:
        for each in said:
            if each.opens:
                yield CallOpened(self._choice, each.call.index, each.call.id, each.call.name)
            if each.fragment:
                yield CallArguments(self._choice, each.call.index, each.fragment)
