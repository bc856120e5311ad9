"""A compressed answer is undone at every cut, within bounds, or is an error."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from proxy.errors import LimitExceeded, UpstreamBroken
from proxy.limits import MAX_ANSWER
from proxy.upstream.content_encoding import Decoder
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


def undone(cut: Iterator[bytes] | list[bytes]) -> bytes:
    decoder = Decoder()
    found = b"".join(piece for part in cut for piece in decoder.feed(part))
    decoder.finish()
    return found


@EACH
@pytest.mark.parametrize("data", [b"", b"a", b"So. " * 50, os.urandom(300)], ids=["nothing", "a", "text", "noise"])
def test_it_is_undone_at_every_cut(coding: str, pack: Callable[[bytes], bytes], data: bytes) -> None:
    for cut in all_cuts(pack(data)):
        assert undone(cut) == data


def test_what_is_large_comes_in_pieces() -> None:
    decoder = Decoder()
    data = os.urandom(1000) * 4000
    pieces = [*decoder.feed(gzip.compress(data, mtime=0))]
    assert b"".join(pieces) == data and max(map(len, pieces)) <= 256 * 1024


def test_a_bomb_is_given_up_before_it_is_large() -> None:
    packing = zlib.compressobj(wbits=31)
    bomb = b"".join(packing.compress(b"\0" * 2**20) for _ in range(MAX_ANSWER // 2**20 + 8))
    decoder, size = Decoder(), 0
    with pytest.raises(LimitExceeded):
        for piece in decoder.feed(bomb):
            size += len(piece)
            assert size <= MAX_ANSWER


@EACH
def test_what_breaks_off_is_none(coding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)))
    for end in (1, 5, 9, len(packed) - 1):
        with pytest.raises(UpstreamBroken):
            undone([packed[:end]])


@pytest.mark.parametrize(
    "data", [b"no gzip at all", b"\x1f\x8bgarbage", b"\x78\x9cgarbage", gzip.compress(b"a", mtime=0) + b"b"]
)
def test_what_is_no_such_coding_is_an_error(data: bytes) -> None:
    with pytest.raises(UpstreamBroken):
        undone([data])


@pytest.mark.parametrize("end", [b"\0", b"\0" * 1000, b"\0\0" + gzip.compress(b"", mtime=0) + b"\0"])
def test_zeros_that_fill_a_block_are_passed_over(end: bytes) -> None:
    for cut in all_cuts(gzip.compress(b"So.", mtime=0) + end):
        assert undone(cut) == b"So."


def small_members(count: int) -> bytes:
    """Members of one byte each, as small as gzip has them."""
    return b"".join(gzip.compress(bytes([number % 256]), mtime=0) for number in range(count))


class Counting:
    """zlib, and how many bytes were handed to it and given back unread."""

    MAX_WBITS = zlib.MAX_WBITS
    error = zlib.error

    def __init__(self) -> None:
        self.moved = 0
        self.made = 0

    def decompressobj(self, wbits: int) -> Any:
        self.made += 1
        return _Counted(self, zlib.decompressobj(wbits))


class _Counted:
    def __init__(self, counting: Counting, undoing: Any) -> None:
        self._counting = counting
        self._undoing = undoing

    def decompress(self, data: bytes, most: int) -> bytes:
        given: bytes = self._undoing.decompress(data, most)
        self._counting.moved += len(data) + len(given) + len(self.unused_data) + len(self.unconsumed_tail)
        return given

    @property
    def eof(self) -> bool:
        return bool(self._undoing.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._undoing.unused_data)

    @property
    def unconsumed_tail(self) -> bytes:
        return bytes(self._undoing.unconsumed_tail)


@pytest.mark.parametrize("fill", [b"", b"\0" * 3])
def test_of_many_small_members_each_byte_is_moved_a_few_times(monkeypatch: pytest.MonkeyPatch, fill: bytes) -> None:
    """C7: what stands behind a member is not copied anew for each of those before it."""
    packed = fill.join(gzip.compress(bytes([number % 256]), mtime=0) for number in range(5000))
    counting = Counting()
    monkeypatch.setattr("proxy.upstream.content_encoding.zlib", counting)
    assert len(undone([packed])) == counting.made == 5000
    assert counting.moved < 50 * len(packed)


def test_of_a_large_member_each_byte_is_moved_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into a piece waits, and is not copied whole for each of them."""
    data = os.urandom(2**16) + b"\0" * 2**25 + os.urandom(2**20)
    packed = gzip.compress(data, mtime=0)
    counting = Counting()
    monkeypatch.setattr("proxy.upstream.content_encoding.zlib", counting)
    assert undone([packed]) == data
    assert counting.moved < 6 * (len(packed) + len(data))


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 16 * 1024, 10**6])
def test_many_members_are_undone_at_every_step(step: int) -> None:
    packed = small_members(300) + gzip.compress(os.urandom(40_000), mtime=0) + small_members(3)
    found = undone([packed[at : at + step] for at in range(0, len(packed), step)])
    assert len(found) == 300 + 40_000 + 3 and found[:300] == bytes(number % 256 for number in range(300))
