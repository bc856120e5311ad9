"""Benchmark targets: the upstream itself, nginx in front of it, and the proxy in front of it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from benchmarks import processes

ROOT = Path(__file__).resolve().parent.parent
# One worker.
PROXY = ("-m", "proxy", "serve", "--host", "127.0.0.1", "--workers", "1")
START_SECONDS = 20.0

_NGINX = """
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_buffer_size 1m;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream server {{ server 127.0.0.1:{upstream}; keepalive 128; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://server;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 120s;
    }}
  }}
}}
"""


class Unavailable(Exception):
    """A target cannot be started here; the message is the reason."""


@dataclass(slots=True)
class Target:
    """A server on 127.0.0.1:`port`. `pid` is its first process, None for the upstream itself."""

    name: str
    port: int
    pid: int | None = None

    @property
    def url(self) -> str:
        """Return its base URL."""
        return f"http://127.0.0.1:{self.port}"

    def cpu(self) -> float:
        """Return the CPU seconds used by all its processes so far."""
        return processes.cpu_seconds(processes.family(self.pid)) if self.pid else 0.0

    def worker_rss(self) -> int:
        """Return the resident bytes of its worker: the largest child, or the process itself if it has no children."""
        if not self.pid:
            return 0
        pids = processes.family(self.pid)
        return max(processes.rss(pid) for pid in pids[1:] or pids)


Starter = Callable[[int], AbstractContextManager[Target]]


@contextmanager
def upstream(lifetime: float, owner: str = "vllm") -> Iterator[int]:
    """Run the paced upstream for at most `lifetime` seconds, with models of `owner`; yield its port."""
    command = [sys.executable, "-m", "benchmarks.upstream", "--lifetime", str(lifetime), "--owner", owner]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(json.loads(process.stdout.readline())["port"])
    finally:
        processes.stop(process)


@contextmanager
def direct(port: int) -> Iterator[Target]:
    """Yield the upstream itself."""
    yield Target("direct", port)


def nginx_program() -> str | None:
    """Return the path of nginx, or None. Debian installs it outside the PATH of ordinary users."""
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


@contextmanager
def nginx(port: int) -> Iterator[Target]:
    """Run nginx in front of the upstream at `port`: one worker without buffering."""
    binary = nginx_program()
    if not binary:
        raise Unavailable("nginx is not installed")
    with tempfile.TemporaryDirectory(prefix="bench-nginx-") as folder:
        listen = free_port()
        config = Path(folder, "nginx.conf")
        config.write_text(_NGINX.format(folder=folder, upstream=port, port=listen))
        command = [binary, "-e", "stderr", "-p", folder, "-c", str(config)]
        with running("nginx", command, listen, Path(folder, "log")) as target:
            yield target


def proxy(extra: Sequence[str] = (), root: Path = ROOT, python: str = sys.executable) -> Starter:
    """Return a starter of the proxy in the tree `root` with `extra` options."""

    @contextmanager
    def start(port: int) -> Iterator[Target]:
        listen = free_port()
        command = [python, *PROXY, "--upstream", f"http://127.0.0.1:{port}", "--port", str(listen), *extra]
        with (
            tempfile.TemporaryDirectory(prefix="bench-proxy-") as folder,
            running("proxy", command, listen, Path(folder, "log"), root) as target,
        ):
            yield target

    return start


def free_port() -> int:
    """Return a free port on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    port: int,
    log: Path,
    root: Path = ROOT,
    *,
    health: str = "/health",
    patience: float = START_SECONDS,
    variables: Mapping[str, str] | None = None,
) -> Iterator[Target]:
    """Run a command in the folder `root` during the block, which starts once `health` responds on `port`.

    `variables` are added to the environment.
    """
    environment = {**os.environ, **(variables or {})}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
        )
    try:
        until = time.monotonic() + patience
        while not _answers(port, health):
            if process.poll() is not None or time.monotonic() > until:
                raise Unavailable(f"{name} did not start: {log.read_text().strip()[-600:] or 'no word'}")
            time.sleep(0.05)
        yield Target(name, port, process.pid)
    finally:
        processes.stop(process)


def _answers(port: int, path: str) -> bool:
    """Return whether an HTTP server responds on `port`, with any status."""
    connection = HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", path)
        connection.getresponse().read()
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
    return True
