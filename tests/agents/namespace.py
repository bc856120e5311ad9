"""One run in namespaces of its own: no network but its own loopback, and no process that outlives it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.agents import shape
from tests.agents.agent import Agent
from tests.agents.outcome import Run
from tests.agents.rows import Row
from tests.real import processes

LIMIT = 120  # seconds for servers, proxy and agent; the agent alone has less


class NoRunError(Exception):
    """A run could not be done at all; the text says why."""


def command(inner: list[str], home: Path, root: bool) -> list[str]:
    """Return the command that does `inner` with nothing of this environment, alone in its network.

    Who is not root becomes it in a namespace of users.
    """
    alone = ["unshare", *([] if root else ["--user", "--map-root-user"]), "--net", "--pid", "--fork"]
    kept = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}
    variables = [f"{name}={value}" for name, value in kept.items()]
    return [*alone, "--mount-proc", "--kill-child", "env", "-i", *variables, *inner]


def do(agent: Agent, row: Row, side: str, package: Path, keep: Path | None = None) -> Run:
    """Do a run and return what came of it; its folder is kept in `keep`. Raises `NoRunError`."""
    with tempfile.TemporaryDirectory(prefix="agents-") as temporary:
        folder = Path(temporary)
        if keep is not None:
            folder = keep / f"{agent.name}-{row.name.replace(' ', '-')}-{side}"
            shutil.rmtree(folder, ignore_errors=True)
        return _do(agent, row, side, package, folder)


def _do(agent: Agent, row: Row, side: str, package: Path, folder: Path) -> Run:
    """Do a run in an empty folder."""
    home, project = folder / "home", folder / "project"
    for each in (home, project):
        each.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True, env={"PATH": os.environ["PATH"], "HOME": str(home)})
    inner = [sys.executable, "-m", "tests.agents.inside", agent.name, row.name, side, str(folder), str(package)]
    try:
        done = subprocess.run(
            command(inner, home, os.geteuid() == 0),
            cwd=processes.ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoRunError(f"{row.name}, {side}: not done within {LIMIT} s") from error
    if done.returncode:
        raise NoRunError(f"{row.name}, {side}: {done.stderr.decode(errors='replace')[-3000:]}")
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    broken = "\n".join(shape.faults(folder, agent.dialect)) if side == "with" else ""
    return Run(**{**told, "files": tuple(told["files"]), "shape": broken})
