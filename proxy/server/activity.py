"""A worker's reports to the live page.

Each worker writes its ended requests to the ring and, once a second while a page is open, its running ones.

One thread writes, a few times per second, because it takes the interpreter's lock from the streams each time it wakes.
Other threads put records in a bounded queue and continue. Records that do not fit, or cannot be written, are lost and
counted.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from proxy.errors import Unavailable
from proxy.json import JsonObject
from proxy.server.ring import ActivityRing, Record

log = logging.getLogger("proxy")

# Records in the queue: each may hold the bodies of its request.
MAX_WAITING = 256
# Bytes of the records in the queue, except for the last one, which may have any size.
MAX_WAITING_BYTES = 64 * 1024 * 1024
# Seconds for which records are gathered before they are written.
GATHER = 0.25
# Seconds between two lists of running requests; the number of requests that a worker lists.
TICK = 1.0
MAX_LIVE = 200

Make = Callable[[], Record]
Row = Callable[[], JsonObject]


class Activity:
    """The activity of one worker, in a `ring`. `lose` counts lost records."""

    def __init__(self, ring: ActivityRing, lose: Callable[[int], None], *, gather: float = GATHER) -> None:
        self.ring = ring
        self._lose, self._gather = lose, gather
        self._waiting: deque[tuple[Make, int]] = deque()
        self._bytes = 0
        self._counting, self._writing = threading.Lock(), threading.Lock()
        self._ends = threading.Event()
        self._live: dict[Row, None] = {}
        self._has_logged = self._is_shown = False
        self._thread = threading.Thread(target=self._run, name="activity", daemon=True)
        self._thread.start()

    def begin(self, row: Row) -> Callable[[], object]:
        """Add a running request, which `row` describes whenever it is called. Return a function that removes it."""
        self._live[row] = None
        return lambda: self._live.pop(row, None)

    def keep(self, make: Make, size: int = 0) -> None:
        """Queue `make`, which the writing thread calls for the record; until then it holds `size` bytes."""
        with self._counting:
            has_room = len(self._waiting) < MAX_WAITING and self._bytes < MAX_WAITING_BYTES
            if has_room:
                self._waiting.append((make, size))
                self._bytes += size
        if not has_room:
            self._lose(1)

    def flush(self) -> None:
        """Write the waiting records."""
        with self._writing:
            taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
            records = []
            for make, _ in taken:
                try:
                    records.append(make())
                except Exception:  # the outermost boundary: a record is never worth a request
                    log.exception("the record of a request cannot be made for the live page")
                    self._lose(1)
            with self._counting:
                self._bytes -= sum(size for _, size in taken)
            if records:
                self._try(lambda: self.ring.add(records), len(records))

    def close(self) -> None:
        """Write the waiting records, and stop the thread."""
        self._ends.set()
        self._thread.join()

    def show_live(self) -> None:
        """Publish the running requests, and once an empty list after the last one has ended. Raises Unavailable."""
        try:
            rows = [row() for row in [*self._live][:MAX_LIVE]]
        except Exception:  # the outermost boundary: the thread continues
            log.exception("running requests cannot be listed for the live page")
            rows = []
        if rows or self._is_shown:
            self._is_shown = bool(rows)
            self.ring.show_live(os.getpid(), rows, time.time())

    def _run(self) -> None:
        next_look = 0.0
        while not self._ends.wait(self._gather):
            self.flush()
            if (self._live or self._is_shown) and time.monotonic() >= next_look:
                next_look = time.monotonic() + TICK
                self._try(lambda: self.show_live() if self.ring.is_watched(time.time()) else None, 0)
        self.flush()

    def _try(self, write: Callable[[], None], records: int) -> None:
        try:
            write()
        except Unavailable as error:
            if not self._has_logged:
                log.error("%s; the live page lacks these requests", error.message)
            self._has_logged = True
            self._lose(records)
        else:
            self._has_logged = False
