"""Polling two sockets: what wakes the poll, in what order, and which timeout is reported."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from proxy.errors import UpstreamTimeout
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import ModelServer as Caller
from proxy.upstream.client import ServerOptions, UpstreamCall
from tests.support.scripted import LAST, SSE, Act, Upstream, chunked


def open_call(server: Upstream) -> UpstreamCall:
    return Caller(ServerOptions(server.url)).open("POST", "/x", {}, b"{}")


@pytest.fixture
def client() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a client's connection, the proxy's end first."""
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def test_a_pipelined_request_does_not_wake_the_poll(client: tuple[socket.socket, socket.socket]) -> None:
    """A pipelined request waits in the client's socket; the poll must not spin on it."""
    near, far = client
    far.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with Upstream([Act.EXPECT_CLOSE]) as server, open_call(server) as call:
        spent = time.thread_time()
        with pytest.raises(UpstreamTimeout):
            list(AnswerWait(near, Timeouts(0.3)).receive(call))
        assert time.thread_time() - spent < 0.1


def test_a_poll_that_waits_for_a_heartbeat_does_not_spin() -> None:
    with Upstream([Act.EXPECT_CLOSE]) as server, open_call(server) as call:
        pump = AnswerWait(None, Timeouts(0.5, heartbeat=0.05))
        woken, spent = 0, time.thread_time()
        with pytest.raises(UpstreamTimeout):
            for _ in pump.receive(call):
                woken += 1
                if pump.heartbeat_due:
                    pump.wrote()
        assert woken <= 20
        assert time.thread_time() - spent < 0.1


def test_the_readers_own_time_does_not_count_as_idle() -> None:
    """A driven stream that waited for a thread is not timed out: received data is read first."""
    with Upstream() as server:
        gate = server.gate()
        server.play([SSE + chunked(b"one"), gate, chunked(b"two") + LAST])
        with open_call(server) as call:
            wait = AnswerWait(None, Timeouts(0.2))
            parts = wait.receive(call)
            assert next(parts) == b"one"
            gate.open()
            wait.drive()
            time.sleep(0.4)  # the reader's own time
            back = time.monotonic()
            assert next(parts) is None and wait.parked and wait.deadline > back
            wait.readable()
            assert next(parts) == b"two"
