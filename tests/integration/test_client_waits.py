"""Requests on their way, in the worker's poll: only those of which more must come are there."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from proxy import gunicorn_conf
from proxy.server import client_request, client_socket
from proxy.server.client_request import Request
from proxy.server.client_socket import ClientSocket, Times
from proxy.server.client_waits import Incoming
from tests.integration.test_client_socket import accepted
from tests.support.scripted import PATIENCE

HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n"


class Poller:
    """Takes note of who is in it."""

    def __init__(self) -> None:
        self.there: dict[Any, Callable[[Any], None]] = {}
        self.registered = 0

    def register(self, sock: Any, events: int, data: Callable[[Any], None]) -> None:
        assert events and sock not in self.there
        self.there[sock] = data
        self.registered += 1

    def unregister(self, sock: Any) -> None:
        del self.there[sock]


class Waits:
    """What waits, and what became of it."""

    def __init__(self) -> None:
        self.poller = Poller()
        self.started: list[Any] = []
        self.dropped: list[Any] = []
        self.refused: list[Any] = []
        self.incoming = Incoming(
            client_request,
            client_socket.Refused,
            self.started.append,
            self.dropped.append,
            lambda conn, head: self.refused.append(conn),
        )

    def begin(self, conn: Any) -> bool:
        return self.incoming.begin(self.poller, conn, Request(1000, 1000), NEVER)  # type: ignore[arg-type]

    def come(self, conn: Any) -> None:
        """More has come of a connection that is in the poll."""
        awaited(conn.sock)
        self.poller.there[conn.sock](conn.sock)
        self.incoming.read(self.poller)  # type: ignore[arg-type]


NEVER = float("inf")


class Conn:
    """A connection as gunicorn has it, as far as it is asked for."""

    def __init__(self, sock: ClientSocket) -> None:
        self.sock = sock
        self.parser = SimpleNamespace(unreader=SimpleNamespace(unread=lambda data: None))

    def init(self) -> None:
        """Nothing."""


@contextmanager
def connected() -> Iterator[tuple[Conn, socket.socket]]:
    """A connection and its client's end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        with client, accepted(listener, Times()) as ours:
            yield Conn(ours), client


def awaited(sock: socket.socket) -> None:
    """Wait until something has come."""
    assert select.select([sock], [], [], PATIENCE)[0]


@pytest.mark.parametrize("sent", [b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", HEAD + b"body"])
def test_a_request_that_is_here_whole_at_once_is_in_no_poll(sent: bytes) -> None:
    waits = Waits()
    with connected() as (conn, client):
        client.sendall(sent)
        awaited(conn.sock)
        assert waits.begin(conn)
        assert waits.started == [conn] and not len(waits.incoming)
        assert waits.poller.registered == 0


class Turns:
    """The turns of a worker, as far as the poll takes them."""

    def __init__(self, is_free: bool) -> None:
        self.done: list[str] = []
        self._is_free = is_free

    def begin_poll(self) -> bool:
        self.done.append("take")
        return self._is_free

    def end_round(self) -> None:
        self.done.append("give back")


@pytest.mark.parametrize(("is_free", "breaks"), [(True, False), (True, True), (False, False), (False, True)])
def test_what_has_happened_is_seen_to_in_a_turn(is_free: bool, breaks: bool) -> None:
    waits, turns = Waits(), Turns(is_free)

    def see_to(sock: object) -> None:
        turns.done.append("see to")
        if breaks:
            raise RuntimeError("a defect")

    key = SimpleNamespace(fileobj=None, data=see_to)
    poller: Any = SimpleNamespace(select=lambda timeout: [(key, 1)])
    with pytest.raises(RuntimeError) if breaks else nullcontext():
        waits.incoming.poll(poller, 1.0, turns)
    assert turns.done == ["take", "see to", *(["give back"] if is_free else [])]


@pytest.mark.parametrize("cut", [1, len(HEAD) - 1, len(HEAD), len(HEAD) + 3])
def test_one_of_which_more_must_come_is_there_until_it_has_come(cut: int) -> None:
    waits = Waits()
    whole = HEAD + b"body"
    with connected() as (conn, client):
        client.sendall(whole[:cut])
        awaited(conn.sock)
        assert waits.begin(conn)
        assert waits.started == [] and [*waits.poller.there] == [conn.sock]
        client.sendall(whole[cut:])
        waits.come(conn)
        assert waits.started == [conn] and not waits.poller.there
        assert conn.sock.recv(100) == b"body"


def test_one_that_ends_before_it_is_whole_is_dropped_and_leaves_the_poll() -> None:
    waits = Waits()
    with connected() as (conn, client):
        client.sendall(HEAD[:5])
        awaited(conn.sock)
        assert waits.begin(conn)
        client.shutdown(socket.SHUT_WR)
        waits.come(conn)
        assert waits.dropped == [conn] and not waits.poller.there


@pytest.mark.parametrize(
    ("sent", "became"), [(b"x" * 2000, "refused"), (b"GET / HTTP/1.1\nHost: a\n\n", "started"), (b"", "dropped")]
)
def test_what_is_refused_at_once_is_in_no_poll(sent: bytes, became: str) -> None:
    waits = Waits()
    with connected() as (conn, client):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        awaited(conn.sock)
        assert waits.begin(conn)
        assert getattr(waits, became) == [conn]
        assert waits.poller.registered == 0


def test_the_master_is_told_that_the_worker_lives_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    now = [1000.0]
    worker = gunicorn_conf.Worker.__new__(gunicorn_conf.Worker)
    worker._beat_at = 0.0
    monkeypatch.setattr(worker, "tmp", SimpleNamespace(notify=lambda: told.append(now[0])), raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for _ in range(40):
        worker.notify()
        now[0] += 0.1
    assert told == pytest.approx([1000 + gunicorn_conf.BEAT_SECONDS * number for number in range(8)], abs=0.1)
    assert gunicorn_conf.timeout > 10 * gunicorn_conf.BEAT_SECONDS
