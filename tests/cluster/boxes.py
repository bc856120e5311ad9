"""HAProxy, proxies and model servers, each a process or a group of processes on 127.0.0.1."""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from tests.cluster.client import get
from tests.real.processes import ROOT, free_port
from tests.support.scripted import PATIENCE

CONFIG = ROOT / "deploy" / "haproxy" / "haproxy.cfg"
# Directives that only work as root.
_SYSTEM_ONLY = re.compile(r"(?m)^    (?:user|group|chroot) .*\n")
_ADDRESSES = ("192.0.2.11:8003", "192.0.2.12:8003", "192.0.2.13:8003")
_MODEL_ADDRESSES = ("192.0.2.21:8000", "192.0.2.22:8000")


class NotReachedError(Exception):
    """An expected state was not reached."""


async def until(holds: Callable[[], Awaitable[bool]], what: str, patience: float = PATIENCE) -> float:
    """Wait until `holds` returns true. Return the seconds."""
    began = time.monotonic()
    while not await holds():
        if time.monotonic() - began > patience:
            raise NotReachedError(f"not within {patience:.0f} s: {what}")
        await asyncio.sleep(0.05)
    return time.monotonic() - began


def haproxy_program() -> str | None:
    """Return HAProxy's path if it is installed. Debian has it in a folder outside of users' PATH."""
    return shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def rendered(port: int, models: int, proxies: Sequence[int], servers: Sequence[int], folder: Path) -> str:
    """Return deploy/haproxy/haproxy.cfg with other addresses, another socket, and without its user."""
    config = _SYSTEM_ONLY.sub("", CONFIG.read_text())
    places = dict(zip(_ADDRESSES, (f"127.0.0.1:{proxy}" for proxy in proxies), strict=True))
    places |= dict(zip(_MODEL_ADDRESSES, (f"127.0.0.1:{server}" for server in servers), strict=True))
    places |= {
        "bind 127.0.0.1:8003": f"bind 127.0.0.1:{port}",
        "bind 127.0.0.1:8000": f"bind 127.0.0.1:{models}",
        "socket /run/haproxy/admin.sock": f"socket {folder}/s",
    }
    for old, new in places.items():
        assert config.count(old) == (2 if old in _ADDRESSES else 1), f"{old} is not in haproxy.cfg as expected"
        config = config.replace(old, new)
    return config


@dataclass
class Box:
    """A server process: its command, and the path that it answers when it is ready."""

    name: str
    port: int
    command: tuple[str, ...]
    folder: Path
    ready: str = "/health"
    env: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    async def start(self) -> None:
        """Start it, and wait until it answers."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TOOL_PROXY_", "GUNICORN"))}
        with self.log.open("ab") as log:
            none = subprocess.DEVNULL
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**kept, **self.env},
                stdin=none,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            await until(self._answers, f"{self.name} answers")
        except NotReachedError as error:
            raise NotReachedError(f"{error}\n{self.log.read_text()[-2000:]}") from None

    async def _answers(self) -> bool:
        if await self.ended():
            raise NotReachedError(f"{self.name} ended")
        with suppress(OSError, HTTPException):
            return (await get(self.port, self.ready))[0] > 0
        return False

    def kill(self) -> None:
        """Kill all of its processes, as a power failure would."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Send SIGTERM to its first process."""
        assert self.process is not None
        self.process.terminate()

    async def ended(self) -> bool:
        """Return whether its first process has ended."""
        return self.process is None or self.process.poll() is not None

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()


@dataclass
class Balancer(Box):
    """HAProxy, with its admin socket."""

    @property
    def socket(self) -> Path:
        return self.folder / "s"

    def command_line(self, words: str) -> str:
        """Return the answer to a command on the admin socket."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE)
            sock.connect(str(self.socket))
            sock.sendall(words.encode() + b"\n")
            parts = []
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts).decode()

    def states(self, backend: str = "proxies") -> dict[str, str]:
        """Return the state of each server of a backend: UP, DOWN or DRAIN."""
        return {row["svname"]: row["status"].split()[0] for row in self._rows(backend)}

    def running(self) -> int:
        """Return the number of running requests, at the proxies and at the model servers."""
        rows = [row for backend in ("proxies", "alive", "models") for row in self._rows(backend)]
        return sum(int(row["scur"]) for row in rows)

    def _rows(self, backend: str) -> list[dict[str, str]]:
        table = self.command_line("show stat").lstrip("# ")
        rows = (row for row in csv.DictReader(io.StringIO(table)) if row["pxname"] == backend)
        return [row for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")]

    async def sees(self, *states: str, backend: str = "proxies") -> float:
        """Wait until the servers are in these states. Return the seconds."""

        async def holds() -> bool:
            return [*self.states(backend).values()] == [*states]

        return await until(holds, f"HAProxy sees {states} in {backend}, and not {self.states(backend)}")

    def drain(self, name: str) -> None:
        """Send a proxy no new requests."""
        self.command_line(f"set server proxies/{name} state drain; set server alive/{name} state drain")

    def take_back(self, name: str) -> None:
        """Send it new requests again."""
        self.command_line(f"set server proxies/{name} state ready; set server alive/{name} state ready")


def balancer(proxies: Sequence[int], servers: Sequence[int], models: int, folder: Path) -> Balancer:
    """Return HAProxy in front of these ports of proxies, and on the port `models` in front of the model servers."""
    program = haproxy_program()
    if program is None:
        raise NotReachedError("HAProxy is not installed; apt-get install haproxy")
    folder.mkdir(exist_ok=True)
    port, config = free_port(), folder / "haproxy.cfg"
    config.write_text(rendered(port, models, proxies, servers, folder))
    return Balancer("haproxy", port, (program, "-db", "-f", str(config)), folder, "/_ready")


@dataclass
class ModelServer(Box):
    async def under_way(self) -> int:
        body = (await get(self.port, "/open"))[2]
        return int(re.findall(rb"\d+", body)[0])


@dataclass
class Cluster:
    """HAProxy, three proxies, and the model servers A and B, which they reach through HAProxy's port `models`."""

    folder: Path
    balancer: Balancer = field(init=False)
    proxies: list[Box] = field(init=False)
    servers: dict[str, ModelServer] = field(init=False)
    models: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.servers = {name: self._model_server(name) for name in "AB"}
        self.proxies = [self._proxy(number) for number in (1, 2, 3)]
        servers = [server.port for server in self.servers.values()]
        self.balancer = balancer([proxy.port for proxy in self.proxies], servers, self.models, self.folder)

    def _model_server(self, name: str) -> ModelServer:
        port = free_port()
        command = (sys.executable, "-m", "tests.cluster.upstream", "--port", str(port), "--name", name)
        return ModelServer(name, port, (*command, "--seen", str(self.seen_file)), self.folder)

    def _proxy(self, number: int) -> Box:
        port = free_port()
        where = ("--port", str(port), "--upstream", f"http://127.0.0.1:{self.models}")
        command = (sys.executable, "-m", "proxy", "serve", *where)
        # The key identifies the proxy to the model server.
        return Box(f"proxy{number}", port, command, self.folder, env={"TOOL_PROXY_UPSTREAM_KEY": f"p{number}"})

    @property
    def port(self) -> int:
        """HAProxy's port for clients."""
        return self.balancer.port

    @property
    def seen_file(self) -> Path:
        """The file in which the model servers write their requests."""
        return self.folder / "seen"

    def seen(self) -> dict[str, list[str]]:
        """Return the recipients of each request, in order."""
        found: dict[str, list[str]] = {}
        for line in self.seen_file.read_text().splitlines() if self.seen_file.exists() else ():
            served, id_ = line.split()
            found.setdefault(id_, []).append(served)
        return found

    def load(self) -> Counter[str]:
        """Return the number of requests per model server and proxy since the start."""
        return Counter(served for way in self.seen().values() for served in way)

    async def start(self) -> None:
        """Start everything, and wait until HAProxy sees it."""
        await asyncio.gather(*(server.start() for server in self.servers.values()))
        await asyncio.gather(*(proxy.start() for proxy in self.proxies))
        await self.balancer.start()
        await self.balancer.sees("UP", "UP", backend="models")
        await self.balancer.sees("UP", "UP", "UP")

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for box in (self.balancer, *self.proxies, *self.servers.values()):
            box.__exit__()
