"""What is accepted: connections that know what the kernel would say of them, and settings that are asked for once."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from gunicorn.config import Config

from proxy.server.accepted import Connection, Listener, Settings, listeners_of
from proxy.server.request_head import Request

pytestmark = pytest.mark.once


def made(kind: tuple[int, int, int], descriptor: int) -> socket.socket:
    return socket.socket(*kind, fileno=descriptor)


def test_a_connection_is_what_an_ordinary_accept_gives_and_closes_as_its_worker_says() -> None:
    ended: list[tuple[Any, bool]] = []
    with socket.create_server(("127.0.0.1", 0)) as sock:
        listener = Listener(sock, made, None, lambda ours, graceful: ended.append((ours, graceful)), Request)
        with socket.create_connection(sock.getsockname()) as client:
            conn = listener.accept()
            with conn.sock:
                assert (conn.sock.family, conn.sock.type) == (client.family, client.type)
                assert conn.sock.getpeername() == conn.client == client.getsockname()
                assert conn.server == client.getpeername()
                conn.close(graceful=True)
                conn.close()
                assert ended == [(conn.sock, True), (conn.sock, False)]


def test_the_requests_of_a_connection_are_of_the_class_that_its_worker_says() -> None:
    ours, client = socket.socketpair()
    with ours, client:
        conn = Connection(Config(), ours, client.getsockname(), ours.getsockname(), lambda *_: None, message=Request)
        client.sendall(b"GET /a HTTP/1.1\r\nHost: b\r\n\r\n")
        conn.init()
        parser: Any = conn.parser
        assert type(next(parser)) is Request
        conn.init()
        assert conn.parser is parser


def test_without_a_connection_it_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            Listener(sock, made, None, lambda *_: None, Request).accept()


def test_each_of_gunicorns_listeners_has_one() -> None:
    class Bound:
        def __init__(self, sock: socket.socket) -> None:
            self.sock = sock

    with socket.create_server(("127.0.0.1", 0)) as sock:
        bound = Bound(sock)
        assert [*listeners_of([bound], made, None, lambda *_: None, Request)] == [bound]


def test_a_setting_is_asked_for_once_and_one_that_is_not_there_each_time() -> None:
    config = Config()
    settings = Settings(config)
    assert settings.keepalive == config.keepalive
    config.set("keepalive", config.keepalive + 1)
    assert settings.keepalive == config.keepalive - 1
    assert settings.address == config.address
    with pytest.raises(AttributeError):
        _ = settings.no_such_setting
