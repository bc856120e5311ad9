"""A proxy with a low limit of open files: it warns at startup and stays reachable when they run out."""

from __future__ import annotations

import http.client
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.conftest import Front, Proxy, clean_environment
from tests.real.processes import free_port, running
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE, ROLE, SSE, Action, Client, Upstream, chunked, text

pytestmark = pytest.mark.once

FILES = 256


@pytest.fixture(scope="module", name="tight")
def _tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    with Upstream() as upstream, ExitStack() as stack:
        script: list[Action] = [SSE, chunked(ROLE + text("Hi")), upstream.gate()]
        upstream.paths.update({dialect.path: script for dialect in DIALECTS.values()})
        proxy = Proxy(free_port(), tmp_path_factory.mktemp("tight") / "proxy.log")
        words = f"{sys.executable} -m proxy --port {proxy.port} --upstream {upstream.url}"
        command = ["sh", "-c", f"ulimit -n {FILES}; exec {words}"]
        stack.enter_context(
            running(command, f"{proxy.url}/health", timeout=PATIENCE, env=clean_environment(), output=proxy.log)
        )
        yield Front(upstream, proxy)


@pytest.mark.slow
def test_a_start_with_few_descriptors_warns_about_the_stream_limit(tight: Front) -> None:
    (warning,) = [line for line in tight.proxy.log.read_text().splitlines() if "max_streams" in line]
    assert "warning" in warning and str(FILES) in warning


def streaming(tight: Front, dialect: Dialect) -> Client:
    """Return a client that has requested a stream."""
    return Client.post(tight.proxy.port, dialect.ask(streamed=True, tools=False), dialect.path)


def test_idle_connections_are_closed(tight: Front) -> None:
    with ExitStack() as stack:
        for _ in range(FILES + 50):
            connection = http.client.HTTPConnection("127.0.0.1", tight.proxy.port, timeout=PATIENCE)
            client = stack.enter_context(closing(connection))
            client.request("GET", "/health")
            assert client.getresponse().read()  # the connection is now kept alive
        began = time.monotonic()
        assert tight.proxy.health()["status"] == "healthy"
        assert time.monotonic() - began < PATIENCE / 4  # a kept-alive connection would be closed after 120 s
        # Streams get descriptors, too.
        with streaming(tight, DIALECTS["chat"]) as client_, client_.answer() as response:
            assert response.status == 200


def test_connections_that_send_nothing_are_closed(tight: Front) -> None:
    with ExitStack() as stack:
        for _ in range(FILES + 50):
            stack.enter_context(closing(socket.create_connection(("127.0.0.1", tight.proxy.port), PATIENCE)))
        assert tight.proxy.health()["status"] == "healthy"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_streams_beyond_the_descriptor_limit_are_rejected(tight: Front, dialect: Dialect) -> None:
    refused = 0
    with ExitStack() as stack:
        for _ in range(FILES // 2 + 10):
            client = stack.enter_context(streaming(tight, dialect))
            response = stack.enter_context(client.answer())
            if response.status != 200:
                refused += 1
                assert (response.status, response.getheader("Retry-After")) == (dialect.status(503), "2")
                assert "file descriptor" in dialect.error(response.read(), response.status).words
                assert tight.proxy.health()["status"] == "healthy"
        assert refused
        assert tight.proxy.health()["total_buffers"] == FILES // 2 + 10 - refused
    # Their slots are free again.
    assert tight.proxy.idle()
    with streaming(tight, dialect) as client, client.answer() as response:
        assert response.status == 200
