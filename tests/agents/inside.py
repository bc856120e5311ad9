"""`python -m tests.agents.inside AGENT ROW SIDE FOLDER PACKAGE URL`: one run, in separate namespaces.

Starts the model server of the row unless `URL` has one, the proxy if `SIDE` is `with`, and the agent from the folder
`PACKAGE`. Writes the results to `FOLDER/run.json`, with the traffic next to it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proxy.cli.agent_files import AgentFiles
from tests.agents import checks, shape, vllm_rows
from tests.agents.agent import CONTEXT, PROOF, SECOND, Agent
from tests.agents.known import AGENTS
from tests.agents.outcome import Run
from tests.agents.rows import BY_NAME, Row
from tests.agents.scripted_server import ScriptedServer
from tests.agents.tap import Tap
from tests.real import llama, processes
from tests.support.scripted import PATIENCE

LIMIT = 150  # seconds for a `setup` command
CACHE = processes.ROOT / ".cache"
ROWS = {**BY_NAME, **vllm_rows.BY_NAME}
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1  # of linux/sockios.h and linux/if.h


def loopback_up() -> None:
    """Enable the loopback device, which is down in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = fcntl.ioctl(sock, GET_FLAGS, struct.pack("16sH22x", b"lo", 0))
        (flags,) = struct.unpack_from("H", asked, 16)
        fcntl.ioctl(sock, SET_FLAGS, struct.pack("16sH22x", b"lo", flags | UP))


@contextlib.contextmanager
def model_server(row: Row, agent: Agent, shared: str) -> Iterator[str]:
    """Run the row's model server during the block, unless all runs use the one at `shared`. Yield its URL."""
    if shared:
        yield shared
        return
    real = llama.LlamaServer(cache=CACHE, thinks=row.thinks, context=CONTEXT)
    with real if row.script else ScriptedServer(row, agent) as server:
        yield server.url


@contextlib.contextmanager
def proxy(upstream: str, folder: Path, rules: str = "") -> Iterator[str]:
    """Run the proxy in front of `upstream` during the block, started as users start it. Yield its URL."""
    port = str(processes.free_port())
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", port]
    if rules:
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")
        command += ["--rules", str(folder / "rules.yaml")]
    url = f"http://127.0.0.1:{port}"
    with processes.running(command, f"{url}/health", timeout=PATIENCE, output=folder / "proxy.log"):
        yield url


def vllm_tool_proxy(command: str, agent: Agent, url: str) -> list[str]:
    """Return the command line of `vllm-tool-proxy` for the agent and the proxy at `url`."""
    return [sys.executable, "-m", "proxy", command, agent.name, "--url", url]


class Server(NamedTuple):
    """The server for which an agent is configured: its URL, and whether it is the proxy."""

    url: str
    through: bool


def prepare(agent: Agent, row: Row, server: Server, environment: dict[str, str]) -> list[str]:
    """Configure the agent for a server, and return the start of its command line.

    For the proxy, the commands are those of a user: `setup --write` in front of scripted servers, with the variables
    that files cannot express, and `launch` in front of the real one. For a server without a proxy, the configuration is
    written as `setup` would.
    """
    home = environment["HOME"]
    agent.settle(Path(home))
    if server.through and row.script:
        return [*vllm_tool_proxy("launch", agent, server.url), "--"]
    told = agent.told(server.url, home)
    if server.through:
        command = [*vllm_tool_proxy("setup", agent, server.url), "--write"]
        subprocess.run(command, env=environment, stdout=sys.stderr, check=True, timeout=LIMIT)
    else:
        AgentFiles(agent.name, Path(home) / "state").write(told.files)
    if not any(file.optional for file in told.files):
        environment.update(told.environment)
    return [*told.command]


def ask(agent: Agent, row: Row, server: Server, folder: Path, package: Path) -> tuple[int | None, str, str]:
    """Run the agent's task in the folder's project. Return its exit status (None after a timeout) and its output."""
    script = f" [[script:{agent.script(row.script)}]]" if row.script else ""
    values = {
        "home": str(folder / "home"),
        "project": str(folder / "project"),
        "prompt": f"Create the file {PROOF}{script}",
        "patience": str(row.patience),
    }
    environment = {name: os.environ[name] for name in ("HOME", "LANG")}
    environment["PATH"] = f"{agent.path(package)}:{os.environ['PATH']}"
    environment["PYTHONPATH"] = str(processes.ROOT)
    environment |= {**agent.variables(**values), **row.environment}
    command = prepare(agent, row, server, environment)
    with (folder / "stdout.txt").open("wb") as output, (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            [*command, *agent.words(row.arguments, **values)],
            cwd=folder / "project",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        try:
            status: int | None = process.wait(row.seconds)
        except subprocess.TimeoutExpired:
            status = None
            processes.stop(process)
    output_text, error_text = ((folder / name).read_text(errors="replace") for name in ("stdout.txt", "stderr.txt"))
    return status, output_text, error_text


def run(agent: Agent, row: Row, through: bool, folder: Path, package: Path, *, shared: str) -> Run:
    """Do one run and return its result. Raises `NotStartedError`."""
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(Tap(stack.enter_context(model_server(row, agent, shared))))
        before = behind
        if through:
            before = stack.enter_context(Tap(stack.enter_context(proxy(behind.url, folder, row.rules))))
        status, output, errors = ask(agent, row, Server(before.url, through), folder, package)
        errors += (_text(folder / "home" / row.notes) or "") if row.notes else ""
        bodies = behind.bodies()
        own = before.bodies() if agent.dialect == "chat" else []
        for name, tap in (("server", behind), ("agent", before)):
            tap.write(folder, name)
        checked = through and row.thinks and bodies
        thought = "\n".join(shape.thought_faults(folder, bodies, behind.url)) if checked else ""
    names = (PROOF, SECOND)[: row.calls]
    upstream = "\n".join(faults_upstream(agent, row, bodies, folder, through=through))
    kept = not through or checks.costs_no_prefix(bodies, own)
    files = tuple(_text(folder / "project" / name) for name in names)
    return Run(status, output, errors, files, len(bodies), kept, thought=thought, upstream=upstream)


def faults_upstream(
    agent: Agent, row: Row, bodies: list[dict[str, Any]], folder: Path, *, through: bool
) -> Iterator[str]:
    """Yield the faults of the requests to the model server, `through` the proxy or not, and of its answers."""
    yield from checks.of_the_run(bodies, row.calls, "chat" if through else agent.dialect)
    # A real server sends special tokens in its model's text only on request.
    if row.script and row.written:
        yield from shape.server_faults(folder, row.written(agent))


def _text(path: Path) -> str | None:
    """Return the text of a file without its last line end, because a patch writes whole lines; None without a file."""
    return path.read_text(errors="replace").removesuffix("\n") if path.exists() else None


def main(words: Sequence[str]) -> int:
    """Do one run and write its result."""
    agent, row, side, folder, package, shared = words
    loopback_up()
    try:
        done = run(AGENTS[agent], ROWS[row], side == "with", Path(folder), Path(package), shared=shared)
    except processes.NotStartedError as error:
        print(error, file=sys.stderr)
        return 1
    (Path(folder) / "run.json").write_text(json.dumps(dataclasses.asdict(done)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
