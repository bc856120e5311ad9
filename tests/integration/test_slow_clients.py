"""Clients that send or read slowly: the resources that they hold, for how long, and their errors."""

from __future__ import annotations

import http.client
import json
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from typing import Any

import psutil
import pytest

from tests.conftest import Start, until
from tests.faults.bench import MODELS, Benches
from tests.support.dialects import DIALECTS, Dialect
from tests.support.scripted import PATIENCE, SSE, Act, Upstream, chat, chunked, text, whole_reply

pytestmark = [pytest.mark.once, pytest.mark.heavy]

WHOLE = whole_reply("So.")
EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benches]:
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("slow"), stack)


def body_of(dialect: Dialect) -> bytes:
    return json.dumps(dialect.ask(streamed=False, tools=False)).encode()


def head_of(dialect: Dialect, *lines: str) -> bytes:
    return "\r\n".join((f"POST {dialect.path} HTTP/1.1", "Host: x", *lines, "", "")).encode()


def connected(port: int) -> closing[socket.socket]:
    return closing(socket.create_connection(("127.0.0.1", port), PATIENCE))


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_an_answer_to_an_incomplete_body_closes_the_connection(benches: Benches, framing: str) -> None:
    """The client sends no more data and still reads."""
    with connected(benches().proxy.port) as client:
        client.sendall(head_of(DIALECTS["chat"], framing) + b"5\r\n{")
        client.shutdown(socket.SHUT_WR)
        with closing(HTTPResponse(client)) as response:
            response.begin()
            assert (response.status, response.getheader("connection")) == (400, "close")


@pytest.mark.parametrize("framed", ["length", "chunks"])
def test_an_answer_to_a_complete_body_keeps_the_connection_alive(benches: Benches, framed: str) -> None:
    """This includes a body that no handler reads."""
    asked = framed_request(b"{}", framed).replace(b"/v1/chat/completions", b"/nothing")
    with connected(benches().proxy.port) as client:
        for _ in range(2):
            client.sendall(asked)
            with closing(HTTPResponse(client)) as response:
                response.begin()
                assert (response.status, response.getheader("connection")) == (404, "keep-alive")
                response.read()


@pytest.mark.parametrize("framed", ["length", "chunks"])
def test_100_continue_is_sent_once_and_the_body_is_awaited(proxy: Start, framed: str) -> None:
    with Upstream(WHOLE, WHOLE) as upstream:
        running = proxy(upstream.url)
        asked = json.dumps(chat(stream=False)).encode()
        head, _, body = framed_request(asked, framed).partition(b"\r\n\r\n")
        with connected(running.port) as client, client.makefile("rb") as lines:
            for _ in range(2):
                client.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
                assert lines.readline() == b"HTTP/1.1 100 Continue\r\n" and lines.readline() == b"\r\n"
                client.sendall(body)
                assert lines.readline().startswith(b"HTTP/1.1 200 ")
                headers = http.client.parse_headers(lines)
                assert b'"So."' in lines.read(int(headers["Content-Length"]))
        assert [seen.body for seen in upstream.seen] == [asked, asked]


def test_a_body_of_tiny_chunks_uses_little_cpu(proxy: Start) -> None:
    with Upstream(WHOLE) as upstream:
        running = proxy(upstream.url)
        asked = json.dumps(chat("x" * 90_000, stream=False)).encode()
        parts = b"".join(b"1\r\n%c\r\n" % byte for byte in asked)
        with connected(running.port) as client:
            client.sendall(head_of(DIALECTS["chat"], "Transfer-Encoding: chunked") + parts + b"0\r\n\r\n")
            with closing(HTTPResponse(client)) as response:
                response.begin()
                assert response.status == 200, response.read()
        assert upstream.seen[0].body == asked


@EACH
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM], ids=lambda each: each.name)
def test_a_body_may_be_completed_during_a_shutdown(proxy: Start, dialect: Dialect, number: signal.Signals) -> None:
    with Upstream(WHOLE) as upstream, ExitStack() as stack:
        # On a busy machine, another worker starts slowly.
        running = proxy(upstream.url, "STALL_SECONDS=300")
        worker = running.health()["worker"]
        body = body_of(dialect)
        clients = [stack.enter_context(connected(running.port)) for _ in range(3)]
        for client in clients:
            client.sendall(head_of(dialect, f"Content-Length: {len(body)}") + body[:5])
        running.health()  # the worker has accepted them
        psutil.Process(worker).parent().send_signal(number)
        if number == signal.SIGHUP:
            until(lambda: running.health()["worker"] != worker, 6 * PATIENCE)
        # Longer than the worker waits for heads, and for clients that keep their connection open.
        assert select.select(clients, [], [], 4)[0] == []
        upstream.play(*[WHOLE] * 3)
        upstream.paths["/v1/models"] = [MODELS]
        for client in clients:
            client.sendall(body[5:])
            with closing(HTTPResponse(client)) as response:
                response.begin()
                assert response.status == 200, response.read()


@EACH
def test_an_incomplete_body_gets_a_503_when_the_worker_exits(proxy: Start, dialect: Dialect) -> None:
    with Upstream() as upstream:
        running = proxy(upstream.url, "--graceful-timeout", "4")
        worker = running.health()["worker"]
        with connected(running.port) as client:
            client.sendall(head_of(dialect, "Content-Length: 1000") + b"{")
            running.health()
            psutil.Process(worker).parent().send_signal(signal.SIGHUP)
            with closing(HTTPResponse(client)) as response:
                response.begin()
                assert response.status == dialect.status(503) and response.getheader("Retry-After")
                assert "send the request again" in dialect.error(response.read(), response.status).words
        assert upstream.seen == []


def sizes() -> Iterator[int]:
    """Return sizes around the size of one read."""
    for size in (200, 16_384, 65_536, 1024 * 1024, 3 * 1024 * 1024):
        yield from (size - 1, size, size + 1)


@pytest.mark.parametrize("framed", ["length", "one chunk", "chunks", "trailers"])
def test_a_body_of_any_size_arrives_complete_and_the_next_request_too(proxy: Start, framed: str) -> None:
    with Upstream() as upstream:
        running = proxy(upstream.url)
        with connected(running.port) as client:
            for size in sizes():
                upstream.play(WHOLE)
                asked = json.dumps(chat("x" * size, stream=False)).encode()
                client.sendall(framed_request(asked, framed))
                with closing(HTTPResponse(client)) as response:
                    response.begin()
                    assert response.status == 200, response.read()
                    response.read()
                assert upstream.seen[0].body == asked


def framed_request(body: bytes, framed: str) -> bytes:
    dialect = DIALECTS["chat"]
    if framed == "length":
        return head_of(dialect, f"Content-Length: {len(body)}") + body
    step = 50_000 if framed != "one chunk" else len(body)
    parts = [chunked(body[at : at + step]) for at in range(0, len(body), step)]
    last = b"0\r\nX-Sum: 1\r\n\r\n" if framed == "trailers" else b"0\r\n\r\n"
    return head_of(dialect, "Transfer-Encoding: chunked") + b"".join(parts) + last


@pytest.mark.parametrize("framed", ["length", "chunks"])
def test_two_requests_in_one_packet_are_both_answered(proxy: Start, framed: str) -> None:
    with Upstream(WHOLE, WHOLE) as upstream:
        running = proxy(upstream.url)
        asked = json.dumps(chat("x" * 100_000, stream=False)).encode()
        with connected(running.port) as client:
            client.sendall(framed_request(asked, framed) * 2)
            said = b""
            while said.count(b'"So."') < 2:
                data = client.recv(65536)
                assert data, said
                said += data
        assert [seen.body for seen in upstream.seen] == [asked, asked]


@pytest.mark.parametrize("streamed", [True, False])
def test_client_timeout_is_respected(proxy: Start, streamed: bool) -> None:
    """The client sends half a body and then nothing, which measures the timeout on this machine."""
    many = [SSE, *[chunked(text("x" * 4000)) * 16] * 600]
    flood: list[Any] = many if streamed else whole_reply("x" * 30_000_000)
    with Upstream([*flood, Act.EXPECT_CLOSE]) as upstream:
        running = proxy(upstream.url, "STALL_SECONDS=5")
        with closing(socket.socket()) as client, connected(running.port) as silent:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", running.port))
            body = json.dumps(chat(stream=streamed)).encode()
            client.sendall(head_of(DIALECTS["chat"], f"Content-Length: {len(body)}") + body)
            assert client.recv(1)
            silent.sendall(head_of(DIALECTS["chat"], f"Content-Length: {len(body)}") + body[:1])
            began = time.monotonic()
            free, told = 0.0, 0.0
            while not free or not told:
                passed = time.monotonic() - began
                assert passed < PATIENCE, "the slot was not free in time"
                free = free or (passed if running.health()["active_requests"] == 0 else 0.0)
                told = told or (passed if select.select([silent], [], [], 0)[0] else 0.0)
                time.sleep(0.05)
            # The kernel's timer restarts after each partial write.
            assert 3 < free < (2 if streamed else 4) * told, (free, told)
