"""Agents from the npm registry, each in its own folder below `.cache/agents`."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.agents.agent import Agent, fill
from tests.real import processes

CACHE = processes.ROOT / ".cache" / "agents"
PATIENCE = 900  # seconds; some agents are several hundred MB


class NotInstalledError(Exception):
    """An agent is missing and could not be fetched; the message says why."""


def installed(agent: Agent, cache: Path = CACHE) -> Path:
    """Return the folder of the agent's version. Fetch it with npm if it is missing.

    Raises `NotInstalledError` if npm is missing or fails.
    """
    folder = cache / agent.name
    # Written at the end, so an incomplete folder lacks it.
    stamp = folder / f"installed-{agent.version}"
    if not stamp.exists():
        _fetch(agent, folder)
        stamp.touch()
    return folder


def _fetch(agent: Agent, folder: Path) -> None:
    """Empty `folder`, and fetch the agent into it with npm."""
    if shutil.which("npm") is None:
        raise NotInstalledError(f"npm, which fetches {agent.setup.package}, is not installed")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    began = time.monotonic()
    if agent.also:
        _install(agent, fill(agent.also, {}), folder)
    _install(agent, f"{agent.setup.package}@{agent.version}", folder)
    print(f"Fetched in {time.monotonic() - began:.0f} s.", flush=True)


def _install(agent: Agent, what: str, folder: Path) -> None:
    """Install one package with npm. Its scripts can use the packages installed before."""
    print(f"Fetching {what} into {folder}", flush=True)
    command = ["npm", "install", "--no-audit", "--no-fund", what]
    environment = {**os.environ, "PATH": f"{agent.path(folder)}:{os.environ.get('PATH', os.defpath)}"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalledError(f"npm did not fetch {what} within {PATIENCE} s") from error
    if done.returncode:
        raise NotInstalledError(f"npm could not fetch {what}:\n{done.stderr[-2000:]}")
