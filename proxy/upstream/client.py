"""The upstream: one `requests` call per request, handed over before a byte of its answer is read (connections.py).

Every byte of the answer is received here without blocking, so that one poll sees all there is.
No connection is ever used twice, nothing is followed, no cookie kept, no environment looked at, and every foreign
exception becomes one of `errors.py`, here and nowhere else.
"""

from __future__ import annotations

import errno
import re
import resource
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import requests
import urllib3
from urllib3.connection import HTTPConnection

from proxy.errors import ProxyError, Unavailable, UpstreamBroken, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.limits import CONNECT_SECONDS, MAX_HEAD, SEND_SECONDS
from proxy.upstream.connections import USUAL, WOULD_BLOCK, Connections, Waiting
from proxy.upstream.http1 import ResponseDecoder

# What is asked of the socket at once: Python allocates all of it each time.
_RECEIVE = 16 * 1024
# At most this much is taken in one go, so that a fast upstream cannot keep a slow client's thread in here.
_MAX_RECEIVED = 1024 * 1024
# What the kernel says where this process, or the machine, has no file descriptor left.
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
# What a header's value may hold (RFC 9110, 5.5).
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class UpstreamCall:
    """A request that was sent, and its answer as far as it has come.

    `status` is 0 and `headers` empty until the head of the answer is whole. Use it as a context manager: leaving it
    closes the connection, by which the model server learns that nobody waits any more.
    """

    __slots__ = ("_ahead", "_decoder", "_failure", "_socket", "_tls", "more")

    def __init__(self, connection: HTTPConnection) -> None:
        sock = connection.sock
        if sock is None:
            raise UpstreamBroken("the model server closed the connection before it answered")
        # Of the connection nothing but its socket is of use from now on.
        self._socket: socket.socket = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._decoder = ResponseDecoder(MAX_HEAD)
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
        self._socket.close()

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
        values = self._decoder.headers.get(name.lower())
        if values is None:
            return ""
        value = values[0].strip()
        return value if _SENDABLE.fullmatch(value) else ""

    @property
    def coding(self) -> str:
        """The content coding of the body, such as `gzip`; empty if it has none."""
        said = self._decoder.headers.get("content-encoding")
        if said is None:
            return ""
        codings = ",".join(said).lower().split(",")
        return ", ".join(coding for coding in map(str.strip, codings) if coding not in ("", "identity"))

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
        except WOULD_BLOCK:
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
        """Count what `look` gave as taken."""
        self._ahead.clear()
        self.more = False

    def _is_more_pending(self) -> bool:
        """True if a part of a TLS record waits where no poll sees it."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _next(self) -> bytes:
        """The next bytes that have come."""
        if not self._ahead:
            return self._socket.recv(_RECEIVE)
        ahead = self._ahead.pop()
        if isinstance(ahead, OSError):
            raise ahead
        return ahead

    def _read_into(self, parts: list[bytes], most: int) -> None:
        size = 0
        self.more = False
        while not self._decoder.complete:
            if size >= most:
                self.more = True
                return
            try:
                data = self._next()
            except WOULD_BLOCK:
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
    """The model server: base URL without `/v1`, time limits in seconds, and a CA file for https or an empty string.
    `via` is the proxy's pseudonym in the `Via` header; without one no entry is added.
    """

    url: str
    connect_timeout: float = CONNECT_SECONDS
    send_timeout: float = SEND_SECONDS
    ca_file: str = ""
    via: str = ""


class ModelServer:
    """Opens calls to one model server; safe to share between threads."""

    def __init__(self, target: ServerOptions) -> None:
        self.target = target
        self._connections = Connections(target.url, target.send_timeout, target.ca_file)

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, waiting: Waiting = USUAL
    ) -> UpstreamCall:
        """Connect and send; the answer is not waited for. `waiting`: its seconds count if they are fewer than usual.

        `path` is a constant of the proxy, never the client's. Raises UpstreamUnreachable if no connection could be
        made (nothing was sent), Unavailable if this process has no file descriptor for one, UpstreamTimeout or
        UpstreamBroken otherwise.
        """
        waiting = waiting._replace(seconds=min(waiting.seconds, self.target.connect_timeout))
        if self.target.via:
            entries = filter(None, (headers.get("Via"), f"1.1 {self.target.via}"))
            headers = {**headers, "Via": ", ".join(entries)}
        try:
            connection = self._connections.request(method, path, headers, body, waiting)
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._mapped(error) from error
        try:
            return UpstreamCall(connection)
        except BaseException:
            connection.close()
            raise

    def _mapped(self, error: Exception) -> ProxyError:
        """The error of ours that a foreign exception stands for."""
        url, causes = self.target.url, _causes(error)
        if any(isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTOR for cause in causes):
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            words = "no file descriptor is left for a connection to the model server"
            return Unavailable(f"{words} (this proxy may open {most} files); try again in a moment")
        if any(_is_connect_timeout(cause) for cause in causes):
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


def _is_connect_timeout(error: BaseException) -> bool:
    """True where a connection took too long; urllib3 derives one that could not be made at all from that."""
    if isinstance(error, urllib3.exceptions.NewConnectionError):
        return False
    return isinstance(error, urllib3.exceptions.ConnectTimeoutError)


def _causes(error: BaseException) -> list[BaseException]:
    """The exception and everything it was made of, outermost first."""
    causes: list[BaseException] = []
    todo: list[object] = [error]
    while todo and len(causes) < 32:
        cause = todo.pop(0)
        if isinstance(cause, BaseException) and cause not in causes:
            causes.append(cause)
            todo += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
    return causes
