"""The SQLite file that all workers share.

It holds the live page's ring, stored responses, counts for keys with a quota, and the models that servers list. Only
requests that need one of these use it; stream events never do. Nothing in it needs to outlive the service.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.errors import Unavailable
from proxy.json import Json, JsonObject, as_list, as_object, dump_json, load_json
from proxy.limits import STORE_BYTES, STORE_RESPONSES, STORE_SECONDS
from proxy.server.activity import SCHEMA as RING
from proxy.server.private_file import check_plain, lock_within, open_private

log = logging.getLogger("proxy")

# A release that changes the tables must change the name.
FILE_NAME = "shared-3.sqlite3"
MAX_MODELS = 100
# Seconds to wait for a thread or worker that is writing.
_PATIENCE = 5.0
# A quota's window in seconds.
_MINUTE = 60
_BROKEN = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_SCHEMA = f"""
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
PRAGMA journal_size_limit = 4194304;
CREATE TABLE IF NOT EXISTS responses (
    owner TEXT NOT NULL, id BLOB NOT NULL, made REAL NOT NULL, size INTEGER NOT NULL,
    response BLOB NOT NULL, input BLOB NOT NULL, PRIMARY KEY (owner, id)
);
CREATE TABLE IF NOT EXISTS slots (
    name TEXT NOT NULL, worker INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (name, worker)
);
CREATE TABLE IF NOT EXISTS allowed (name TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS newest_allowed ON allowed (name, at);
CREATE TABLE IF NOT EXISTS models (name TEXT PRIMARY KEY);
{RING}
"""

# The responses beyond the limits, counted from the newest: age, count, bytes.
_EXCESS = """
DELETE FROM responses WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, made, row_number() OVER newest AS number, sum(size) OVER newest AS total
        FROM responses WINDOW newest AS (ORDER BY made DESC, rowid DESC)
    ) WHERE made < ? OR number > ? OR total > ?
)
"""
_KEPT = "owner = ? AND id = ? AND made >= ?"


class SharedFile:
    """The file at `path`. The worker's threads take turns.

    A broken file is deleted and created again when it is opened. Every method raises Unavailable if it cannot be used.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._file = -1
        self._database: sqlite3.Connection | None = None
        self._failed = False
        self._owed: Counter[str] = Counter()
        weakref.finalize(self, self._opened.close)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one transaction. The first statement that writes locks out other workers."""
        if not self._turn.acquire(timeout=_PATIENCE):
            raise Unavailable("the file that the workers share is busy; try again")
        try:
            with self._connected() as database:
                yield database
            self._failed = False
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            if not self._failed:
                log.error("the workers cannot share %s: %s", self.path, error)
            self._failed = True
            # Clients do not get the path, which str() of an OSError includes.
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise Unavailable(f"the file that the workers share cannot be used: {reason}") from error
        finally:
            self._turn.release()

    def acquire_slot(self, name: str, limit: int) -> bool:
        """Take a slot of `name` for this worker. Returns False if all workers together hold `limit` already."""
        with self.transaction() as database:
            self._change(database, name, 0)
            held = 0
            for worker, count in database.execute("SELECT worker, count FROM slots WHERE name = ?", (name,)).fetchall():
                try:
                    os.kill(worker, 0)
                    held += count
                except OSError:  # it has died
                    database.execute("DELETE FROM slots WHERE name = ? AND worker = ?", (name, worker))
            if held >= limit:
                return False
            self._change(database, name, 1)
            return True

    def release_slot(self, name: str) -> None:
        """Release a slot. If the file cannot be used now, the slot is released at the next use of the name."""
        try:
            with self.transaction() as database:
                self._change(database, name, -1)
        except Unavailable:
            self._owed[name] += 1

    def _change(self, database: sqlite3.Connection, name: str, more: int) -> None:
        owed = self._owed[name]
        change = "INSERT INTO slots VALUES (?, ?, max(0, ?)) ON CONFLICT DO UPDATE SET count = max(0, count + ?)"
        database.execute(change, (name, os.getpid(), more, more - owed))
        self._owed[name] -= owed

    def rate_limit(self, name: str, per_minute: int) -> float:
        """Count a request of `name`. Returns 0.0 if it is allowed, else the seconds until another one can be.

        The window slides over 60 seconds of a clock that all workers share.
        """
        now = time.monotonic()
        with self.transaction() as database:
            database.execute("DELETE FROM allowed WHERE name = ? AND at <= ?", (name, now - _MINUTE))
            query = "SELECT at FROM allowed WHERE name = ? ORDER BY at DESC LIMIT 1 OFFSET ?"
            last = database.execute(query, (name, per_minute - 1)).fetchone()
            if last is None:
                database.execute("INSERT INTO allowed VALUES (?, ?)", (name, now))
                return 0.0
            return float(last[0] + _MINUTE - now)

    def listed_models(self, names: Iterable[str]) -> frozenset[str]:
        """Add the names that servers list now, and return all names listed so far, up to MAX_MODELS."""
        add = f"INSERT OR IGNORE INTO models SELECT ? WHERE (SELECT count(*) FROM models) < {MAX_MODELS}"
        with self.transaction() as database:
            database.executemany(add, [(name,) for name in sorted(names)])
            return frozenset(name for (name,) in database.execute("SELECT name FROM models"))

    def _connected(self) -> sqlite3.Connection:
        if self._database is not None and self._is_in_place():
            return self._database
        self._disconnect()
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                check_plain(os.lstat(self.path + suffix))
        # The descriptor stays open as long as the connection: closing it drops SQLite's locks on the file.
        self._file = open_private(self.path, os.O_RDWR)
        self._opened.callback(os.close, self._file)
        # One worker at a time creates the tables, and replaces a broken file.
        lock_within(self._file, _PATIENCE)
        if not self._is_in_place():
            return self._connected()
        database = sqlite3.connect(
            self.path, timeout=_PATIENCE, check_same_thread=False, isolation_level="IMMEDIATE"
        )
        self._opened.callback(database.close)
        try:
            database.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BROKEN:
                raise
            log.error("%s is broken (%s); it is deleted and created again", self.path, error)
            for suffix in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.path + suffix)
            return self._connected()
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._database = database
        return database

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def _disconnect(self) -> None:
        self._database = None
        self._opened.close()


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """The responses of one key, kept for Responses clients that refer to them later (`store`).

    Each is kept with the whole input that led to it. The newest are kept, within the limits of count, age and size in
    `proxy/limits.py`. Every method raises Unavailable if the file cannot be used.
    """

    file: SharedFile
    owner: str

    def keep(self, response: JsonObject, items: list[Json]) -> None:
        """Store a response with its input. Raises Unavailable if they alone are larger than the store."""
        now = time.time()
        data, given = dump_json(response), dump_json(items)
        size = len(data) + len(given)
        if size > STORE_BYTES:
            log.warning("a response is not kept: it has %d bytes with its input, over %d", size, STORE_BYTES)
            raise Unavailable(f"the response has {size:,} bytes with its input; at most {STORE_BYTES:,} are kept")
        row = (self.owner, _key(str(response["id"])), now, size, data, given)
        with self.file.transaction() as database:
            # The excess goes first, so that the file never grows beyond its limit.
            database.execute(_EXCESS, (now - STORE_SECONDS, STORE_RESPONSES - 1, STORE_BYTES - size))
            database.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?)", row)

    def response(self, id_: str) -> JsonObject | None:
        """Return the response with this id, or None."""
        return as_object(self._loaded("response", id_)) or None

    def input_of(self, id_: str) -> list[Json]:
        """Return the input items of the response with this id."""
        return as_list(self._loaded("input", id_))

    def delete(self, id_: str) -> bool:
        """Delete the response with this id, and return whether it existed."""
        with self.file.transaction() as database:
            return database.execute(f"DELETE FROM responses WHERE {_KEPT}", self._which(id_)).rowcount > 0

    def _loaded(self, column: str, id_: str) -> Json:
        with self.file.transaction() as database:
            query = f"SELECT {column} FROM responses WHERE {_KEPT}"
            row = database.execute(query, self._which(id_)).fetchone()
        return None if row is None else load_json(row[0])

    def _which(self, id_: str) -> tuple[str, bytes, float]:
        return self.owner, _key(id_), time.time() - STORE_SECONDS


def _key(id_: str) -> bytes:
    """Return an id as bytes for SQLite: a client's id may have lone surrogates."""
    return id_.encode("utf-8", "surrogatepass")
