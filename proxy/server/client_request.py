"""One request as its bytes come in: where its head ends, how its body is framed, and when all of it is here.

The bytes are taken in the worker's poll, so that a thread gets a request whole and never waits for a client. What
cannot be read here without a doubt is refused: the thread gets the head, and no byte more.

gunicorn's configuration loads it by its path, so it imports nothing of the package. It knows no sockets and no clock.
"""

from __future__ import annotations

import re
from enum import Enum

# A chunk's size with its extension, the fields behind the last chunk, and how many chunks a body may have: each of them
# costs as much as some kilobytes.
MAX_SIZE_LINE = 1024
MAX_TRAILERS = 8192
MAX_CHUNKS = 100_000
# So many chunks are read at once: all other clients wait for that long.
CHUNKS_AT_ONCE = 500

_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"0*([0-9]{1,12})")
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,12})(?:[ \t]*;[\t -~\x80-\xff]*)?")
# The fields that are read here, and what the last of them says where a client waits for leave to send its body.
_LENGTH_FIELD, _CODING_FIELD, _EXPECT_FIELD = b"content-length", b"transfer-encoding", b"expect"
_LEAVE = b"100-continue"


class Stage(Enum):
    """The stage of a request that is being read."""

    # Asked for with each chunk: an enum hashes by a function of Python.
    __hash__ = object.__hash__

    HEAD = "head"  # more of its head must come
    LONG_HEAD = "long head"  # its head is over the limit
    BODY = "body"  # more of its body must come
    WHOLE = "whole"  # all of it is here
    REFUSED = "refused"  # no more of it is read; `why` says the reason


class Part(Enum):
    """The part of a body that comes next."""

    __hash__ = object.__hash__

    ALL = "all"  # the body, which has a length; or none
    SIZE = "size"  # the size of a chunk
    DATA = "data"  # a chunk
    TRAILERS = "trailers"  # the fields behind the last chunk


# From each the ones that may follow.
STAGES: dict[Stage, frozenset[Stage]] = {
    Stage.HEAD: frozenset((Stage.LONG_HEAD, Stage.BODY, Stage.WHOLE, Stage.REFUSED)),
    Stage.LONG_HEAD: frozenset(),
    Stage.BODY: frozenset((Stage.WHOLE, Stage.REFUSED)),
    Stage.WHOLE: frozenset(),
    Stage.REFUSED: frozenset(),
}
PARTS: dict[Part, frozenset[Part]] = {
    Part.ALL: frozenset((Part.SIZE,)),
    Part.SIZE: frozenset((Part.DATA, Part.TRAILERS)),
    Part.DATA: frozenset((Part.SIZE,)),
    Part.TRAILERS: frozenset(),
}


class Request:
    """A request that is on its way; `most_head` and `most_body` are the bytes that it may have.

    `stage` is how far it is, `expects` whether its client waits for leave to send the body, `rest` what has come behind
    its end. `more`: not all that has come is read; `feed` goes on with it.
    """

    def __init__(self, most_head: int, most_body: int) -> None:
        self.stage = Stage.HEAD
        self.expects = False
        self.more = False
        self.why = ""
        self.rest = b""
        self._most_head = most_head
        self._most_body = most_body
        self._data = bytearray()
        self._searched = 0
        self._lines: list[bytes] = []
        # What the lines of the framing are replaced by; None leaves them.
        self._length: int | None = None
        self._body = bytearray()
        self._remaining = 0
        self._part = Part.ALL
        self._chunks = 0

    def _move(self, stage: Stage) -> None:
        """Go over into another stage. Raises RuntimeError where that may not follow."""
        if stage not in STAGES[self.stage]:
            raise RuntimeError(f"a request in the stage {self.stage.value!r} cannot come to {stage.value!r}")
        self.stage = stage

    def _go_on(self, part: Part) -> None:
        """Go over to another part of the body. Raises RuntimeError where that may not follow."""
        if part not in PARTS[self._part]:
            raise RuntimeError(f"behind {self._part.value!r} of a body there cannot be {part.value!r}")
        self._part = part

    @property
    def _chunked(self) -> bool:
        """True if the body comes in chunks."""
        return self._part is not Part.ALL

    @property
    def size(self) -> int:
        """Bytes that are kept of it."""
        return len(self._data) + len(self._body)

    @property
    def head(self) -> bytes:
        """The head for the parser. Chunks that are whole are put together: it then has their length instead."""
        if not self._lines:
            return bytes(self._data)
        lines = self._lines
        if self._chunked and self._length is not None:
            lines = [line for line in lines if _name(line) != _CODING_FIELD]
            lines = [*lines, b"Content-Length: %d" % self._length]
        return b"\r\n".join(lines) + _END

    @property
    def body(self) -> bytearray:
        """The part of the body that has come, as `head` frames it."""
        return bytearray() if self._chunked and self.stage is not Stage.WHOLE else self._body

    def feed(self, data: bytes) -> None:
        """Take what has come, and read of it as much as may be read at once."""
        self._data += data
        self.more = False
        if self.stage is Stage.HEAD:
            self._read_head()
        if self.stage is Stage.BODY:
            if self._chunked:
                self._read_chunks()
            else:
                self._read_length()

    def _refuse(self, why: str) -> None:
        self._move(Stage.REFUSED)
        self.why = why

    def _read_head(self) -> None:
        end = self._data.find(_END, self._searched, self._most_head)
        if _has_lone_lf(self._data, self._searched, end if end >= 0 else self._most_head):
            self._refuse("a line of the request's head ends without CR")
        elif end >= 0:
            self._lines = bytes(self._data[:end]).split(b"\r\n")
            del self._data[: end + len(_END)]
            self._read_framing()
        elif len(self._data) >= self._most_head:
            self._move(Stage.LONG_HEAD)
        else:
            self._searched = max(0, len(self._data) - len(_END) + 1)

    def _read_framing(self) -> None:
        """Where the body ends. What gunicorn's parser refuses without reading on is left to it."""
        framing = self._framing()
        lengths, codings = framing[_LENGTH_FIELD], framing[_CODING_FIELD]
        expected = set(framing[_EXPECT_FIELD])
        asking = _LEAVE in expected
        if asking:
            self._drop_expectation()
        if expected - {_LEAVE}:
            self._refuse("it expects what nobody knows (Expect)")
            return
        if not lengths and not codings:
            self._end()
            return
        length = _body_length(lengths, codings)
        if length is not None:
            self._remaining = length
        elif self._is_newer() and not lengths and codings == [b"chunked"]:
            self._go_on(Part.SIZE)
        else:
            self._refuse("it cannot be told where the body ends (Content-Length, Transfer-Encoding)")
            return
        self._move(Stage.BODY)
        if self._remaining > self._most_body:
            self._refuse_size(self._remaining)
        self.expects = asking and self._is_newer()

    def _is_newer(self) -> bool:
        """True for HTTP/1.1: before the request's own line there may be an empty one."""
        return any(line.endswith(b" HTTP/1.1") for line in self._lines[:2])

    def _drop_expectation(self) -> None:
        """Take out of the head that the client waits for leave to send its body: the poll gives it."""
        fields = (line for line in self._lines[1:] if _name(line) != _EXPECT_FIELD)
        self._lines = [self._lines[0], *fields]

    def _framing(self) -> dict[bytes, list[bytes]]:
        """The values of the fields that say where the body ends, and what is waited for, in lower case."""
        values: dict[bytes, list[bytes]] = {_LENGTH_FIELD: [], _CODING_FIELD: [], _EXPECT_FIELD: []}
        for line in self._lines[1:]:
            name, _, value = line.partition(b":")
            of_name = values.get(name.lower())
            if of_name is not None:
                of_name.append(value.strip(b" \t").lower())
        return values

    def _end(self) -> None:
        self._move(Stage.WHOLE)
        self.rest = bytes(self._data)
        self._data.clear()

    def _refuse_size(self, size: int) -> None:
        """The head says how large it is, and the application that this is too much."""
        self._length = size
        self._refuse("the body is too large")

    def _read_length(self) -> None:
        self._take_data()
        if self._remaining == 0:
            self._end()

    def _take_data(self) -> None:
        part = self._data[: self._remaining]
        self._body += part
        self._remaining -= len(part)
        del self._data[: len(part)]

    def _read_chunks(self) -> None:
        last = self._chunks + CHUNKS_AT_ONCE
        while self.stage is Stage.BODY:
            if self._chunks >= last:
                self.more = True
                return
            if self._part is Part.SIZE:
                going = self._read_size()
            elif self._part is Part.DATA:
                going = self._read_chunk()
            else:
                going = self._read_trailers()
            if not going:
                return

    def _read_size(self) -> bool:
        end = self._data.find(b"\r\n", 0, MAX_SIZE_LINE)
        if end < 0:
            if len(self._data) >= MAX_SIZE_LINE or _has_lone_lf(self._data, 0, MAX_SIZE_LINE):
                self._refuse("a chunk of the body has no size")
            return False
        line = _SIZE_LINE.fullmatch(self._data, 0, end)
        if line is None:
            self._refuse("a chunk of the body has no size")
            return False
        self._remaining = int(line[1], 16)
        del line
        del self._data[: end + 2]
        self._chunks += 1
        if self._chunks > MAX_CHUNKS:
            self._refuse(f"the body has more than {MAX_CHUNKS} chunks")
            return False
        if len(self._body) + self._remaining > self._most_body:
            self._refuse_size(len(self._body) + self._remaining)
            return False
        self._go_on(Part.DATA if self._remaining else Part.TRAILERS)
        self._searched = 0
        return True

    def _read_chunk(self) -> bool:
        self._take_data()
        if self._remaining or len(self._data) < 2:
            return False
        if not self._data.startswith(b"\r\n"):
            self._refuse("a chunk of the body is longer than its size")
            return False
        del self._data[:2]
        self._go_on(Part.SIZE)
        return True

    def _read_trailers(self) -> bool:
        """Pass over the fields behind the last chunk: nobody needs them (RFC 9110, 6.5)."""
        if self._data.startswith(b"\r\n"):
            end = 2
        else:
            end_of_lines = self._data.find(_END, self._searched, MAX_TRAILERS)
            if _has_lone_lf(self._data, self._searched, end_of_lines if end_of_lines >= 0 else MAX_TRAILERS):
                self._refuse("a line behind the body ends without CR")
                return False
            if end_of_lines < 0:
                if len(self._data) >= MAX_TRAILERS:
                    self._refuse("what stands behind the body does not end")
                self._searched = max(0, len(self._data) - len(_END) + 1)
                return False
            end = end_of_lines + len(_END)
        del self._data[:end]
        self._length = len(self._body)
        self._end()
        return False


def _has_lone_lf(data: bytearray, start: int, end: int) -> bool:
    """True if one of the line ends between `start` and `end` has no CR before it."""
    return data.count(b"\n", start, end) != data.count(b"\r\n", max(0, start - 1), end)


def _body_length(lengths: list[bytes], codings: list[bytes]) -> int | None:
    """The bytes of a body that has a length, and one alone; else None. `["42"]`, `[]` -> 42."""
    if codings or len(lengths) != 1:
        return None
    length = _LENGTH.fullmatch(lengths[0])
    if length is None:
        return None
    return int(length[1])


def _name(line: bytes) -> bytes:
    return line.partition(b":")[0].lower()
