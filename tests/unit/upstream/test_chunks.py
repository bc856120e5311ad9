"""Chunked bodies with any division into packets."""

from __future__ import annotations

import random
import socket
from contextlib import closing

import pytest

from proxy.errors import UpstreamBroken
from proxy.upstream.client import UpstreamCall

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CONTENTS = (b"data: {}\n\n", b"3", b"\r\n", b"\n", b"a\n\r\n", b"0\r\n\r\n", b"x" * 300, b"5\r\nhello\r\n")
SIZES = ("%x", "%X", "00%x", "%x;ext=1")


def read(pieces: list[bytes]) -> bytes:
    """Return the body of a response that arrives in these pieces. Raises UpstreamBroken if it is incomplete."""
    here, there = socket.socketpair()
    with closing(here), closing(there):
        here.setblocking(False)
        call, body = UpstreamCall(here), b""
        for piece in pieces:
            there.sendall(piece)
            looked = call.look() if call.status else None
            if looked is not None:
                body += looked
                call.take()
            else:
                body += call.receive()
        there.close()
        while not call.complete:
            body += call.receive()
        return body


def cut(data: bytes, seed: int) -> list[bytes]:
    """Cut a response at random positions, often after a chunk."""
    chance = random.Random(seed)
    ends = [at + 2 for at in range(len(data)) if data.startswith(b"\r\n", at)]
    places = chance.choices([*ends, *range(1, len(data))], k=chance.randrange(1, 12))
    places = sorted({*places, len(HEAD), len(data)})
    return [data[start:end] for start, end in zip([0, *places], places, strict=False)]


@pytest.mark.parametrize("seed", range(300))
def test_the_body_does_not_depend_on_the_cuts(seed: int) -> None:
    chance = random.Random(seed)
    contents = chance.choices(CONTENTS, k=8)
    chunks = [(chance.choice(SIZES) % len(each)).encode() + b"\r\n" + each + b"\r\n" for each in contents]
    assert read(cut(HEAD + b"".join(chunks) + b"0\r\n\r\n", seed)) == b"".join(contents)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    "wrong", [b"zz\r\nab\r\n", b"-1\r\nab\r\n", b"2\r\nabc\r\n", b"1_0\r\nab\r\n", b"ff\r\nab\r\n", b""]
)
def test_a_broken_chunk_raises_upstream_broken(wrong: bytes, seed: int) -> None:
    good = b"a\r\ndata: {}\n\n\r\n" * 3
    with pytest.raises(UpstreamBroken):
        read(cut(HEAD + good + wrong, seed))
