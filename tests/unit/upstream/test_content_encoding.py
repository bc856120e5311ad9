"""Compressed answers are decoded within limits at every cut, or are an error."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator

import pytest

from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.limits import MAX_ANSWER
from proxy.upstream.responses import Decoder
from tests.support.helpers import all_cuts


def raw_deflate(data: bytes) -> bytes:
    packing = zlib.compressobj(wbits=-15)
    return packing.compress(data) + packing.flush()


WAYS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("X-GZIP", gzip.compress),
    "two members": ("gzip", lambda data: gzip.compress(data[:9], mtime=0) + gzip.compress(data[9:], mtime=0)),
    "deflate": ("deflate", zlib.compress),
    "deflate without a header": ("deflate", raw_deflate),
    "stored": ("gzip", lambda data: gzip.compress(data, 0, mtime=0)),
}
EACH = pytest.mark.parametrize(("coding", "pack"), WAYS.values(), ids=WAYS)


def decoded(cut: Iterator[bytes] | list[bytes]) -> bytes:
    decoder = Decoder()
    found = b"".join(piece for part in cut for piece in decoder.feed(part))
    decoder.finish()
    return found


@EACH
@pytest.mark.parametrize("data", [b"", b"a", b"So. " * 50, os.urandom(300)], ids=["nothing", "a", "text", "noise"])
def test_compressed_data_is_decoded_at_every_cut(coding: str, pack: Callable[[bytes], bytes], data: bytes) -> None:
    for cut in all_cuts(pack(data)):
        assert decoded(cut) == data


def test_large_data_is_decoded_in_pieces() -> None:
    decoder = Decoder()
    data = os.urandom(1000) * 4000
    pieces = [*decoder.feed(gzip.compress(data, mtime=0))]
    assert b"".join(pieces) == data and max(map(len, pieces)) <= 256 * 1024


def test_a_decompression_bomb_is_refused_early() -> None:
    packing = zlib.compressobj(wbits=31)
    bomb = b"".join(packing.compress(b"\0" * 2**20) for _ in range(MAX_ANSWER // 2**20 + 8))
    decoder, size = Decoder(), 0
    with pytest.raises(LimitExceeded):
        for piece in decoder.feed(bomb):
            size += len(piece)
            assert size <= MAX_ANSWER


@EACH
def test_truncated_data_is_an_error(coding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)))
    for end in (1, 5, 9, len(packed) - 1):
        with pytest.raises(UpstreamBroken):
            decoded([packed[:end]])


@pytest.mark.parametrize(
    "data", [b"no gzip at all", b"\x1f\x8bgarbage", b"\x78\x9cgarbage", gzip.compress(b"a", mtime=0) + b"b"]
)
def test_data_in_another_encoding_is_an_error(data: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        decoded([data])


@pytest.mark.parametrize("end", [b"\0", b"\0" * 1000, b"\0\0" + gzip.compress(b"", mtime=0) + b"\0"])
def test_padding_with_zeros_is_ignored(end: bytes) -> None:
    for cut in all_cuts(gzip.compress(b"So.", mtime=0) + end):
        assert decoded(cut) == b"So."


def small_members(count: int) -> bytes:
    """Return gzip members of one byte each, which are the smallest possible."""
    return b"".join(gzip.compress(bytes([number % 256]), mtime=0) for number in range(count))


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 16 * 1024, 10**6])
def test_many_members_are_decoded_at_every_cut(step: int) -> None:
    packed = small_members(300) + gzip.compress(os.urandom(40_000), mtime=0) + small_members(3)
    found = decoded([packed[at : at + step] for at in range(0, len(packed), step)])
    assert len(found) == 300 + 40_000 + 3 and found[:300] == bytes(number % 256 for number in range(300))
