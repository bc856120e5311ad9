"""The audit says what it could not ask, and fails for what it found."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.deploy import audit

HOLE = {"id": "PYSEC-1", "fix_versions": ["3.1"], "aliases": [], "description": ""}

BAD = {"name": "jinja2", "version": "2.10", "vulns": [HOLE]}
UNKNOWN = {"name": "click", "skip_reason": "not found: click (8.5.1)"}


def test_packages_that_the_database_does_not_know_are_no_success() -> None:
    status, lines = audit.verdict({"dependencies": [UNKNOWN]}, "No known vulnerabilities found")
    assert status == 0 and lines[0].startswith("NOT AUDITED") and "click (8.5.1)" in lines[1] and len(lines) == 2
    status, lines = audit.verdict({"dependencies": [UNKNOWN, BAD]}, "")
    assert status == 1 and "PYSEC-1" in lines[0] and "1 packages" in lines[1]


@pytest.mark.parametrize(
    ("script", "status", "line"),
    [
        ("sys.exit('no route to the database')", 0, "could not be asked: no route to the database"),
        ("sys.exit(3)", 0, "could not be asked: exit status 3"),
        (f"open(sys.argv[-1], 'w').write(json.dumps({{'dependencies': [{BAD!r}]}})); sys.exit(1)", 1, "has PYSEC-1"),
    ],
)
def test_the_program_is_run_and_its_report_read(
    script: str, status: int, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "pip-audit"
    program.write_text(f"#!{sys.executable}\nimport json, sys\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    assert audit.main([str(program), "requirements.lock"]) == status
    told = capsys.readouterr().out
    assert told.startswith("requirements.lock: ") and line in told
