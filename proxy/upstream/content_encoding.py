"""Answers that are compressed although `identity` was asked for (RFC 9110, 8.4): gzip and deflate are undone."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.limits import MAX_ANSWER
from proxy.upstream.client import UpstreamCall

# What is given at once: a few bytes may be the beginning of gigabytes.
_PIECE = 256 * 1024
# Beyond a whole answer's size no more than so many times of what came.
_MAX_RATIO = 100
KNOWN = frozenset(("gzip", "x-gzip", "deflate"))
_GZIP = b"\x1f\x8b"
# The windows of zlib: with either header, and with none.
_HEADED, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS


class Decoder:
    """The bytes of a compressed body, in any cut, to what they stand for. What is none raises UpstreamBroken."""

    def __init__(self) -> None:
        self._undoing: zlib._Decompress | None = None
        self._first = b""
        self._came = 0
        self._gave = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the next bytes add, in pieces that are not too large."""
        self._came += len(data)
        undoing = self._undoing
        if undoing is None:
            # Some servers mean deflate without its header; two bytes tell.
            data = self._first = self._first + data
            if len(data) < 2:
                return
            undoing = zlib.decompressobj(_HEADED if _has_header(data) else _RAW)
        # After a piece of full size there may be more, although all bytes are taken.
        full = False
        while data or full:
            if undoing.eof:  # one stream may follow another, or zeros that fill a block (gzip's own manual)
                data = data.lstrip(b"\0")
                if not data:
                    break
                undoing = zlib.decompressobj(_HEADED)
            given = self._undone(undoing, data)
            if given:
                yield given
            full = len(given) == _PIECE
            data = undoing.unconsumed_tail
            if undoing.eof:
                full = False
                data = undoing.unused_data
        self._undoing = undoing

    def _undone(self, undoing: zlib._Decompress, data: bytes) -> bytes:
        """The next piece that these bytes stand for. Raises UpstreamBroken and LimitExceeded."""
        try:
            given = undoing.decompress(data, _PIECE)
        except zlib.error:
            raise UpstreamBroken("the model server's compressed answer cannot be read") from None
        self._gave += len(given)
        if self._gave > max(MAX_ANSWER, _MAX_RATIO * self._came):
            raise LimitExceeded("the size of an answer that is compressed", MAX_ANSWER)
        return given

    def finish(self) -> None:
        """The body ended: what was compressed must have, too."""
        if not self._came:
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


def decoded(call: UpstreamCall, parts: Iterator[bytes | None]) -> Iterator[bytes | None]:
    """The parts of an answer's body without their compression; the first says as before that the head is here.

    Of an error in a coding that is not known the status is left, and nothing of the body.
    """
    undoing: Decoder | None = None
    first = True
    for part in parts:
        if part is None:
            yield None
            continue
        coding = call.coding if first else ""
        if coding in KNOWN:
            undoing = Decoder()
        elif coding:
            if call.status != 200:
                yield b""
                return
            told = f"the model server compressed its answer ({coding[:40]!r}) although it was asked not to"
            raise UpstreamBroken(told)
        if undoing is None:
            yield part
        else:
            if first:
                yield b""
            yield from undoing.feed(part)
        first = False
    if undoing is not None and call.complete:
        undoing.finish()
