"""The responses that are kept (`store`): one SQLite file that all workers share and that outlives them.

Each response is kept with all that the model was given for it, so that going on from it needs nothing else. What is
kept belongs to the key that asked: under another key it is not there. The newest are kept, at most so many, so long,
and with so many bytes in all.

A response that is made in the background is there from its beginning. While it is, it has a row in `runs`, whose `beat`
is renewed; whoever takes that row away ends it (`cancel`, `delete`), in whichever worker it runs:

    begin ──▶ beat, beat, … ──▶ end         the row goes with the response's end
                    └─────────▶ cancel      the row goes first; the next beat finds none, and what runs is broken off
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
# Seconds after its last beat at which whoever made a response must be gone.
LOST_AFTER = 30.0
_UNDER_WAY = ("queued", "in_progress")
_LOST = "the proxy that made this response ended before the response did; ask again"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    conversation TEXT NOT NULL,
    made REAL NOT NULL,
    response BLOB NOT NULL,
    input BLOB NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE TABLE IF NOT EXISTS runs (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    beat REAL NOT NULL,
    PRIMARY KEY (owner, id)
);
CREATE INDEX IF NOT EXISTS by_age ON responses (made);
CREATE INDEX IF NOT EXISTS by_conversation ON responses (owner, conversation, made);
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

    def keep(self, response: JsonObject, items: list[Json], conversation: str) -> None:
        """Keep a response with its input, as the newest one of its conversation ("" is none)."""
        with self._open() as database:
            self._put(database, response, items, conversation)

    def _put(self, database: sqlite3.Connection, response: JsonObject, items: list[Json], conversation: str) -> None:
        now = time.time()
        row = (self.owner, response["id"], _text(conversation), now, dump_json(response), dump_json(items))
        database.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("DELETE FROM responses WHERE made < ?", (now - self.seconds,))
        oldest = "SELECT rowid FROM responses ORDER BY made DESC, rowid DESC LIMIT -1 OFFSET ?"
        database.execute(f"DELETE FROM responses WHERE rowid IN ({oldest})", (self.most,))
        self._make_room(database, str(response["id"]), len(row[4]) + len(row[5]))

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
        """The response of this id; None if there is none. One whose maker is gone has failed."""
        with self._open() as database:
            return self._read(database, id_)

    def _read(self, database: sqlite3.Connection, id_: str) -> JsonObject | None:
        now = time.time()
        row = database.execute(
            "SELECT response, beat FROM responses LEFT JOIN runs USING (owner, id) "
            "WHERE owner = ? AND id = ? AND made >= ?",
            (self.owner, _text(id_), now - self.seconds),
        ).fetchone()
        if row is None:
            return None
        response, beat = as_object(load_json(row[0])), row[1]
        if response.get("status") in _UNDER_WAY and (beat is None or beat < now - LOST_AFTER):
            return {**response, "status": "failed", "error": {"code": "server_error", "message": _LOST}}
        return response

    def begin(self, response: JsonObject, items: list[Json], conversation: str) -> None:
        """Keep a response that is about to be made in the background."""
        now = time.time()
        with self._open() as database:
            self._put(database, response, items, conversation)
            database.execute("DELETE FROM runs WHERE beat < ?", (now - self.seconds,))
            database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (self.owner, response["id"], now))

    def beat(self, id_: str) -> bool:
        """Say that the response is still being made; False if it is wanted no more."""
        with self._open() as database:
            values = (time.time(), self.owner, id_)
            return database.execute("UPDATE runs SET beat = ? WHERE owner = ? AND id = ?", values).rowcount > 0

    def change(self, response: JsonObject) -> None:
        """Keep how far a response is that is still being made, if it is wanted still."""
        with self._open() as database:
            database.execute(
                "UPDATE responses SET response = ? WHERE owner = ? AND id = ? AND EXISTS "
                "(SELECT 1 FROM runs WHERE runs.owner = responses.owner AND runs.id = responses.id)",
                (dump_json(response), self.owner, response["id"]),
            )

    def end(self, response: JsonObject, items: list[Json], conversation: str) -> None:
        """Keep a response that was made in the background, if it is wanted still."""
        with self._open() as database:
            if self._take_run(database, str(response["id"])):
                self._put(database, response, items, conversation)

    def cancel(self, id_: str) -> JsonObject | None:
        """End a response that is being made; it is given as it is then, as is one that has ended. None without one."""
        with self._open() as database:
            if self._take_run(database, id_):
                response = self._read(database, id_)
                if response is not None:
                    changed = dump_json({**response, "status": "cancelled", "error": None})
                    values = (changed, self.owner, id_)
                    database.execute("UPDATE responses SET response = ? WHERE owner = ? AND id = ?", values)
            return self._read(database, id_)

    def _take_run(self, database: sqlite3.Connection, id_: str) -> bool:
        """True for the one who takes it: then it is not being made any more."""
        return database.execute("DELETE FROM runs WHERE owner = ? AND id = ?", (self.owner, id_)).rowcount > 0

    def input_of(self, id_: str) -> list[Json]:
        """The input of the response of this id, as items; empty if there is none."""
        stored_input = self._one("SELECT input FROM responses WHERE owner = ? AND id = ? AND made >= ?", id_)
        return [] if stored_input is None else as_list(load_json(stored_input))

    def newest(self, conversation: str) -> str:
        """The id of the newest response of a conversation; "" if there is none."""
        query = "SELECT id FROM responses WHERE owner = ? AND conversation = ? AND made >= ? ORDER BY made DESC LIMIT 1"
        return str(self._one(query, conversation) or "")

    def delete(self, id_: str) -> bool:
        """Forget a response; False if there is none of this id."""
        with self._open() as database:
            self._take_run(database, id_)
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
