"""The audit file: one line of JSON for each repair, with the text before and after it (contract C6).

All workers append to it, each reply's records under a lock of the file. logrotate may move it away at any time
(deploy/logrotate), so it is opened for each reply. Without logrotate, its size is limited.
"""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

from proxy.display import escaped
from proxy.json import dump_json
from proxy.repair.record import Repair
from proxy.secrets import masked_start
from proxy.server.private_file import lock_within, open_private

log = logging.getLogger("proxy")

# Characters of each text in a record; records of one reply.
MAX_VALUE = 10_000
MAX_RECORDS = 1000
# Fixes in a header; characters of each fix's name.
MAX_NAMES = 50
MAX_NAME = 80
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._:-]")
# Seconds that a request waits for the file's lock.
LOCK_TIMEOUT = 1.0


def lines(
    repairs: Iterable[Repair], when: float, *, id: str, model: str, client: str, secrets: tuple[str, ...] = ()
) -> bytes:
    """Return the records of one reply, one line for each repair. `when` is the time in seconds since 1970.

    The `secrets` and strings that look like keys are masked. Control characters are escaped: people read the file with
    `tail`.
    """

    def shown(text: str) -> str:
        start = masked_start(text, MAX_VALUE, secrets)
        return start if len(text) <= MAX_VALUE else f"{start}... ({len(text)} characters)"

    moment = datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    records = (
        {
            "time": moment,
            "id": id,
            "model": shown(model),
            "client": client,
            "tool": shown(repair.tool),
            "fix": repair.id,
            "before": shown(repair.before),
            "after": shown(repair.after),
            "why": shown(repair.why),
        }
        for repair in islice(repairs, MAX_RECORDS)
    )
    return b"".join(escaped(dump_json(record).decode()).encode() + b"\n" for record in records)


def total(repairs: Iterable[Repair]) -> dict[str, int]:
    """Return the number of repairs by fix id, sorted by id."""
    return dict(sorted(Counter(repair.id for repair in repairs).items()))


def as_header(repairs: Iterable[Repair]) -> str:
    """Return the totals as a header: `name:count, name:count`. Special characters in names are replaced by `_`."""
    fixes = islice(total(repairs).items(), MAX_NAMES)
    return ", ".join(f"{_NOT_PLAIN.sub('_', name[:MAX_NAME])}:{count}" for name, count in fixes)


class AuditFile:
    """The file at `path`, which never grows beyond `max_bytes`. Its methods raise nothing."""

    def __init__(self, path: str, max_bytes: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._failed = False

    def write(self, data: bytes) -> bool:
        """Append `data` in one piece, and return whether that worked. Logs a failure once. b"" only tests access."""
        try:
            self._append(data)
        except OSError as error:
            if not self._failed:
                reason = error.strerror or error
                log.error("the audit file %s cannot be written (%s); its records are lost", self.path, reason)
            self._failed = True
            return False
        self._failed = False
        return True

    def _append(self, data: bytes) -> None:
        file = open_private(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            lock_within(file, LOCK_TIMEOUT)
            size = os.fstat(file).st_size
            if size + len(data) > self._max_bytes:
                raise OSError(f"it has {size} bytes, and may have {self._max_bytes}; rotate it")
            if os.write(file, data) < len(data):
                os.ftruncate(file, size)  # a partial line would corrupt the next one
                raise OSError("no space is left for it")
        finally:
            os.close(file)
