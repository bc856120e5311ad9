"""Logging to standard error, as text or JSON: one line for each record. Logged text cannot forge a line.

Messages quote clients and models. Here, characters that could begin a line or move a cursor are escaped, and strings
that look like keys are masked. A traceback's lines are indented, or part of the JSON line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from proxy.config.load import environment
from proxy.display import escaped
from proxy.secrets import masked_text
from proxy.server.log_queue import LogQueue, may_block

log = logging.getLogger("proxy")

# The start of gunicorn's message about a request that it rejects; a line of the request follows.
_REFUSED = re.compile(r"Invalid request from ip=[^ ]*: [A-Za-z -]*")
# The secrets of the request that a thread works on, or worked on last.
_thread = threading.local()
_LEVELS = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class FactsRecord(logging.LogRecord):
    """A log record with fields. Secrets in them are already masked."""

    def __init__(self, level: int, message: str, event: str, facts: Mapping[str, object]) -> None:
        super().__init__(log.name, level, "", 0, message, None, None)
        self.event = event
        self.facts = facts


def set_up_logging(*, json_lines: bool = False) -> None:
    """Log to standard error. Write errors do not affect requests."""
    logging.raiseExceptions = False
    # No line shows these, so they are not looked up for each record. gunicorn's lines show the process.
    logging.logThreads = logging.logMultiprocessing = False
    if not log.handlers:
        log.addHandler(LogQueue() if may_block(2) else logging.StreamHandler())
        log.propagate = False
        logging.getLogger("gunicorn.error").addFilter(redact_gunicorn)
    log.setLevel(logging.INFO)
    adjust_logging(json_lines=json_lines)


def adjust_logging(*, json_lines: bool) -> None:
    """Change the format of the lines, if `set_up_logging` has run."""
    if log.propagate:
        return
    for handler in log.handlers:
        handler.setFormatter(JsonLines() if json_lines else TextLines(_has_journal()))
    if json_lines:
        for handler in logging.getLogger("gunicorn.error").handlers:
            handler.setFormatter(JsonLines())


def keep_secrets(secrets: tuple[str, ...]) -> None:
    """Mask these secrets in each line that this thread logs, until it works on another request."""
    _thread.secrets = secrets


def _masked(line: str) -> str:
    return masked_text(line, getattr(_thread, "secrets", ()))


def lost_lines() -> int:
    """Return the number of lines of this worker that were dropped because standard error was not read."""
    return sum(handler.lost for handler in log.handlers if isinstance(handler, LogQueue))


def _has_journal() -> bool:
    """Return whether the journal reads standard error. Each line of text then starts with its level (sd-daemon(3))."""
    try:
        about = os.fstat(2)  # the descriptor, because sys.stderr is None in a process started without it
    except OSError:
        return False
    return environment().get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}"


class TextLines(logging.Formatter):
    """Format records as `LEVEL message`. For the `journal`, each line begins with the number of the level."""

    def __init__(self, journal: bool = False) -> None:
        super().__init__()
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line, and the lines of its traceback."""
        start = f"<{_LEVELS.get(record.levelname, 6)}>" if self._journal else ""
        if isinstance(record, FactsRecord) and record.msg.isprintable():
            return f"{start}{record.levelname} {record.msg}"
        lines = [f"{record.levelname} {plain(record.getMessage())}"]
        lines += [f"  {plain(line)}" for line in _traceback(record).split("\n") if line]
        return "\n".join(start + line for line in lines)


class JsonLines(logging.Formatter):
    """Format records as JSON objects: time, level, `event`, and either the fields or a `message`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of ASCII."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
        if isinstance(record, FactsRecord):
            return json.dumps({**entry, "event": record.event, **record.facts})
        entry |= {"event": "message", "message": record.getMessage()}
        if trace := _traceback(record):
            entry["traceback"] = trace
        return _masked(json.dumps(entry))


def _traceback(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def plain(text: str) -> str:
    """Return the text on one line. Secrets are masked, and unprintable characters are escaped."""
    return _masked(escaped(text))


def redact_gunicorn(record: logging.LogRecord) -> bool:
    """Remove parts of rejected or failed requests from gunicorn's log records: they may hold a key."""
    if isinstance(record.msg, str) and (refused := _REFUSED.match(record.msg)):
        record.msg = refused.group().rstrip(" -")
    if isinstance(record.args, tuple):
        record.args = tuple(
            arg.partition("?")[0] if isinstance(arg, str) and arg.startswith("/") else arg for arg in record.args
        )
    return True
