"""The state of one stream on the pump: unsent bytes, and whether its client reads. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

# The value for "no descriptor".
NONE = -1


class State(Enum):
    """The states of a stream, by what it waits for."""

    READY = "ready"  # its turn
    RUNNING = "running"  # nothing: the pump makes its steps
    WAITING = "waiting"  # its descriptor, or its deadline
    WRITING = "writing"  # its client, which must take the pending bytes before the next step
    ON_THREAD = "on a thread"  # a step that may block
    FINISHING = "finishing"  # its client, which must take the last bytes
    ENDED = "ended"  # nothing: a thread closes it


class PumpedStream:
    """A response that the pump drives.

    `body` yields its parts, `wait` is its wait object (upstream/answer_wait.py) and `sock` the client's socket.
    `finish` is called once, on a thread, with whether the whole body was sent. `upstream` and `client` are the
    descriptors that the pump watches.

    `is_gone`: the client is gone. `is_broken`: the body ended with an exception.

    `pending` are the framed bytes that the client has not taken. A stream makes no step while there are any, so it
    never holds more than one part of its body. A client that has taken nothing for `idle` seconds does not read:
    `unsent` is the number of bytes that were last seen in its socket, and `taken_at` the time of the last change.
    """

    def __init__(
        self, body: Iterator[bytes], wait: Any, sock: Any, finish: Callable[[bool], None], *, chunked: bool, idle: float
    ) -> None:
        self.body = body
        self.wait = wait
        self.sock = sock
        self.finish = finish
        self.chunked = chunked
        self.idle = idle
        self.pending: bytes | memoryview = b""
        self.unsent = 0
        self.taken_at = 0.0
        self.state = State.READY
        self.upstream = NONE
        self.client = NONE
        self.is_gone = False
        self.is_broken = False

    def add(self, data: bytes) -> None:
        """Add a part of the body, which must not be empty. In chunked framing, `b"So"` becomes `b"2\\r\\nSo\\r\\n"`."""
        framed = b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data
        self.pending = bytes(self.pending) + framed

    def add_end(self) -> None:
        """Add the end of the body."""
        if self.chunked:
            self.pending = bytes(self.pending) + b"0\r\n\r\n"

    @property
    def is_whole(self) -> bool:
        """True while the body has not failed and the client is connected."""
        return not (self.is_gone or self.is_broken)
