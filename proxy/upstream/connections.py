"""The connections to a model server: made, kept apart and sent on by `requests` and its pools, with the answer unread.

A `requests` adapter makes the pool of a server, with its TLS; each request takes a new connection of that and sends,
and the connected socket is handed over, of which nothing was read. A request leaves in one go: its head is put together
here, and not header by header.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import select
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.connection import allowed_gai_family
from urllib3.util.ssl_match_hostname import CertificateError

from proxy.limits import SPARE_DESCRIPTORS

# A path may name a model, and so there may be many.
_MAX_TARGETS = 64
# Servers whose addresses are known.
_MAX_ADDRESSES = 64
# The one name that always means this machine itself (RFC 6761, 6.3), and its addresses by port, which stay what they
# are.
_LOCALHOST = "localhost"
_of_localhost: dict[int, tuple[_Address, ...]] = {}
_NON_BLOCKING = socket.SOCK_STREAM | socket.SOCK_NONBLOCK
# A body over this leaves by itself: to put it behind its head would copy it.
_MAX_JOINED = 64 * 1024
# The fields of a head, as they may leave: a value begins with no space and holds no line end.
_FIELDS = re.compile(rb"(?:[!#-'*+.^_`|~0-9A-Za-z-]+: (?:[^\s][^\r\n]*)?\r\n)*")
# What a socket that does not block says where it would.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# What it says where the other side takes no more of a request.
_REFUSED_HALFWAY = frozenset((errno.EPIPE, errno.ECONNRESET))
# Methods that bring a body, and say so where they bring none.
_BODILESS = frozenset(("GET", "HEAD"))


def _head(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
    """The head of a request. Raises ValueError for a header that cannot be sent."""
    sent = {"Host": host, **headers, "Accept-Encoding": "identity"}
    if body is not None:
        sent["Content-Length"] = str(len(body))
    elif method not in _BODILESS:
        sent["Content-Length"] = "0"
    fields = "".join([f"{name}: {value}\r\n" for name, value in sent.items()]).encode("latin-1")
    # A value with a line end in it would be one field more.
    if fields.count(b"\n") != len(sent) or not _FIELDS.fullmatch(fields):
        raise ValueError("a header cannot be sent")
    return f"{method} {target} HTTP/1.1\r\n".encode("ascii") + fields + b"\r\n"


def _nobody() -> None:
    """Nobody is to be told that something is waited for."""


class Waiting(NamedTuple):
    """For how many seconds a connection may be waited for, and what is called before anything is: a server beside the
    proxy is connected, and takes the request, at once.
    """

    seconds: float = float("inf")
    begins: Callable[[], object] = _nobody


# As long as the server's options say, and nobody is told.
USUAL = Waiting()


class _Address(NamedTuple):
    """Where a socket connects to, as the kernel has it."""

    family: int
    place: Any


@lru_cache(maxsize=_MAX_ADDRESSES)
def _address(host: str, port: int) -> _Address | None:
    """The address that a host is written as; None for a name. To look up what is none took a third of the time of a
    connection, and gave the interpreter's lock away.
    """
    try:
        [found, *_] = _looked_up(host.strip("[]"), port, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return found


def _addresses(host: str, port: int, waiting: Waiting) -> tuple[_Address, ...]:
    """The addresses of a host, one at least. Only a name is looked up, for each connection, and `localhost` once.

    Raises OSError, and UnicodeError for what is no name.
    """
    address = _address(host, port)
    if address is not None:
        return (address,)
    known = _of_localhost.get(port) if host == _LOCALHOST else None
    if known is None:
        waiting.begins()
        known = _looked_up(host, port, family=allowed_gai_family())
    if host == _LOCALHOST and len(_of_localhost) < _MAX_ADDRESSES:
        _of_localhost[port] = known
    return known


def _looked_up(host: str, port: int, *, family: int = 0, flags: int = 0) -> tuple[_Address, ...]:
    """The addresses of a host, in the system's order. Raises OSError, and UnicodeError for what is no name."""
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags)
    # As a plain number: a member of an enum is looked up each time.
    return tuple(dict.fromkeys(_Address(int(kind), place) for kind, _, _, _, place in found))


def _connected_to_any(
    addresses: Sequence[_Address], waiting: Waiting, options: Sequence[tuple[int, int, int | bytes]]
) -> socket.socket:
    """A connection to the first of these addresses, one at least, that takes one. Raises what the last of them does."""
    *others, last = addresses
    for address in others:
        with contextlib.suppress(OSError):
            return _connected(address, waiting, options)
    return _connected(last, waiting, options)


def _connected(address: _Address, waiting: Waiting, options: Sequence[tuple[int, int, int | bytes]]) -> socket.socket:
    """A connection, whose socket does not block. Raises OSError, and TimeoutError of these."""
    sock = socket.socket(address.family, _NON_BLOCKING)
    try:
        # The lowest free descriptor is taken, so its number tells how many are in use.
        if sock.fileno() >= _most_descriptors():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        for option in options:
            sock.setsockopt(*option)
        failure = sock.connect_ex(address.place)
        if failure == errno.EINPROGRESS:
            _await_connection(sock, waiting)
            failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            raise OSError(failure, os.strerror(failure))
    except BaseException:
        sock.close()
        raise
    return sock


def _most_descriptors() -> float:
    """Return the number of descriptors that connections to model servers may take: some are left for clients."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if most == resource.RLIM_INFINITY else max(most - SPARE_DESCRIPTORS, most // 2)


def _await_connection(sock: socket.socket, waiting: Waiting) -> None:
    """Wait until a connection is made, or cannot be. Raises TimeoutError."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    if poll.poll(0):
        return
    waiting.begins()
    if not poll.poll(math.ceil(waiting.seconds * 1000)):
        raise TimeoutError("connecting timed out")


class _OneRequest:
    """What makes a connection of urllib3's one for a single request: `waiting` says for how long it is waited for, and
    `send_timeout` for how long the server may take none of the request. The socket does not block when all is sent.
    """

    tls: bool
    send_timeout: float
    waiting: Waiting
    sock: Any
    host: str
    port: int
    default_port: int
    socket_options: Sequence[tuple[int, int, int | bytes]] | None
    _dns_host: str

    def _new_conn(self) -> socket.socket:
        sock = self._open_socket()
        if self.tls:
            # The handshake is waited for.
            self.waiting.begins()
            sock.settimeout(self.waiting.seconds)
        return sock

    def _open_socket(self) -> socket.socket:
        this: Any = self
        try:
            addresses = _addresses(self._dns_host, self.port, self.waiting)
            return _connected_to_any(addresses, self.waiting, self.socket_options or ())
        except TimeoutError as error:
            raise urllib3.exceptions.ConnectTimeoutError(this, "connecting timed out") from error
        except (OSError, UnicodeError) as error:
            # The next one looks again, if that was the reason.
            _of_localhost.pop(self.port, None)
            raise urllib3.exceptions.NewConnectionError(this, f"no connection: {error}") from error

    def _send(self, head: bytes, body: bytes) -> None:
        """Send a request, nearly always in one go."""
        if self.sock.gettimeout() != 0:
            self.sock.setblocking(False)
        if len(body) > _MAX_JOINED:
            self._send_all(head)
            self._send_all(body)
        else:
            self._send_all(head + body)

    def _send_all(self, data: bytes) -> None:
        sent = 0
        with contextlib.suppress(*WOULD_BLOCK):
            sent = self.sock.send(data)
        if sent == len(data):
            return
        # What the kernel does not take at once is waited for.
        self.waiting.begins()
        self.sock.settimeout(self.send_timeout)
        try:
            self.sock.sendall(memoryview(data)[sent:])
        finally:
            self.sock.setblocking(False)

    def _named(self) -> str:
        """The server as `Host` says it: without the port that is usual."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        name = host.encode("idna" if not host.isascii() else "ascii").decode("ascii")
        return name if self.port == self.default_port else f"{name}:{self.port}"


def _hand_over(connection: type[HTTPConnection], limit: float) -> type[HTTPConnection]:
    """The connection class that sends under `limit`, in seconds, and leaves its answer unread, on a socket that never
    blocks.
    """

    class Connection(_OneRequest, connection):  # type: ignore[valid-type, misc]
        tls = issubclass(connection, HTTPSConnection)
        send_timeout = limit

        def connect(self) -> None:
            try:
                super().connect()
            except TimeoutError as error:  # in the TLS handshake; urllib3 would call it a read timeout
                raise urllib3.exceptions.ConnectTimeoutError(self, "the TLS handshake timed out") from error
            except CertificateError as error:
                raise urllib3.exceptions.SSLError(error) from error

        def request(
            self,
            method: str,
            url: str,
            body: bytes | None = None,
            headers: Mapping[str, str] | None = None,
            **_: object,
        ) -> None:
            """Connect and send; what urllib3 says of the answer to come is of no use here."""
            head = _head(method, url, self._named(), headers or {}, body)
            self.connect()
            try:
                self._send(head, body or b"")
            except OSError as error:
                # The server may have answered already, and want no more of the request.
                if error.errno not in _REFUSED_HALFWAY:
                    raise

    return Connection


def _pool_class(pool: type[HTTPConnectionPool], connection: type[HTTPConnection]) -> type[HTTPConnectionPool]:
    """The pool class that makes a connection of this class for each request, and keeps none."""

    class Pool(pool):  # type: ignore[valid-type, misc]
        ConnectionCls = connection

        def send(
            self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, waiting: Waiting
        ) -> HTTPConnection:
            """Connect and send."""
            opened: HTTPConnection = self._new_conn()
            opened.timeout = waiting.seconds
            opened.waiting = waiting  # type: ignore[attr-defined]
            try:
                opened.request(method, target, body, headers)
            except BaseException:
                opened.close()
                raise
            return opened

    return Pool


class Connections(HTTPAdapter):
    """Makes the connections to one server; `ca_file` is its authority's, or empty. Safe to share between threads.

    Without a session there is no netrc, no proxy and no CA from the environment, and no cookie.
    """

    def __init__(self, url: str, send_timeout: float, ca_file: str) -> None:
        self._url = url
        self._send_timeout = send_timeout
        self._verify = ca_file or True
        self._pool: Any = None
        # What paths that were asked for are as targets of a request.
        self._targets: dict[str, str] = {}
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make pools of connections of our own kinds."""
        super().init_poolmanager(*args, **kwargs)
        plain, tls = _hand_over(HTTPConnection, self._send_timeout), _hand_over(HTTPSConnection, self._send_timeout)
        self.poolmanager.pool_classes_by_scheme = {
            "http": _pool_class(HTTPConnectionPool, plain),
            "https": _pool_class(HTTPSConnectionPool, tls),
        }

    def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, waiting: Waiting
    ) -> HTTPConnection:
        """Connect and send; give the connection, of which nothing was read.

        Raises what requests, urllib3 and sockets raise.
        """
        connection: HTTPConnection = self._connections().send(method, self._target(path), headers, body, waiting)
        return connection

    def _connections(self) -> Any:
        """The pool that makes connections: the same one each time."""
        if self._pool is None:
            prepared = self._prepared("/")
            pool = self.get_connection_with_tls_context(prepared, self._verify)
            self.cert_verify(pool, prepared.url, self._verify, None)  # type: ignore[no-untyped-call]
            self._pool = pool
        return self._pool

    def _target(self, path: str) -> str:
        target = self._targets.get(path)
        if target is not None:
            return target
        target = self._prepared(path).path_url
        if len(self._targets) < _MAX_TARGETS:
            self._targets[path] = target
        return target

    def _prepared(self, path: str) -> requests.PreparedRequest:
        """A path of the server in the form in which it goes out."""
        prepared = requests.PreparedRequest()
        prepared.prepare_url(self._url + path, None)
        return prepared
