"""`python -m tests.deploy.audit PIP_AUDIT LOCK...`: check the locked packages for known vulnerabilities.

Exit status 1 means that a package has one. pip-audit reports success if its database does not know a package at all (as
with a mirror of the package index), and fails if the database is unreachable. Both are printed and are not failures.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SECONDS = 300


def main(argv: Sequence[str]) -> int:
    """Audit each lock, print the findings, and return the exit status."""
    program, *locks = argv
    worst = 0
    for lock in locks:
        status, lines = verdict(*report(program, lock))
        print(*(f"{lock}: {line}" for line in lines), sep="\n")
        worst = max(worst, status)
    return worst


def report(program: str, lock: str) -> tuple[dict[str, Any] | None, str]:
    """Return pip-audit's report on a lock (None if it failed), and the last line of its output."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.json"
        command = [program, "--requirement", lock, "--require-hashes", "--disable-pip", "--progress-spinner", "off"]
        command += ["--format", "json", "--output", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no answer within {SECONDS} s"
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return (json.loads(path.read_text()) if path.exists() else None), said


def verdict(report: dict[str, Any] | None, said: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines to print."""
    if report is None:
        return 0, [f"NOT AUDITED, the vulnerability database is unreachable: {said}"]
    packages = report["dependencies"]
    found = [(each, hole) for each in packages for hole in each.get("vulns", [])]
    lines = [f"{each['name']} {each['version']} has {hole['id']}; {_remedy(hole)}" for each, hole in found]
    asked = [each for each in packages if "skip_reason" not in each]
    if len(asked) < len(packages):
        lines.append(f"NOT AUDITED, the database does not know {len(packages) - len(asked)} packages:")
        lines += [f"  {each['skip_reason']}" for each in packages if "skip_reason" in each]
    if asked and not found:
        lines.append(f"no known vulnerability in {len(asked)} packages")
    return int(bool(found)), lines or ["the lock has no packages"]


def _remedy(hole: dict[str, Any]) -> str:
    fixed = hole.get("fix_versions") or []
    return f"upgrade to {' or '.join(fixed)} (make lock)" if fixed else "no fixed version yet"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
