"""Log queue: a thread writes the log, so that requests never wait for it. If the queue is full, lines are dropped."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import stat
import sys
import threading
import time
import warnings
from logging.handlers import QueueHandler
from typing import Any

from gunicorn.glogging import Logger

# The maximum number of queued lines in one process.
MAX_LINES = 1000
# Seconds that an ending process waits for the remaining lines.
END_SECONDS = 1.0


class LogQueue(QueueHandler):
    """Passes formatted records to a thread that writes them to a descriptor (default: standard error).

    `lost` counts the records of this process that were dropped because the queue was full. A line that reports them
    precedes the next record. A forked process has its own queue and thread.
    """

    def __init__(self, descriptor: int = 2) -> None:
        super().__init__(queue.Queue(MAX_LINES))
        self._descriptor = descriptor
        # Forking is safe: the writing thread holds no lock that a forked process needs.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        self._begin()
        os.register_at_fork(after_in_child=self._begin)
        atexit.register(self._end)

    def _begin(self) -> None:
        self.lost = self._reported = 0
        self._lines: queue.Queue[logging.LogRecord] = queue.Queue(MAX_LINES)
        self.queue = self._lines
        self._is_started = False

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, or drop it if the queue is full. The first record starts the thread."""
        if not self._is_started:
            self._is_started = True
            threading.Thread(target=self._write, args=(self._lines,), name="log", daemon=True).start()
        # After a loss, drop records until half of the queue is free, so that one gap is reported and not many.
        if self.lost > self._reported and self._lines.qsize() <= MAX_LINES // 2:
            words = "%d lines of the log were lost because they were not read"
            lost = logging.LogRecord("proxy", logging.WARNING, "", 0, words, (self.lost,), None)
            self._lines.put_nowait(self.prepare(lost))
            self._reported = self.lost
        try:
            if self.lost > self._reported:
                raise queue.Full
            self._lines.put_nowait(record)
        except queue.Full:
            self.lost += 1

    def _write(self, lines: queue.Queue[logging.LogRecord]) -> None:
        # A handler or sys.stderr would hold a lock, and the process would wait for it at its end.
        while True:
            data = f"{lines.get().getMessage()}\n".encode("utf-8", "backslashreplace")
            with contextlib.suppress(OSError):
                while data:
                    data = data[os.write(self._descriptor, data) :]
            lines.task_done()

    def _end(self) -> None:
        until = time.monotonic() + END_SECONDS
        while self._is_started and self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)


class QueuedLogger(Logger):
    """gunicorn's logger. It writes through a queue if standard error may block."""

    _queue: LogQueue | None = None

    def setup(self, cfg: Any) -> None:
        """Set up the log. gunicorn calls this again at each reload."""
        super().setup(cfg)
        for handler in self.error_log.handlers if may_block(2) else ():
            if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr:
                self._queue = self._queue or LogQueue()
                self._queue.setFormatter(handler.formatter)
                self._queue._gunicorn = True  # type: ignore[attr-defined]  # so that gunicorn replaces it
                self.error_log.handlers[self.error_log.handlers.index(handler)] = self._queue


def may_block(descriptor: int) -> bool:
    """Return whether writing to the descriptor may wait for a reader: it is a pipe or a socket."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
