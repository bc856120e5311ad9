"""A proxy that may open few files: it says so at its start, and stays reachable when they run out."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import Proxy, clean_environment
from tests.real.processes import free_port, running
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE, ROLE, SSE, Action, Upstream, chunked, text

pytestmark = pytest.mark.once

FILES = 256


@dataclass
class Tight:
    """A proxy with few file descriptors, in front of a model server with endless streams."""

    proxy: Proxy
    upstream: Upstream

    def ask(self, dialect: Dialect, client: http.client.HTTPConnection) -> http.client.HTTPResponse:
        """Send a request for a stream; return the answer with its body unread."""
        client.request("POST", dialect.path, json.dumps(dialect.ask(streamed=True, tools=False)).encode())
        return client.getresponse()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=PATIENCE)


@pytest.fixture(scope="module", name="tight")
def _tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tight]:
    with Upstream() as upstream, ExitStack() as stack:
        script: list[Action] = [SSE, chunked(ROLE + text("Hi")), upstream.gate()]
        upstream.paths.update({dialect.path: script for dialect in DIALECTS.values()})
        proxy = Proxy(free_port(), tmp_path_factory.mktemp("tight") / "proxy.log")
        words = f"{sys.executable} -m proxy --port {proxy.port} --upstream {upstream.url}"
        command = ["sh", "-c", f"ulimit -n {FILES}; exec {words}"]
        stack.enter_context(
            running(command, f"{proxy.url}/health", timeout=PATIENCE, env=clean_environment(), output=proxy.log)
        )
        yield Tight(proxy, upstream)


@pytest.mark.slow
def test_a_start_with_few_descriptors_says_how_many_streams_they_are_enough_for(tight: Tight) -> None:
    (warning,) = [line for line in tight.proxy.log.read_text().splitlines() if "max_streams" in line]
    assert "warning" in warning and str(FILES) in warning


def test_idle_connections_give_way(tight: Tight) -> None:
    with ExitStack() as stack:
        for _ in range(FILES + 50):
            client = stack.enter_context(closing(tight.connection()))
            client.request("GET", "/health")
            assert client.getresponse().read()  # it is kept alive from now on
        began = time.monotonic()
        assert tight.proxy.health()["status"] == "healthy"
        assert time.monotonic() - began < PATIENCE / 4  # a kept connection is closed after 120 s
        # A stream has its descriptors too.
        with closing(tight.connection()) as client:
            assert tight.ask(DIALECTS["chat"], client).status == 200


def test_connections_that_never_say_anything_give_way(tight: Tight) -> None:
    with ExitStack() as stack:
        for _ in range(FILES + 50):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", tight.proxy.port), PATIENCE)))
        assert tight.proxy.health()["status"] == "healthy"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_streams_beyond_the_descriptors_are_told_so(tight: Tight, dialect: Dialect) -> None:
    refused: list[tuple[int, str | None, Any]] = []
    with ExitStack() as stack:
        for _ in range(FILES // 2 + 10):
            client = stack.enter_context(closing(tight.connection()))
            answer = tight.ask(dialect, client)
            if answer.status != 200:
                refused.append((answer.status, answer.headers["Retry-After"], answer.read()))
                assert tight.proxy.health()["status"] == "healthy"
        assert refused
        for status, retry_after, body in refused:
            assert (status, retry_after) == (dialect.status(503), "2")
            assert "file descriptor" in dialect.error(body, status).words
        assert tight.proxy.health()["total_buffers"] == FILES // 2 + 10 - len(refused)
    # Their places are free again.
    with closing(tight.connection()) as client:
        assert tight.proxy.idle()
        assert tight.ask(dialect, client).status == 200
