"""Wheel and sdist of the project, and an empty environment to try the wheel in."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.support.sources import copy_of

# The sources of the package, and the rules file.
SOURCES = ("proxy", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "rules.yaml")
# Builds and installations may wait for the network.
_SECONDS = 300


class PackageError(Exception):
    """A step failed; the message has its output."""


@dataclass(frozen=True, slots=True)
class Built:
    """A wheel and an sdist."""

    wheel: Path
    sdist: Path


def build(folder: Path, work: Path) -> Built:
    """Build both in `folder`: the sdist from a copy of the sources in `work`, the wheel from that sdist."""
    sources = copy_of(SOURCES, work / "sources")
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(sources)], work)
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return Built(wheel, sdist)


def check(built: Built, work: Path) -> str:
    """Return the output of `twine check`. Raises PackageError for a warning."""
    return run([sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)], work)


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel into an empty environment in `folder`, and return the folder of its commands."""
    venv.create(folder, symlinks=True)
    run([*pip(folder), "install", "-q", "--no-compile", str(wheel)], folder)
    return folder / "bin"


def pip(folder: Path) -> list[str]:
    """Return the command of this environment's pip for the environment in `folder`, which has no pip."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]


def run(command: list[str], folder: Path) -> str:
    """Run a command in a folder and return its output. Raises PackageError if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise PackageError("\n".join([" ".join(command), done.stdout[-4000:], done.stderr[-4000:]]))
    return done.stdout
