"""The model servers of one generation of settings and rules, and the way of each request among them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from proxy.codec.json_text import Json
from proxy.errors import UpstreamSlow, UpstreamUnreachable
from proxy.upstream.client import ModelServer, ServerOptions, UpstreamCall
from proxy.upstream.load_balancing import PROBE_SECONDS, order

# Nothing was sent: another server may be asked.
UNSENT = (UpstreamUnreachable, UpstreamSlow)


class ServerCandidates:
    """The model servers that one request may go to, the best first: each is tried once, and only until one of them has
    taken a connection. `several`: there was a choice.
    """

    def __init__(self, servers: Sequence[ModelServer]) -> None:
        self.left = list(servers)
        self.several = len(self.left) > 1

    @property
    def server(self) -> ModelServer:
        """Where the request goes now."""
        return self.left[0]

    def move(self) -> bool:
        """Go on to the next server; False if there is none."""
        if len(self.left) > 1:
            del self.left[0]
            return True
        return False

    def skip_to(self, server: ModelServer) -> None:
        """Go on to this server: those before it cannot be reached."""
        del self.left[: self.left.index(server)]

    def open(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> UpstreamCall:
        """Connect and send, as `Upstream.open` does; where no connection can be made, to the next server."""
        while True:
            try:
                return self.server.open(method, path, headers, body)
            except UNSENT:
                if not self.move():
                    raise


class ServerPool:
    """All model servers, those of the settings and those that the rules name for models; safe to share between threads.

    A server that was there before, under the same settings, stays what it is: its open calls, and whether it is out.
    """

    def __init__(
        self, usual: Sequence[str], others: Iterable[str], target: ServerOptions, before: ServerPool | None = None
    ) -> None:
        urls = dict.fromkeys((*usual, *others))
        # Where there is no other server, nothing is gained by giving one up soon.
        target = replace(target, probe_timeout=PROBE_SECONDS if len(urls) > 1 else 0.0)
        old = before.servers if before is not None else {}
        self.servers: dict[str, ModelServer] = {url: _server(replace(target, url=url), old.get(url)) for url in urls}
        self._usual = tuple(usual)

    @property
    def several(self) -> bool:
        """True if there is more than one server."""
        return len(self.servers) > 1

    def way(self, servers: Sequence[str] = (), key: Callable[[], bytes] = bytes) -> ServerCandidates:
        """The way of a request that may go to these servers (by default to the usual ones).

        `key` gives what its conversation is told by, or nothing: then the server with the fewest streams is the first.
        It is not asked where there is no choice.
        """
        servers = servers or self._usual
        if len(servers) == 1:
            return ServerCandidates([self.servers[servers[0]]])
        told, now = key(), time.monotonic()
        loads = {url: self.servers[url].load for url in servers}
        names = order(loads, told or secrets.token_bytes(8), now, sticky=bool(told))
        loads[names[0]].take(now)
        return ServerCandidates([self.servers[name] for name in names])

    def by_health(self) -> list[ModelServer]:
        """All servers, those that are out last."""
        now = time.monotonic()
        return sorted(self.servers.values(), key=lambda server: server.load.out(now))

    def shown(self) -> list[Json]:
        """How each server stands, for /health."""
        now = time.monotonic()
        return [
            {"url": url, "ejected": server.load.out(now), "streams": server.load.streams}
            for url, server in self.servers.items()
        ]


def _server(target: ServerOptions, old: ModelServer | None) -> ModelServer:
    return old if old is not None and old.target == target else ModelServer(target)
