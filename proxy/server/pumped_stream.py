"""One stream on the pump, as far as it can be told without a socket: its state, what its client has still to take, and
whether that client takes anything.

gunicorn's configuration loads it by its path, so it imports nothing of the package. It knows no sockets and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

# No descriptor.
NONE = -1


class State(Enum):
    """The thing for which a stream waits."""

    # Asked for with each event: an enum hashes by a function of Python.
    __hash__ = object.__hash__

    READY = "ready"  # its turn
    RUNNING = "running"  # nothing: the pump makes its steps
    WAITING = "waiting"  # its descriptor, or its deadline
    WRITING = "writing"  # its client, which must take what is pending before the next step
    ON_THREAD = "on a thread"  # a step that may block
    FINISHING = "finishing"  # its client, which must take the last bytes
    ENDED = "ended"  # nothing: a thread closes it


# From each state the states that may follow.
TRANSITIONS = {
    State.READY: frozenset((State.RUNNING,)),
    State.RUNNING: frozenset(
        (State.READY, State.WAITING, State.WRITING, State.ON_THREAD, State.FINISHING, State.ENDED)
    ),
    # What goes by the lane may be too much for the client, or show that it is gone; a worker that ends gives a turn.
    State.WAITING: frozenset((State.READY, State.RUNNING, State.WRITING, State.ENDED)),
    # The client took a part, or all, or is gone.
    State.WRITING: frozenset((State.WRITING, State.RUNNING, State.ENDED)),
    State.ON_THREAD: frozenset((State.RUNNING,)),
    State.FINISHING: frozenset((State.ENDED,)),
    State.ENDED: frozenset[State](),
}


class Ending(Enum):
    """How a body goes out, or went."""

    WHOLE = "whole"  # nothing is wrong with it so far
    GONE = "gone"  # its client is gone
    BROKEN = "broken"  # the body ended with an exception


class OutBuffer:
    """The bytes of a response's body, framed, that its client has not taken.

    A stream makes no step while anything is pending, so that it never holds more than one part of its body.
    """

    __slots__ = ("_chunked", "pending")

    def __init__(self, *, chunked: bool) -> None:
        self._chunked = chunked
        self.pending: bytes | memoryview = b""

    def __bool__(self) -> bool:
        return bool(self.pending)

    def add(self, data: bytes) -> None:
        """A part of the body, which is not empty. `b"So"` -> `b"2\\r\\nSo\\r\\n"`."""
        self._append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """The body has ended as it should."""
        if self._chunked:
            self._append(b"0\r\n\r\n")

    def sent(self, size: int) -> None:
        """So many bytes of what is pending were taken."""
        self.pending = b"" if size == len(self.pending) else memoryview(self.pending)[size:]

    def clear(self) -> None:
        """Nobody takes the rest."""
        self.pending = b""

    def _append(self, data: bytes) -> None:
        self.pending = bytes(self.pending) + data if self.pending else data


class Stall:
    """Tells whether a client takes anything.

    `unsent` are the bytes in its socket that it has not taken. There is room for more only once much was taken, so what
    was taken until then shows in their number alone.
    """

    __slots__ = ("_idle", "_since", "_unsent")

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._unsent = 0
        self._since = 0.0

    def begin(self, unsent: int, now: float) -> None:
        """From now on the client must take something."""
        self._unsent, self._since = unsent, now

    def lasts(self, unsent: int, now: float) -> bool:
        """True if it has taken nothing for `idle` seconds."""
        if unsent < self._unsent:
            self.begin(unsent, now)
        return now >= self._since + self._idle


class PumpedStream:
    """A response that the pump drives.

    `body` gives its parts, `wait` is what the body waits for (upstream/answer_wait.py), `sock` the client's connection.
    `finish` is called once, on a thread, with whether the body went out whole. `upstream` and `client` are the
    descriptors that the pump watches.
    """

    __slots__ = (
        *("body", "client", "ending", "finish", "out", "sock", "stall", "state", "upstream", "wait"),
    )

    def __init__(
        self, body: Iterator[bytes], wait: Any, sock: Any, finish: Callable[[bool], None], *, chunked: bool, idle: float
    ) -> None:
        self.body = body
        self.wait = wait
        self.sock = sock
        self.finish = finish
        self.out = OutBuffer(chunked=chunked)
        self.stall = Stall(idle)
        self.state = State.READY
        self.upstream = NONE
        self.client = NONE
        self.ending = Ending.WHOLE

    def move(self, state: State) -> None:
        """Go over into another state. Raises RuntimeError where that may not follow."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a stream that is {self.state.value} cannot become {state.value}")
        self.state = state

    @property
    def is_whole(self) -> bool:
        """True if nothing is wrong with its body, and its client is there."""
        return self.ending is Ending.WHOLE

    @property
    def is_gone(self) -> bool:
        """True once its client is gone."""
        return self.ending is Ending.GONE

    @property
    def is_broken(self) -> bool:
        """True once its body has ended with an exception."""
        return self.ending is Ending.BROKEN

    def lose_client(self) -> None:
        """Its client is gone: what is pending is for nobody. The first thing that goes wrong is what is told."""
        self._spoil(Ending.GONE)

    def break_off(self) -> None:
        """Its body has ended with an exception."""
        self._spoil(Ending.BROKEN)

    def _spoil(self, ending: Ending) -> None:
        if self.ending is Ending.WHOLE:
            self.ending = ending
