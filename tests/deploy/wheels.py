"""The packages of requirements.lock: there are wheels for each Python and machine, by the digests that are in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from tests.real.processes import ROOT

PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
LOCKED = ["--require-hashes", "--only-binary", ":all:", "-r", str(ROOT / "requirements.lock")]


def check(tell: Callable[[str], None]) -> None:
    """Ask pip, here and for each of the others."""
    # Into an empty folder, so that what is installed here does not count.
    pip(["install", "--dry-run", "--ignore-installed", *LOCKED])
    tell("pip install --require-hashes -r requirements.lock")
    for python in PYTHONS:
        for machine in MACHINES:
            target = ["--implementation", "cp", "--python-version", python]
            target += ["--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}"]
            pip(["install", "--dry-run", "--ignore-installed", "--target", "none", *target, *LOCKED])
    tell(f"wheels for {', '.join(PYTHONS)} on {' and '.join(MACHINES)}, by their digests")


def pip(words: list[str]) -> None:
    """Run pip; raise with what it said if it fails."""
    done = subprocess.run([*PIP, words[0], "-q", *words[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
