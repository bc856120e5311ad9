"""The log: to standard error, as text or JSON, one line for each record, that nobody can forge.

What clients and models say is quoted by who logs it. Here nothing gets past that could begin a line or move a cursor,
and nothing that looks like a key; the lines of a traceback are indented, or all in one line of JSON.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from proxy.codec.display import escaped
from proxy.codec.secrets import masked_text
from proxy.config.load import environment
from proxy.server.log_queue import LogQueue, may_block

log = logging.getLogger("proxy")

# gunicorn's own words about what it refuses, in front of what it quotes of it: a line of the client's.
_REFUSED = re.compile(r"Invalid request from ip=[^ ]*: [A-Za-z -]*")
# The secrets of the request that a thread works on, or has worked on last.
_thread = threading.local()
_LEVELS = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class FactsRecord(logging.LogRecord):
    """A log record about some facts, whose secrets are masked already."""

    def __init__(self, level: int, message: str, event: str, facts: Mapping[str, object]) -> None:
        super().__init__(log.name, level, "", 0, message, None, None)
        self.event = event
        self.facts = facts


def set_up_logging(*, json_lines: bool = False) -> None:
    """Log to standard error; a log that cannot be written never disturbs a request."""
    logging.raiseExceptions = False
    # No line tells of these, which each record would be asked for. gunicorn's lines do tell of the process.
    logging.logThreads = logging.logMultiprocessing = False
    if not log.handlers:
        log.addHandler(LogQueue() if may_block(2) else logging.StreamHandler())
        log.propagate = False
        logging.getLogger("gunicorn.error").addFilter(redact_gunicorn)
    log.setLevel(logging.INFO)
    adjust_logging(json_lines=json_lines)


def adjust_logging(*, json_lines: bool) -> None:
    """Set the form of the lines, if the log was set up here."""
    if log.propagate:
        return
    for handler in log.handlers:
        handler.setFormatter(JsonLines() if json_lines else TextLines(_is_journal()))
    if json_lines:
        for handler in logging.getLogger("gunicorn.error").handlers:
            handler.setFormatter(JsonLines())


def log_line(message: str, *, json_lines: bool) -> str:
    """A line of the log, for who has no log yet: the process that becomes gunicorn."""
    record = logging.LogRecord("proxy", logging.INFO, "", 0, "%s", (message,), None)
    formatter = JsonLines() if json_lines else TextLines(_is_journal())
    return formatter.format(record)


def keep_secrets(secrets: tuple[str, ...]) -> None:
    """Mask these in each line that this thread logs, until it works on another request."""
    _thread.secrets = secrets


def _masked(line: str) -> str:
    return masked_text(line, getattr(_thread, "secrets", ()))


def lost_lines() -> int:
    """Return the number of lines of this worker that were dropped because standard error was not read."""
    return sum(handler.lost for handler in log.handlers if isinstance(handler, LogQueue))


def _is_journal() -> bool:
    """True if standard error is the journal itself (sd-daemon(3)): it then reads each line's level from its start."""
    try:
        about = os.fstat(2)  # sys.stderr is None if the process was started without
    except OSError:
        return False
    return environment().get("JOURNAL_STREAM") == f"{about.st_dev}:{about.st_ino}"


class TextLines(logging.Formatter):
    """`LEVEL message`; for the `journal` each line begins with the number of its level."""

    def __init__(self, journal: bool = False) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._journal = journal

    def format(self, record: logging.LogRecord) -> str:
        """The record's line, and those of its traceback."""
        start = f"<{_LEVELS.get(record.levelname, 6)}>" if self._journal else ""
        if isinstance(record, FactsRecord) and record.msg.isprintable():
            return f"{start}{record.levelname} {record.msg}"
        lines = [f"{record.levelname} {plain(record.getMessage())}"]
        lines += [f"  {plain(line)}" for line in _traceback(record).split("\n") if line]
        return "\n".join(start + line for line in lines)


class JsonLines(logging.Formatter):
    """One JSON object: time, level, what it is about (`event`), and either the facts or a `message`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as a line of ASCII."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, object] = {"time": moment.replace("+00:00", "Z"), "level": record.levelname.lower()}
        facts: Mapping[str, object] | None = getattr(record, "facts", None)
        if facts is None:
            entry |= {"event": "message", "message": record.getMessage()}
        else:
            entry |= {"event": getattr(record, "event", "message"), **facts}
        if trace := _traceback(record):
            entry["traceback"] = trace
        line = json.dumps(entry)
        return line if isinstance(record, FactsRecord) else _masked(line)


def _traceback(record: logging.LogRecord) -> str:
    return logging.Formatter().formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def plain(text: str) -> str:
    """Return the text on one line, without what looks like a key; what cannot be printed is escaped."""
    return _masked(escaped(text))


def redact_gunicorn(record: logging.LogRecord) -> bool:
    """For gunicorn's log: what it quotes of a request that it refuses, or could not answer, may hold a key."""
    if isinstance(record.msg, str) and (refused := _REFUSED.match(record.msg)):
        record.msg = refused.group().rstrip(" -")
    if isinstance(record.args, tuple):
        record.args = tuple(_without_query(arg) for arg in record.args)
    return True


def _without_query(argument: object) -> object:
    return argument.partition("?")[0] if isinstance(argument, str) and argument.startswith("/") else argument
