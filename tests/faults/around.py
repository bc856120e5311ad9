"""Helpers of tests of the proxy's lifecycle: proxies to stop or reload, and requests in progress."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import Proxy, clean_environment
from tests.faults.bench import Answer, Bench, every, read, request
from tests.faults.scripts import HALF, REPLY, SAID, WHOLE
from tests.real.processes import ROOT, free_port, stop
from tests.real.processes import answers as up
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import HELD, PATIENCE, Client, Upstream, stream


@contextlib.contextmanager
def started(
    upstream: str, *flags: str, cwd: Path = ROOT, stderr: Any = subprocess.DEVNULL
) -> Iterator[tuple[Bench, int]]:
    """Yield a proxy with its own folder and log and no scripted model server, and its master's process id."""
    port = free_port()
    command = [sys.executable, "-m", "proxy", "serve", "--upstream", upstream, "--port", str(port), *flags]
    process = subprocess.Popen(command, cwd=cwd, env=clean_environment(), stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        deadline = time.monotonic() + 4 * PATIENCE
        while not up(f"http://127.0.0.1:{port}/health"):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        with Upstream() as nobody:
            yield Bench(nobody, Proxy(port, Path(os.devnull))), process.pid
    finally:
        stop(process)


@dataclass
class UnderWay:
    """A request whose answer is incomplete. `response` is None if no part of the answer has arrived."""

    dialect: Dialect
    streamed: bool
    client: Client
    response: HTTPResponse | None

    def read(self) -> Answer:
        if self.response is not None:
            return read(self.dialect, self.response, streamed=self.streamed)
        with self.client.answer() as response:
            return read(self.dialect, response, streamed=self.streamed)


def under_way(bench: Bench, stack: ExitStack) -> list[UnderWay]:
    """Return three stalled requests per dialect: a stream in text, a stream in a call, and one without an answer."""
    found = list[UnderWay]()
    wanted = [(dialect, said) for dialect in DIALECTS.values() for said in ([*SAID], [*SAID, *HALF], None)]
    bench.play(*[[*(said or ()), HELD] for _, said in wanted])
    for dialect, said in wanted:
        asked = request(dialect, dialect.ask(streamed=said is not None, tools=True))
        client = stack.enter_context(Client(bench.proxy.port, asked))
        bench.upstream.wait(len(found) + 1)
        response = stack.enter_context(client.answer()) if said is not None else None
        assert response is None or response.peek()
        found.append(UnderWay(dialect, said is not None, client, response))
    return found


def master_of(bench: Bench) -> psutil.Process:
    master = psutil.Process(bench.proxy.health()["worker"]).parent()
    assert master is not None
    return master


def serves(bench: Bench) -> bool:
    """Return whether a request of each dialect is answered."""
    for dialect, streamed in every():
        bench.play(stream(*REPLY) if streamed else [WHOLE])
        given = bench.sent(dialect, dialect.ask(streamed=streamed, tools=True), streamed=streamed)
        assert given.succeeds().text == "So."
    return True


@contextlib.contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Raise the limit of open descriptors to at least `count`, here and in child processes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), max(hard, count)))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
