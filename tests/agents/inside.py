"""`python -m tests.agents.inside AGENT ROW SIDE FOLDER PACKAGE`: one run, within namespaces of its own.

Starts the model server of the row, the proxy if `SIDE` is `with`, and the agent out of the folder `PACKAGE`; writes
what came of it to `FOLDER/run.json`, and what passed between them beside it.
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
from collections.abc import Iterator
from pathlib import Path

from tests.agents import checks, thoughts
from tests.agents.agent import PROOF, SECOND, Agent
from tests.agents.known import AGENTS
from tests.agents.outcome import Run
from tests.agents.rows import BY_NAME, Row
from tests.agents.scripted_server import ScriptedServer
from tests.agents.tap import Tap
from tests.real import llama, processes

LIMIT = 60  # seconds for the agent
CACHE = processes.ROOT / ".cache"
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1  # of linux/sockios.h and linux/if.h


def loopback_up() -> None:
    """Switch on the loopback device, which is off in a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        asked = fcntl.ioctl(sock, GET_FLAGS, struct.pack("16sH22x", b"lo", 0))
        (flags,) = struct.unpack_from("H", asked, 16)
        fcntl.ioctl(sock, SET_FLAGS, struct.pack("16sH22x", b"lo", flags | UP))


@contextlib.contextmanager
def model_server(row: Row, agent: Agent) -> Iterator[str]:
    """Run the row's model server while the block lasts; give its URL."""
    server = llama.LlamaServer(cache=CACHE, thinks=row.thinks) if row.script else ScriptedServer(row, agent)
    with server:
        yield server.url


@contextlib.contextmanager
def proxy(upstream: str, folder: Path, rules: str = "") -> Iterator[str]:
    """Run the proxy as a user starts it, in front of `upstream`, while the block lasts; give its URL."""
    port = str(processes.free_port())
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", port]
    if rules:
        (folder / "rules.yaml").write_text(rules, encoding="utf-8")
        command += ["--rules", str(folder / "rules.yaml")]
    log = folder / "proxy.log"
    try:
        # Its log goes to a file that is still there when it has ended.
        logged = ["sh", "-c", 'exec "$@" > "$0" 2>&1', str(log), *command]
        with processes.running(logged, f"http://127.0.0.1:{port}/health", timeout=20):
            yield f"http://127.0.0.1:{port}"
    except processes.NotStartedError as error:
        raise processes.NotStartedError(f"{error}\n{log.read_text(errors='replace')[-2000:]}") from error


def ask(agent: Agent, row: Row, url: str, folder: Path, package: Path) -> tuple[int | None, str, str]:
    """Give the agent its task in the folder's project; return its status (None if its time was over) and its output."""
    script = f" [[script:{agent.name}_{row.script}]]" if row.script else ""
    values = {"url": url, "home": str(folder / "home"), "prompt": f"Create the file {PROOF}{script}"}
    dataclasses.replace(agent, files={**agent.files, **row.files}).settle(folder / "home", **values)
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "LANG")}
    with (folder / "stdout.txt").open("wb") as output, (folder / "stderr.txt").open("wb") as errors:
        process = subprocess.Popen(
            agent.command(package, **values),
            cwd=folder / "project",
            env={**environment, **agent.variables(**values)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
        )
        try:
            status: int | None = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            status = None
            processes.stop(process)
    output_text, error_text = ((folder / name).read_text(errors="replace") for name in ("stdout.txt", "stderr.txt"))
    return status, output_text, error_text


def run(agent: Agent, row: Row, through: bool, folder: Path, package: Path) -> Run:
    """Do one run and say what came of it. Raises `NotStartedError`."""
    with contextlib.ExitStack() as stack:
        behind = stack.enter_context(Tap(stack.enter_context(model_server(row, agent))))
        before = behind
        if through:
            before = stack.enter_context(Tap(stack.enter_context(proxy(behind.url, folder, row.rules))))
        status, output, errors = ask(agent, row, before.url, folder, package)
        bodies = behind.bodies()
        for name, tap in (("server", behind), ("agent", before)):
            tap.write(folder, name)
        checked = through and row.thinks and bodies
        thought = "\n".join(thoughts.faults(folder, bodies, behind.url)) if checked else ""
    names = (PROOF, SECOND)[: row.calls]
    kept = not through or checks.keeps_the_prefix(checks.of_the_task(bodies))
    files = tuple(_text(folder / "project" / name) for name in names)
    return Run(status, output, errors, files, len(bodies), kept, thought=thought)


def _text(path: Path) -> str | None:
    """Return what a file holds, but for one line end: a patch writes whole lines. None if it is not there."""
    return path.read_text(errors="replace").removesuffix("\n") if path.exists() else None


def main(agent: str, row: str, side: str, folder: str, package: str) -> int:
    """Do one run and write what came of it."""
    loopback_up()
    try:
        done = run(AGENTS[agent], BY_NAME[row], side == "with", Path(folder), Path(package))
    except processes.NotStartedError as error:
        print(error, file=sys.stderr)
        return 1
    (Path(folder) / "run.json").write_text(json.dumps(dataclasses.asdict(done)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
