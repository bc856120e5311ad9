"""Responses kept for clients that refer to them later (`store`): one SQLite file that all workers share.

The file is in the runtime directory, which systemd keeps in memory and removes with the service. Each response is kept
with the whole input that led to it, for the key that sent the request. The newest are kept, within the limits of count,
age and size in `proxy/limits.py`.
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
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import Json, JsonObject, dump_json, load_json
from proxy.errors import NotKept
from proxy.limits import STORE_BYTES, STORE_RESPONSES, STORE_SECONDS
from proxy.worker.private_file import check_plain, lock_within, open_private

log = logging.getLogger("proxy")

FILE_NAME = "responses-1.sqlite3"
# Seconds to wait for another thread or worker that writes.
_PATIENCE = 5.0
_SETUP = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA journal_size_limit = 4194304;
CREATE TABLE IF NOT EXISTS responses (
    owner TEXT NOT NULL,
    id BLOB NOT NULL,
    made REAL NOT NULL,
    size INTEGER NOT NULL,
    response BLOB NOT NULL,
    input BLOB NOT NULL,
    PRIMARY KEY (owner, id)
);
"""
# The rows beyond the limits, counted from the newest: age, count, bytes.
_EXCESS = """
DELETE FROM responses WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, made, row_number() OVER newest AS number, sum(size) OVER newest AS total
        FROM responses WINDOW newest AS (ORDER BY made DESC, rowid DESC)
    ) WHERE made < ? OR number > ? OR total > ?
)
"""


class StoreFile:
    """The SQLite file at `path`. It is opened when a request first needs it; the worker's threads take turns."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._opened = contextlib.ExitStack()
        self._file = -1
        self._database: sqlite3.Connection | None = None
        weakref.finalize(self, self._opened.close)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the database for one transaction. Raises NotKept if the file cannot be used."""
        if not self._turn.acquire(timeout=_PATIENCE):
            log.error("responses cannot be kept in %s: other requests wait for it", self.path)
            raise NotKept("the file in which this server keeps responses is busy; try again")
        try:
            with self._connected() as database:
                yield database
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            log.error("responses cannot be kept in %s: %s", self.path, error)
            # Clients are not told the path, which str() of an OSError includes.
            reason = str(getattr(error, "strerror", None) or error).lower()
            raise NotKept(f"this server cannot use the file in which it keeps responses: {reason}") from error
        finally:
            self._turn.release()

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
        # SQLite does not wait where several workers change a new file to WAL at the same time.
        lock_within(self._file, _PATIENCE)
        database = sqlite3.connect(self.path, timeout=_PATIENCE, check_same_thread=False)
        self._opened.callback(database.close)
        database.executescript(_SETUP)
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
    """The responses of one key. Every method raises NotKept if the file cannot be used."""

    file: StoreFile
    owner: str

    def keep(self, response: JsonObject, items: list[Json]) -> None:
        """Store a response with its input. Raises NotKept if they alone are larger than the store."""
        now = time.time()
        data, given = dump_json(response), dump_json(items)
        size = len(data) + len(given)
        if size > STORE_BYTES:
            log.warning("a response is not kept: it has %d bytes with its input, over %d", size, STORE_BYTES)
            raise NotKept(f"the response has {size:,} bytes with its input; at most {STORE_BYTES:,} are kept")
        row = (self.owner, _key(str(response["id"])), now, size, data, given)
        with self.file.transaction() as database:
            # The excess goes first, so that the file never grows beyond its limit.
            database.execute(_EXCESS, (now - STORE_SECONDS, STORE_RESPONSES - 1, STORE_BYTES - size))
            database.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?)", row)

    def response(self, id_: str) -> JsonObject | None:
        """Return the response of this id, or None if there is none."""
        data = self._column("response", id_)
        return None if data is None else as_object(load_json(data))

    def input_of(self, id_: str) -> list[Json]:
        """Return the input of the response of this id, as items."""
        data = self._column("input", id_)
        return [] if data is None else as_list(load_json(data))

    def delete(self, id_: str) -> bool:
        """Delete the response of this id, and return whether there was one."""
        with self.file.transaction() as database:
            where = "owner = ? AND id = ? AND made >= ?"
            return database.execute(f"DELETE FROM responses WHERE {where}", self._which(id_)).rowcount > 0

    def _column(self, name: str, id_: str) -> bytes | None:
        query = f"SELECT {name} FROM responses WHERE owner = ? AND id = ? AND made >= ?"
        with self.file.transaction() as database:
            row = database.execute(query, self._which(id_)).fetchone()
        return None if row is None else row[0]

    def _which(self, id_: str) -> tuple[str, bytes, float]:
        return self.owner, _key(id_), time.time() - STORE_SECONDS


def _key(id_: str) -> bytes:
    """Return an id as SQLite takes it: a client's may have lone surrogates."""
    return id_.encode("utf-8", "surrogatepass")
