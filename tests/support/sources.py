"""Copies of this checkout, or of parts of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.real.processes import ROOT


def copy_of(names: Iterable[str], folder: Path) -> Path:
    """A new folder with these files and folders of the checkout, without what Python has made of them."""
    folder.mkdir()
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)
    return folder
