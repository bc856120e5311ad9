"""The lines of the audit file, and its size limit."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proxy.repair.record import Repair
from proxy.server import audit_log as module
from proxy.server.audit_log import (
    MAX_NAME,
    MAX_NAMES,
    MAX_RECORDS,
    MAX_VALUE,
    AuditFile,
    as_header,
    lines,
)
from tests.support.scripted import PATIENCE

SIZE = 1024
REPAIR = Repair("closers", '{"a": 1', '{"a": 1}', "only the closer is missing", "bash")


def parsed(data: bytes) -> list[dict[str, Any]]:
    assert data.endswith(b"\n") or not data
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_a_record_has_time_request_change_and_reason() -> None:
    (record,) = parsed(lines((REPAIR,), 1_700_000_000.0625, id="r1", model="Qwen", client="pi"))
    assert record == {
        "time": "2023-11-14T22:13:20.062Z",
        "id": "r1",
        "model": "Qwen",
        "client": "pi",
        "tool": "bash",
        "fix": "closers",
        "before": '{"a": 1',
        "after": '{"a": 1}',
        "why": "only the closer is missing",
    }
    assert datetime.fromisoformat(record["time"]).utcoffset() == timedelta(0)


def test_control_and_invisible_characters_are_escaped() -> None:
    odd = "a\u009b31mb\u202ec\u2028d\x7fe\u200bf\u2066g\U000e0041h\x1b[2J"
    rule = Repair(f"rule:{odd}", odd, odd, odd, odd)
    data = lines((rule,), 0, id="r1", model=odd, client=odd)
    assert data.count(b"\n") == 1
    assert data.decode().rstrip("\n").isprintable()
    (record,) = parsed(data)
    assert [record[key] for key in ("model", "client", "tool", "before", "after", "why")] == [odd] * 6
    assert record["fix"] == f"rule:{odd}"


def test_records_are_limited_and_truncated_values_are_marked() -> None:
    whole, long = "x" * MAX_VALUE, "y" * (MAX_VALUE + 1)
    records = parsed(lines((Repair("f", whole, long, ""),) * (MAX_RECORDS + 5), 0, id="r1", model="m", client=""))
    assert len(records) == MAX_RECORDS
    assert records[0]["before"] == whole
    assert records[0]["after"] == "y" * MAX_VALUE + f"... ({MAX_VALUE + 1} characters)"


def test_the_repair_header_is_plain_and_short() -> None:
    names = ["rule:a b,\r\n\N{EURO SIGN}", "name", "name", "x" * 500]
    header = as_header([Repair(name, "", "", "") for name in names])
    assert header == f"name:2, rule:a_b____:1, {'x' * MAX_NAME}:1"
    many = as_header([Repair(f"fix{number}", "", "", "") for number in range(500)])
    assert many.count(", ") == MAX_NAMES - 1


def test_the_file_is_appended_to_and_private(path: Path) -> None:
    old = os.umask(0)
    try:
        assert AuditFile(str(path), SIZE).write(b"one\n")
    finally:
        os.umask(old)
    assert AuditFile(str(path), SIZE).write(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n" and mode(path) == 0o600


def test_a_readable_file_is_made_private(path: Path) -> None:
    path.touch(0o644)
    path.chmod(0o644)
    assert AuditFile(str(path), SIZE).write(b"one\n")
    assert mode(path) == 0o600


def test_a_full_file_is_not_extended_and_reported_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = AuditFile(str(path), SIZE)
    assert [file.write(b"x" * (SIZE // 2)) for _ in range(4)] == [True, True, False, False]
    assert path.read_bytes() == b"x" * SIZE
    (message,) = caplog.messages
    assert f"may have {SIZE}" in message


def test_a_rotated_file_is_created_again(path: Path) -> None:
    file = AuditFile(str(path), SIZE)
    assert file.write(b"a" * SIZE) and not file.write(b"b\n")
    path.rename(path.with_suffix(".1"))
    assert file.write(b"c\n")
    assert path.read_bytes() == b"c\n" and mode(path) == 0o600
    assert path.with_suffix(".1").read_bytes() == b"a" * SIZE


@pytest.mark.parametrize(
    "what", ["symlink", "dangling", "folder", "pipe", "device", "hard link", "no folder", "foreign"]
)
def test_an_unsafe_file_is_refused_and_reported_once(
    path: Path, what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = path.with_name("other")
    other.write_bytes(b"mine")
    match what:
        case "symlink":
            path.symlink_to(other)
        case "dangling":
            path.symlink_to(path.with_name("none"))
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path = Path("/dev/null")
        case "hard link":
            path.hardlink_to(other)
        case "no folder":
            path = path.with_name("none") / "audit.jsonl"
        case "foreign":
            path.touch()
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    file = AuditFile(str(path), SIZE)
    assert [file.write(b"x\n") for _ in range(3)] == [False] * 3
    (message,) = caplog.messages
    assert message.startswith(f"the audit file {path} cannot be written (") and "\n" not in message
    assert other.read_bytes() == b"mine" and not path.with_name("none").is_file()


def test_a_locked_file_delays_a_request_only_until_the_timeout(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_TIMEOUT", 0.1)
    file = AuditFile(str(path), SIZE)
    with path.open("wb") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        began = time.monotonic()
        assert not file.write(b"x")
        assert 0.1 <= time.monotonic() - began < PATIENCE
    assert "locked" in caplog.text
    assert file.write(b"x")
