"""Responses kept for clients that refer to them later (`store`), in the file that all workers share.

Each response is kept with the whole input that led to it, for the key that sent the request. The newest are kept,
within the limits of count, age and size in `proxy/limits.py`.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass

from proxy.codec.json_access import as_list, as_object
from proxy.codec.json_text import Json, JsonObject, dump_json, load_json
from proxy.errors import NotKept, Unavailable
from proxy.limits import STORE_BYTES, STORE_RESPONSES, STORE_SECONDS
from proxy.worker.shared_file import SharedFile

log = logging.getLogger("proxy")

# The rows beyond the limits, counted from the newest: age, count, bytes.
_EXCESS = """
DELETE FROM responses WHERE rowid IN (
    SELECT rowid FROM (
        SELECT rowid, made, row_number() OVER newest AS number, sum(size) OVER newest AS total
        FROM responses WINDOW newest AS (ORDER BY made DESC, rowid DESC)
    ) WHERE made < ? OR number > ? OR total > ?
)
"""
_WHERE = "owner = ? AND id = ? AND made >= ?"


@dataclass(frozen=True, slots=True)
class ResponseStore:
    """The responses of one key. Every method raises NotKept if the file cannot be used."""

    file: SharedFile
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
        with self._transaction() as database:
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
        with self._transaction() as database:
            return database.execute(f"DELETE FROM responses WHERE {_WHERE}", self._which(id_)).rowcount > 0

    def _column(self, name: str, id_: str) -> bytes | None:
        with self._transaction() as database:
            query = f"SELECT {name} FROM responses WHERE {_WHERE}"
            row = database.execute(query, self._which(id_)).fetchone()
        return None if row is None else row[0]

    def _which(self, id_: str) -> tuple[str, bytes, float]:
        return self.owner, _key(id_), time.time() - STORE_SECONDS

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self.file.transaction() as database:
                yield database
        except Unavailable as error:
            reason = error.message.partition(": ")[2] or error.message
            raise NotKept(f"this server cannot use the file in which it keeps responses: {reason}") from error


def _key(id_: str) -> bytes:
    """Return an id as SQLite takes it: a client's may have lone surrogates."""
    return id_.encode("utf-8", "surrogatepass")
