"""One thread, one poll: waits on the upstream's socket and on the client's at once.

A WSGI generator learns only at the second write after it that its client left; a poll on the client's own socket
(`POLLRDHUP`) tells at once. A client that closed its sending half counts as gone. Linux only.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from proxy.errors import ClientGone, Unavailable, UpstreamTimeout
from proxy.upstream.client import UpstreamCall


class HasDescriptor(Protocol):
    """A socket, as far as the poll needs it."""

    def fileno(self) -> int:
        """The descriptor."""


NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds: until the head of the answer, between two bytes of it, between two writes to the client, and in all.

    `heartbeat` 0 means that the client gets none; `whole` that the whole answer is due as its head is.
    """

    header: float
    idle: float
    heartbeat: float = 0.0
    whole: bool = False
    total: float = NEVER


class Pump:
    """Waits for one client. `drain` is the descriptor that can be read once the worker is about to end."""

    def __init__(self, client: HasDescriptor | None, patience: Timeouts, drain: int | None = None) -> None:
        self._client = client
        self._patience = patience
        self._drain = drain
        self._written = time.monotonic()
        self._last = self._written + patience.total
        self._alarm = NEVER
        self._end = NEVER

    def wrote(self) -> None:
        """Bytes went to the client just now: the next heartbeat is a whole interval away."""
        self._written = time.monotonic()

    @property
    def heartbeat_due(self) -> bool:
        """True if the client has waited for bytes for the whole interval."""
        beat = self._patience.heartbeat
        return bool(beat) and time.monotonic() >= self._written + beat

    def _is_due(self, now: float) -> bool:
        """True if a heartbeat is due, or the alarm rings."""
        return now >= self._alarm or self.heartbeat_due

    def alarm(self, at: float) -> None:
        """Wake at this time (`time.monotonic`) at the latest."""
        self._alarm = at

    def expect_end(self, seconds: float) -> None:
        """The body should end by itself now; after so many seconds it counts as ended."""
        self._end = min(self._end, time.monotonic() + seconds)

    def receive(self, call: UpstreamCall) -> Iterator[bytes | None]:
        """The parts of the answer's body as they arrive, the first as soon as the head is whole; None when a heartbeat
        is due or the alarm rings, also while parts keep coming.

        Raises ClientGone, UpstreamTimeout, UpstreamBroken, or Unavailable (the worker is about to end); ends when the
        body has properly ended.
        """
        poll = self._poll_of(call)
        # What was said of an earlier answer says nothing of this one.
        self._alarm = self._end = NEVER
        heard = time.monotonic()
        headless = True
        while not call.complete:
            whole = headless or self._patience.whole
            limit = self._limit(whole=whole)
            ready = self._wait(poll, call, heard + limit)
            now = time.monotonic()
            if now >= self._end:
                return
            # An idle limit is kept by bytes that have come after all; what is read whole has its time in all.
            silent = whole or not ready
            if now >= min(heard + limit, self._last):
                self._late(now, heard, whole=whole, excused=not silent)
            if self._is_due(now):
                yield None
            if not ready:
                continue
            data = call.receive()
            if not call.status:
                continue
            if not self._patience.whole:
                heard = now
            if data or headless:
                headless = False
                yield data

    def _limit(self, *, whole: bool) -> float:
        """Seconds until the head, or all that is read whole; else until the next bytes."""
        return self._patience.header if whole else self._patience.idle

    def _late(self, now: float, heard: float, *, whole: bool, excused: bool) -> None:
        """Some time is over: raise UpstreamTimeout, but for a silence that is `excused`."""
        limit = self._limit(whole=whole)
        if now >= heard + limit and not excused:
            raise UpstreamTimeout(_silence(whole, limit))
        if now >= self._last:
            raise UpstreamTimeout(f"the reply took longer than {self._patience.total:g} s (total_timeout)")

    def _poll_of(self, call: UpstreamCall) -> select.poll:
        """What is waited for: the upstream's bytes, the client's leaving, the worker's end."""
        poll = select.poll()
        poll.register(call.fileno(), select.POLLIN)
        if self._client is not None:
            poll.register(self._client.fileno(), select.POLLRDHUP)
        if self._drain is not None:
            poll.register(self._drain, select.POLLIN)
        return poll

    def _wait(self, poll: select.poll, call: UpstreamCall, until: float) -> bool:
        """True if the upstream can be read, False if `until` or the next heartbeat has come."""
        until = min(until, self._alarm, self._end, self._last, self._written + (self._patience.heartbeat or NEVER))
        left = 0.0 if call.more else max(0.0, until - time.monotonic())
        # Rounded up: a poll that returns a little early would spin.
        ready = {descriptor for descriptor, _ in poll.poll(int(left * 1000) + 1 if left else 0)}
        if self._client is not None and self._client.fileno() in ready:
            raise ClientGone("the client closed the connection")
        if self._drain in ready:
            raise Unavailable("the proxy is about to end, for a restart or a new release; send the request again")
        return bool(ready) or call.more


def _silence(whole: bool, limit: float) -> str:
    if whole:
        return f"the model server did not answer within {limit:g} s (header_timeout)"
    return f"the model server was silent for {limit:g} s (idle_timeout)"
