"""Clients that are slow to send or to take: what they hold, for how long, and what they are told."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest

from proxy import app, client_socket, gunicorn_conf
from proxy.client_socket import ClientSocket, Times
from proxy.client_waits import AHEAD, ahead_of
from tests.conftest import Start
from tests.faults.bench import Benches
from tests.faults.dialects import DIALECTS, Dialect
from tests.helpers import all_cuts
from tests.scripted import PATIENCE, SSE, Act, Upstream, answer, chat, chunked, completion, text

pytestmark = pytest.mark.once

WHOLE = [answer(completion("So."))]
EACH = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benches]:
    """Proxies by their flags, each started once."""
    with ExitStack() as stack:
        yield Benches(tmp_path_factory.mktemp("slow"), stack)


def body_of(dialect: Dialect) -> bytes:
    return json.dumps(dialect.ask(streamed=False, tools=False)).encode()


def head_of(dialect: Dialect, *lines: str) -> bytes:
    return "\r\n".join((f"POST {dialect.path} HTTP/1.1", "Host: x", *lines, "", "")).encode()


FRAMINGS = {
    "a length": ("Content-Length: 100000", b"{"),
    "a great length": ("Content-Length: 20000000", b"{"),
    "chunks": ("Transfer-Encoding: chunked", b"100\r\n{"),
    "half a size": ("Transfer-Encoding: chunked", b"1"),
    "small chunks": ("Transfer-Encoding: chunked", b"1\r\n{\r\n"),
}


@contextmanager
def dribbling(clients: Sequence[socket.socket], said: bytes = b" ") -> Iterator[None]:
    """Each of them sends a little, again and again."""
    stop = threading.Event()

    def dribble() -> None:
        while not stop.wait(0.1):
            for client in clients:
                with contextlib.suppress(OSError):
                    client.send(said)

    thread = threading.Thread(target=dribble, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)


@EACH
@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
def test_twelve_clients_that_dribble_hold_nobody_up(
    benches: Benches, dialect: Dialect, framing: tuple[str, bytes]
) -> None:
    """Of 16 threads 12 are for replies."""
    line, begun = framing
    bench = benches("--threads", "16")
    bench.play(*[WHOLE] * 12)
    running, clients = bench.proxy, []
    with ExitStack() as stack:
        for _ in range(12):
            client = stack.enter_context(closing(socket.create_connection(("127.0.0.1", running.port), PATIENCE)))
            client.sendall(head_of(dialect, line) + begun)
            clients.append(client)
        said = b"1\r\n \r\n" if begun.endswith(b"\r\n") else b"1" if begun == b"1" else b" "
        with dribbling(clients, said if begun != b"1" else b""):
            body = body_of(dialect)
            for _ in range(12):
                served = stack.enter_context(closing(socket.create_connection(("127.0.0.1", running.port), PATIENCE)))
                served.sendall(head_of(dialect, f"Content-Length: {len(body)}") + body)
                began = time.monotonic()
                with closing(HTTPResponse(served)) as response:
                    response.begin()
                    assert response.status == 200, response.read()
                assert time.monotonic() - began < 5
            assert running.idle()


@EACH
@pytest.mark.parametrize("framing", FRAMINGS.values(), ids=FRAMINGS)
@pytest.mark.parametrize("named", ["body_timeout", "client_timeout"])
def test_a_body_that_takes_too_long_is_answered_so(
    benches: Benches, dialect: Dialect, framing: tuple[str, bytes], named: str
) -> None:
    line, begun = framing
    bench = benches(f"--{named.replace('_', '-')}", "1")
    with closing(socket.create_connection(("127.0.0.1", bench.proxy.port), PATIENCE)) as client:
        client.sendall(head_of(dialect, line) + begun)
        with closing(HTTPResponse(client)) as response:
            response.begin()
            told = dialect.error(response.read(), 408)
    assert response.status == 408 and named in told.words
    assert bench.upstream.seen == []
    bench.settled()


@EACH
def test_an_expected_body_has_its_time_too(benches: Benches, dialect: Dialect) -> None:
    bench = benches("--body-timeout", "1")
    with closing(socket.create_connection(("127.0.0.1", bench.proxy.port), PATIENCE)) as client:
        client.sendall(head_of(dialect, "Content-Length: 9", "Expect: 100-continue"))
        with client.makefile("rb") as lines:
            assert lines.readline().startswith(b"HTTP/1.1 100 ") and lines.readline() == b"\r\n"
            assert b" 408 " in lines.readline()
    bench.settled()


def sizes() -> Iterator[int]:
    """Around what is taken at once, and what is awaited without a thread."""
    for size in (200, 16_384, 262_144, AHEAD, 3 * AHEAD):
        yield from (size - 1, size, size + 1)


@pytest.mark.parametrize("framed", ["length", "one chunk", "chunks", "trailers"])
def test_a_body_of_any_size_arrives_whole_and_the_next_request_too(proxy: Start, framed: str) -> None:
    with Upstream() as upstream:
        running = proxy(upstream.url)
        with closing(socket.create_connection(("127.0.0.1", running.port), PATIENCE)) as client:
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
def test_two_requests_in_one_go_are_both_answered(proxy: Start, framed: str) -> None:
    with Upstream(WHOLE, WHOLE) as upstream:
        running = proxy(upstream.url)
        asked = json.dumps(chat("x" * 100_000, stream=False)).encode()
        with closing(socket.create_connection(("127.0.0.1", running.port), PATIENCE)) as client:
            client.sendall(framed_request(asked, framed) * 2)
            said = b""
            while said.count(b'"So."') < 2:
                data = client.recv(65536)
                assert data, said
                said += data
        assert [seen.body for seen in upstream.seen] == [asked, asked]


@pytest.mark.parametrize("size", [1, 5, 100, 5000])
@pytest.mark.parametrize("framed", ["length", "one chunk", "trailers"])
def test_the_end_of_a_body_is_found_at_every_cut(size: int, framed: str) -> None:
    whole = framed_request(b"a" * size, framed)
    head, _, body = whole.partition(b"\r\n\r\n")
    for cut in all_cuts(body, 20):
        request = ahead_of(head + b"\r\n\r\n")
        assert request is not None
        request.data += head + b"\r\n\r\n"
        for number, part in enumerate(cut):
            assert not request.enough or not b"".join(cut[number:])
            request.data += part
        assert request.enough


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length : 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        b"POST / HTTP/1.1\nContent-Length: 5\n\n",
    ],
)
def test_what_is_not_plain_is_for_a_thread_to_see(head: bytes) -> None:
    assert ahead_of(head) is None


def test_what_is_too_large_is_not_awaited() -> None:
    assert app.MAX_BODY == gunicorn_conf.MAX_BODY
    assert ahead_of(head_of(DIALECTS["chat"], "Content-Length: 101"), 100) is None
    assert ahead_of(head_of(DIALECTS["chat"], "Content-Length: 100"), 100) is not None
    head = head_of(DIALECTS["chat"], "Transfer-Encoding: chunked")
    request = ahead_of(head, 100)
    assert request is not None
    request.data += head + b"ffff\r\n" + b"x" * 94
    assert not request.enough
    request.data += b"x"
    assert request.enough


@pytest.mark.parametrize(
    "body", [b"zz\r\n", b"-1\r\n", b"x" * 2000, b"\r\n", b"1;" + b"x" * 2000, b"0\r\n" + b"x" * 9000]
)
def test_chunks_that_are_none_are_for_a_thread_to_see(body: bytes) -> None:
    head = head_of(DIALECTS["chat"], "Transfer-Encoding: chunked")
    request = ahead_of(head)
    assert request is not None
    request.data += head + body
    assert request.enough


@contextmanager
def pair(times: Times) -> Iterator[tuple[ClientSocket, socket.socket]]:
    """Our end of a connection, and the client's."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname(), PATIENCE)
        ours = ClientSocket(listener.accept()[0], times)
        ours.setblocking(True)
        with client, ours:
            yield ours, client


def test_a_body_that_comes_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_socket, "GRACE", 0.3)
    with pair(Times(rate=1000)) as (ours, client), dribbling([client]):
        began = time.monotonic()
        with pytest.raises(BrokenPipeError):
            while ours.recv(100):
                pass
        assert "body_rate" in ours.late and 0.25 < time.monotonic() - began < 3
        ours.begin()
        assert ours.late == "" and ours.recv(100)  # the next request has its own time


def test_a_body_that_comes_fast_enough_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_socket, "GRACE", 0.3)
    with pair(Times(rate=10)) as (ours, client), dribbling([client], b"x" * 100):
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert ours.recv(1000)
        assert ours.late == ""


def test_what_is_here_is_taken_however_late_it_is() -> None:
    """A worker that had no time is not the client's fault."""
    with pair(Times(idle=0.01, body=0.01)) as (ours, client):
        client.sendall(b"abc")
        time.sleep(0.1)
        assert ours.recv(100) == b"abc"


def test_a_client_that_takes_slowly_is_not_one_that_takes_nothing() -> None:
    """There is room in the kernel's buffer only once a third of it was taken; what was taken before counts."""
    with pair(Times(idle=1.0)) as (ours, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
        data, came = os.urandom(2_000_000), bytearray()

        def take() -> None:
            while len(came) < len(data):
                came.extend(client.recv(8192))
                if len(came) < 700_000:
                    time.sleep(0.05)

        taker = threading.Thread(target=take, daemon=True)
        taker.start()
        ours.sendall(data)
        taker.join(PATIENCE)
        assert bytes(came) == data


@pytest.mark.parametrize("streamed", [True, False])
def test_client_timeout_means_what_it_says(proxy: Start, streamed: bool) -> None:
    """The kernel's own limit begins anew with each write that was taken in part: 5 s became 15."""
    many = [SSE, *[chunked(text("x" * 4000)) * 16] * 600]
    flood: list[Any] = many if streamed else [answer(completion("x" * 30_000_000))]
    with Upstream([*flood, Act.EXPECT_CLOSE]) as upstream:
        running = proxy(upstream.url, "--client-timeout", "5")
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", running.port))
            body = json.dumps(chat(stream=streamed)).encode()
            client.sendall(head_of(DIALECTS["chat"], f"Content-Length: {len(body)}") + body)
            assert client.recv(1)
            began = time.monotonic()
            while running.health()["active_requests"]:
                assert time.monotonic() - began < 12, "the slot was not free in time"
                time.sleep(0.05)
            assert time.monotonic() - began > 3
