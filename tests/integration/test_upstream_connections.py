"""Connections to a model server: by its address and by its name, and what is said where none can be made."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import urllib3
from urllib3.connection import HTTPConnection

from proxy.upstream.connections import Connections, Waiting

pytestmark = pytest.mark.once
NAME = "model.example"
HOSTS = ("127.0.0.1", "localhost", NAME)


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a server of this name, on this machine."""
    known = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *more: int, **named: int) -> list[object]:
        if named.get("flags"):
            return [*known(host, port, *more, **named)]
        return [*known("127.0.0.1" if host == NAME else host, port, *more, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.fixture(name="listener")
def _listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def opened(host: str, port: int) -> HTTPConnection:
    return Connections(f"http://{host}:{port}", 5.0, "").request("POST", "/v1/a", {}, b"{}", Waiting(5.0))


@pytest.mark.parametrize("host", HOSTS)
def test_a_request_goes_to_a_server_at_once_and_in_one_go(host: str, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    connection = opened(host, port)
    assert connection.sock is not None
    with connection.sock as ours, listener.accept()[0] as theirs:
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) and not ours.getblocking()
        head = theirs.recv(65536)
        assert head.startswith(b"POST /v1/a HTTP/1.1\r\n") and f"Host: {host}:{port}\r\n".encode() in head
        assert head.endswith(b"\r\n\r\n{}")


def test_an_address_is_not_looked_up_nor_is_this_machine(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = socket.getaddrinfo

    def fail(host: str, port: int, family: int, kind: int, *, flags: int) -> list[object]:
        if flags:
            return [*known(host, port, family, kind, flags=flags)]
        raise AssertionError("it is looked up")

    opened("localhost", listener.getsockname()[1]).close()
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(AssertionError):
        opened(NAME, listener.getsockname()[1])
    for host in ("127.0.0.1", "localhost"):
        opened(host, listener.getsockname()[1]).close()


@pytest.mark.parametrize("host", HOSTS)
def test_a_server_that_is_not_there_is_told_as_such(host: str, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(urllib3.exceptions.NewConnectionError) as error:
        opened(host, port)
    assert isinstance(error.value.__cause__, ConnectionRefusedError)
