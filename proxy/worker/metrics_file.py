"""The files of prometheus-client's multiprocess mode, so that a full disk cannot kill a worker.

prometheus-client makes a file without its blocks and maps it into memory: where no block is left, writing to it is
SIGBUS, which ends the process. Here the blocks are taken first. Without them the worker counts in memory, for nobody.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

log = logging.getLogger("proxy")

# Bytes of a new file, which doubles as it fills; those of workers that have ended stay.
_FIRST_BYTES = 8 * 1024
# Bytes of an entry beside its key: the length, two numbers, and what aligns them.
_ENTRY_BYTES = 32


class MetricsFile(MmapedDict):
    """A file of numbers, all of whose blocks are taken."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        try:
            with open(filename, "ab") as file:
                os.posix_fallocate(file.fileno(), 0, max(_FIRST_BYTES, file.tell()))
        except OSError as error:
            _report(filename, error)
            # An empty one could not be read.
            with contextlib.suppress(OSError):
                os.unlink(filename)
            with open(os.memfd_create("metrics"), "rb") as memory:
                super().__init__(f"/proc/self/fd/{memory.fileno()}", read_mode)  # type: ignore[no-untyped-call]
            return
        super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        if self._used + len(key.encode()) + _ENTRY_BYTES > self._capacity:
            try:
                os.posix_fallocate(self._f.fileno(), 0, 2 * self._capacity)
            except OSError as error:
                _report(self._fname, error)
                self._go_on_in_memory()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def _go_on_in_memory(self) -> None:
        memory = open(os.memfd_create("metrics"), "r+b")  # noqa: SIM115
        memory.write(self._m[:])
        memory.flush()
        self._f.close()
        self._f, self._m = memory, mmap.mmap(memory.fileno(), self._capacity)


def _report(filename: str, error: OSError) -> None:
    log.error("%s cannot be written (%s): /metrics lacks what this worker counts", filename, error.strerror)


def use_metrics_files() -> None:
    """Let prometheus-client make files of this kind from now on."""
    values.MmapedDict = MetricsFile  # type: ignore[attr-defined]
