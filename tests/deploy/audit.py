"""`python -m tests.deploy.audit PIP_AUDIT LOCK...`: whether known vulnerabilities concern what the locks hold.

Exit status 1 means that one does. pip-audit itself reports success when its database did not know a package at all, as
behind a mirror of the package index, and fails when it cannot be asked: both are told here, and are no failure.
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
    """Audit each lock; print what is found; return the exit status."""
    program, *locks = argv
    worst = 0
    for lock in locks:
        status, lines = verdict(*report(program, lock))
        print(*(f"{lock}: {line}" for line in lines), sep="\n")
        worst = max(worst, status)
    return worst


def report(program: str, lock: str) -> tuple[dict[str, Any] | None, str]:
    """What pip-audit makes of a lock (None if it could not), and the last line that it said."""
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
    """The exit status, and what to print."""
    if report is None:
        return 0, [f"NOT AUDITED, the database of vulnerabilities could not be asked: {said}"]
    packages = report["dependencies"]
    found = [(each, hole) for each in packages for hole in each.get("vulns", [])]
    lines = [f"{each['name']} {each['version']} has {hole['id']}; {_remedy(hole)}" for each, hole in found]
    asked = [each for each in packages if "skip_reason" not in each]
    if len(asked) < len(packages):
        lines.append(f"NOT AUDITED, the database could not be asked about {len(packages) - len(asked)} packages:")
        lines += [f"  {each['skip_reason']}" for each in packages if "skip_reason" in each]
    if asked and not found:
        lines.append(f"no known vulnerability in {len(asked)} packages")
    return int(bool(found)), lines or ["there is no package in it"]


def _remedy(hole: dict[str, Any]) -> str:
    fixed = hole.get("fix_versions") or []
    return f"take {' or '.join(fixed)} (make lock)" if fixed else "there is no version without it yet"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
