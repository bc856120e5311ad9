"""Decompression bombs from the model server: memory stays bounded, and the client gets an error (C7)."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.faults.bench import Bench, Benches
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE, ROLE, head, text

pytestmark = pytest.mark.once

# A gigabyte of spaces in a megabyte, as concatenated gzip members.
MEMBER = gzip.compress(b" " * 2**24, 6, mtime=0)
BOMB = MEMBER * 64
# Additional memory that a worker may use: an answer of maximum size, once in parts and once joined.
MOST = 256 * 2**20
PACKED = {"Content-Encoding": "gzip"}
EVENTS = {"Content-Type": "text/event-stream", **PACKED}
JSON = {"Content-Type": "application/json", **PACKED}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("bombs"), stack)()


def most_memory(bench: Bench) -> int:
    """Return the worker's peak memory in bytes."""
    status = Path(f"/proc/{bench.proxy.health()['worker']}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def script(headers: dict[str, str], data: bytes, status: int = 200) -> list[Any]:
    return [head(status, {**headers, "Content-Length": str(len(data))}), data]


def send(bench: Bench, dialect: Dialect, *, streamed: bool) -> tuple[int, bytes]:
    body = json.dumps(dialect.ask(streamed=streamed, tools=True)).encode()
    with closing(HTTPConnection("127.0.0.1", bench.proxy.port, timeout=3 * PATIENCE)) as client:
        client.request("POST", dialect.path, body)
        response = client.getresponse()
        return response.status, response.read()


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_a_bomb_is_an_upstream_error_and_memory_stays_bounded(bench: Bench, dialect: Dialect, streamed: bool) -> None:
    before = most_memory(bench)
    bench.play(*[script(EVENTS if streamed else JSON, BOMB)] * 2)
    status, data = send(bench, dialect, streamed=streamed)
    if status == 200:
        told = dialect.stream(data)
        assert told.failed, data[:500]
    else:
        told = dialect.error(data, status)
        assert status == 502
    assert told.words.startswith("the model server sent more than is allowed: ")
    assert most_memory(bench) - before < MOST
    bench.settled()


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_bomb_in_a_started_stream_ends_it_with_an_error(bench: Bench, dialect: Dialect) -> None:
    before = most_memory(bench)
    bench.play(script(EVENTS, gzip.compress(ROLE + text("So. ")) + BOMB))
    status, data = send(bench, dialect, streamed=True)
    told = dialect.stream(data)
    assert (status, told.text) == (200, "So. ") and told.failed and not told.finish
    assert told.words.startswith("the model server sent more than is allowed: ")
    assert most_memory(bench) - before < MOST
    bench.settled()
