"""HTTP client for the model server: `requests` sends, and h11 reads the response.

`requests` and urllib3 connect (with TLS) and send. The socket is then read without blocking, so that one poll covers
it. Each connection is used once. Redirects, cookies, netrc and proxies from the environment are never used. Every
foreign exception is converted to one of `errors.py`.
"""

from __future__ import annotations

import errno
import math
import os
import re
import resource
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import h11
import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.util import SKIP_HEADER
from urllib3.util.ssl_match_hostname import CertificateError

from proxy.errors import ProxyError, Unavailable, UpstreamBroken, UpstreamSlow, UpstreamTimeout, UpstreamUnreachable
from proxy.limits import CONNECT_SECONDS, MAX_HEAD, SEND_SECONDS, SPARE_DESCRIPTORS

# The size of one `recv`. Python allocates all of it each time.
_RECEIVE = 16 * 1024
# The number of bytes per call of `receive`, so that a fast upstream cannot occupy the thread.
_MAX_RECEIVED = 1024 * 1024
# The maximum number of interim responses (status 1xx).
_MAX_INTERIM = 100
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
# The server stopped reading the request; it may have answered already.
_REFUSED_HALFWAY = frozenset((errno.EPIPE, errno.ECONNRESET))
# The process or the machine has no file descriptor left.
_NO_DESCRIPTOR = frozenset((errno.EMFILE, errno.ENFILE))
# The size line of a chunk that has content and no extensions.
_CHUNK_SIZE = re.compile(rb"([1-9a-fA-F][0-9a-fA-F]{0,6})\r\n")
# Valid characters of a header's value (RFC 9110, 5.5).
_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# h11 must have sent a request to read a response. The method only matters for HEAD and CONNECT.
_REQUEST = h11.Request(method="POST", target="/", headers=[("Host", "x"), ("Connection", "close")])


class UpstreamCall:
    """A request that was sent, and its response as far as it has arrived.

    `status` is 0 until the head of the response has arrived. `more`: `receive` has data even if the socket has none.
    The context manager closes the connection, so that the model server stops generating.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._tls = isinstance(sock, ssl.SSLSocket)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        self._http.send(_REQUEST)
        self._http.send(h11.EndOfMessage())
        self._headers: dict[str, list[str]] = {}
        self._is_ended = self._is_between_chunks = False
        self._interim = 0
        # Why the response broke off. A stored exception would form a cycle with its traceback.
        self._failure = ""
        # Bytes of the body that `look` has received and `take` has not taken yet.
        self._ahead = b""
        self.more = False
        self.status = 0

    def __enter__(self) -> UpstreamCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. May be called twice."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self._socket.fileno()

    @property
    def complete(self) -> bool:
        """True if the whole body was returned and ended properly."""
        return self._is_ended and not self._ahead

    def header(self, name: str) -> str:
        """Return a header of the response, or "" if it is missing or cannot be forwarded."""
        value = self._headers.get(name.lower(), [""])[0].strip()
        return value if _SENDABLE.fullmatch(value) else ""

    @property
    def coding(self) -> str:
        """The content coding of the body, such as `gzip`, or ""."""
        codings = map(str.strip, ",".join(self._headers.get("content-encoding", ())).lower().split(","))
        return ", ".join(coding for coding in codings if coding not in ("", "identity"))

    @property
    def length(self) -> int | None:
        """The length of the body from Content-Length, or None."""
        length = self._headers.get("content-length")
        return int(length[0]) if length and "transfer-encoding" not in self._headers else None

    def receive(self, most: int = _MAX_RECEIVED) -> bytes:
        """Return the body that has arrived, or about `most` bytes of it.

        Raises UpstreamBroken if the response breaks off, once all earlier bytes were returned.
        """
        parts, size = [self._ahead], 0
        self._ahead, self.more = b"", False
        while not self._is_ended and not self._failure:
            if size >= most:
                self.more = True
                break
            data = self._received()
            if data is None:
                break
            size += len(data)
            parts.append(self._decoded(data))
            # A plain socket that returned less than `_RECEIVE` is empty. With TLS, a decrypted record may be buffered
            # that no poll reports.
            if len(data) < _RECEIVE and not self._tls:
                break
        body = b"".join(parts)
        if self._failure:
            if not body:
                raise UpstreamBroken(self._failure)
            self.more = True
        return body

    def look(self) -> bytes | None:
        """Receive once and return the new bytes of the body, or b"" if there are none.

        Return None if the response has ended or failed, or if more data is buffered. Call `take` to consume the
        returned bytes; otherwise the next `receive` returns them.
        """
        if self.more or self._failure:
            return None
        data = self._received()
        if data is not None:
            self._ahead = self._decoded(data)
        is_last = self._is_ended or bool(self._failure)
        self.more = bool(self._ahead) or is_last
        if is_last or (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            return None
        return self._ahead

    def take(self) -> None:
        """Consume the bytes that `look` returned."""
        self._ahead, self.more = b"", False

    def _received(self) -> bytes | None:
        """Return the next bytes of the socket, b"" at the end, or None if nothing has arrived or the socket failed."""
        try:
            return self._socket.recv(_RECEIVE)
        except _WOULD_BLOCK:
            return None
        except OSError as error:
            self._failure = f"the connection to the model server broke: {error}"
            return None

    def _decoded(self, data: bytes) -> bytes:
        """Parse received bytes and return their part of the body. b"" means that the server closed the connection."""
        if self._is_between_chunks:
            body = _whole_chunks(data)
            if body:
                return body
        parts: list[bytes] = []
        at_end_of_chunk = False
        try:
            self._http.receive_data(data)
            while not self._is_ended:
                event = self._http.next_event()
                if isinstance(event, h11.Data):
                    parts.append(event.data)
                    at_end_of_chunk = event.chunk_end
                elif isinstance(event, h11.Response):
                    self.status = event.status_code
                    for name, value in event.headers:
                        self._headers.setdefault(name.decode(), []).append(value.decode("latin-1"))
                elif isinstance(event, h11.EndOfMessage):
                    self._is_ended = True
                elif isinstance(event, h11.InformationalResponse):
                    self._interim += 1
                    if self._interim > _MAX_INTERIM:
                        raise h11.RemoteProtocolError("there are only interim answers")
                else:
                    break
            # If part of the next size line had arrived, the data would not end with a line end and CRLF.
            self._is_between_chunks = at_end_of_chunk and data.endswith(b"\n\r\n")
        except h11.RemoteProtocolError as error:
            # h11's messages quote the response, which may hold a secret, so they are left out.
            said = str(error).partition(": bytearray")[0]
            if self.status:
                words = f"'s chunked encoding is broken: {said}" if data else "'s answer broke off"
            elif not data:
                words = " closed the connection before it answered"
            elif error.error_status_hint == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                words = f" sent more than {MAX_HEAD} bytes of headers (max_header)"
            else:
                words = f" did not answer in HTTP/1.1: {said}"
            self._failure = f"the model server{words}"
        return b"".join(parts)


def _whole_chunks(data: bytes) -> bytes:
    """Return the content of whole chunks, or b"" for anything else. h11 takes six times as long, for each event."""
    parts, at = [], 0
    while at < len(data):
        size = _CHUNK_SIZE.match(data, at)
        if size is None:
            return b""
        start, at = size.end(), size.end() + int(size[1], 16) + 2
        if data[at - 2 : at] != b"\r\n":
            return b""
        parts.append(data[start : at - 2])
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of a model server.

    `url` is the base URL without `/v1`. Time limits are in seconds. `ca_file` is a CA file for https, or "". `via` is
    the proxy's pseudonym for the `Via` header; "" adds no entry.
    """

    url: str
    connect_timeout: float = CONNECT_SECONDS
    send_timeout: float = SEND_SECONDS
    ca_file: str = ""
    via: str = ""


class ModelServer:
    """Opens calls to one model server. Safe to share between threads."""

    def __init__(self, target: ServerOptions) -> None:
        self.target = target
        self._adapter = HTTPAdapter(max_retries=0)
        self._pool: Any = None

    def open(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None, seconds: float = math.inf
    ) -> UpstreamCall:
        """Connect and send a request, without waiting for the response.

        `path` is a constant of the proxy, never the client's. `seconds` limits the wait for a connection, as the
        options' `connect_timeout` does. Raises UpstreamUnreachable or UpstreamSlow if no connection could be made
        (nothing was sent), Unavailable if no file descriptor is left for one, UpstreamTimeout or UpstreamBroken
        otherwise.
        """
        sent = {"User-Agent": SKIP_HEADER, **headers, "Accept-Encoding": "identity"}
        if self.target.via:
            sent["Via"] = ", ".join(filter(None, (headers.get("Via"), f"1.1 {self.target.via}")))
        try:
            return UpstreamCall(self._sent(method, path, sent, body, seconds))
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._mapped(error) from error

    def _sent(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, wait: float) -> Any:
        """Send a request on a new connection of the adapter's pool; return its socket, which does not block."""
        if self._pool is None:
            prepared, verify = _prepared(f"{self.target.url}/"), self.target.ca_file or True
            pool: Any = self._adapter.get_connection_with_tls_context(prepared, verify)
            self._adapter.cert_verify(pool, prepared.url, verify, None)  # type: ignore[no-untyped-call]
            self._pool = pool
        connection = self._pool._new_conn()
        try:
            connection.timeout = min(wait, self.target.connect_timeout)
            try:
                connection.connect()
            except TimeoutError as error:  # in the TLS handshake
                raise urllib3.exceptions.ConnectTimeoutError(connection, "the TLS handshake timed out") from error
            # The kernel uses the lowest free number, so it shows how many descriptors are in use. Leave some for
            # clients.
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            if most != resource.RLIM_INFINITY and connection.sock.fileno() >= max(most - SPARE_DESCRIPTORS, most // 2):
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            connection.timeout = self.target.send_timeout
            try:
                connection.request(method, _prepared(self.target.url + path).path_url, body, headers)
            except OSError as error:
                if error.errno not in _REFUSED_HALFWAY:
                    raise
            connection.sock.setblocking(False)
        except BaseException:
            connection.close()
            raise
        return connection.sock

    def _mapped(self, error: Exception) -> ProxyError:
        """Return the proxy's error for a foreign exception."""
        url, causes = self.target.url, [*_causes(error)]
        if any(isinstance(cause, OSError) and cause.errno in _NO_DESCRIPTOR for cause in causes):
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            words = "no file descriptor is left for a connection to the model server"
            return Unavailable(f"{words} (this proxy may open {most} files); try again in a moment")
        is_new = any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in causes)
        if not is_new and any(isinstance(cause, urllib3.exceptions.ConnectTimeoutError) for cause in causes):
            return UpstreamSlow(f"no connection to the model server at {url} in time (connect_timeout)")
        if any(isinstance(cause, ssl.SSLError | urllib3.exceptions.SSLError | CertificateError) for cause in causes):
            return UpstreamUnreachable(f"no TLS connection to the model server at {url}: {causes[-1]}")
        if is_new:
            refused = any(isinstance(cause, ConnectionRefusedError) for cause in causes)
            return UpstreamUnreachable(f"the model server at {url} cannot be reached", refused=refused)
        if any(isinstance(cause, TimeoutError) for cause in causes):
            limit = self.target.send_timeout
            return UpstreamTimeout(f"the model server at {url} did not take the request within {limit:g} s")
        return UpstreamBroken(f"the request could not be sent to the model server at {url}")


@lru_cache(maxsize=64)
def _prepared(url: str) -> requests.PreparedRequest:
    """Return the prepared form of a URL, as `requests` sends it."""
    prepared = requests.PreparedRequest()
    prepared.prepare_url(url, None)
    return prepared


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception and its causes, outermost first."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
