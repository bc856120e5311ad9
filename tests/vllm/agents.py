"""`python -m tests.vllm --agents`: real coding agents and a real vLLM without flags, without and with the proxy.

One vLLM without a parser runs in one network namespace with all agents, one run after the other. Each row is a notation
in which its model writes the call of the agent's shell (`tests.agents.vllm_rows`). The cells are those of `python -m
tests.agents`. Exit status 0 means that every cell is as expected.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.agents import vllm_rows
from tests.agents.__main__ import matrix, verdict
from tests.agents.agent import MODEL, Agent
from tests.agents.inside import loopback_up
from tests.agents.install import NotInstalledError, installed
from tests.agents.known import AGENTS
from tests.agents.namespace import NoRunError, command
from tests.agents.results import VLLM, Results
from tests.agents.rows import Row
from tests.real import processes, vllm


def table(
    agents: Sequence[Agent], rows: Sequence[Row], sides: Sequence[str], keep: Path | None, page: Path | None
) -> int:
    """Do the runs, print the table, write it into the page if one is given, and return the exit status."""
    try:
        for agent in agents:
            installed(agent)
    except NotInstalledError as error:
        print(f"The table is incomplete: {error}", file=sys.stderr)
        return 1
    return _alone(agents, rows, sides, keep, page)


def _alone(
    agents: Sequence[Agent], rows: Sequence[Row], sides: Sequence[str], keep: Path | None, page: Path | None
) -> int:
    """Do the runs in a process with its own network, and return its exit status."""
    names = [",".join(each.name for each in agents), ",".join(each.name for each in rows), ",".join(sides)]
    inner = [sys.executable, "-m", "tests.vllm.agents", *names]
    inner += [str(each.resolve()) if each else "" for each in (keep, page)]
    with tempfile.TemporaryDirectory(prefix="vllm-agents-") as home:
        alone = command(inner, Path(home), os.geteuid() == 0, TOOL_PROXY_VLLM=str(vllm.environment()))
        return subprocess.run(alone, cwd=processes.ROOT, stdin=subprocess.DEVNULL, check=False).returncode


def main(agents: str, rows: str, sides: str, keep: str, page: str) -> int:
    """Start vLLM, do the runs, print their faults, and return the exit status."""
    began, wrong = time.monotonic(), list[str]()
    results = Results(Path(page) if page else None, VLLM, f"vLLM {vllm.version()}")
    loopback_up()
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
    chosen = [vllm_rows.BY_NAME[name] for name in rows.split(",")]
    server = vllm.VllmServer(
        scripts=vllm_rows.scripts(AGENTS.values()),
        cache=processes.ROOT / ".cache",
        names=(MODEL,),
        log=Path(keep) / "vllm.log" if keep else None,
    )
    try:
        with server:
            print(f"started without flags in {time.monotonic() - began:.0f} s", flush=True)
            for name in agents.split(","):
                folder = Path(keep) if keep else None
                wrong += matrix(AGENTS[name], chosen, sides.split(","), folder, results, shared=server.url)
    except (NotInstalledError, NoRunError, processes.NotStartedError) as error:
        print(f"The table is incomplete: {error}", file=sys.stderr)
        return 1
    finally:
        results.write(vllm_rows.ROWS)
    print("", results.table(vllm_rows.ROWS), sep="\n")
    print(*("", *wrong, verdict(wrong)), f"({time.monotonic() - began:.0f} s)", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
