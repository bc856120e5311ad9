"""A log that nobody reads stops nothing, and standard streams that are closed are nobody else's."""

from __future__ import annotations

import contextlib
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

import psutil
import pytest

from proxy.server.log_stream import LogStream
from tests.conftest import Proxy, clean_environment
from tests.real.processes import ROOT, answers, free_port, stop
from tests.support.scripted import PATIENCE
from tests.unit.server.test_log_stream import pipe, taken

pytestmark = pytest.mark.once










def test_what_a_process_could_not_tell_another_one_tells() -> None:
    """A worker that ends at a reload, before anybody reads."""
    with pipe() as (end, write):
        stream = LogStream(write, most=10_000)
        child = os.fork()
        if not child:
            for _ in range(1000):
                stream.write("x" * 99 + "\n")
            stream._end()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        os.set_blocking(end, False)
        kept = b""
        with contextlib.suppress(BlockingIOError):
            while True:
                kept += os.read(end, 65536)
        os.set_blocking(end, True)
        stream.write("again\n")
        said = taken(end, 6 + len("WARNING 900 lines of the log were lost, for nobody read it\n"))
        assert said.startswith(b"again\nWARNING ")
        assert 1000 - int(said.split()[2]) - len(kept) // 100 in (0, 1)  # one may have left in part
        assert (stream.lost, stream.lost_in_all) == (0, int(said.split()[2]))


def test_what_all_processes_lose_is_counted_once() -> None:
    """Several that lose at the same time, some of them before they end and some at their end."""
    with pipe() as (_, write):
        stream = LogStream(write, most=10_000)
        children = []
        for _ in range(4):
            child = os.fork()
            if not child:
                for _ in range(1000):
                    stream.write("x" * 99 + "\n")
                stream._end()
                os._exit(0)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        assert 4000 - 4096 // 100 <= stream.lost_in_all <= 4000
        before = stream.lost_in_all
        for _ in range(1000):
            stream.write("x" * 99 + "\n")
        assert stream.lost_in_all - before == stream.lost > 800




def test_a_process_that_is_forked_has_its_own_queue() -> None:
    code = (
        "import os, sys\nfrom proxy.server.log_stream import LogStream\n"
        "stream = LogStream(2)\nstream.write('before\\n')\n"
        "child = os.fork()\nstream.write('child\\n' if not child else 'parent\\n')\n"
        "if child: os.waitpid(child, 0)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0 and sorted(done.stderr.splitlines()) == [b"before", b"child", b"parent"]






@contextmanager
def serving(
    *flags: str, stderr: int, stdout: int | None = None, close: tuple[int, ...] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A proxy whose standard streams are not the usual ones, in front of nobody; yields its port too."""
    port = free_port()
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", "http://127.0.0.1:1", "--port", str(port), *flags]
    if close:
        shut = " ".join(f"{number}{'<' if number == 0 else '>'}&-" for number in close)
        command = ["sh", "-c", f'exec "$@" {shut}', "sh", *command]
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
    process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), **streams)
    try:
        deadline = time.monotonic() + PATIENCE
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        yield process, port
    finally:
        stop(process)


@pytest.mark.slow
@pytest.mark.parametrize("close", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_with_closed_standard_streams_it_serves(close: tuple[int, ...]) -> None:
    with serving(stderr=subprocess.DEVNULL, close=close) as (process, port):
        worker = Proxy(port, Path(os.devnull)).health()["worker"]
        for number in (process.pid, worker):
            for descriptor in close:
                assert os.readlink(f"/proc/{number}/fd/{descriptor}") == os.devnull
            for descriptor in (0, 1, 2):
                assert "memfd" not in os.readlink(f"/proc/{number}/fd/{descriptor}")


def ask_often(port: int, count: int) -> None:
    """So many requests, each with a long line in the log."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        for _ in range(count):
            client.request("GET", "/nothing/" + "x" * 450)
            assert client.getresponse().read()


@pytest.mark.slow
def test_a_log_that_nobody_reads_stops_neither_requests_nor_a_reload_nor_the_end() -> None:
    with pipe() as (_, write), serving(stderr=write) as (process, port):
        ask_often(port, 50)
        worker = Proxy(port, Path(os.devnull)).health()["worker"]
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 3 * PATIENCE
        while Proxy(port, Path(os.devnull)).health()["worker"] == worker:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ask_often(port, 50)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def fill(write: int) -> None:
    """Write to a pipe until no byte more is taken."""
    os.set_blocking(write, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"x" * size)
    os.set_blocking(write, True)


@pytest.mark.slow
@pytest.mark.parametrize("warns", [True, False])
def test_with_a_pipe_that_is_full_before_it_begins_it_serves(tmp_path: Path, warns: bool) -> None:
    """The command's own warnings, gunicorn's first line and all others are lost."""
    # A server that cannot be reached and a name that is open to all are worth a warning each.
    flags = ("--host", "0.0.0.0") if warns else ()
    with pipe() as (_, write):
        fill(write)
        with serving(*flags, stderr=write, stdout=write) as (process, port):
            worker = Proxy(port, Path(os.devnull)).health()["worker"]
            process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 6 * PATIENCE
            while Proxy(port, Path(os.devnull)).health()["worker"] == worker:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("command", [["check", "--port", "x"], ["nonsense"]])
def test_a_command_that_fails_ends_although_nobody_reads_why(command: list[str]) -> None:
    with pipe() as (_, write):
        fill(write)
        asked = [sys.executable, "-m", "proxy", *command]
        done = subprocess.run(asked, cwd=ROOT, env=clean_environment(), stderr=write, timeout=120, check=False)
        assert done.returncode == 2


@pytest.mark.slow
def test_what_is_said_before_it_becomes_gunicorn_is_not_lost() -> None:
    with pipe(65536) as (end, write), serving(stderr=write):
        said = os.read(end, 65536)
        while b"Listening at" not in said:
            said += os.read(end, 65536)
    assert b"cannot be reached" in said.partition(b"Starting gunicorn")[0]


@pytest.mark.slow
def test_lines_that_were_lost_before_a_reload_are_told_behind_it() -> None:
    with pipe() as (end, write), serving(stderr=write) as (process, port):
        ask_often(port, 1500)
        front = Proxy(port, Path(os.devnull))
        found = re.search(rb"tool_proxy_log_lost_total ([0-9.]+)", front.get("/metrics")[2])
        assert found
        worker = front.health()["worker"]
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 6 * PATIENCE
        while psutil.pid_exists(worker):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        read = bytearray()
        while not (told := re.findall(rb"WARNING (\d+) lines of the log were lost", bytes(read))):
            ask_often(port, 1)
            read += os.read(end, 65536)
        assert int(told[0]) >= float(found[1])
        # What the worker that has ended could not write counts too: all that waited in it.
        counted = re.search(rb"tool_proxy_log_lost_total ([0-9.]+)", front.get("/metrics")[2])
        assert counted and float(counted[1]) == int(told[0])
        process.send_signal(signal.SIGTERM)


@pytest.mark.slow
def test_lines_that_were_lost_are_counted_and_told() -> None:
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
