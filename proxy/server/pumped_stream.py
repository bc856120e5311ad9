"""The state of one stream on the pump: unsent bytes, and whether its client reads. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

# The value for "no descriptor".
NONE = -1


class State(Enum):
    """The states of a stream, by what it waits for."""

    # Faster than an enum's own hash, which is a Python function: states are looked up for every event.
    __hash__ = object.__hash__

    READY = "ready"  # its turn
    RUNNING = "running"  # nothing: the pump makes its steps
    WAITING = "waiting"  # its descriptor, or its deadline
    WRITING = "writing"  # its client, which must take the pending bytes before the next step
    ON_THREAD = "on a thread"  # a step that may block
    FINISHING = "finishing"  # its client, which must take the last bytes
    ENDED = "ended"  # nothing: a thread closes it


# The states that may follow each state.
TRANSITIONS = {
    State.READY: frozenset((State.RUNNING,)),
    State.RUNNING: frozenset(
        (State.READY, State.WAITING, State.WRITING, State.ON_THREAD, State.FINISHING, State.ENDED)
    ),
    # The lane may write more than the client takes, or find it gone. An ending worker makes each stream READY.
    State.WAITING: frozenset((State.READY, State.RUNNING, State.WRITING, State.ENDED)),
    # The client took a part, or all, or is gone.
    State.WRITING: frozenset((State.WRITING, State.RUNNING, State.ENDED)),
    State.ON_THREAD: frozenset((State.RUNNING,)),
    State.FINISHING: frozenset((State.ENDED,)),
    State.ENDED: frozenset[State](),
}


class Ending(Enum):
    """How a body ended."""

    WHOLE = "whole"  # nothing is wrong with it so far
    GONE = "gone"  # its client is gone
    BROKEN = "broken"  # the body ended with an exception


class OutBuffer:
    """The framed bytes of a body that the client has not taken.

    A stream makes no step while bytes are pending, so it never holds more than one part of its body.
    """

    def __init__(self, *, chunked: bool) -> None:
        self._chunked = chunked
        self.pending: bytes | memoryview = b""

    def __bool__(self) -> bool:
        return bool(self.pending)

    def add(self, data: bytes) -> None:
        """Add a part of the body; it must not be empty. In chunked framing, `b"So"` becomes `b"2\\r\\nSo\\r\\n"`."""
        self._append(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """Add the end of the body."""
        if self._chunked:
            self._append(b"0\r\n\r\n")

    def sent(self, size: int) -> None:
        """Remove the first `size` bytes because they were sent."""
        self.pending = b"" if size == len(self.pending) else memoryview(self.pending)[size:]

    def clear(self) -> None:
        """Drop the pending bytes."""
        self.pending = b""

    def _append(self, data: bytes) -> None:
        self.pending = bytes(self.pending) + data if self.pending else data


class Stall:
    """Detects a client that does not read.

    `unsent` is the number of bytes in the socket that the client has not taken. A slow client may read for long before
    its socket is writable again; until then only this number shows that it reads.
    """

    def __init__(self, idle: float) -> None:
        self._idle = idle
        self._unsent = 0
        self._since = 0.0

    def begin(self, unsent: int, now: float) -> None:
        """Start the time in which the client must take some bytes."""
        self._unsent, self._since = unsent, now

    def lasts(self, unsent: int, now: float) -> bool:
        """Return whether the client has taken nothing for `idle` seconds."""
        if unsent < self._unsent:
            self.begin(unsent, now)
        return now >= self._since + self._idle


class PumpedStream:
    """A response that the pump drives.

    `body` yields its parts, `wait` is its wait object (upstream/answer_wait.py) and `sock` the client's socket.
    `finish` is called once, on a thread, with whether the whole body was sent. `upstream` and `client` are the
    descriptors that the pump watches.
    """

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
        """Change the state. Raises RuntimeError if it may not follow the current one."""
        if state not in TRANSITIONS[self.state]:
            raise RuntimeError(f"a stream cannot change from {self.state.value} to {state.value}")
        self.state = state

    @property
    def is_whole(self) -> bool:
        """True while the body has not failed and the client is connected."""
        return self.ending is Ending.WHOLE

    @property
    def is_gone(self) -> bool:
        """True if the client is gone."""
        return self.ending is Ending.GONE

    @property
    def is_broken(self) -> bool:
        """True if the body ended with an exception."""
        return self.ending is Ending.BROKEN

    def lose_client(self) -> None:
        """Record that the client is gone, unless the body broke off before."""
        if self.ending is Ending.WHOLE:
            self.ending = Ending.GONE

    def break_off(self) -> None:
        """Record that the body ended with an exception, unless the client was gone before."""
        if self.ending is Ending.WHOLE:
            self.ending = Ending.BROKEN
