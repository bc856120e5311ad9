"""A client's connection: the times of what it sends and takes, and what a thread reads of it."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from proxy.server import client_socket
from proxy.server.accepted import Listener
from proxy.server.client_socket import ClientSocket, Refused, Times
from proxy.server.request_head import Request
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once


def accepted(listener: socket.socket, times: Times) -> ClientSocket:
    """Our end of the next connection."""
    ours = Listener(listener, partial(ClientSocket, times), None, lambda *_: None, Request).accept().sock
    assert isinstance(ours, ClientSocket)
    return ours


@contextmanager
def pair(times: Times, room: int = 0) -> Iterator[tuple[ClientSocket, socket.socket]]:
    """Our end of a connection, and the client's, whose buffer has so much room."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.socket()
        client.settimeout(PATIENCE)
        if room:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        client.connect(listener.getsockname())
        ours = accepted(listener, times)
        with client, ours:
            yield ours, client


class Clock:
    """A clock that goes as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def test_gunicorn_switches_nothing() -> None:
    """It blocks at no time, whatever gunicorn says for each request: each would be a system call."""
    with pair(Times()) as (ours, _):
        ours.setblocking(True)
        ours.settimeout(PATIENCE)
        assert ours.gettimeout() == 0.0
        assert not os.get_blocking(ours.fileno())


def taken(ours: ClientSocket, client: socket.socket, size: int) -> None:
    """So many bytes are sent, and taken."""
    client.sendall(b"x" * size)
    while size:
        select.select([ours], [], [], PATIENCE)
        size -= len(ours.take() or b"")


def test_a_body_must_come_with_its_least_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(Times(idle=30, body=1000, rate=1000)) as (ours, client):
        clock = Clock(monkeypatch)
        ours.begin()
        for second in range(1, 500):
            clock.now = 1000.0 + second
            taken(ours, client, 1000)
            assert ours.until()[0] > clock.now
        ours.begin()
        began = clock.now
        while ours.until()[0] > clock.now:
            clock.now += 1
            taken(ours, client, 500)
        assert ours.until()[1] == (408, "the body came slower than 1000 bytes a second (body_rate)")
        assert clock.now - began == 20  # 10 s are free, and half of what came counts
        ours.begin()
        assert ours.until()[0] == clock.now + client_socket.GRACE  # the next request has its own time


def test_a_fast_start_is_no_credit_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(Times(idle=30, body=1000, rate=1000)) as (ours, client):
        clock = Clock(monkeypatch)
        ours.begin()
        taken(ours, client, 1024 * 1024)
        clock.now += 18
        taken(ours, client, 1)
        assert ours.until()[0] == pytest.approx(1030, abs=0.01) and "body_rate" in ours.until()[1].words


def test_a_body_has_its_time_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with pair(Times(idle=30, body=120, rate=10)) as (ours, client):
        clock = Clock(monkeypatch)
        ours.begin()
        for _ in range(115):
            clock.now += 1
            taken(ours, client, 100)
        assert ours.until() == (1120, (408, "the body took longer than 120 s (body_timeout)"))


def test_a_thread_never_waits_for_a_client() -> None:
    with pair(Times()) as (ours, _):
        ours.setblocking(True)
        ours.serve(b"", b"abcde", b"next", None)
        assert [ours.recv(3), ours.recv(3), ours.recv(3)] == [b"abc", b"de", b""]
        assert ours.ahead == b"next"
        ours.serve(b"", b"abc", b"", Refused(408, "too late"))
        assert ours.recv(9) == b"abc"
        for _ in range(2):
            with pytest.raises(BrokenPipeError, match="too late"):
                ours.recv(9)


@pytest.mark.slow
def test_a_client_that_takes_slowly_is_not_one_that_takes_nothing() -> None:
    """There is room in the kernel's buffer only once a third of it was taken; what was taken before counts."""
    given_back: list[bool] = []
    with pair(Times(idle=1.0)) as (ours, client):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
        ours.turn = SimpleNamespace(give_back=lambda: given_back.append(True))
        ours.sendall(b"")
        assert not given_back
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
        assert bytes(came) == data and given_back


@pytest.mark.slow
def test_a_client_that_takes_a_little_each_time_is_served_for_as_long_as_it_does() -> None:
    """Its kernel tells of room in steps of half its buffer: with a tiny one they are small."""
    idle = 3.0
    with pair(Times(idle=idle), room=4096) as (ours, client):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        data, came = os.urandom(200_000), bytearray()
        began = time.monotonic()

        def take() -> None:
            while len(came) < len(data):
                came.extend(client.recv(2048))
                if time.monotonic() - began < 3 * idle:
                    time.sleep(0.2)

        taker = threading.Thread(target=take, daemon=True)
        taker.start()
        ours.sendall(data)
        assert time.monotonic() - began > 2 * idle  # it was slow, and was not cut off
        taker.join(PATIENCE)
        assert bytes(came) == data


def test_what_is_gathered_leaves_at_once_and_nothing_before() -> None:
    with pair(Times()) as (ours, client):
        ours.gather()
        ours.sendall(b"head ")
        ours.sendall(memoryview(b"body"))
        assert not select.select([client], [], [], 0)[0]
        ours.send_gathered()
        assert client.recv(100) == b"head body"
        ours.sendall(b"more")
        assert client.recv(100) == b"more"


def test_gathering_nothing_sends_nothing() -> None:
    with pair(Times()) as (ours, client):
        ours.gather()
        ours.send_gathered()
        ours.sendall(b"x")
        assert client.recv(100) == b"x"


def test_the_socket_never_blocks_whatever_gunicorn_sets() -> None:
    with pair(Times()) as (ours, _):
        for flag in (True, False, True):
            ours.setblocking(flag)
            assert ours.take() is None
            assert (ours.gettimeout(), os.get_blocking(ours.fileno())) == (0.0, False)
