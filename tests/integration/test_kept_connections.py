"""A connection goes back to the worker's poll when its request was answered, from the thread that answered it."""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from gunicorn.config import Config

from proxy import gunicorn_conf
from proxy.server import client_waits
from proxy.server.client_socket import ClientSocket, Times
from tests.integration.test_client_socket import pair
from tests.support.scripted import PATIENCE

pytestmark = pytest.mark.once


class Bench:
    """A worker that looks for nothing by itself, one connection of which a request was answered, and its client."""

    def __init__(self, ours: ClientSocket, client: socket.socket) -> None:
        config = Config()
        config.set("keepalive", gunicorn_conf.keepalive)
        worker: Any = gunicorn_conf.Worker(0, os.getppid(), [], None, 0, config, logging.getLogger("gunicorn"))
        self.worker = worker
        worker.tmp.close()
        worker.poller = selectors.DefaultSelector()
        worker.method_queue.init()
        worker.poller.register(worker.method_queue.fileno(), selectors.EVENT_READ, worker.method_queue.run_callbacks)
        worker.nr_conns = 1
        self.conn: Any = gunicorn_conf._accepted.Connection(
            worker.cfg,
            ours,
            client.getsockname(),
            ours.getsockname(),
            self._end,
            message=gunicorn_conf._heads.Request,
        )
        self.client = client
        self.ended: list[bool] = []
        self.asked: list[Any] = []
        worker.enqueue_req = self.asked.append

    def _end(self, sock: socket.socket, graceful: bool) -> None:
        sock.close()
        self.ended.append(graceful)

    def round(self, seconds: float) -> int:
        """One round of the poll; how many events there were."""
        events = self.worker.poller.select(seconds)
        for key, _ in events:
            key.data(key.fileobj)
        return len(events)


@pytest.fixture(name="bench")
def _bench() -> Iterator[Bench]:
    with pair(Times()) as (ours, client):
        bench = Bench(ours, client)
        yield bench
        bench.worker.poller.close()
        bench.worker.method_queue.close()


def test_one_that_is_kept_wakes_the_poll_with_its_next_request_and_not_before(bench: Bench) -> None:
    bench.worker._give_back(bench.conn, True)
    assert bench.round(0) == 0
    assert [*bench.worker.keepalived_conns] == [bench.conn]
    assert bench.conn.timeout > time.monotonic() + bench.worker.cfg.keepalive - 1
    bench.client.sendall(b"GET")
    assert bench.round(PATIENCE) == 1
    assert bench.asked == [bench.conn]
    assert not bench.worker.keepalived_conns
    assert bench.round(0) == 0  # the poll has it no more


def test_one_whose_next_request_has_come_is_served_at_once(bench: Bench) -> None:
    bench.conn.sock.ahead = b"GET / HTTP/1.1\r\n\r\n"
    bench.worker._give_back(bench.conn, True)
    assert bench.round(PATIENCE) == 1
    assert bench.asked == [bench.conn]
    assert not bench.worker.keepalived_conns


def test_one_that_is_not_kept_is_closed_by_the_poll(bench: Bench) -> None:
    bench.worker._give_back(bench.conn, False)
    assert not bench.ended
    assert bench.round(PATIENCE) == 1
    assert bench.ended == [True]
    assert bench.client.recv(1) == b""
    assert bench.worker.nr_conns == 0


def test_one_that_comes_back_to_a_worker_that_stops_is_seen_to_at_once(bench: Bench) -> None:
    """Its next look may be a second off, and the worker is killed when its time is over."""
    bench.worker.alive = False
    bench.worker._give_back(bench.conn, True)
    assert not bench.worker.keepalived_conns
    assert bench.round(PATIENCE) == 1
    assert [*bench.worker.keepalived_conns] == [bench.conn]
    bench.client.sendall(b"GET")
    assert bench.round(PATIENCE) == 1
    assert bench.asked == [bench.conn]


def test_one_that_comes_back_as_the_worker_stops_holds_it_no_longer_than_others(bench: Bench) -> None:
    """Its thread may have seen that the worker goes on, and gunicorn looks at what is kept once, when it stops."""
    bench.worker._give_back(bench.conn, True)
    bench.worker._cap_keepalive(time.monotonic())  # as gunicorn does when it stops, also without its master
    assert bench.conn.timeout > time.monotonic() + 2 * client_waits.LINGER_SECONDS
    bench.worker._stopping = os.eventfd(0)
    bench.worker.murder_pending()
    until = bench.conn.timeout
    assert until <= time.monotonic() + client_waits.LINGER_SECONDS
    bench.worker.murder_pending()
    assert bench.conn.timeout == until
    os.close(bench.worker._stopping)


def test_one_for_which_the_poll_has_no_room_is_closed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "")

    monkeypatch.setattr(bench.worker.poller, "register", full)
    bench.worker._give_back(bench.conn, True)
    assert bench.round(PATIENCE) == 1
    assert bench.ended == [True]
    assert not bench.worker.keepalived_conns


def test_one_that_comes_back_when_the_worker_has_ended_is_left(bench: Bench) -> None:
    bench.worker.poller.close()
    bench.worker._give_back(bench.conn, True)
    assert not bench.ended
