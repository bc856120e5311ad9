"""Isolation of a test process from this machine's settings and rules files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proxy.config import load as config
from proxy.config.settings import SPECS


def make_bare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate this process in an empty folder until the test ends."""
    monkeypatch.setattr(config, "SYSTEM_RULES", folder / "none.yaml")
    for name in [name for name in os.environ if name.startswith("TOOL_PROXY_")]:
        monkeypatch.delenv(name)
    for name in (*(alias for spec in SPECS for alias in spec.variables), "PWD", "LISTEN_PID", "LISTEN_FDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
