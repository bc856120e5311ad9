"""A log without a reader blocks no request, and closed standard streams are not reused for other files."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Proxy, clean_environment, until
from tests.real.processes import ROOT, answers, free_port, stop
from tests.support.scripted import PATIENCE
from tests.unit.server.test_log_queue import pipe

pytestmark = pytest.mark.once


@contextmanager
def serving(
    *flags: str, stderr: int, stdout: int | None = None, close: tuple[int, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a proxy with these standard streams, without a model server. Yield its process and port."""
    port = free_port()
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", "http://127.0.0.1:1", "--port", str(port), *flags]
    if close:
        shut = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in close)
        command = ["sh", "-c", f'exec "$@" {shut}', "sh", *command]
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
    process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), **streams)
    try:
        until(lambda: answers(f"http://127.0.0.1:{port}/health"))
        yield process, port
    finally:
        stop(process)


@pytest.mark.slow
@pytest.mark.parametrize("close", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_it_serves_with_closed_standard_streams(close: tuple[int, ...]) -> None:
    with serving(stderr=subprocess.DEVNULL, close=close) as (process, port):
        worker = Proxy(port, Path(os.devnull)).health()["worker"]
        for number in (process.pid, worker):
            for descriptor in close:
                assert os.readlink(f"/proc/{number}/fd/{descriptor}") == os.devnull
            for descriptor in (0, 1, 2):
                assert "memfd" not in os.readlink(f"/proc/{number}/fd/{descriptor}")


def ask_often(port: int, count: int) -> None:
    """Send requests that cause long log lines."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        for _ in range(count):
            client.request("GET", "/nothing/" + "x" * 450)
            assert client.getresponse().read()


@pytest.mark.slow
def test_an_unread_log_blocks_nothing() -> None:
    with pipe() as (_, write), serving(stderr=write) as (process, port):
        ask_often(port, 50)
        worker = Proxy(port, Path(os.devnull)).health()["worker"]
        process.send_signal(signal.SIGHUP)
        until(lambda: Proxy(port, Path(os.devnull)).health()["worker"] != worker, 3 * PATIENCE)
        ask_often(port, 50)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.slow
def test_lost_lines_are_counted_and_reported() -> None:
    with pipe() as (end, write), serving(stderr=write) as (process, port):
        ask_often(port, 1500)
        front = Proxy(port, Path(os.devnull))
        found = re.search(rb"tool_proxy_log_lost_total ([0-9.]+)", front.get("/metrics")[2])
        assert found and float(found[1]) > 100
        read, stop_reading = bytearray(), threading.Event()

        def drain() -> None:
            while not stop_reading.is_set():
                read.extend(os.read(end, 65536))

        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        deadline = time.monotonic() + PATIENCE
        while b"lines of the log were lost" not in read:
            ask_often(port, 1)
            assert time.monotonic() < deadline
        stop_reading.set()
        ask_often(port, 1)
        reader.join(PATIENCE)
        (told,) = re.findall(rb"WARNING (\d+) lines of the log were lost", bytes(read))
        assert int(told) >= float(found[1])
        process.send_signal(signal.SIGTERM)
