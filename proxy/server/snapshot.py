"""The state that a request keeps until its end: settings, rules, model servers, and what the servers reported."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from proxy.config.api_keys import Keys
from proxy.config.rules import Model, Profile, Rules
from proxy.config.settings import Settings
from proxy.errors import ProxyError
from proxy.exchange.plan import server_key, server_of
from proxy.healing.families import Family, Shown, family_of
from proxy.limits import AUDIT_MAX, CONNECT_SECONDS, SEND_SECONDS
from proxy.server.audit_log import AuditFile
from proxy.upstream.api import HEALTH, MODELS
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ABOUT, ModelCard, distinct_models, kind_of, loaded, read_about, read_cards
from proxy.upstream.responses import fetch

_T = TypeVar("_T")

READY_SECONDS = 1.0
READY_CACHED = 2.0
_CARDS_SECONDS = 2.0
_CARDS_CACHED = 300.0
_CARDS_FAILED = 10.0
# When the models of several servers are listed, no further server is asked after this time.
_ASK_SECONDS = 2.0
_NO_KEY = (401, 403)


@dataclass(slots=True)
class _Cached(Generic[_T]):
    """The last answer of a server, until when (`time.monotonic`) it is valid, and the key that the server rejected."""

    value: _T
    until: float = 0.0
    refused: str | None = None
    asking: threading.Lock = field(default_factory=threading.Lock)

    def get(self, ask: Callable[[], tuple[_T, float]], key: str = "", *, waits: bool = True) -> _T:
        """Return the answer. If it is too old, one thread calls `ask` for a new one, which is valid for some seconds.

        Other threads use the last answer, and wait only if there was none, or if it is empty and `waits`.
        """

        def is_due() -> bool:
            # Only one key was rejected: a client with another one may ask immediately.
            return time.monotonic() >= self.until or self.refused not in (None, key)

        if is_due() and self.asking.acquire(blocking=not self.value and (waits or not self.until)):
            try:
                if is_due():
                    self.value, seconds = ask()
                    self.until = time.monotonic() + seconds
            finally:
                self.asking.release()
        return self.value


@dataclass(slots=True)
class Snapshot:
    """The settings, rules and keys of one reload, and what was learned under them.

    `servers` are the model servers by URL: the one of the settings first, then those that the rules name. Answers of a
    server (`cards`, `server_kind`) are cached for a while. `via` is the proxy's pseudonym in the `Via` header, which
    all of its workers share.
    """

    settings: Settings
    rules: Rules
    servers: Mapping[str, ModelServer]
    audit: AuditFile | None
    keys: Keys
    via: str
    # By the server's URL: whether it is ready, its models, and what it says of its only model (`model_list.ABOUT`).
    _ready: dict[str, _Cached[bool]] = field(init=False)
    _cards: dict[str, _Cached[tuple[ModelCard, ...]]] = field(init=False)
    _about: dict[str, _Cached[tuple[Shown, ...]]] = field(init=False)

    def __post_init__(self) -> None:
        self._ready = {url: _Cached(False) for url in self.servers}
        self._cards = {url: _Cached(()) for url in self.servers}
        self._about = {url: _Cached(()) for url in self.servers}

    def server_key(self, model: str | None, main: str) -> str:
        """Return the key for the server of a model, or "". `main` is the key for the main server."""
        if model is None:
            return main
        return server_key(self.rules.entry(model), self.settings, self.keys, main)

    def cards(self, headers: Mapping[str, str], server: ModelServer) -> tuple[ModelCard, ...]:
        """Return the models of a server, requested with these headers; empty if it does not list any."""
        key = headers.get("Authorization", "")
        cached = self._cards[server.target.url]

        def ask() -> tuple[tuple[ModelCard, ...], float]:
            status, body = _asked(server, MODELS, headers)
            cards = read_cards(body)
            cached.refused = key if status in _NO_KEY else None
            if cards:  # a server that was restarted may serve another model
                self._about[server.target.url].until = 0.0
            # Keep the list of a server that is busy.
            return cards or cached.value, _CARDS_CACHED if cards else _CARDS_FAILED

        return cached.get(ask, key)

    def family(self, model: str, profile: Profile, headers: Mapping[str, str], server: ModelServer) -> Family | None:
        """Return the family of a model. Its server is asked only if neither the rules nor the name decide."""
        return family_of(model, profile.family, self._shown(model, profile.server_kind, headers, server))

    def _shown(self, model: str, kind: str, headers: Mapping[str, str], server: ModelServer) -> Iterator[Shown]:
        """Yield what a server reveals about a model: first from its list, then from its details."""
        cards = self.cards(headers, server)
        yield from loaded(model, cards)
        path = ABOUT.get(kind or kind_of(cards), "")
        # The details of a server with several models do not name the model that they describe.
        if not path or len(distinct_models(cards)) != 1:
            return
        cached = self._about[server.target.url]

        def ask() -> tuple[tuple[Shown, ...], float]:
            return read_about(_asked(server, path, headers)[1]) or cached.value, _CARDS_CACHED

        yield from cached.get(ask)

    def known_models(self) -> frozenset[str]:
        """Return the names of the models that servers have listed so far; no server is asked."""
        return frozenset(card.id for cached in self._cards.values() for card in cached.value)

    def all_models(self) -> frozenset[str]:
        """Return the names of the models of all servers. A server is asked if its list is missing or too old."""
        self._ask((Model("*"), *self.rules.models), self.keys.upstream)
        return self.known_models()

    def other_models(self, main: str) -> tuple[ModelCard, ...]:
        """Return the models that the rules route to other servers. `main` is the key for the main server."""
        other = {url: server for url, server in self.servers.items() if url != self.settings.upstream}
        self._ask([entry for entry in self.rules.models if server_of(entry, self.settings) in other], main)
        return tuple(
            card
            for url, server in other.items()
            for card in self._cards[server.target.url].value
            if server_of(self.rules.entry(card.id), self.settings) == url
        )

    def _ask(self, entries: Iterable[Model], main: str) -> None:
        """Ask the servers of rules entries for their models, each with its key.

        If the first ones take too long, the last answers of the others are used.
        """
        until = time.monotonic() + _ASK_SECONDS
        for entry in entries:
            if time.monotonic() >= until:
                return
            key = server_key(entry, self.settings, self.keys, main)
            self.cards({"Authorization": f"Bearer {key}"} if key else {}, self.servers[server_of(entry, self.settings)])

    def server_kind(self, headers: Mapping[str, str], server: ModelServer) -> str:
        """Return the kind of a server from its models' `owned_by`, such as `vllm`, or ""."""
        return kind_of(self.cards(headers, server))

    def is_ready(self, url: str) -> bool:
        """Return whether a model server answers its health check; asked at most every two seconds."""

        def ask() -> tuple[bool, float]:
            status, _ = _asked(self.servers[url], HEALTH, {}, READY_SECONDS)
            # A server without that path, or one that requires a key for it, is running.
            return 0 < status < 500, READY_CACHED

        return self._ready[url].get(ask, waits=False)


def _asked(
    server: ModelServer, path: str, headers: Mapping[str, str], seconds: float = _CARDS_SECONDS
) -> tuple[int, bytes]:
    """Return status and body of a server's answer, or 0 and b"" without one."""
    with contextlib.suppress(ProxyError):
        return fetch(server, path, headers, seconds)
    return 0, b""


def make_snapshot(settings: Settings, rules: Rules, keys: Keys, via: str) -> Snapshot:
    """Return a new snapshot. No model server is contacted yet."""
    audit = AuditFile(settings.audit_file, AUDIT_MAX) if settings.audit_file else None
    urls = dict.fromkeys((settings.upstream, *rules.urls))
    servers = {
        url: ModelServer(ServerOptions(url, CONNECT_SECONDS, SEND_SECONDS, settings.upstream_ca, via)) for url in urls
    }
    return Snapshot(settings, rules, servers, audit, keys, via)
