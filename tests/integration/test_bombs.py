"""A model server whose compressed answer is far larger than what comes of it: bounded, and told (contract C7)."""

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

# A gigabyte of blanks in a megabyte: one member behind the other.
MEMBER = gzip.compress(b" " * 2**24, 6, mtime=0)
BOMB = MEMBER * 64
# What a worker may need for it beside what it needs anyway: an answer of the largest size, in parts and joined.
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


def asked(bench: Bench, dialect: Dialect, *, streamed: bool) -> tuple[int, bytes]:
    body = json.dumps(dialect.ask(streamed=streamed, tools=True)).encode()
    with closing(HTTPConnection("127.0.0.1", bench.proxy.port, timeout=3 * PATIENCE)) as client:
        client.request("POST", dialect.path, body)
        response = client.getresponse()
        return response.status, response.read()


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_it_is_an_error_of_the_server_and_costs_no_memory(bench: Bench, dialect: Dialect, streamed: bool) -> None:
    before = most_memory(bench)
    bench.play(*[script(EVENTS if streamed else JSON, BOMB)] * 2)
    status, data = asked(bench, dialect, streamed=streamed)
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
def test_a_stream_that_becomes_one_ends_in_an_error(bench: Bench, dialect: Dialect) -> None:
    before = most_memory(bench)
    bench.play(script(EVENTS, gzip.compress(ROLE + text("So. ")) + BOMB))
    status, data = asked(bench, dialect, streamed=True)
    told = dialect.stream(data)
    assert (status, told.text) == (200, "So. ") and told.failed and not told.finish
    assert told.words.startswith("the model server sent more than is allowed: ")
    assert most_memory(bench) - before < MOST
    bench.settled()
