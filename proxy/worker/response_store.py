"""The responses that are kept (`store`): one SQLite file that all workers share and that outlives them.

Each response is kept with all that the model was given for it, so that going on from it needs nothing else. What is
kept belongs to the key that asked: under another key it is not there. The newest are kept, at most so many, so long,
and with so many bytes in all.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import Json, JsonObject, dump_json, load_json
from proxy.errors import NotKept

log = logging.getLogger("proxy")

# Seconds for which one worker waits while another one writes.
_PATIENCE = 5.0
# Seconds between two tries to change a new file to another journal.
_PAUSE = 0.01
# The part of SQLite's error code that says the kind: the rest says more of it.
_PRIMARY = 0xFF
_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    made REAL NOT NULL,
    response BLOB NOT NULL,
    input BLOB NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX IF NOT EXISTS by_age ON responses (made);
"""


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """The responses of one key in the file at `path`; at most `most` responses are there, none older than `seconds`,
    and all that is in use of the file are `size` bytes.

    Every method raises NotKept, in words, where the file cannot be used: the disk is full, it is no such file. So do
    those that keep a response where that alone has more bytes.
    """

    path: str
    owner: str
    most: int
    seconds: float
    size: int

    def keep(self, response: JsonObject, items: list[Json]) -> None:
        """Keep a response with its input."""
        now = time.time()
        row = (self.owner, response["id"], now, dump_json(response), dump_json(items))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?)", row)
            database.execute("DELETE FROM responses WHERE made < ?", (now - self.seconds,))
            oldest = "SELECT rowid FROM responses ORDER BY made DESC, rowid DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM responses WHERE rowid IN ({oldest})", (self.most,))
            self._make_room(database, str(response["id"]), len(row[3]) + len(row[4]))

    def _make_room(self, database: sqlite3.Connection, newest: str, size: int) -> None:
        """Let the oldest go until all has its bytes. Raises NotKept, by which none goes, where the newest alone, which
        has so many bytes itself, has too many.
        """
        gone = 0
        while _bytes_in_use(database) > self.size:
            done = database.execute(
                "DELETE FROM responses WHERE rowid = "
                "(SELECT rowid FROM responses WHERE NOT (owner = ? AND id = ?) ORDER BY made, rowid LIMIT 1)",
                (self.owner, newest),
            )
            if size > self.size or not done.rowcount:
                log.warning("a response is not kept: it has %d bytes, and store_bytes is %d", size, self.size)
                sizes = f"{size:,} bytes, and {self.size:,} can be kept here at most"
                advice = "store: false asks for one that is not kept"
                raise NotKept(f"this response and all that was given for it have {sizes}; {advice}")
            gone += 1
        if gone:
            were = "response is" if gone == 1 else "responses are"
            log.info("%d kept %s gone, the oldest first: store_bytes is %d", gone, were, self.size)

    def response(self, id_: str) -> JsonObject | None:
        """Return the response of this id, or None if there is none."""
        stored = self._one("SELECT response FROM responses WHERE owner = ? AND id = ? AND made >= ?", id_)
        return None if stored is None else as_object(load_json(stored))

    def input_of(self, id_: str) -> list[Json]:
        """The input of the response of this id, as items; empty if there is none."""
        stored_input = self._one("SELECT input FROM responses WHERE owner = ? AND id = ? AND made >= ?", id_)
        return [] if stored_input is None else as_list(load_json(stored_input))

    def delete(self, id_: str) -> bool:
        """Forget a response; False if there is none of this id."""
        with self._open() as database:
            done = database.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (self.owner, id_))
            return done.rowcount > 0

    def _one(self, query: str, value: str) -> bytes | None:
        """The first column of the first row."""
        with self._open() as database:
            row = database.execute(query, (self.owner, _text(value), time.time() - self.seconds)).fetchone()
            return None if row is None else row[0]

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file for one transaction. It is made where it is not there, for this user alone."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as database:
                _use_wal(database)
                database.execute("PRAGMA synchronous = NORMAL")
                database.executescript(_SCHEMA)
                with database:
                    yield database
        except (sqlite3.Error, OSError, ValueError) as error:
            log.error("responses cannot be kept in %s: %s", self.path, error)
            raise NotKept(f"this server cannot use the file in which it keeps responses: {_why(error)}") from error


def _use_wal(database: sqlite3.Connection) -> None:
    """Let those that read and the one that writes not wait for each other (SQLite's documentation, "Write-Ahead
    Logging").

    Where several change a new file so at once, SQLite tells all but one of them at once that it is locked, whatever
    time-out they have: the next try finds it done.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            database.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & _PRIMARY == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)


def _bytes_in_use(database: sqlite3.Connection) -> int:
    """The bytes of the file that are used, with what this transaction does; what is free in it is used again."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (int(database.execute(f"PRAGMA {name}").fetchone()[0]) for name in names)
    return (pages - free) * size


def _why(error: Exception) -> str:
    """The message of an error without the path, which is no client's business."""
    if isinstance(error, OSError):
        return (error.strerror or type(error).__name__).lower()
    return str(error)


def _text(text: str) -> str:
    """A client's text as SQLite takes it: lone surrogates are no text there."""
    return text.encode("utf-8", "backslashreplace").decode()
