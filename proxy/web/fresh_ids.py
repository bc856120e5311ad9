"""New ids, and seeds of ids: no two of them are alike, and nobody can guess one.

The kernel is asked once a process. At each system call another thread may take the interpreter's lock, and a request
that asked twice took a hundredth more of the processor.
"""

from __future__ import annotations

import os
import secrets
from hashlib import blake2b
from itertools import count

_KEY_BYTES = 32


class _FreshBytes:
    """Bytes by a key that only this process has, and a count."""

    def __init__(self) -> None:
        self._count = count()
        self.renew()

    def renew(self) -> None:
        """Take another key: a process that was forked has the one that it was forked from."""
        self._key = secrets.token_bytes(_KEY_BYTES)

    def next(self, size: int) -> bytes:
        """So many bytes, at most 64, that are like no others."""
        # One step of the interpreter: no two threads get the same number.
        number = next(self._count)
        return blake2b(b"%d" % number, digest_size=size, key=self._key).digest()


_FRESH = _FreshBytes()
os.register_at_fork(after_in_child=_FRESH.renew)


def fresh_bytes(size: int) -> bytes:
    """So many bytes, at most 64, that are like no others, and that nobody can guess."""
    return _FRESH.next(size)


def fresh_id(size: int) -> str:
    """The same as hexadecimal digits, two of each byte."""
    return fresh_bytes(size).hex()
