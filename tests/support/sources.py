"""Copies of this checkout, or of parts of it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.real.processes import ROOT


def copy_of(names: Iterable[str], folder: Path) -> Path:
    """Create a folder with these files and folders of the checkout, without compiled files."""
    folder.mkdir()
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder


def at_commit(commit: str, folder: Path, *names: str) -> Path:
    """Create a folder with the tree of a commit, or these parts of it. Raises CalledProcessError without the commit."""
    archive = subprocess.run(["git", "archive", commit, *names], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    folder.mkdir()
    # `tar`, because tarfile has no extraction filter before CPython 3.11.4.
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive, check=True)
    return folder
