"""The upstream's HTTP/1.1 response, undone without I/O: bytes to status, headers and body (RFC 9112).

The socket itself is read (client.py), so that nothing is buffered where no poll can see it; this is the small decoder
that is needed for that.
"""

from __future__ import annotations

import http.client
import io
import re
from collections.abc import Callable, Iterable, Mapping
from enum import auto
from typing import TypeAlias

from proxy.errors import UpstreamBroken
from proxy.limits import MAX_HEAD
from proxy.transitions import QuickEnum, next_state

_MAX_CHUNK_LINE = 1024
_MAX_INTERIM = 16
# `HTTP/1.1 200 OK`
_STATUS_LINE = re.compile(rb"HTTP/1\.[^ ]* ([0-9]{3})")
# The value of `Content-Length`. No body has more digits, and Python reads no integer of more than 4,300.
_LENGTH = re.compile(r"[0-9]{1,18}")
# `1a;name=value`, without what follows the size.
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")
# A chunk's size, as nearly all servers write it.
_SIZE_LINE = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")

# The values of each header, by its name in lower case.
Headers: TypeAlias = Mapping[str, list[str]]
_NO_HEADERS: Headers = {}
# A header as all servers write it. Others are left to Python's parser of mail, which takes ten times as long.
_HEADER = re.compile(r"([!#-'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e][\t\x20-\x7e]*)\r\n")
_HEADERS = re.compile(rf"(?:{_HEADER.pattern}){{1,99}}\r\n")


def _headers(text: bytes) -> Headers:
    """The headers of an answer, of the bytes behind its first line; HTTPException if they are none."""
    plain = text.decode("latin-1")
    fields: Iterable[tuple[str, object]]
    if _HEADERS.fullmatch(plain):
        fields = _HEADER.findall(plain)
    else:
        fields = http.client.parse_headers(io.BytesIO(text)).items()
    headers: dict[str, list[str]] = {}
    for name, value in fields:
        headers.setdefault(name.lower(), []).append(str(value))
    return headers


class DecoderState(QuickEnum):
    """The part of an answer that comes next."""

    # The head, or one of an interim answer.
    HEAD = auto()
    # The rest of a body that has a length.
    COUNTED = auto()
    # The rest of a body that ends with the connection.
    UNTIL_CLOSE = auto()
    # A line with a chunk's size.
    CHUNK_SIZE = auto()
    # The rest of a chunk, and the line end behind it.
    CHUNK_DATA = auto()
    # The lines behind the last chunk.
    TRAILERS = auto()
    # Nothing: the body has ended as its framing says.
    COMPLETE = auto()


class DecoderStep(QuickEnum):
    """What has been read."""

    # A head whose body has a length.
    HEAD_WITH_LENGTH = auto()
    # A head whose body comes in chunks.
    HEAD_WITH_CHUNKS = auto()
    # A head that says nothing of its body's end.
    HEAD_WITHOUT_FRAMING = auto()
    # A chunk's size; the chunk has not come whole.
    SIZE = auto()
    # A chunk's last byte and its line end.
    END_OF_CHUNK = auto()
    # The size 0: the body's chunks are over.
    LAST_SIZE = auto()
    # The last byte of the answer, or the end of the connection where that is its end.
    END = auto()


TRANSITIONS: dict[DecoderState, dict[DecoderStep, DecoderState]] = {
    DecoderState.HEAD: {
        DecoderStep.HEAD_WITH_LENGTH: DecoderState.COUNTED,
        DecoderStep.HEAD_WITH_CHUNKS: DecoderState.CHUNK_SIZE,
        DecoderStep.HEAD_WITHOUT_FRAMING: DecoderState.UNTIL_CLOSE,
        DecoderStep.END: DecoderState.COMPLETE,
    },
    DecoderState.COUNTED: {
        DecoderStep.END: DecoderState.COMPLETE,
    },
    DecoderState.UNTIL_CLOSE: {
        DecoderStep.END: DecoderState.COMPLETE,
    },
    DecoderState.CHUNK_SIZE: {
        DecoderStep.SIZE: DecoderState.CHUNK_DATA,
        DecoderStep.LAST_SIZE: DecoderState.TRAILERS,
    },
    DecoderState.CHUNK_DATA: {
        DecoderStep.END_OF_CHUNK: DecoderState.CHUNK_SIZE,
    },
    DecoderState.TRAILERS: {
        DecoderStep.END: DecoderState.COMPLETE,
    },
    DecoderState.COMPLETE: {},
}


class ResponseDecoder:
    """Bytes in any cut to the bytes of the body; `status` is 0 until the head is whole.

    What is no HTTP, or breaks off, raises UpstreamBroken.
    """

    __slots__ = (
        *("failure", "headers", "length", "status", "_body", "_buffer", "_extra", "_max_head"),
        *("_remaining", "_searched", "_state"),
    )

    def __init__(self, max_head: int = MAX_HEAD) -> None:
        self._max_head = max_head
        self._buffer = bytearray()
        self._body: list[bytes] = []
        self._state = DecoderState.HEAD
        # Bytes that the body, or its chunk, still lacks.
        self._remaining = 0
        self._searched = 0
        # Interim answers, later bytes of trailers: what may come beside the answer is limited too.
        self._extra = 0
        self.length: int | None = None
        self.failure: UpstreamBroken | None = None
        self.status = 0
        self.headers = _NO_HEADERS

    @property
    def complete(self) -> bool:
        """True once the body ended as its framing says; a body without framing ends with `finish`."""
        return self._state is DecoderState.COMPLETE

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; give what they add to the body.

        If they are no HTTP any more, what came before is given first and `failure` is set, which is then raised.
        """
        if self.failure is not None:
            raise self.failure
        whole = self.whole_chunks(data)
        if whole is not None:
            # Nearly all that comes of a stream.
            return whole
        self._buffer += data
        try:
            while self._buffer and _READERS[self._state](self):
                pass
        except UpstreamBroken as error:
            self.failure = error
            if not self._body:
                raise
        body = b"".join(self._body)
        self._body.clear()
        return body

    def whole_chunks(self, data: bytes) -> bytes | None:
        """Return what these next bytes add to the body, if they are whole chunks without extensions, or
        the body has no framing; None if they are anything else. The decoder stays as it is either way.
        """
        if self._buffer or self.failure is not None:
            return None
        if self._state is DecoderState.UNTIL_CLOSE:
            return data
        if self._state is not DecoderState.CHUNK_SIZE:
            return None
        parts = []
        at = 0
        while at < len(data):
            size = _SIZE_LINE.match(data, at)
            if size is None:
                return None
            start = size.end()
            at = start + int(size[1], 16) + 2
            if at == start + 2 or data[at - 2 : at] != b"\r\n":
                return None
            parts.append(data[start : at - 2])
        return b"".join(parts)

    def finish(self) -> None:
        """Say that the upstream closed the connection."""
        if self.failure is not None:
            raise self.failure
        if self._state is DecoderState.UNTIL_CLOSE:
            self._move(DecoderStep.END)
        elif self._state is DecoderState.HEAD:
            raise UpstreamBroken("the model server closed the connection before it answered")
        elif not self.complete:
            raise UpstreamBroken("the model server's answer broke off")

    def _move(self, step: DecoderStep) -> None:
        self._state = next_state(TRANSITIONS, self._state, step)

    # A reader for each state: it reads what comes next, and returns False when it needs more bytes.

    def _read_head(self) -> bool:
        # The blank line may come byte by byte: the search goes on where the last one stopped.
        end = self._buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        self._searched = len(self._buffer)
        if end < 0:
            if len(self._buffer) > self._max_head:
                raise UpstreamBroken(f"the model server sent more than {self._max_head} bytes of headers (max_header)")
            return False
        head = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        self._searched = 0
        first, _, rest = head.partition(b"\r\n")
        status_line = _STATUS_LINE.match(first)
        if status_line is None:
            raise UpstreamBroken("the model server did not answer in HTTP/1.1")
        code = int(status_line[1])
        try:
            headers = _headers(rest)
        except http.client.HTTPException as error:
            raise UpstreamBroken("the model server's headers cannot be read") from error
        if 100 <= code < 200:  # an interim response (RFC 9110, 15.2); the real one follows
            self._extra += 1
            if self._extra > _MAX_INTERIM:
                raise UpstreamBroken("the model server sent interim answers and no real one")
            return True
        self.status, self.headers = code, headers
        self._frame()
        return True

    def _frame(self) -> None:
        """Tell from the headers where the body ends (RFC 9112, 6.3)."""
        coding = ", ".join(self.headers.get("transfer-encoding", ())).strip().lower()
        length = self.headers.get("content-length", ())
        if self.status in (204, 304):
            self._move(DecoderStep.END)
        elif coding:
            if coding != "chunked":
                raise UpstreamBroken("the model server used a transfer coding other than chunked")
            self._move(DecoderStep.HEAD_WITH_CHUNKS)
        elif length:
            value = length[0].strip()
            if len(set(length)) > 1 or not _LENGTH.fullmatch(value):
                raise UpstreamBroken("the model server sent a Content-Length that is no length")
            self.length = self._remaining = int(value)
            self._move(DecoderStep.HEAD_WITH_LENGTH if self._remaining else DecoderStep.END)
        else:
            self._move(DecoderStep.HEAD_WITHOUT_FRAMING)

    def _drop(self) -> bool:
        self._buffer.clear()
        return False

    def _read_until_close(self) -> bool:
        self._body.append(bytes(self._buffer))
        self._buffer.clear()
        return False

    def _read_counted(self) -> bool:
        part = bytes(self._buffer[: self._remaining])
        del self._buffer[: len(part)]
        self._body.append(part)
        self._remaining -= len(part)
        if self._remaining == 0:
            self._move(DecoderStep.END)
        return False

    def _read_chunk_size(self) -> bool:
        """The size line of a chunk, and with it the chunk: most of them are here whole."""
        end = self._line_end()
        if end < 0:
            return False
        digits = self._buffer[:end].partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(digits):
            raise _broken_chunks()
        size, start = int(digits, 16), end + 2
        behind = start + size
        if size and self._buffer[behind : behind + 2] == b"\r\n":
            self._body.append(bytes(self._buffer[start:behind]))
            del self._buffer[: behind + 2]
            return True
        self._remaining = size
        del self._buffer[:start]
        # Here and at a chunk's end without `_move`: it would be a call more for each chunk that comes in parts.
        self._state = next_state(TRANSITIONS, self._state, DecoderStep.SIZE if size else DecoderStep.LAST_SIZE)
        return True

    def _read_chunk_data(self) -> bool:
        if self._remaining:
            part = bytes(self._buffer[: self._remaining])
            del self._buffer[: len(part)]
            self._body.append(part)
            self._remaining -= len(part)
        if self._remaining or len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise _broken_chunks()
        del self._buffer[:2]
        self._state = next_state(TRANSITIONS, self._state, DecoderStep.END_OF_CHUNK)
        return True

    def _read_trailer(self) -> bool:
        end = self._line_end()
        if end < 0:
            return False
        del self._buffer[: end + 2]
        self._extra += end
        if self._extra > self._max_head:
            raise UpstreamBroken(f"the model server sent more than {self._max_head} bytes of trailers (max_header)")
        if end == 0:
            self._move(DecoderStep.END)
        return True

    def _line_end(self) -> int:
        """Where the line that begins here ends; -1 if it does not yet."""
        end = self._buffer.find(b"\r\n")
        if end > _MAX_CHUNK_LINE or (end < 0 and len(self._buffer) > _MAX_CHUNK_LINE):
            raise _broken_chunks()
        return end


_READERS: dict[DecoderState, Callable[[ResponseDecoder], bool]] = {
    DecoderState.HEAD: ResponseDecoder._read_head,
    DecoderState.COUNTED: ResponseDecoder._read_counted,
    DecoderState.UNTIL_CLOSE: ResponseDecoder._read_until_close,
    DecoderState.CHUNK_SIZE: ResponseDecoder._read_chunk_size,
    DecoderState.CHUNK_DATA: ResponseDecoder._read_chunk_data,
    DecoderState.TRAILERS: ResponseDecoder._read_trailer,
    DecoderState.COMPLETE: ResponseDecoder._drop,
}


def _broken_chunks() -> UpstreamBroken:
    return UpstreamBroken("the model server's chunked encoding is broken")
