"""The log's format: text or JSON, one line per record, without forged lines and without keys."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from collections.abc import Iterator

import pytest

from proxy.server.logging_setup import (
    FactsRecord,
    JsonLines,
    TextLines,
    adjust_logging,
    redact_gunicorn,
    set_up_logging,
)
from tests.support.rows import rows

KEY = "sk-0123456789abcdefghij"
EVIL = [
    "a\nINFO id=1 status=200",
    "a\r\nINFO b",
    "a\x1b[2J\x1b[31mred",
    "a\x85b\u2028c\u2029d\x0b\x0c",
    "a\x00\x07\x08\x7f\x9b",
    "a\u202eevil\u2066",
    "\ud83d",
    "a\ufeffb",
]
log = logging.getLogger("proxy")
gunicorn = logging.getLogger("gunicorn.error")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Remove the handlers and filters of both loggers, and restore them afterwards."""
    before = [(each, each.handlers[:], each.filters[:], each.level, each.propagate) for each in (log, gunicorn)]
    raised = logging.raiseExceptions
    for each in (log, gunicorn):
        each.handlers, each.filters = [], []
    yield
    for each, handlers, filters, level, propagate in before:
        each.handlers, each.filters, each.propagate = handlers, filters, propagate
        each.setLevel(level)
    logging.raiseExceptions = raised


def record(message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("proxy", logging.WARNING, "", 1, message, args, None)


def failed(message: str) -> logging.LogRecord:
    made = record("it failed")
    try:
        raise ValueError(message)
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


@pytest.mark.parametrize("evil", EVIL)
def test_no_text_can_begin_a_line_or_move_the_cursor(evil: str) -> None:
    line = TextLines().format(record("said: %s", evil))
    assert line.isprintable() and line.isascii() and line.startswith("WARNING said: ")
    assert JsonLines().format(record("said: %s", evil)).isascii()
    assert json.loads(JsonLines().format(record("%s", evil)))["message"] == evil


@pytest.mark.parametrize("evil", EVIL)
def test_no_traceback_can_begin_a_line_or_move_the_cursor(evil: str) -> None:
    first, *lines = TextLines().format(failed(evil)).split("\n")
    assert first == "WARNING it failed" and all(line.startswith("  ") and line.isprintable() for line in lines)
    line = JsonLines().format(failed(evil))
    assert line.isascii() and line.isprintable() and evil in json.loads(line)["traceback"]


def test_strings_that_look_like_keys_are_masked() -> None:
    for made in (record("%s", f"x {KEY} y"), failed(KEY)):
        for form in (TextLines(), JsonLines()):
            assert KEY not in form.format(made)


@pytest.mark.parametrize("level,number", [("DEBUG", 7), ("INFO", 6), ("WARNING", 4), ("ERROR", 3)])
def test_every_line_in_the_journal_has_its_level(level: str, number: int) -> None:
    made = failed("x")
    made.levelname = level
    lines = TextLines(journal=True).format(made).split("\n")
    assert len(lines) > 2 and all(line.startswith(f"<{number}>") for line in lines)


def test_standard_error_is_the_journal_only_if_systemd_says_so(
    fresh: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    about = os.fstat(2)
    for stream_id, expected in ((f"{about.st_dev}:{about.st_ino}", "<6>INFO hello\n"), ("1:2", "INFO hello\n")):
        monkeypatch.setenv("JOURNAL_STREAM", stream_id)
        monkeypatch.setattr(sys, "stderr", os.fdopen(os.dup(2), "w"))
        log.handlers = []
        set_up_logging()
        log.info("hello")
        sys.stderr.close()
        assert capfd.readouterr().err == expected


def test_the_format_can_change_at_runtime(fresh: None, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    log.debug("unseen")
    log.info("one")
    adjust_logging(json_lines=True)
    log.info("two")
    adjust_logging(json_lines=False)
    log.info("three")
    first, second, third = capsys.readouterr().err.splitlines()
    assert (first, third) == ("INFO one", "INFO three")
    assert json.loads(second)["message"] == "two"


@pytest.mark.parametrize("message", ["id=1 status=200", *EVIL])
def test_a_record_of_facts_is_one_line_in_every_format(message: str) -> None:
    made = FactsRecord(logging.WARNING, message, "request", {"id": "1", "said": message})
    for form in (TextLines(), TextLines(journal=True)):
        assert form.format(made) == form.format(record(message))
    line = JsonLines().format(made)
    assert line.isascii() and line.isprintable() and json.loads(line)["said"] == message


@rows(__file__, "message,expected")
def test_rejected_input_is_removed_from_gunicorns_messages(message: str, expected: str) -> None:
    made = record(message)
    assert redact_gunicorn(made) and made.msg.endswith(expected)
    assert KEY not in made.getMessage() and "key=" not in made.getMessage()


def test_queries_are_removed_from_gunicorns_messages() -> None:
    made = record("Error handling request %s %s", "GET", f"/v1/models?key={KEY}")
    assert redact_gunicorn(made) and made.getMessage() == "Error handling request GET /v1/models"


def test_gunicorns_own_lines_are_json_too(fresh: None) -> None:
    stream = io.StringIO()
    gunicorn.addHandler(logging.StreamHandler(stream))
    set_up_logging(json_lines=True)
    gunicorn.warning("Invalid request from ip=1.2.3.4: Invalid HTTP Header: 'x'")
    assert json.loads(stream.getvalue())["message"] == "Invalid request from ip=1.2.3.4: Invalid HTTP Header"
