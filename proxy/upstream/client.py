"""The upstream: one `requests` call per request, handed over before a byte of its answer is read.

A `requests` adapter whose connection gives its answer back at once, unread, hands over the connected socket; every
later byte is received here without blocking, so that one poll sees all there is.
No connection is ever used twice, nothing is followed, no cookie kept, no environment looked at, and every foreign
exception becomes one of `errors.py`, here and nowhere else.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from proxy.errors import ProxyError, UpstreamBroken, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.limits import MAX_HEAD
from proxy.upstream.http1 import ResponseDecoder

# What is asked of the socket at once: Python allocates all of it each time.
_RECEIVE = 16 * 1024
# At most this much is taken in one go, so that a fast upstream cannot keep a slow client's thread in here.
_MAX_RECEIVED = 1024 * 1024
# What a header's value may hold (RFC 9110, 5.5).
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Pending:
    """What urllib3 and requests take for a response: nothing was read of it."""

    status = 200
    reason = ""
    version = 11
    version_string = "HTTP/1.1"
    length_remaining = None
    _original_response = None
    headers: ClassVar[Mapping[str, str]] = {}

    def __init__(self, connection: HTTPConnection) -> None:
        self.connection = connection

    def close(self) -> None:
        self.connection.close()

    def release_conn(self) -> None:
        """Never back to the pool: no connection is used twice."""


def _hand_over(connection: type[HTTPConnection], send_timeout: float) -> type[HTTPConnection]:
    """The connection class that sends under `send_timeout` and gives its answer back unread."""

    class Connection(connection):  # type: ignore[valid-type, misc]
        def connect(self) -> None:
            try:
                super().connect()
            except TimeoutError as error:  # in the TLS handshake; urllib3 would call it a read timeout
                raise urllib3.exceptions.ConnectTimeoutError(self, "the TLS handshake timed out") from error
            # urllib3 leaves the connect timeout on the socket while it sends.
            self.sock.settimeout(send_timeout)

        def getresponse(self) -> _Pending:
            return _Pending(self)

    return Connection


class _Adapter(HTTPAdapter):
    def __init__(self, send_timeout: float) -> None:
        self._send_timeout = send_timeout
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        plain, tls = _hand_over(HTTPConnection, self._send_timeout), _hand_over(HTTPSConnection, self._send_timeout)
        self.poolmanager.pool_classes_by_scheme = {
            "http": type("Pool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
            "https": type("TlsPool", (HTTPSConnectionPool,), {"ConnectionCls": tls}),
        }


class UpstreamCall:
    """A request that was sent, and its answer as far as it has come.

    `status` is 0 and `headers` empty until the head of the answer is whole. Use it as a context manager: leaving it
    closes the connection, by which the model server learns that nobody waits any more.
    """

    def __init__(self, connection: HTTPConnection, max_header: int = MAX_HEAD) -> None:
        sock = connection.sock
        if sock is None:
            raise UpstreamBroken("the model server closed the connection before it answered")
        self._connection = connection
        self._socket: socket.socket = sock
        self._socket.setblocking(False)
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._decoder = ResponseDecoder(max_header)
        self._failure: UpstreamBroken | None = None
        # What `look` has received, and what went wrong there, until it is taken.
        self._ahead: list[bytes | OSError] = []
        self.more = False

    def __enter__(self) -> UpstreamCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; again if need be."""
        self._connection.close()

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._socket.fileno()

    @property
    def status(self) -> int:
        """The HTTP status; 0 until it is known."""
        return self._decoder.status

    @property
    def complete(self) -> bool:
        """True once the body has properly ended."""
        return self._decoder.complete

    def header(self, name: str) -> str:
        """A header of the answer; empty if it has none, or one that cannot be sent on."""
        value = str(self._decoder.headers.get(name, "")).strip()
        return value if _SENDABLE.fullmatch(value) else ""

    @property
    def coding(self) -> str:
        """How the body is compressed; empty if it is not."""
        given = ",".join(self._decoder.headers.get_all("content-encoding") or []).lower().split(",")
        return ", ".join(coding for coding in map(str.strip, given) if coding not in ("", "identity"))

    @property
    def length(self) -> int | None:
        """The length of the body in bytes, if it is framed by its length."""
        return self._decoder.length

    def receive(self, most: int = _MAX_RECEIVED) -> bytes:
        """Take all that has arrived, or about `most` bytes of it, and give what they add to the body.

        `more` says that there is something left to receive although the socket may have nothing. Raises
        UpstreamBroken when the answer breaks off, after everything that came before it was given.
        """
        if self._failure is not None:
            raise self._failure
        parts: list[bytes] = []
        try:
            self._read_into(parts, most)
        except UpstreamBroken as error:
            if not any(parts):
                raise
            self._failure = error
            self.more = True
        return b"".join(parts)

    def look(self) -> bytes | None:
        """Receive once, and give what it adds to the body if that are whole chunks; b"" if nothing has come, None
        if it is anything else.

        What it gives was not taken before `take` is called; else `receive` gives it.
        """
        if self.more or self._failure is not None:
            return None
        try:
            data = self._socket.recv(_RECEIVE)
        except _WOULD_BLOCK:
            return b""
        except OSError as error:
            self._ahead.append(error)
            self.more = True
            return None
        self._ahead.append(data)
        self.more = True
        if not data or self._is_more_pending():
            return None
        return self._decoder.whole_chunks(data)

    def take(self) -> None:
        """What `look` gave was taken."""
        self._ahead.clear()
        self.more = False

    def _is_more_pending(self) -> bool:
        """True if a part of a TLS record waits where no poll sees it."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _next(self) -> bytes:
        """The next bytes that have come."""
        if not self._ahead:
            return self._socket.recv(_RECEIVE)
        found = self._ahead.pop()
        if isinstance(found, OSError):
            raise found
        return found

    def _read_into(self, parts: list[bytes], most: int) -> None:
        size = 0
        self.more = False
        while not self._decoder.complete:
            if size >= most:
                self.more = True
                return
            try:
                data = self._next()
            except _WOULD_BLOCK:
                return
            except OSError as error:
                raise UpstreamBroken(f"the connection to the model server broke: {error}") from error
            size += len(data)
            if not data:
                self._decoder.finish()
                return
            parts.append(self._decoder.feed(data))
            if self._decoder.failure is not None:
                raise self._decoder.failure
            # A plain socket that gave less than it was asked for is empty, and poll tells when it is not any more;
            # under TLS records may wait where poll does not see them.
            if len(data) < _RECEIVE and not self._tls:
                return


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The model server: base URL without `/v1`, time limits in seconds, a CA file for https or an empty string, and how
    many bytes the head of an answer may have.
    """

    url: str
    connect_timeout: float = 2.0
    send_timeout: float = 60.0
    ca_file: str = ""
    max_header: int = MAX_HEAD


class ModelServer:
    """Opens calls to one model server; safe to share between threads."""

    def __init__(self, target: ServerOptions) -> None:
        self.target = target
        session = requests.Session()
        session.trust_env = False  # no netrc, no proxies, no CA from the environment
        session.headers.clear()
        session.mount("http://", _Adapter(target.send_timeout))
        session.mount("https://", _Adapter(target.send_timeout))
        self._session = session

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, *, within: float = 0.0
    ) -> UpstreamCall:
        """Connect and send; the answer is not waited for. `within`: seconds for the connection, if fewer than usual.

        `path` is a constant of the proxy, never the client's. Raises UpstreamUnreachable if no connection could be
        made (nothing was sent), UpstreamTimeout or UpstreamBroken otherwise.
        """
        target = self.target
        connect = min(target.connect_timeout, within) if within else target.connect_timeout
        try:
            response = self._session.send(
                self._prepared(method, path, headers, body),
                timeout=(connect, None),
                allow_redirects=False,
                stream=True,
                verify=target.ca_file or True,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._mapped(error) from error
        pending = response.raw
        assert isinstance(pending, _Pending)
        try:
            return UpstreamCall(pending.connection, target.max_header)
        except BaseException:
            pending.close()
            raise

    def _prepared(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> requests.PreparedRequest:
        """The request as it goes out. A session's own `request` would first merge in what it has: here nothing."""
        prepared = requests.PreparedRequest()
        prepared.prepare(method, self.target.url + path, {**headers, "Accept-Encoding": "identity"}, data=body)
        return prepared

    def _mapped(self, error: Exception) -> ProxyError:
        """The error of ours that a foreign exception stands for."""
        url, causes = self.target.url, _causes(error)
        if any(isinstance(cause, requests.ConnectTimeout) for cause in causes):
            return UpstreamSlow(f"no connection to the model server at {url} in time (connect_timeout)")
        if any(isinstance(cause, ssl.SSLError | urllib3.exceptions.SSLError) for cause in causes):
            return UpstreamUnreachable(f"no TLS connection to the model server at {url}: {causes[-1]}")
        if any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in causes):
            refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
            return UpstreamUnreachable(f"the model server at {url} cannot be reached", refused=refused)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            limit = self.target.send_timeout
            return UpstreamTimeout(f"the model server at {url} did not take the request within {limit:g} s")
        return UpstreamBroken(f"the request could not be sent to the model server at {url}")


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and everything it was made of, outermost first."""
    found: list[BaseException] = []
    todo: list[object] = [error]
    while todo and len(found) < 32:
        cause = todo.pop(0)
        if isinstance(cause, BaseException) and cause not in found:
            found.append(cause)
            todo += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
    return found
