"""The newest requests of all workers, bounded in number and in bytes, in the file that the workers share.

server/shared_file.py opens that file and creates these tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeAlias

from proxy.json import JsonObject, as_object, as_text, dump_json, load_json

# The number of requests in the ring, and their total bytes.
MAX_REQUESTS = 500
MAX_BYTES = 32 * 1024 * 1024
# Models that are counted by name; all others are counted together.
MAX_MODELS = 100
OTHER_MODELS = "other models"
# Counters of each model, among them the results that are counted.
RESULTS = ("rescued", "rejected", "failed")
TOTALS = ("requests", "calls", *RESULTS, "tokens_in", "tokens_out")
# Seconds for which a worker's list of running requests is valid, and for which a page is open after it asked.
LIVE_SECONDS = 5.0
_PAGE = 0
# Yields the database for one transaction; raises Unavailable if the file cannot be used.
Transaction: TypeAlias = Callable[[], AbstractContextManager[sqlite3.Connection]]
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT, summary BLOB NOT NULL, size INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS parts (
    number INTEGER NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (number, name)
);
CREATE TABLE IF NOT EXISTS live (worker INTEGER PRIMARY KEY, at REAL NOT NULL, rows BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS name (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL);
INSERT OR IGNORE INTO name VALUES (1, lower(hex(randomblob(8))));
"""
SCHEMA += f"CREATE TABLE IF NOT EXISTS totals (model TEXT PRIMARY KEY, {' INTEGER, '.join(TOTALS)} INTEGER);"
_ADD = (
    f"INSERT INTO totals VALUES (?{', ?' * len(TOTALS)}) ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in TOTALS)
)
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

    def name(self) -> str:
        """Return a name that no other ring has; numbers of requests are unique only within one ring."""
        with self._use() as database:
            return str(database.execute("SELECT name FROM name").fetchone()[0])

    def add(self, records: Iterable[Record]) -> None:
        """Add requests as the newest; the oldest are removed."""
        with self._use() as database:
            for record in records:
                _put(database, record)
            database.execute(_EXCESS, (MAX_REQUESTS, MAX_BYTES))
            database.execute("DELETE FROM parts WHERE number NOT IN (SELECT number FROM requests)")

    def newest(self, after: int = 0, most: int = MAX_REQUESTS) -> list[tuple[int, JsonObject]]:
        """Return the newest requests above the number `after`, oldest first, each with its number."""
        with self._use() as database:
            rows = database.execute(
                "SELECT number, summary FROM requests WHERE number > ? ORDER BY number DESC LIMIT ?", (after, most)
            ).fetchall()
        return [(number, as_object(load_json(summary))) for number, summary in reversed(rows)]

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

    def look(self, now: float) -> None:
        """Note that a page is open."""
        self.show_live(_PAGE, (), now)

    def is_watched(self, now: float) -> bool:
        """Return whether a page is open."""
        with self._use() as database:
            query = "SELECT 1 FROM live WHERE worker = ? AND at >= ?"
            return database.execute(query, (_PAGE, now - LIVE_SECONDS)).fetchone() is not None

    def show_live(self, worker: int, rows: Sequence[JsonObject], now: float) -> None:
        """Replace the list of a worker's running requests."""
        with self._use() as database:
            database.execute("DELETE FROM live WHERE at < ?", (now - LIVE_SECONDS,))
            database.execute("INSERT OR REPLACE INTO live VALUES (?, ?, ?)", (worker, now, dump_json([*rows])))

    def live(self, now: float) -> list[JsonObject]:
        """Return the running requests of all workers, as each worker last wrote them."""
        with self._use() as database:
            cells = database.execute(
                "SELECT rows FROM live WHERE at >= ? ORDER BY worker", (now - LIVE_SECONDS,)
            ).fetchall()
        lists = [load_json(rows) for (rows,) in cells]
        return [as_object(row) for rows in lists if isinstance(rows, list) for row in rows]


def _put(database: sqlite3.Connection, record: Record) -> None:
    """Add a request, and add it to the totals of its model."""
    summary, data = record.summary, dump_json(record.summary)
    row = (data, len(data) + sum(map(len, record.parts.values())))
    number = database.execute("INSERT INTO requests (summary, size) VALUES (?, ?)", row).lastrowid
    parts = [(number, name, part) for name, part in record.parts.items()]
    database.executemany("INSERT INTO parts VALUES (?, ?, ?)", parts)
    model, tokens = as_text(summary.get("model")), as_object(summary.get("tokens"))
    query = "SELECT count(*) < ? OR max(model = ?) FROM totals"
    (named,) = database.execute(query, (MAX_MODELS, model)).fetchone()
    results = (summary.get("result") == name for name in RESULTS)
    counts = (1, summary.get("calls", 0), *results, tokens.get("prompt", 0), tokens.get("completion", 0))
    database.execute(_ADD, (model if named else OTHER_MODELS, *counts))
