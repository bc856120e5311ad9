"""Numbers that all workers of one master share: counters, what each worker has under way, and requests per minute.

They lie in the memory that the master makes (`worker/shared_memory.py`), so that they outlive the workers: no counter
goes backwards when a worker is replaced. Each worker has a row of its own, which it holds by a lock on one byte; the
kernel lets that go when the worker dies, however it does. What it had under way then counts for nothing, what it has
counted stays, and who takes the row counts on. A counter is the sum of all rows, so that nobody waits to count.

A process opens the memory once: to close any descriptor of its file gives all locks of the process away (fcntl(2)).
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import struct
import threading
import time
from array import array
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

# Counters: how many there are, then each as the length of its name, and the name, whose parts are split so.
MAX_COUNTERS = 8192
SPLIT = "\x1f"
MAX_NAME = 240
_COUNTER = struct.Struct(f"Q{MAX_NAME}s")
# Rows: how many were ever held, then each as its number of pairs, and the pairs: the digest of a name, and a count.
MAX_ROWS = 512
MAX_HELD = 1024
_ROW = 8 + MAX_HELD * 16
# The values of a row's counters. There is one more such list, for all that find no row: they may lose a count.
_VALUES_OF_ROW = 8 * MAX_COUNTERS
_NO_ROW = MAX_ROWS
# Minutes: the digest of a name, the last second in which it was counted, and the counts of the seconds up to that.
MAX_MINUTES = 4096
_TRIED = 64
_MINUTE = 60
# One second more than a minute has: the oldest of them counts whole, so that never too much is let pass.
_SECONDS = _MINUTE + 1
_TIMES = struct.Struct(f"QQ{_SECONDS + 1}I")
# Names whose digests are known.
_MAX_DIGESTS = 1024

_NUMBER = struct.Struct("Q")
_COUNTERS = _NUMBER.size
_VALUES = _COUNTERS + MAX_COUNTERS * _COUNTER.size
_ROWS = _VALUES + (MAX_ROWS + 1) * _VALUES_OF_ROW
_MINUTES = _ROWS + _NUMBER.size + MAX_ROWS * _ROW
SIZE = _MINUTES + MAX_MINUTES * _TIMES.size

# Bytes of the file that are locked; they need not be there.
_LOCK = 1
_PAUSE = 0.001
_FIRST_ROW = 1024


def numbers_of(memory: mmap.mmap) -> memoryview[int]:
    """A memory as numbers of eight bytes. What is written by this is written in one go: `struct` writes nothing but
    zeros first, and who reads without a lock would see them.
    """
    return memoryview(memory).cast("Q")


class SharedCounters:
    """The numbers at `offset` of a memory. `fd` is the master's; None is a memory of this process alone."""

    def __init__(self, memory: mmap.mmap, offset: int, fd: int | None = None) -> None:
        self._map = memory
        self._numbers = numbers_of(memory)
        self._offset = offset
        self._lock = SharedLock(fd, _LOCK)
        self._fd = fd
        # The places of the counters, in their order, and their values in this worker's row.
        self._places: dict[str, int] = {}
        self._own: memoryview[float] | None = None
        self._adding = threading.Lock()
        self._groups: dict[str, int] = {}
        self._row: int | None = None
        # What is in that row, in its order; who changes it has this lock, the last of all that are taken.
        self._held: dict[int, int] = {}
        self._writing = threading.Lock()

    def add(self, numbers: Mapping[str, float]) -> None:
        """Add to counters; a new name is a new counter, as long as there is room."""
        with self._adding:
            own = self._own_values()
            for name, more in numbers.items():
                place = self._places.get(name)
                if place is None:
                    place = self._new_place(name)
                if place is not None:
                    own[place] += more

    def values(self) -> dict[str, float]:
        """All counters."""
        with self._lock:
            self._learn()
            rows = [self._values(row) for row in (*range(self._number(self._offset + _ROWS)), _NO_ROW)]
            return dict(zip(self._places, map(sum, zip(*rows, strict=True)), strict=True))

    def register_label(self, name: str, most: int) -> bool:
        """Make a counter of a label, so that all workers know of it. Returns False if its group, which is what the name
        begins with up to `SPLIT`, has `most` others already.
        """
        if name in self._places:
            return True
        with self._lock:
            self._learn()
            full = name not in self._places and self._groups.get(name.partition(SPLIT)[0], 0) >= most
            return not full and self._place_of(name) is not None

    def knows(self, name: str) -> bool:
        """True if there is such a counter."""
        if name not in self._places:
            with self._lock:
                self._learn()
        return name in self._places

    def acquire_slots(self, name: str, more: int, limit: int = 0) -> bool:
        """Take `more` slots of `name` for this worker; a negative number gives slots back.

        Returns False, and takes none, if all workers together would then hold more than `limit`; 0 is no limit, and no
        other worker is waited for if this one has the name in its row.
        """
        which = _digest(name)
        if not limit and self._change_held(which, more):
            return True
        with self._lock:
            if limit and self._total(which) + more > limit:
                return False
            with self._writing:
                self._held[which] = max(0, self._held.get(which, 0) + more)
                self._write_row()
            return True

    def _change_held(self, which: int, more: int) -> bool:
        """Change what this worker holds of a name, in its row alone; False if it is not there."""
        with self._writing:
            if which not in self._held or self._row is None:
                return False
            self._held[which] = max(0, self._held[which] + more)
            place = next(number for number, each in enumerate(self._held) if each == which)
            if place < MAX_HELD:
                self._write_number(self._row_at(self._row) + 8 + 16 * place + 8, self._held[which])
            return True

    def held(self, name: str) -> int:
        """The number of `name` that the workers that live have under way, all together."""
        with self._lock:
            return self._total(_digest(name))

    def rate_limit(self, name: str, per_minute: int, seconds: float | None = None) -> float:
        """Count a request of `name`. Returns 0.0 if it is allowed, else the seconds until another try can succeed.

        The window slides over 60 seconds. `seconds` are those of a clock that all workers share.
        """
        with self._lock:
            second = int(time.monotonic() if seconds is None else seconds)
            offset = self._minute(_digest(name), second)
            counts = self._counts(offset, second)
            remaining = per_minute - sum(counts)
            if remaining > 0:
                counts[-1] += 1
                _TIMES.pack_into(self._map, offset, _digest(name), second, *counts, 0)
                return 0.0
            for at, count in enumerate(counts):
                remaining += count
                if remaining > 0:
                    return float(at + 1)
            return float(_SECONDS)

    def _own_values(self) -> memoryview[float]:
        """The values of this worker's row, of which it takes one with its first count."""
        if self._own is None:
            with self._lock, self._writing:
                self._write_row()
            start = self._values_at(_NO_ROW if self._row is None else self._row)
            self._own = memoryview(self._map)[start : start + _VALUES_OF_ROW].cast("d")
        return self._own

    def _values(self, row: int) -> array[float]:
        """The values in a row of the counters that are known."""
        start = self._values_at(row)
        return array("d", self._map[start : start + 8 * len(self._places)])

    def _values_at(self, row: int) -> int:
        return self._offset + _VALUES + row * _VALUES_OF_ROW

    def _number(self, at: int) -> int:
        number: int = _NUMBER.unpack_from(self._map, at)[0]
        return number

    def _write_number(self, at: int, number: int) -> None:
        self._numbers[at // _NUMBER.size] = number

    def _new_place(self, name: str) -> int | None:
        """The place of a counter that this worker does not know yet; None if there is no room for it."""
        with self._lock:
            return self._place_of(name)

    def _place_of(self, name: str) -> int | None:
        """The place of a counter, made now if there is none; None if there is no room for it."""
        if name not in self._places:
            self._learn()
        if name not in self._places:
            data = name.encode()
            count = self._number(self._offset)
            if len(data) > MAX_NAME or count >= MAX_COUNTERS:
                return None
            # The counter before the number of them: one that is half written is none.
            offset = self._offset + _COUNTERS + count * _COUNTER.size
            _COUNTER.pack_into(self._map, offset, len(data), data)
            self._write_number(self._offset, count + 1)
            self._learn()
        return self._places[name]

    def _learn(self) -> None:
        """The counters that other workers have made."""
        for number in range(len(self._places), self._number(self._offset)):
            offset = self._offset + _COUNTERS + number * _COUNTER.size
            length, data = _COUNTER.unpack_from(self._map, offset)
            name = data[:length].decode()
            group = name.partition(SPLIT)[0]
            self._places[name] = number
            self._groups[group] = self._groups.get(group, 0) + 1

    def _write_row(self) -> None:
        """Write what this worker has under way into its row, which it takes if it has none; only within both locks."""
        if self._row is None:
            self._row = self._take_row()
            # Its counters are those of the row from now on.
            self._own = None
        if self._row is None:
            return  # more workers than there are rows: this one counts for itself alone
        self._held = {which: number for which, number in self._held.items() if number}
        pairs = array("Q", [number for pair in self._held.items() for number in pair][: 2 * MAX_HELD])
        at = self._row_at(self._row)
        self._map[at + 8 : at + 8 + 8 * len(pairs)] = pairs.tobytes()
        self._write_number(at, len(pairs) // 2)

    def _take_row(self) -> int | None:
        """A row that no worker holds; it is this one's until its process ends."""
        rows = self._offset + _ROWS
        for row in range(MAX_ROWS):
            if self._lock_row(row):
                self._write_number(self._row_at(row), 0)
                self._write_number(rows, max(self._number(rows), row + 1))
                return row
        return None

    def _lock_row(self, row: int) -> bool:
        """True if nobody else holds the row; now this worker does."""
        try:
            if self._fd is not None:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _FIRST_ROW + row)
        except OSError:
            return False
        return True

    def _row_at(self, row: int) -> int:
        return self._offset + _ROWS + _NUMBER.size + row * _ROW

    def _total(self, which: int) -> int:
        """The sum over all rows; one whose worker is dead is emptied."""
        total = self._held.get(which, 0)
        for row in range(self._number(self._offset + _ROWS)):
            at = self._row_at(row)
            pairs = self._number(at)
            if row == self._row or not pairs:
                continue
            numbers = array("Q", self._map[at + 8 : at + 8 + 16 * pairs])
            held = sum(count for key, count in zip(numbers[::2], numbers[1::2], strict=True) if key == which)
            if held and self._is_dead(row):
                self._write_number(at, 0)
            else:
                total += held
        return total

    def _is_dead(self, row: int) -> bool:
        """True if no worker holds a row of another one."""
        if not self._lock_row(row):
            return False
        if self._fd is not None:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, _FIRST_ROW + row)
        return True

    def _minute(self, which: int, second: int) -> int:
        """Where the times of a name are; one that has no place yet gets an empty one, or the one that is idle longest.

        No place is ever empty again, so that a name is never beyond one.
        """
        best, longest = 0, second + 1
        for step in range(_TRIED):
            offset = self._offset + _MINUTES + (which + step) % MAX_MINUTES * _TIMES.size
            its, last = self._number(offset), self._number(offset + _NUMBER.size)
            if its == which:
                return offset
            if last < longest:
                best, longest = offset, last
            if its == 0:
                break
        _TIMES.pack_into(self._map, best, which, second, *[0] * (_SECONDS + 1))
        return best

    def _counts(self, offset: int, second: int) -> list[int]:
        """The counts of the last seconds, the oldest first and this one last."""
        _, last, *counts, _ = _TIMES.unpack_from(self._map, offset)
        passed = min(max(0, second - last), _SECONDS)
        return counts[passed:] + [0] * passed


class SharedLock:
    """One thread of one worker at a time, by a byte of a file (none is a memory of this process alone).

    The lock of a worker that dies is free.
    """

    __slots__ = ("_byte", "_fd", "_one")

    def __init__(self, fd: int | None, byte: int) -> None:
        self._fd = fd
        self._byte = byte
        self._one = threading.Lock()

    def __enter__(self) -> None:
        self._one.acquire()
        if self._fd is None:
            return
        try:
            lock(self._fd, self._byte)
        except BaseException:
            self._one.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._fd is not None:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._byte)
        finally:
            self._one.release()


def lock(fd: int, byte: int) -> None:
    """Wait for a byte of a file that other processes lock.

    The kernel takes a process for one thread: where two of them wait for each other's, in threads of their own, it may
    see a deadlock that is none.
    """
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX, 1, byte)
            return
        except OSError as error:
            if error.errno != errno.EDEADLK:
                raise
            time.sleep(_PAUSE)


@lru_cache(maxsize=_MAX_DIGESTS)
def _digest(name: str) -> int:
    """A number for a name, never 0, which means nobody."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) | 1
