"""Standard error that nobody waits for: what a pipe does not take at once waits in a bounded queue, else it is lost.

gunicorn's configuration loads it by its path, so it imports nothing of the package. A thread of each process does the
writing; a process that was forked begins with a queue and a thread of its own.
"""

from __future__ import annotations

import atexit
import io
import os
import stat
import sys
import threading
import time
import warnings
from collections import deque

# Bytes that may wait in one process, and how long its end waits for them, in seconds.
MAX_WAITING = 1024 * 1024
END_SECONDS = 1.0


class LogStream(io.TextIOBase):
    """A text stream that only writes, to a descriptor. `lost` counts the writes of this process that were given up."""

    def __init__(self, fd: int, most: int = MAX_WAITING) -> None:
        super().__init__()
        self._fd = fd
        self._most = most
        self._writer = _Writer(fd, most)
        atexit.register(self.drain)

    @property
    def lost(self) -> int:
        """How many writes of this process were given up."""
        return self._writer.lost

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Always the same."""
        return "utf-8"

    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, text: str, /) -> int:
        """Hand the text over; it never waits."""
        if self._writer.pid != os.getpid():
            self._writer = _Writer(self._fd, self._most)
        self._writer.put(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def drain(self, seconds: float = END_SECONDS) -> None:
        """Wait until all is written, but no longer than so."""
        if self._writer.pid == os.getpid():
            self._writer.drain(seconds)


class _Writer:
    """The queue of one process, and the thread that writes it."""

    def __init__(self, fd: int, most: int) -> None:
        self.pid = os.getpid()
        self.lost = 0
        self._fd = fd
        self._most = most
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._full = False
        self._started = False
        # A signal's handler may log while the thread that it interrupts does.
        self._change = threading.Condition(threading.RLock())

    def put(self, data: bytes) -> None:
        with self._change:
            # Once something was lost, so is all that follows, until there is room for more than a line: the gap is one.
            self._full = self._size + len(data) > self._most or (self._full and self._size > self._most // 2)
            if self._full:
                self.lost += 1
                return
            self._waiting.append(data)
            self._size += len(data)
            if not self._started:
                self._started = True
                threading.Thread(target=self._write_all, name="log", daemon=True).start()
            self._change.notify_all()

    def drain(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        with self._change:
            while self._size and (left := until - time.monotonic()) > 0:
                self._change.wait(left)

    def _write_all(self) -> None:
        while True:
            with self._change:
                while not self._waiting:
                    self._change.wait()
                data = self._waiting[0]
            self._write(data)
            with self._change:
                self._waiting.popleft()
                self._size -= len(data)
                self._change.notify_all()

    def _write(self, data: bytes) -> None:
        """A log that cannot be written never disturbs anything."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            with self._change:
                self.lost += 1


def install() -> None:
    """From now on standard error waits for nobody, if it goes to somebody who may not read it."""
    if sys.stderr is sys.__stderr__ and may_block(2):
        # The thread that writes takes no lock that a process which is forked could need.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        sys.stderr = LogStream(2)


def drain() -> None:
    """Wait for what standard error has not written yet, but not for long: this process is about to become another."""
    if isinstance(sys.stderr, LogStream):
        sys.stderr.drain()


def may_block(fd: int) -> bool:
    """True for a pipe or a socket: somebody must read what is written there."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
