"""Servers as child processes: a free port, a wait until they answer, an end by their own id."""

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
# A proxy named by the environment must not stand between a test and 127.0.0.1.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# Below the ports that the kernel gives to clients, and to servers that take any.
_PORTS = range(12_000, 32_000)


class NotStartedError(Exception):
    """A server ended, or did not answer in time; the text holds the last lines it wrote."""


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on, and that no other call, of whatever process, returns.

    A server takes its port long after it was told of it, and gunicorn tries for seconds: with a port that somebody else
    took in between, a test would ask another test's proxy.
    """
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError):
            _reserve(port)
            return port


def _reserve(port: int) -> None:
    """Take the port for this process; raises OSError if it is taken.

    An abstract name belongs to one socket at a time, and to nobody once its process has ended: so it is left open.
    """
    with socket.socket(socket.AF_UNIX) as reservation, socket.socket() as sock:
        reservation.bind(f"\0vllm-tool-proxy tests, port {port}")
        sock.bind(("127.0.0.1", port))
        reservation.detach()


def answers(url: str) -> bool:
    """Say whether GET `url` is answered with 200."""
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
    """Run `command` in the project's folder while the block lasts, which begins once `health` answers 200.

    What it writes goes into the file `output`, if there is one; at the end it has `patience` seconds. Raises
    `NotStartedError` if it does not answer within `timeout` seconds.
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
    """End `process`: asked first, killed if it is still there after `patience` seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
