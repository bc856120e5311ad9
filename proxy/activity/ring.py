"""The ring: the newest requests of all workers in one SQLite file, bounded in number and in bytes.

The file lies in the unit's RuntimeDirectory, which is this user's alone and goes with the service. Without one the ring
is in the memory of one worker. Each process has one connection; its threads take turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from proxy.activity.record import REQUESTS, Record
from proxy.codec.json_access import as_object
from proxy.codec.json_text import JsonObject, dump_json, load_json
from proxy.errors import Unavailable

# A release that lays the file out in another way must give it another name.
FILE_NAME = "activity-1.sqlite3"
# Requests that are kept, and bytes of all that is kept of them.
MAX_REQUESTS = 500
MAX_BYTES = 32 * 1024 * 1024
# Minutes for which numbers are kept, and names of one minute.
MINUTES = 60
MAX_NAMES = 200
# Who has signed in, at most.
MAX_SESSIONS = 100
# What a worker said of its live requests holds for so many seconds.
LIVE_SECONDS = 5.0
# Seconds for which one process waits while another one writes, and for a file that another one is just making.
_PATIENCE = 5.0
_PAUSE = 0.02
# The part of SQLite's codes that says which kind of error it is.
_PRIMARY = 0xFF
_SCHEMA = """
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
CREATE TABLE IF NOT EXISTS sessions (digest BLOB PRIMARY KEY, until REAL NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Story:
    """One request of the ring: its summary and its parts by their names."""

    summary: JsonObject
    parts: dict[str, bytes]


class ActivityRing:
    """The ring in the file at `path`; "" is a memory of this process alone.

    Every method raises Unavailable, in words, where the file cannot be used. A file that is broken is made anew, and
    `lose` is told how many requests it held, as far as this process knows.
    """

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.lose: Callable[[int], None] = lambda count: None
        self._database: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._kept = 0
        self._turn = threading.Lock()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._turn:
            self._close()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def name(self) -> str:
        """A name that no other ring has: numbers of requests say something within one ring alone."""
        with self._use() as database:
            return str(database.execute("SELECT name FROM name").fetchone()[0])

    def add(self, records: Iterable[Record], now: float) -> None:
        """Keep these requests, as the newest; the oldest go."""
        counts: Counter[tuple[str, str]] = Counter()
        with self._use() as database:
            for record in records:
                _put(database, record)
                counts.update(record.counts)
            _count(database, counts, int(now // 60))
            self._kept = _trim(database, now)

    def newest(self, after: int = 0, most: int = MAX_REQUESTS) -> list[tuple[int, JsonObject]]:
        """The newest requests behind this number, the oldest of them first: each with its number."""
        with self._use() as database:
            rows = database.execute(
                "SELECT number, summary FROM requests WHERE number > ? ORDER BY number DESC LIMIT ?", (after, most)
            ).fetchall()
        return [(number, as_object(load_json(summary))) for number, summary in reversed(rows)]

    def story(self, number: int) -> Story | None:
        """One request with its parts; None if it is not there, or not any more."""
        with self._use() as database:
            found = database.execute("SELECT summary FROM requests WHERE number = ?", (number,)).fetchone()
            parts = database.execute("SELECT name, data FROM parts WHERE number = ?", (number,)).fetchall()
        if found is None:
            return None
        return Story(as_object(load_json(found[0])), dict(parts))

    def counts(self, now: float) -> list[tuple[int, str, str, int]]:
        """The counts of the last hour: minute, group, name and number, the oldest first."""
        with self._use() as database:
            return database.execute(
                "SELECT minute, kind, name, count FROM counts WHERE minute > ? ORDER BY minute, kind, name",
                (int(now // 60) - MINUTES,),
            ).fetchall()

    def show_live(self, worker: int, rows: Sequence[JsonObject], now: float) -> None:
        """Say what a worker has under way, in place of what it said before."""
        with self._use() as database:
            database.execute("DELETE FROM live WHERE at < ?", (now - LIVE_SECONDS,))
            database.execute("INSERT OR REPLACE INTO live VALUES (?, ?, ?)", (worker, now, dump_json([*rows])))

    def live(self, now: float) -> list[JsonObject]:
        """The rows of all workers' requests under way, as each wrote them last."""
        with self._use() as database:
            cells = database.execute(
                "SELECT rows FROM live WHERE at >= ? ORDER BY worker", (now - LIVE_SECONDS,)
            ).fetchall()
        lists = [load_json(rows) for (rows,) in cells]
        return [as_object(row) for rows in lists if isinstance(rows, list) for row in rows]

    def begin_session(self, digest: bytes, until: float) -> None:
        """Somebody has signed in; the oldest of too many are signed out."""
        with self._use() as database:
            database.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?)", (digest, until))
            oldest = "SELECT rowid FROM sessions ORDER BY until DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM sessions WHERE rowid IN ({oldest})", (MAX_SESSIONS,))

    def has_session(self, digest: bytes, now: float) -> bool:
        """True if who shows this has signed in."""
        with self._use() as database:
            query = "SELECT 1 FROM sessions WHERE digest = ? AND until > ?"
            return database.execute(query, (digest, now)).fetchone() is not None

    def end_session(self, digest: bytes) -> None:
        """Somebody has signed out."""
        with self._use() as database:
            database.execute("DELETE FROM sessions WHERE digest = ?", (digest,))

    @contextlib.contextmanager
    def _use(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one transaction of one thread."""
        try:
            with self._turn:
                try:
                    with self._current() as database:
                        yield database
                except sqlite3.DatabaseError as error:
                    if _is_broken(error):
                        self._remove()
                    raise
        except (sqlite3.Error, OSError, ValueError) as error:
            raise Unavailable(f"the file of the live page cannot be used: {error}") from error

    def _current(self) -> sqlite3.Connection:
        """The connection to the file that is there now: another process may have put it in the place of a broken one.
        """
        if self._file != _file_at(self.path):
            self._close()
        if self._database is not None:
            return self._database
        with _alone(self.path):
            _make(self.path)
            self._file = _file_at(self.path)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file, with all tables there."""
        self._database = sqlite3.connect(self.path or ":memory:", timeout=_PATIENCE, check_same_thread=False)
        try:
            _set_up(self._database)
        except BaseException as error:
            # A broken file stays open until `_remove` has looked at it: once it is closed, the file that another
            # process makes in its place may have its number.
            if not _is_broken(error):
                self._close()
            raise
        return self._database

    def _remove(self) -> None:
        """Remove a file that is broken, unless another process has done so; the next use makes it anew."""
        with _alone(self.path):
            # Open still, so that no other file can have its number.
            is_ours = self._file == _file_at(self.path)
            self._close()
            if not is_ours:
                return
            for end in ("", "-wal", "-shm"):
                Path(self.path + end).unlink(missing_ok=True)
        self.lose(max(1, self._kept))
        self._kept = 0


def _put(database: sqlite3.Connection, record: Record) -> None:
    summary = dump_json(record.summary)  # of many repairs it is no smaller than the parts
    row = (summary, len(summary) + sum(map(len, record.parts.values())))
    number = database.execute("INSERT INTO requests (summary, size) VALUES (?, ?)", row).lastrowid
    if record.parts:
        database.executemany(
            "INSERT INTO parts VALUES (?, ?, ?)", [(number, name, data) for name, data in record.parts.items()]
        )


def _count(database: sqlite3.Connection, counts: Mapping[tuple[str, str], int], minute: int) -> None:
    """Add to what was counted in this minute, under so many names at most; requests have two, and are always told."""
    known = {*database.execute("SELECT kind, name FROM counts WHERE minute = ?", (minute,))}
    new = (key for key in counts if key not in known and key[0] != REQUESTS)
    taken = known.union(islice(new, max(0, MAX_NAMES - len(known))))
    database.executemany(
        "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        [(minute, *key, count) for key, count in counts.items() if key in taken or key[0] == REQUESTS],
    )


def _trim(database: sqlite3.Connection, now: float) -> int:
    """Let the oldest go, until what is left is within the bounds: how many that are."""
    database.execute("DELETE FROM counts WHERE minute <= ?", (int(now // 60) - MINUTES,))
    database.execute("DELETE FROM sessions WHERE until <= ?", (now,))
    last, size, kept = 0, 0, 0
    rows = database.execute("SELECT number, size FROM requests ORDER BY number DESC")
    for number, more in rows:
        size += more
        if kept == MAX_REQUESTS or size > MAX_BYTES:
            last = number
            break
        kept += 1
    database.execute("DELETE FROM requests WHERE number <= ?", (last,))
    database.execute("DELETE FROM parts WHERE number <= ?", (last,))
    return kept


def _is_broken(error: BaseException) -> bool:
    """True if what is in the file is not the ring, and never becomes it again."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & _PRIMARY in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _file_at(path: str) -> tuple[int, int] | None:
    """Which file is there, if one is."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """No other process makes, opens or removes the file meanwhile."""
    if not path:
        yield
        return
    lock = _open(f"{path}.lock")
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _is_locked(lock):
            if time.monotonic() > deadline:
                raise TimeoutError("another process has been opening it for too long")
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    """Lock it, unless another process has."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(path: str) -> None:
    """The file, for this user alone where it is not there."""
    if path:
        os.close(_open(path))


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _set_up(database: sqlite3.Connection) -> None:
    """Make what is missing in the file."""
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = OFF")  # it does not outlive the machine's next start
    database.executescript(_SCHEMA)
    with database:
        database.execute("INSERT OR IGNORE INTO name VALUES (1, ?)", (secrets.token_hex(8),))


def place_of(folder: str) -> str:
    """The path of the file in a folder."""
    return str(Path(folder) / FILE_NAME)
