"""A worker's part in the live page: requests that have ended go to the ring, and while somebody looks, once a
second what is under way.

One thread writes, a few times a second at most: each time it wakes takes the interpreter's lock from the streams.
Whoever has a record leaves it in a bounded queue and goes on; what finds no room there, or cannot be written, is lost
and counted.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable

from proxy.activity.ring import ActivityRing, Record
from proxy.codec.json_text import JsonObject
from proxy.errors import Unavailable

log = logging.getLogger("proxy")

# Records that wait to be written: each may hold what was said in its request.
MAX_WAITING = 256
# Bytes of the requests that wait so, but for one, which may be of any size.
MAX_WAITING_BYTES = 64 * 1024 * 1024
# For so long, in seconds, they are gathered before they are written.
GATHER = 0.25
# How often, in seconds, the page is told of what is under way.
TICK = 1.0
# Requests under way that one worker tells of.
MAX_LIVE = 200

Make = Callable[[], Record]
Row = Callable[[], JsonObject]


class Activity:
    """The activity of one worker, in a `ring`.

    `is_watched` says whether somebody looks at the page, in whichever worker; `lose` is told how many records were
    lost.
    """

    def __init__(
        self,
        ring: ActivityRing,
        is_watched: Callable[[], bool],
        lose: Callable[[int], None],
        *,
        gather: float = GATHER,
    ) -> None:
        self.ring = ring
        self._is_watched = is_watched
        self._lose = lose
        self._gather = gather
        self._waiting: deque[tuple[Make, int]] = deque()
        self._bytes = 0
        self._counting = threading.Lock()
        self._come = threading.Event()
        self._ends = threading.Event()
        self._live: dict[int, Row] = {}
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._one = threading.Lock()
        self._writing = threading.Lock()
        self._has_logged = False
        self._is_shown = False

    def begin(self, row: Row) -> Callable[[], None]:
        """A request has begun, of which `row` tells at any time; call what is given when it has ended."""
        number = next(self._numbers)
        self._live[number] = row
        self._start()
        return lambda: self._end(number)

    def _end(self, number: int) -> None:
        self._live.pop(number, None)

    def keep(self, make: Make, size: int = 0) -> None:
        """Keep the record of `make`, which the thread that writes calls; until then `size` bytes wait with it."""
        if not self._takes(make, size):
            self._lose(1)
            return
        self._start()
        # To set what is set already wakes nobody, and takes a lock all the same.
        if not self._come.is_set():
            self._come.set()

    def _takes(self, make: Make, size: int) -> bool:
        """Let it wait, if there is room."""
        with self._counting:
            if len(self._waiting) >= MAX_WAITING or self._bytes >= MAX_WAITING_BYTES:
                return False
            self._waiting.append((make, size))
            self._bytes += size
        return True

    def flush(self) -> None:
        """Write the records that wait."""
        with self._writing:
            waiting = len(self._waiting)
            self._write([self._waiting.popleft() for _ in range(waiting)])

    def close(self) -> None:
        """The worker ends: what waits is written."""
        with self._one:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._ends.set()
            self._come.set()
            thread.join()

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._one:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="activity", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        next_look = time.monotonic() + TICK
        while not self._ends.is_set():
            if self._come.wait(max(0.0, next_look - time.monotonic())):
                self._ends.wait(self._gather)
                self._come.clear()
                self.flush()
            if time.monotonic() >= next_look:
                self._try(self._look, 0)
                next_look = time.monotonic() + TICK
        self.flush()

    def _write(self, taken: list[tuple[Make, int]]) -> None:
        if not taken:
            return
        records = []
        for make, _ in taken:
            try:
                records.append(make())
            except Exception:  # the outermost boundary: a record is never worth a request
                log.exception("what became of a request cannot be told on the live page")
                self._lose(1)
        with self._counting:
            self._bytes -= sum(size for _, size in taken)
        self._try(lambda: self.ring.add(records), len(records))

    def _look(self) -> None:
        """Publish the running requests while a live page is open. Raises Unavailable."""
        if self._is_watched():
            self.show_live()

    def show_live(self) -> None:
        """Publish the running requests, once more after the last. Raises Unavailable."""
        rows = self._rows()
        if not (rows or self._is_shown):
            return
        self._is_shown = bool(rows)
        self.ring.show_live(os.getpid(), rows, time.time())

    def _rows(self) -> list[JsonObject]:
        """The rows of the requests that are under way."""
        try:
            return [row() for row in [*self._live.values()][:MAX_LIVE]]
        except Exception:  # the outermost boundary: the thread goes on
            log.exception("what is under way cannot be told on the live page")
            return []

    def _try(self, write: Callable[[], None], records: int) -> None:
        try:
            write()
        except Unavailable as error:
            if not self._has_logged:
                log.error("%s; what it should show is lost", error.message)
            self._has_logged = True
            self._lose(records)
        else:
            self._has_logged = False
