"""The memory that all workers of one master share: the rules in force, as text, with the files of keys that go with
them, what was wrong with newer ones, and the numbers that all of them count (`worker/shared_counters.py`).

gunicorn's master makes it before it forks (`server/workers_memory.py`); without one a worker has its own. Reading takes
no lock: what is written goes into the half of a cell that is not in force, and one number says which half is. A process
that is killed while it writes leaves what was there before.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from proxy.worker.shared_counters import SharedCounters, SharedLock, numbers_of

# The master makes it of this size: two numbers, the rules with their path and keys, one line of text, what was
# learnt of the models, and the counters.
# Only the pages that are used take memory. A release that lays it out in another way must give it another size: by that
# a reload tells that it needs a new one.
SIZE = 48 * 1024 * 1024

# Native order and alignment.
_NUMBER = struct.Struct("Q")
# How often the master asked for the file to be read, and the last of those that was done.
_REQUESTED, _ACKNOWLEDGED = 0, 8
_RULES, _MAX_RULES = 64, 2 * (256 + 16) * 1024
_ERROR, _MAX_ERROR = 1100 * 1024, 8 * 1024
_LESSONS, _MAX_LESSONS = 1120 * 1024, 32 * 1024
_COUNTERS = 1200 * 1024
_DIGEST = 16
_TRIES = 1000
# The byte of the file that `Memory.locked` locks; the counters lock others.
_LOCK = 0


@dataclass(frozen=True, slots=True)
class Published:
    """The files in force: the text of the rules and where it is from, and the bytes of `KeyFiles`."""

    generation: int = 0
    text: bytes = b""
    source: str = ""
    keys: tuple[bytes, ...] = ()


class Memory:
    """Rules text, its generation, and the error of a newer file. `fd` is the master's; None is a memory of its own."""

    def __init__(self, fd: int | None = None) -> None:
        self._map = mmap.mmap(-1 if fd is None else fd, SIZE)
        self._numbers = numbers_of(self._map)
        self._rules = _Cell(self._map, _RULES, _MAX_RULES)
        self._error = _Cell(self._map, _ERROR, _MAX_ERROR)
        self._lessons = _Cell(self._map, _LESSONS, _MAX_LESSONS)
        self._lock = SharedLock(fd, _LOCK)
        self.counters = SharedCounters(self._map, _COUNTERS, fd)

    def locked(self) -> SharedLock:
        """One thread of one worker at a time reads the file and writes here; the lock of one that dies is free."""
        return self._lock

    def generation(self) -> int:
        """The number of times that rules were published. Cheap: asked before each request."""
        return self._rules.number()

    def published(self) -> Published:
        """The files that were published last; before that empty ones."""
        number, data = self._rules.read()
        if not number:
            return Published()
        source, text, *keys = _unframed(data)
        return Published(number, text, os.fsdecode(source), tuple(keys))

    def publish(self, text: bytes, source: str, keys: Sequence[bytes] = ()) -> None:
        """Put these rules and keys in force, which have no error; only while `locked`. ValueError: too long."""
        self._rules.write(_framed((os.fsencode(source), text, *keys)))
        self.fail("")

    def fail(self, message: str) -> None:
        """Note why the newer rules are not in force ("": they are); only while `locked`."""
        self._error.write(message.encode("utf-8", "replace")[:_MAX_ERROR])

    def error(self) -> str:
        """Why the newer rules are not in force, or ""."""
        return self._error.read()[1].decode("utf-8", "ignore")

    def teach(self, data: bytes) -> bool:
        """Keep what was learnt, in place of what was; only while `locked`. False if it is too long."""
        if len(data) > _MAX_LESSONS:
            return False
        self._lessons.write(data)
        return True

    def times_taught(self) -> int:
        """The number of changes of the lessons. Cheap: asked with each request."""
        return self._lessons.number()

    def lessons(self) -> tuple[int, bytes]:
        """The number of changes of the lessons, and their bytes."""
        return self._lessons.read()

    def reload_requested(self) -> int:
        """The number of the reload that the master asked for by SIGHUP, 0 if none is due; for `acknowledge_reload`."""
        requested = self._number(_REQUESTED)
        return requested if requested != self._number(_ACKNOWLEDGED) else 0

    def acknowledge_reload(self, requested: int) -> None:
        """The file was read for the reload of this number; only while `locked`."""
        self._numbers[_ACKNOWLEDGED // _NUMBER.size] = requested

    def _number(self, offset: int) -> int:
        number: int = _NUMBER.unpack_from(self._map, offset)[0]
        return number


class _Cell:
    """Bytes with a number that counts their changes, in two halves; the number's parity says which one holds.

    A half is a digest, the length, and the bytes. The digest, over the number too, tells a half that is being written.
    """

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        self._map = memory
        self._numbers = numbers_of(memory)
        self._offset = offset
        self._capacity = capacity

    def number(self) -> int:
        """The number of times that the bytes were written."""
        number: int = _NUMBER.unpack_from(self._map, self._offset)[0]
        return number

    def read(self) -> tuple[int, bytes]:
        """The number and the bytes. They are never torn: RuntimeError if, in a second, they were never whole."""
        for _ in range(_TRIES):
            number = self.number()
            if number == 0:
                return 0, b""
            at = self._half(number)
            length: int = _NUMBER.unpack_from(self._map, at + _DIGEST)[0]
            start = at + _DIGEST + _NUMBER.size
            data = self._map[start : start + min(length, self._capacity)]
            if self._map[at : at + _DIGEST] == _digest(number, data):
                return number, data
            time.sleep(0.001)
        raise RuntimeError("the memory that the workers share is damaged")

    def write(self, data: bytes) -> None:
        """Replace the bytes; ValueError if there is no room for them. One writer at a time."""
        if len(data) > self._capacity:
            raise ValueError(f"over {self._capacity} bytes")
        number = self.number() + 1
        at = self._half(number)
        start = at + _DIGEST + _NUMBER.size
        self._map[start : start + len(data)] = data
        _NUMBER.pack_into(self._map, at + _DIGEST, len(data))
        self._map[at : at + _DIGEST] = _digest(number, data)
        self._numbers[self._offset // _NUMBER.size] = number

    def _half(self, number: int) -> int:
        return self._offset + _NUMBER.size + (number % 2) * (_DIGEST + _NUMBER.size + self._capacity)


def _framed(parts: Iterable[bytes]) -> bytes:
    """The parts as one, each behind its length."""
    return b"".join(_NUMBER.pack(len(part)) + part for part in parts)


def _unframed(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        start = at + _NUMBER.size
        at = start + int(_NUMBER.unpack_from(data, at)[0])
        parts.append(data[start:at])
    return parts


def _digest(number: int, data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST, key=_NUMBER.pack(number)).digest()


def open_memory(description: str) -> Memory:
    """The memory that this process's master made, if it is in its `description` (PID:DESCRIPTOR), or one of its own."""
    pid, _, fd = description.partition(":")
    # A variable that another master's child handed on says nothing about this process's descriptors.
    return Memory(int(fd)) if pid == str(os.getppid()) and fd.isdecimal() else Memory()
