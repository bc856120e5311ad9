"""One run in separate namespaces: its only network is a loopback, and its processes end with it."""

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

LIMIT = 150  # seconds for servers and proxy, in addition to the agent's


class NoRunError(Exception):
    """A run was not possible; the message says why."""


def command(inner: list[str], home: Path, root: bool, *, network: bool = True, **more: str) -> list[str]:
    """Return a command that runs `inner` in separate namespaces. Its environment is PATH, HOME, LANG and `more`.

    `network`: it also has a separate network. Unless this user is `root`, it becomes root in a user namespace.
    """
    alone = ["unshare", *([] if root else ["--user", "--map-root-user"]), *(["--net"] if network else [])]
    kept = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}
    variables = [f"{name}={value}" for name, value in {**kept, **more}.items()]
    return [*alone, "--pid", "--fork", "--mount-proc", "--kill-child", "env", "-i", *variables, *inner]


def do(agent: Agent, row: Row, side: str, package: Path, keep: Path | None = None, *, shared: str = "") -> Run:
    """Do a run and return its result. Its folder is kept in `keep`, if given. Raises `NoRunError`.

    With the URL of a model server in `shared`, the run uses the network of this process.
    """
    with tempfile.TemporaryDirectory(prefix="agents-") as temporary:
        folder = Path(temporary)
        if keep is not None:
            folder = keep / f"{agent.name}-{row.name.replace(' ', '-')}-{side}"
            shutil.rmtree(folder, ignore_errors=True)
        return _do(agent, row, side, package, folder, shared=shared)


def _do(agent: Agent, row: Row, side: str, package: Path, folder: Path, *, shared: str) -> Run:
    """Do a run in an empty folder."""
    home, project = folder / "home", folder / "project"
    for each in (home, project):
        each.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(project)], check=True, env={"PATH": os.environ["PATH"], "HOME": str(home)})
    inner = [sys.executable, "-m", "tests.agents.inside", agent.name, row.name, side, str(folder), str(package), shared]
    limit = LIMIT + row.seconds
    try:
        done = subprocess.run(
            command(inner, home, os.geteuid() == 0, network=not shared),
            cwd=processes.ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoRunError(f"{row.name}, {side}: not done within {limit} s") from error
    if done.returncode:
        raise NoRunError(f"{row.name}, {side}: {done.stderr.decode(errors='replace')[-3000:]}")
    told = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    broken = "\n".join(shape.faults(folder, agent.dialect)) if side == "with" else ""
    return Run(**{**told, "files": tuple(told["files"]), "shape": broken})
