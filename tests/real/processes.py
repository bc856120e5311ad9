"""Servers as child processes: free ports, start, readiness and stop."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Requests to 127.0.0.1 must not use a proxy from the environment.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Below the kernel's ephemeral ports.
_PORTS = range(12_000, 32_000)


class NotStartedError(Exception):
    """A server exited, or did not answer in time; the message has the end of its output."""


def free_port() -> int:
    """Return a free port of 127.0.0.1 that no other call, in any process, returns.

    A server binds its port late, and gunicorn retries for seconds. If another server had taken the port in between, a
    test would ask another test's proxy.
    """
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError):
            _reserve(port)
            return port


def _reserve(port: int) -> None:
    """Reserve the port for this process. Raises OSError if it is taken.

    An abstract name belongs to one socket until its process ends, so the socket is left open.
    """
    with socket.socket(socket.AF_UNIX) as reservation, socket.socket() as sock:
        reservation.bind(f"\0vllm-tool-proxy tests, port {port}")
        sock.bind(("127.0.0.1", port))
        reservation.detach()


def answers(url: str) -> bool:
    """Return whether GET `url` is answered with 200."""
    try:
        with _OPENER.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


@contextlib.contextmanager
def running(
    command: Sequence[str],
    health: str,
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    output: Path | None = None,
    patience: float = 4,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` in the project's folder during the block, which begins when `health` answers 200.

    Its output is written to the file `output`, if given. It has `patience` seconds to exit. Raises `NotStartedError` if
    it does not answer within `timeout` seconds.
    """
    with tempfile.TemporaryFile() if output is None else output.open("w+b") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            deadline = time.monotonic() + timeout
            while not answers(health):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    lines = log.read().decode(errors="replace").splitlines()[-15:]
                    raise NotStartedError("\n".join([" ".join(command), *lines]))
                time.sleep(0.05)
            yield process
        finally:
            stop(process, patience)


def stop(process: subprocess.Popen[bytes] | subprocess.Popen[str], patience: float = 4) -> None:
    """Terminate `process`; kill it if it is still running after `patience` seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
