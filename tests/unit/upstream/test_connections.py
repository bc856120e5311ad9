"""The head of a request that goes up: what it says, and what it never lets through."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from urllib3.connection import HTTPConnection, HTTPSConnection

from proxy.upstream import connections
from proxy.upstream.connections import USUAL, Waiting, _address, _addresses, _hand_over, _head, _of_localhost

LINE = b"POST /v1/chat/completions HTTP/1.1\r\n"
OWN = b"Host: server:8000\r\n"
LAST = b"Accept-Encoding: identity\r\n"


def head(headers: dict[str, str], body: bytes | None = None, method: str = "POST") -> bytes:
    return _head(method, "/v1/chat/completions", "server:8000", headers, body)


def test_a_head_has_what_was_given_the_server_and_the_length_of_the_body() -> None:
    given = {"User-Agent": "proxy", "Authorization": "Bearer k"}
    fields = b"User-Agent: proxy\r\nAuthorization: Bearer k\r\n"
    assert head(given, b"{}") == LINE + OWN + fields + LAST + b"Content-Length: 2\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [
        ("POST", None, b"0"),
        ("POST", b"", b"0"),
        ("PUT", None, b"0"),
        ("GET", None, None),
        ("HEAD", None, None),
        ("GET", b"{}", b"2"),
    ],
)
def test_a_length_is_said_where_there_is_a_body_or_could_be_one(
    method: str, body: bytes | None, length: bytes | None
) -> None:
    said = [line for line in head({}, body, method).split(b"\r\n") if line.startswith(b"Content-Length: ")]
    assert said == ([] if length is None else [b"Content-Length: " + length])


@pytest.mark.parametrize("value", ["", "a", "a b\tc", "\xff\x80", 'a"b', "a:b"])
def test_a_value_leaves_as_it_is(value: str) -> None:
    assert b"X-One: " + value.encode("latin-1") + b"\r\n" in head({"X-One": value})


@pytest.mark.parametrize(
    "value", ["a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\rb", "a\r\n", "\n", " a", "\ta", "sn\u2603", "\x0ba"]
)
def test_a_value_that_would_be_something_else_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        head({"X-One": value, "X-Two": "2"})


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "\u00e4", "a\x00", "a("])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        head({name: "1"})


@pytest.mark.parametrize(
    ("kind", "host", "port", "named"),
    [
        (HTTPConnection, "server", 80, "server"),
        (HTTPConnection, "server", 8000, "server:8000"),
        (HTTPConnection, "::1", 8000, "[::1]:8000"),
        (HTTPConnection, "127.0.0.1", 443, "127.0.0.1:443"),
        (HTTPSConnection, "server", 443, "server"),
        (HTTPSConnection, "server", 80, "server:80"),
        (HTTPSConnection, "::1", 443, "[::1]"),
    ],
)
def test_a_server_is_named_without_the_port_that_is_usual(
    kind: type[HTTPConnection], host: str, port: int, named: str
) -> None:
    connection = _hand_over(kind, 1.0)(host, port)
    assert connection._named() == named  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("host", "family", "place"),
    [
        ("127.0.0.1", socket.AF_INET, ("127.0.0.1", 80)),
        ("192.0.2.7", socket.AF_INET, ("192.0.2.7", 80)),
        ("::1", socket.AF_INET6, ("::1", 80, 0, 0)),
        ("[2001:db8::7]", socket.AF_INET6, ("2001:db8::7", 80, 0, 0)),
    ],
)
def test_an_address_is_not_looked_up(host: str, family: int, place: tuple[object, ...]) -> None:
    assert _address(host, 80) == (family, place) and _addresses(host, 80, USUAL) == ((family, place),)


@pytest.mark.parametrize("host", ["localhost", "a.example", "a" * 64, "a..b", "300.1.1.1", "::g", "", "\u00e4"])
def test_a_name_is_no_address(host: str) -> None:
    assert _address(host, 80) is None


LOCAL = (socket.AF_INET6, ("::1", 81, 0, 0)), (socket.AF_INET, ("127.0.0.1", 81))


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[object, ...]]]:
    """What was asked of the system, which knows one name alone."""
    asked = list[tuple[object, ...]]()

    def getaddrinfo(host: str, port: int, *more: object, flags: int) -> list[object]:
        if flags:
            raise OSError
        asked.append((host, port, *more))
        return [(family, socket.SOCK_STREAM, 6, "", place) for family, place in (*LOCAL, LOCAL[1])]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(connections, "allowed_gai_family", lambda: socket.AF_INET)
    _of_localhost.clear()
    yield asked
    _of_localhost.clear()


@pytest.mark.parametrize(("host", "times"), [("localhost", 1), ("a.localhost", 3), ("model.example", 3)])
def test_this_machine_is_looked_up_once_and_that_is_said_before(
    host: str, times: int, looked_up: list[tuple[object, ...]]
) -> None:
    """Only in the families that the machine can use."""
    said: list[int] = []
    found = [_addresses(host, 81, Waiting(begins=lambda: said.append(len(looked_up)))) for _ in range(3)]
    assert found == [LOCAL] * 3
    assert looked_up == [(host, 81, socket.AF_INET, socket.SOCK_STREAM)] * times and said == [*range(times)]


def test_what_could_not_be_looked_up_is_looked_up_again(
    looked_up: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = socket.getaddrinfo

    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(socket.gaierror):
        _addresses("localhost", 81, USUAL)
    monkeypatch.setattr(socket, "getaddrinfo", known)
    assert _addresses("localhost", 81, USUAL) == LOCAL and len(looked_up) == 1
