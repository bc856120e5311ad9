"""The responses that are kept (`store`): one SQLite file that all workers share and that outlives them.

Each response is kept with all that the model was given for it, so that going on from it needs nothing else. What is
kept belongs to the key that asked: under another key it is not there. The newest are kept, at most so many and so long.
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
CREATE INDEX IF NOT EXISTS by_age ON responses (made);
CREATE INDEX IF NOT EXISTS by_conversation ON responses (owner, conversation, made);
"""


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """What one key has in the file at `path`; at most `most` responses are there, none older than `seconds`.

    Every method raises NotKept, in words, where the file cannot be used: the disk is full, it is no such file.
    """

    path: str
    owner: str
    most: int
    seconds: float

    def keep(self, response: JsonObject, given: list[Json], conversation: str) -> None:
        """Keep a response with its input, as the newest one of its conversation ("" is none)."""
        now = time.time()
        row = (self.owner, response["id"], conversation, now, dump_json(response), dump_json(given))
        with self._open() as database:
            database.execute("INSERT OR REPLACE INTO responses VALUES (?, ?, ?, ?, ?, ?)", row)
            database.execute("DELETE FROM responses WHERE made < ?", (now - self.seconds,))
            oldest = "SELECT rowid FROM responses ORDER BY made DESC, rowid DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM responses WHERE rowid IN ({oldest})", (self.most,))

    def response(self, id_: str) -> JsonObject | None:
        """The response of this id; None if there is none."""
        found = self._one("SELECT response FROM responses WHERE owner = ? AND id = ? AND made >= ?", id_)
        return None if found is None else as_object(load_json(found))

    def given(self, id_: str) -> list[Json]:
        """The input of the response of this id, as items; empty if there is none."""
        found = self._one("SELECT input FROM responses WHERE owner = ? AND id = ? AND made >= ?", id_)
        return [] if found is None else as_list(load_json(found))

    def newest(self, conversation: str) -> str:
        """The id of the newest response of a conversation; "" if there is none."""
        query = "SELECT id FROM responses WHERE owner = ? AND conversation = ? AND made >= ? ORDER BY made DESC LIMIT 1"
        return str(self._one(query, conversation) or "")

    def delete(self, id_: str) -> bool:
        """Forget a response; False if there is none of this id."""
        with self._open() as database:
            done = database.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (self.owner, id_))
            return done.rowcount > 0

    def _one(self, query: str, value: str) -> bytes | None:
        """The first column of the first row."""
        with self._open() as database:
            row = database.execute(query, (self.owner, value, time.time() - self.seconds)).fetchone()
            return None if row is None else row[0]

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file for one transaction. It is made where it is not there, for this user alone."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(self.path, _PATIENCE)) as database:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = NORMAL")
                database.executescript(_SCHEMA)
                with database:
                    yield database
        except (sqlite3.Error, OSError, ValueError) as error:
            log.error("responses cannot be kept in %s: %s", self.path, error)
            raise NotKept(f"this server cannot use the file in which it keeps responses: {error}") from error
