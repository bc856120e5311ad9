"""A log that no process reads blocks nothing: the queue drops lines and reports how many."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.server.log_queue import MAX_LINES, LogQueue, may_block
from tests.support.scripted import PATIENCE


@contextmanager
def pipe(size: int = 4096) -> Iterator[tuple[int, int]]:
    """Yield both ends of a small pipe.

    The write end stays open at /dev/null: a thread with waiting lines continues to write to this descriptor and must
    not write into the next test's pipe.
    """
    end, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, size)
    try:
        yield end, write
    finally:
        os.close(end)
        with open(os.devnull, "wb") as nobody:
            os.dup2(nobody.fileno(), write)


def record(number: int) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "", 0, "%s", (f"{number:99}",), None)


def test_lines_that_do_not_fit_are_dropped_counted_and_reported() -> None:
    with pipe() as (end, write):
        handler = LogQueue(write)
        began = time.monotonic()
        for number in range(2 * MAX_LINES):
            handler.handle(record(number))
        assert time.monotonic() - began < PATIENCE
        lost = handler.lost
        assert MAX_LINES // 2 < lost <= MAX_LINES
        with os.fdopen(os.dup(end)) as lines:
            kept = [lines.readline() for _ in range(2 * MAX_LINES - lost)]
            assert [int(line) for line in kept] == list(range(len(kept)))
            handler.handle(record(7))
            assert lines.readline() == f"{lost} lines of the log were lost because they were not read\n"
            assert int(lines.readline()) == 7 and handler.lost == lost
        handler._end()


def test_only_pipes_may_block() -> None:
    with pipe() as (end, write), open(os.devnull, "wb") as null:
        assert may_block(write) and may_block(end) and not may_block(null.fileno())
    assert not may_block(9999)
