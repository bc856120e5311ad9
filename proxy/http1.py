"""The upstream's HTTP/1.1 response, undone without I/O: bytes to status, headers and body (RFC 9112).

The pump reads the socket itself, so that nothing is buffered where its poll cannot see it; this is the small decoder
that it needs for that.
"""

from __future__ import annotations

import http.client
import io
from enum import Enum, auto

from .errors import UpstreamBroken

MAX_HEAD = 64 * 1024
_MAX_CHUNK_LINE = 1024
_HEX = frozenset(b"0123456789abcdefABCDEF")


class _At(Enum):
    HEAD = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    END = auto()


class ResponseDecoder:
    """Bytes in any cut to the bytes of the body; `status` is 0 until the head is whole.

    What is no HTTP, or breaks off, raises UpstreamBroken.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = _At.HEAD
        self._left = 0
        self._searched = 0
        self.status = 0
        self.headers = http.client.HTTPMessage()

    @property
    def complete(self) -> bool:
        """True once the body ended as its framing says; a body without framing ends with `finish`."""
        return self._at is _At.END

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; give what they add to the body."""
        self._buffer += data
        body: list[bytes] = []
        while self._step(body):
            pass
        return b"".join(body)

    def finish(self) -> None:
        """Say that the upstream closed the connection."""
        if self._at is _At.UNTIL_CLOSE:
            self._at = _At.END
        elif self._at is _At.HEAD:
            raise UpstreamBroken("the model server closed the connection before it answered")
        elif self._at is not _At.END:
            raise UpstreamBroken("the model server's answer broke off")

    def _step(self, body: list[bytes]) -> bool:
        """Do what the buffer allows; False if it needs more."""
        match self._at:
            case _At.HEAD:
                return self._head()
            case _At.LENGTH | _At.CHUNK:
                return self._counted(body)
            case _At.UNTIL_CLOSE:
                body.append(bytes(self._buffer))
                self._buffer.clear()
                return False
            case _At.CHUNK_SIZE:
                return self._chunk_size()
            case _At.CHUNK_END:
                return self._chunk_end()
            case _At.TRAILER:
                return self._trailer()
            case _:
                self._buffer.clear()
                return False

    def _head(self) -> bool:
        # The blank line may come byte by byte: the search goes on where the last one stopped.
        end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        self._searched = len(self._buffer)
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise UpstreamBroken(f"the model server sent more than {MAX_HEAD} bytes of headers")
            return False
        head = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        self._searched = 0
        first, _, rest = head.partition(b"\r\n")
        version, _, after = first.partition(b" ")
        code = after[:3]
        if not version.startswith(b"HTTP/1.") or len(code) != 3 or not code.isdigit():
            raise UpstreamBroken("the model server did not answer in HTTP/1.1")
        try:
            headers = http.client.parse_headers(io.BytesIO(rest))
        except http.client.HTTPException as error:
            raise UpstreamBroken("the model server's headers cannot be read") from error
        if 100 <= int(code) < 200:  # an interim response (RFC 9110, 15.2); the real one follows
            return True
        self.status, self.headers = int(code), headers
        self._frame()
        return True

    def _frame(self) -> None:
        """Tell from the headers where the body ends (RFC 9112, 6.3)."""
        coding = self.headers.get("transfer-encoding", "").strip().lower()
        length = self.headers.get_all("content-length") or []
        if self.status in (204, 304):
            self._at = _At.END
        elif coding:
            if coding != "chunked":
                raise UpstreamBroken("the model server used a transfer coding other than chunked")
            self._at = _At.CHUNK_SIZE
        elif length:
            value = length[0].strip()
            if len(set(length)) > 1 or not (value.isascii() and value.isdigit()):
                raise UpstreamBroken("the model server sent a Content-Length that is no length")
            self._left = int(value)
            self._at = _At.LENGTH if self._left else _At.END
        else:
            self._at = _At.UNTIL_CLOSE

    def _counted(self, body: list[bytes]) -> bool:
        part = bytes(self._buffer[: self._left])
        if not part:
            return False
        del self._buffer[: len(part)]
        body.append(part)
        self._left -= len(part)
        if self._left == 0:
            self._at = _At.CHUNK_END if self._at is _At.CHUNK else _At.END
        return True

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_CHUNK_LINE:
                raise UpstreamBroken("the model server's chunked encoding is broken")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 16 or not _HEX.issuperset(digits):
            raise UpstreamBroken("the model server's chunked encoding is broken")
        self._left = int(digits, 16)
        self._at = _At.CHUNK if self._left else _At.TRAILER
        return True

    def _chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise UpstreamBroken("the model server's chunked encoding is broken")
        del self._buffer[:2]
        self._at = _At.CHUNK_SIZE
        return True

    def _trailer(self) -> bool:
        line = self._line()
        if line == b"":
            self._at = _At.END
        return line is not None
