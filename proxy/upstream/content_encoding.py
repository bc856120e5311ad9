"""Answers that are compressed although `identity` was asked for (RFC 9110, 8.4): gzip and deflate are undone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.limits import MAX_ANSWER
from proxy.upstream.client import UpstreamCall

# What is given at once: a few bytes may be the beginning of gigabytes.
_PIECE = 256 * 1024
# What is handed over at once: first, for a stream may be as short as twenty bytes, and at most.
_STEP, _MAX_STEP = 512, 16 * 1024
# Beyond a whole answer's size no more than so many times of what came.
_MAX_RATIO = 100
KNOWN = frozenset(("gzip", "x-gzip", "deflate"))
_GZIP = b"\x1f\x8b"
# The windows of zlib: with either header, and with none.
_HEADED, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


class Decoder:
    """The bytes of a compressed body, in any cut, to what they stand for. What is none raises UpstreamBroken.

    `over` says that all has been said: what stands behind the end of the coding then is nobody's, and passed over.
    """

    def __init__(self, over: Callable[[], bool] = lambda: False) -> None:
        self._over = over
        self._undoing: zlib._Decompress | None = None
        self._first = b""
        self._step = _STEP
        self._received = 0
        self._decoded = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return what the next bytes add to the decoded body, in pieces that are not too large."""
        self._received += len(data)
        if self._undoing is None:
            # Some servers mean deflate without its header; two bytes tell.
            data = self._first = self._first + data
            if len(data) < 2:
                return
            self._begin(_HEADED if _has_header(data) else _RAW)
        rest = memoryview(data)
        while rest:
            undoing = self._undoing
            assert undoing is not None, "it has begun"
            if undoing.eof:
                if self._over():
                    return
                rest = self._next_stream(rest)
                continue
            # All that is behind the end of a stream is copied: little, while that may be short.
            part = rest[: self._step]
            self._step = min(2 * self._step, _MAX_STEP)
            yield from self._undone(undoing, part)
            rest = rest[len(part) - len(undoing.unused_data) :]

    def _begin(self, window: int) -> None:
        self._undoing = zlib.decompressobj(window)
        self._step = _STEP

    def _next_stream(self, rest: memoryview) -> memoryview:
        """One stream may follow another, or zeros that fill a block (gzip's own manual)."""
        part = bytes(rest[:_STEP])
        data = part.lstrip(b"\0")
        if data:
            self._begin(_HEADED)
        return rest[len(part) - len(data) :]

    def _undone(self, undoing: zlib._Decompress, part: bytes | memoryview) -> Iterator[bytes]:
        """Some bytes of a compressed stream, decoded. After a piece of full size there may be more, although all of
        them are taken.
        """
        full = True
        while full or part:
            piece = self._piece(undoing, part)
            if piece:
                yield piece
            if undoing.eof:
                return
            full = len(piece) == _PIECE
            part = undoing.unconsumed_tail

    def _piece(self, undoing: zlib._Decompress, part: bytes | memoryview) -> bytes:
        """The next piece. Raises UpstreamBroken and LimitExceeded."""
        try:
            piece = undoing.decompress(part, _PIECE)
        except zlib.error:
            raise UpstreamBroken("the model server's compressed answer cannot be read") from None
        self._decoded += len(piece)
        if self._decoded > max(MAX_ANSWER, _MAX_RATIO * self._received):
            raise LimitExceeded("the size of an answer that is compressed", MAX_ANSWER)
        return piece

    def finish(self) -> None:
        """The body ended: what was compressed must have, too."""
        if not self._received:
            return
        if self._undoing is None or not self._undoing.eof:
            raise UpstreamBroken("the model server's compressed answer broke off")


def _has_header(data: bytes) -> bool:
    """True for the first bytes of gzip (RFC 1952) and of zlib (RFC 1950)."""
    if data.startswith(_GZIP):
        return True
    # zlib's first byte says that it is deflate, and the two together are a multiple of 31.
    method = data[0] & 15
    return method == 8 and (data[0] * 256 + data[1]) % 31 == 0


def decoded(
    call: UpstreamCall, parts: Iterator[bytes | None], over: Callable[[], bool] = lambda: False
) -> Iterator[bytes | None]:
    """The parts of an answer's body without their compression; the first says as before that the head is here.

    `over` says that a stream has said all: what stands behind the end of its coding then is passed over. Of an error in
    a coding that is not known the status is left, and nothing of the body.
    """
    undoing: Decoder | None = None
    first = True
    for part in parts:
        if part is None:
            yield None
            continue
        coding = call.coding if first else ""
        if coding in KNOWN:
            undoing = Decoder(over)
        elif coding:
            if call.status != 200:
                yield b""
                return
            words = f"the model server compressed its answer ({coding[:40]!r}) although it was asked not to"
            raise UpstreamBroken(words)
        if undoing is None:
            yield part
        else:
            if first:
                yield b""
            yield from undoing.feed(part)
        first = False
        # It would stay as long as the stream waits.
        del part
    if undoing is not None and call.complete:
        undoing.finish()
