"""A log that nobody reads stops nothing: what a stream's queue holds, loses and tells."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proxy.server.log_stream import LogStream, may_block
from tests.support.scripted import PATIENCE


@contextmanager
def pipe(size: int = 4096) -> Iterator[tuple[int, int]]:
    """Both ends of a small pipe.

    The write end's number stays taken when all is done: the thread of a stream whose lines still wait goes on writing
    to it, and must not write into the next test's pipe.
    """
    end, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, size)
    try:
        yield end, write
    finally:
        os.close(end)
        with open(os.devnull, "wb") as nobody:
            os.dup2(nobody.fileno(), write)


def taken(end: int, size: int) -> bytes:
    """So many bytes of what was written."""
    found = b""
    while len(found) < size:
        found += os.read(end, size - len(found))
    return found


def test_what_is_written_comes_out_in_order() -> None:
    with pipe() as (end, write):
        stream = LogStream(write)
        lines = [f"line {number} ü\n" for number in range(2000)]
        for line in lines:
            assert stream.write(line) == len(line)
        stream.flush()
        expected = "".join(lines).encode()
        assert taken(end, len(expected)) == expected
        assert stream.lost == 0 and stream.fileno() == write and not stream.isatty() and stream.writable()


def test_what_does_not_fit_is_lost_and_counted_and_nobody_waits() -> None:
    with pipe() as (end, write):
        stream = LogStream(write, most=10_000)
        began = time.monotonic()
        for _ in range(1000):
            stream.write("x" * 99 + "\n")
        assert time.monotonic() - began < PATIENCE
        lost = stream.lost
        assert 800 < lost < 1000
        kept = taken(end, 100 * (1000 - lost))
        assert kept == (b"x" * 99 + b"\n") * (1000 - lost)
        stream.drain(PATIENCE)
        told = b"WARNING %d lines of the log were lost, for nobody read it\n" % lost
        assert taken(end, len(told)) == told
        stream.write("again\n")
        assert taken(end, 6) == b"again\n" and stream.lost == lost


def test_many_threads_write_whole_lines() -> None:
    with pipe() as (end, write):
        stream = LogStream(write)

        def say(number: int) -> None:
            for _ in range(200):
                stream.write(f"{number}" * 50 + "\n")

        threads = [threading.Thread(target=say, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        lines = taken(end, 51 * 200 * 8).decode().splitlines()
        for thread in threads:
            thread.join(PATIENCE)
    assert sorted(lines) == sorted(f"{number}" * 50 for number in range(8) for _ in range(200))


def test_a_log_that_cannot_be_written_disturbs_nothing() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        stream = LogStream(full.fileno())
        stream.write("a\n")
        stream.drain(PATIENCE)
        assert stream.lost == 1
        stream.write("b\n")
        stream.drain(PATIENCE)
        assert stream.lost == 2


def test_what_may_block() -> None:
    with pipe() as (end, write), open(os.devnull, "wb") as null:
        assert may_block(write) and may_block(end) and not may_block(null.fileno())
    assert not may_block(9999)
