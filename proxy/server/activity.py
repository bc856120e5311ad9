"""The live page's data: the requests of all workers, in the file that the workers share.

The ring holds the newest requests that have ended, bounded in number and in bytes. server/shared_file.py opens the file
and creates the tables.

One thread writes, a few times per second, because it takes the interpreter's lock from the streams each time it wakes.
Other threads put records in a bounded queue and continue. Records that do not fit, or cannot be written, are lost and
counted.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.errors import Unavailable
from proxy.json import JsonObject, as_object, as_text, dump_json, load_json

log = logging.getLogger("proxy")

# The number of requests in the ring, and their total bytes.
MAX_REQUESTS = 500
MAX_BYTES = 32 * 1024 * 1024
# Models that are counted by name; all others are counted together.
MAX_MODELS = 100
OTHER_MODELS = "other models"
# The results that are counted, and all counters of a model.
RESULTS = ("rescued", "rejected", "failed")
TOTALS = ("requests", "calls", *RESULTS, "tokens_in", "tokens_out")
# Records in the queue: each may hold the bodies of its request.
MAX_WAITING = 256
# Bytes of the records in the queue, except for the last one, which may have any size.
MAX_WAITING_BYTES = 64 * 1024 * 1024
# Seconds for which records are gathered before they are written.
GATHER = 0.25
# Yields the database for one transaction; raises Unavailable if the file cannot be used.
Transaction: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, summary BLOB NOT NULL, size INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS parts (
    number INTEGER NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (number, name)
);
"""
SCHEMA += f"CREATE TABLE IF NOT EXISTS totals (model TEXT PRIMARY KEY, {' INTEGER, '.join(TOTALS)} INTEGER);"
_ADD = (
    f"INSERT INTO totals VALUES (?{', ?' * len(TOTALS)}) ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in TOTALS)
)
# A request's number is the time in milliseconds, or one more than the newest number. A file that replaces a lost one
# therefore continues with higher numbers, and an open page gets its requests.
_PUT = "INSERT INTO requests SELECT max(?, ifnull(max(number), 0) + 1), ?, ? FROM requests"
# The oldest requests beyond the limits of count and bytes.
_EXCESS = """
DELETE FROM requests WHERE number <= (
    SELECT max(number) FROM (
        SELECT number, row_number() OVER newest AS place, sum(size) OVER newest AS total
        FROM requests WINDOW newest AS (ORDER BY number DESC)
    ) WHERE place > ? OR total > ?
)
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One request that has ended: a `summary`, and the `parts` of its story in order, if values may be shown."""

    summary: JsonObject
    parts: Mapping[str, bytes] = field(default_factory=dict)


def verdict(totals: Mapping[str, int]) -> str:
    """Return the results of requests in one line: "40 requests, 12 rescued, 1 rejected, 0 failed"."""
    requests = totals["requests"]
    results = (f"{totals[name]} {name}" for name in RESULTS)
    return ", ".join((f"{requests} request{'s' * (requests != 1)}", *results))


class ActivityRing:
    """The ring. Every method raises Unavailable if the file cannot be used."""

    def __init__(self, transaction: Transaction) -> None:
        self._use = transaction

    def add(self, records: Iterable[Record]) -> None:
        """Add requests as the newest; the oldest are removed."""
        with self._use() as database:
            for record in records:
                _put(database, record)
            database.execute(_EXCESS, (MAX_REQUESTS, MAX_BYTES))
            database.execute("DELETE FROM parts WHERE number NOT IN (SELECT number FROM requests)")

    def newest(self, after: int = 0) -> list[tuple[int, JsonObject]]:
        """Return the newest requests above the number `after`, oldest first, each with its number."""
        with self._use() as database:
            query = "SELECT number, summary FROM requests WHERE number > ? ORDER BY number"
            rows = database.execute(query, (after,)).fetchall()
        return [(number, as_object(load_json(summary))) for number, summary in rows]

    def record(self, number: int) -> Record | None:
        """Return one request, or None if it is not in the ring."""
        with self._use() as database:
            found = database.execute("SELECT summary FROM requests WHERE number = ?", (number,)).fetchone()
            query = "SELECT name, data FROM parts WHERE number = ? ORDER BY rowid"
            parts = dict(database.execute(query, (number,)).fetchall())
        return None if found is None else Record(as_object(load_json(found[0])), parts)

    def totals(self) -> dict[str, dict[str, int]]:
        """Return the totals of each model since the service began."""
        with self._use() as database:
            rows = database.execute("SELECT * FROM totals ORDER BY requests DESC, model").fetchall()
        return {model: dict(zip(TOTALS, numbers, strict=True)) for model, *numbers in rows}


def _put(database: sqlite3.Connection, record: Record) -> None:
    """Add a request, and add it to the totals of its model."""
    summary, data = record.summary, dump_json(record.summary)
    row = (time.time_ns() // 1_000_000, data, len(data) + sum(map(len, record.parts.values())))
    number = database.execute(_PUT, row).lastrowid
    parts = [(number, name, part) for name, part in record.parts.items()]
    database.executemany("INSERT INTO parts VALUES (?, ?, ?)", parts)
    model, tokens = as_text(summary.get("model")), as_object(summary.get("tokens"))
    query = "SELECT count(*) < ? OR max(model = ?) FROM totals"
    (named,) = database.execute(query, (MAX_MODELS, model)).fetchone()
    results = (summary.get("result") == name for name in RESULTS)
    counts = (1, summary.get("calls", 0), *results, tokens.get("prompt", 0), tokens.get("completion", 0))
    database.execute(_ADD, (model if named else OTHER_MODELS, *counts))


Make = Callable[[], Record]


class Activity:
    """The activity of one worker, in a `ring`. `lose` counts lost records."""

    def __init__(self, ring: ActivityRing, lose: Callable[[int], None], *, gather: float = GATHER) -> None:
        self.ring = ring
        self._lose, self._gather = lose, gather
        self._waiting: deque[tuple[Make, int]] = deque()
        self._bytes = 0
        self._counting, self._writing = threading.Lock(), threading.Lock()
        self._ends = threading.Event()
        self._has_logged = False
        self._thread = threading.Thread(target=self._run, name="activity", daemon=True)
        self._thread.start()

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
            try:
                if records:
                    self.ring.add(records)
                    self._has_logged = False
            except Unavailable as error:
                if not self._has_logged:
                    log.error("%s; the live page lacks these requests", error.message)
                self._has_logged = True
                self._lose(len(records))

    def close(self) -> None:
        """Write the waiting records, and stop the thread."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(self._gather):
            self.flush()
        self.flush()
