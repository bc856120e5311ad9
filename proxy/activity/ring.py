"""The newest requests of all workers, bounded in number and in bytes, in the file that the workers share.

worker/shared_file.py opens that file and creates these tables.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from proxy.activity.record import REQUESTS, Record
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_json, load_json

# Requests that are kept, and bytes of everything that is kept of them.
MAX_REQUESTS = 500
MAX_BYTES = 32 * 1024 * 1024
# Minutes for which counts are kept, and names in one minute.
MINUTES = 60
MAX_NAMES = 200
# Sessions at the live page.
MAX_SESSIONS = 100
# Seconds for which a worker's list of running requests is valid.
LIVE_SECONDS = 5.0
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
CREATE TABLE IF NOT EXISTS counts (
    minute INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (minute, kind, name)
);
CREATE TABLE IF NOT EXISTS name (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL);
INSERT OR IGNORE INTO name VALUES (1, lower(hex(randomblob(8))));
CREATE TABLE IF NOT EXISTS sessions (digest BLOB PRIMARY KEY, until REAL NOT NULL);
"""
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
class Story:
    """One request of the ring: its summary and its parts by name."""

    summary: JsonObject
    parts: dict[str, bytes]


class ActivityRing:
    """The ring. Every method raises Unavailable if the file cannot be used."""

    def __init__(self, transaction: Transaction) -> None:
        self._use = transaction

    def name(self) -> str:
        """Return a name that no other ring has; numbers of requests are unique only within one ring."""
        with self._use() as database:
            return str(database.execute("SELECT name FROM name").fetchone()[0])

    def add(self, records: Iterable[Record], now: float) -> None:
        """Add requests as the newest; the oldest are removed."""
        counts: Counter[tuple[str, str]] = Counter()
        with self._use() as database:
            for record in records:
                _put(database, record)
                counts.update(record.counts)
            _count(database, counts, int(now // 60))
            _trim(database, now)

    def newest(self, after: int = 0, most: int = MAX_REQUESTS) -> list[tuple[int, JsonObject]]:
        """Return the newest requests above the number `after`, oldest first, each with its number."""
        with self._use() as database:
            rows = database.execute(
                "SELECT number, summary FROM requests WHERE number > ? ORDER BY number DESC LIMIT ?", (after, most)
            ).fetchall()
        return [(number, as_object(load_json(summary))) for number, summary in reversed(rows)]

    def story(self, number: int) -> Story | None:
        """Return one request with its parts, or None if it is not, or no longer, in the ring."""
        with self._use() as database:
            found = database.execute("SELECT summary FROM requests WHERE number = ?", (number,)).fetchone()
            parts = database.execute("SELECT name, data FROM parts WHERE number = ?", (number,)).fetchall()
        if found is None:
            return None
        return Story(as_object(load_json(found[0])), dict(parts))

    def counts(self, now: float) -> list[tuple[int, str, str, int]]:
        """Return the counts of the last hour, oldest first: minute, group, name and number."""
        with self._use() as database:
            return database.execute(
                "SELECT minute, kind, name, count FROM counts WHERE minute > ? ORDER BY minute, kind, name",
                (int(now // 60) - MINUTES,),
            ).fetchall()

    def show_live(self, worker: int, rows: Sequence[JsonObject], now: float) -> None:
        """Replace the list of requests that a worker has running."""
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

    def begin_session(self, digest: bytes, until: float) -> None:
        """Add a session; the oldest ones beyond the limit are removed."""
        with self._use() as database:
            database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (digest, until))
            oldest = "SELECT rowid FROM sessions ORDER BY until DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM sessions WHERE rowid IN ({oldest})", (MAX_SESSIONS,))

    def has_session(self, digest: bytes, now: float) -> bool:
        """Return whether the session exists and has not expired."""
        with self._use() as database:
            query = "SELECT 1 FROM sessions WHERE digest = ? AND until > ?"
            return database.execute(query, (digest, now)).fetchone() is not None

    def end_session(self, digest: bytes) -> None:
        """Remove a session."""
        with self._use() as database:
            database.execute("DELETE FROM sessions WHERE digest = ?", (digest,))


def _put(database: sqlite3.Connection, record: Record) -> None:
    summary = dump_json(record.summary)
    row = (summary, len(summary) + sum(map(len, record.parts.values())))
    number = database.execute("INSERT INTO requests (summary, size) VALUES (?, ?)", row).lastrowid
    if record.parts:
        database.executemany(
            "INSERT INTO parts VALUES (?, ?, ?)", [(number, name, data) for name, data in record.parts.items()]
        )


def _count(database: sqlite3.Connection, counts: Mapping[tuple[str, str], int], minute: int) -> None:
    """Add to the counts of this minute, for at most MAX_NAMES names; requests have two names and always count."""
    known = {*database.execute("SELECT kind, name FROM counts WHERE minute = ?", (minute,))}
    new = (key for key in counts if key not in known and key[0] != REQUESTS)
    taken = known.union(islice(new, max(0, MAX_NAMES - len(known))))
    database.executemany(
        "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        [(minute, *key, count) for key, count in counts.items() if key in taken or key[0] == REQUESTS],
    )


def _trim(database: sqlite3.Connection, now: float) -> None:
    """Remove the oldest requests beyond the limits, and counts and sessions that have expired."""
    database.execute("DELETE FROM counts WHERE minute <= ?", (int(now // 60) - MINUTES,))
    database.execute("DELETE FROM sessions WHERE until <= ?", (now,))
    database.execute(_EXCESS, (MAX_REQUESTS, MAX_BYTES))
    database.execute("DELETE FROM parts WHERE number NOT IN (SELECT number FROM requests)")
