"""Standard error that nobody waits for: what a pipe does not take at once waits in a bounded queue, else it is lost.

gunicorn's configuration loads it by its path, so it imports nothing of the package. A thread of each process does the
writing; a process that was forked begins with a queue and a thread of its own.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import os
import stat
import struct
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator

# Bytes that may wait in one process, and how long its end waits for them, in seconds.
MAX_WAITING = 1024 * 1024
END_SECONDS = 1.0


class LogStream(io.TextIOBase):
    """A text stream that only writes, to a descriptor. `lost` counts the writes of this process that were given up,
    `lost_in_all` those of all processes that have it, also of those that have ended.

    As soon as all that waited is written, a line says how many they were: `words` are those, with their end.
    """

    def __init__(self, fd: int, most: int = MAX_WAITING) -> None:
        super().__init__()
        self._fd = fd
        self._most = most
        self.words = told_as_text
        self._losses = _LostLines()
        self._writer = self._new_writer()
        atexit.register(self._end)

    @property
    def lost(self) -> int:
        """The number of writes of this process that were given up."""
        return self._writer.lost

    @property
    def lost_in_all(self) -> int:
        """The number of writes that were given up in all processes."""
        return self._losses.in_all()

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
            self._writer = self._new_writer()
        self._writer.put(text.encode("utf-8", "backslashreplace"))
        return len(text)

    def _new_writer(self) -> _Writer:
        return _Writer(self._fd, self._most, self._words, self._losses)

    def _words(self, lost: int) -> str:
        return self.words(lost)

    def _end(self) -> None:
        """The end of this process: what nobody reads in time is told by another one."""
        self.drain()
        if self._writer.pid == os.getpid():
            self._writer.leave()

    def drain(self, seconds: float = END_SECONDS) -> None:
        """Wait until all is written, but no longer than so."""
        if self._writer.pid == os.getpid():
            self._writer.drain(seconds)


class _LostLines:
    """Numbers of lost lines: of all, and of those by processes that have ended, of which nobody was told.
    The memory is shared by all processes that are forked.
    """

    _COUNT = struct.Struct("Q")
    # Where the two numbers are.
    _UNTOLD, _ALL = 0, _COUNT.size

    def __init__(self) -> None:
        self._memory = os.memfd_create("lost-lines")
        os.ftruncate(self._memory, 2 * self._COUNT.size)

    def count(self, lost: int) -> None:
        """So many more were lost."""
        self._add(self._ALL, lost)

    def in_all(self) -> int:
        """The number of lines that were lost."""
        return self._get(self._ALL)

    def leave(self, untold: int) -> None:
        """Leave so many more to be told."""
        self._add(self._UNTOLD, untold)

    def take(self) -> int:
        """Take the number of lost lines that the caller is to tell of."""
        if not self._get(self._UNTOLD):
            return 0
        with self._locked(self._UNTOLD):
            count = self._get(self._UNTOLD)
            self._set(self._UNTOLD, 0)
        return count

    def _add(self, slot: int, count: int) -> None:
        if count:
            with self._locked(slot):
                self._set(slot, self._get(slot) + count)

    def _get(self, slot: int) -> int:
        count: int = self._COUNT.unpack(os.pread(self._memory, self._COUNT.size, slot))[0]
        return count

    def _set(self, slot: int, count: int) -> None:
        os.pwrite(self._memory, self._COUNT.pack(count), slot)

    @contextlib.contextmanager
    def _locked(self, slot: int) -> Iterator[None]:
        """Against other processes; within one of them it is the caller who sees to it."""
        fcntl.lockf(self._memory, fcntl.LOCK_EX, self._COUNT.size, slot)
        try:
            yield
        finally:
            fcntl.lockf(self._memory, fcntl.LOCK_UN, self._COUNT.size, slot)


class _Writer:
    """The queue of one process, and the thread that writes it."""

    def __init__(self, fd: int, most: int, tell: Callable[[int], str], losses: _LostLines) -> None:
        self.pid = os.getpid()
        self.lost = 0
        self._reported = 0
        self._tell = tell
        self._losses = losses
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
                self._lose()
                return
            self._waiting.append(data)
            self._size += len(data)
            if not self._started:
                self._started = True
                threading.Thread(target=self._write_all, name="log", daemon=True).start()
            self._change.notify_all()

    def _lose(self, count: int = 1) -> None:
        """So many lines are lost; only within `_change`."""
        self.lost += count
        self._losses.count(count)

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
            if not self._write(data):
                with self._change:
                    self._lose()
            self._tell_losses(last=len(self._waiting) == 1)
            with self._change:
                self._waiting.popleft()
                self._size -= len(data)
                self._change.notify_all()

    def _tell_losses(self, *, last: bool) -> None:
        """Say what was lost, behind the last line that waited: whoever reads again learns it, and who reads the end."""
        if not last:
            return
        lost, before = self.lost, self._losses.take()
        count = lost - self._reported + before
        if not count:
            return
        if self._write(self._tell(count).encode("utf-8", "backslashreplace")):
            self._reported = lost
        else:
            self._losses.leave(before)

    def leave(self) -> None:
        """Leave to the other processes what this one could not tell, and did not write."""
        with self._change:
            self._lose(len(self._waiting))
            self._losses.leave(self.lost - self._reported)

    def _write(self, data: bytes) -> bool:
        """Write all of it; a log that cannot be written never disturbs anything."""
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            return False
        return True


def told_as_text(lost: int) -> str:
    """The line for a loss where nobody says it in another way."""
    return f"WARNING {lost} lines of the log were lost, for nobody read it\n"


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
