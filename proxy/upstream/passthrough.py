"""Paths that pass to the upstream as they are: its status, its headers and its very bytes, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from proxy.errors import UpstreamBroken
from proxy.upstream.answer_wait import AnswerWait
from proxy.upstream.client import UpstreamCall
from proxy.upstream.headers import PASSED, response_headers


@dataclass(frozen=True, slots=True)
class PassthroughResponse:
    """An answer on its way: `length` is the body's length in bytes where the upstream said it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None
    parts: Iterator[bytes]


def pass_through(call: UpstreamCall, wait: AnswerWait) -> PassthroughResponse:
    """Wait for the head of the answer to a request that was sent.

    Raises a ProxyError while nothing has come; what breaks off later raises it out of `parts`. The call stays open
    until the caller closes it.
    """
    parts = wait.receive(call)
    first = next(parts, b"")
    if not 200 <= call.status <= 599:
        raise UpstreamBroken(f"the model server answered with status {call.status}")
    passed = response_headers(call, PASSED)
    return PassthroughResponse(call.status, passed, call.length, filter(None, chain((first,), parts)))
