"""The state that a request keeps until its end: settings, rules, model servers, and what the servers reported."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from proxy.config.api_keys import Keys
from proxy.config.rules import Model, Profile, Rules
from proxy.config.settings import Settings
from proxy.errors import Unavailable, UpstreamError
from proxy.exchange.plan import server_key, server_of
from proxy.healing.families import Family, Shown, family_of
from proxy.limits import AUDIT_MAX, CONNECT_SECONDS, MAX_ANSWER, SEND_SECONDS
from proxy.server.audit_log import AuditFile
from proxy.upstream.api import HEALTH, MODELS
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ABOUT, ModelCard, distinct_models, kind_of, loaded, read_about, read_cards
from proxy.upstream.responses import fetch

log = logging.getLogger("proxy")

READY_SECONDS = 1.0
READY_CACHED = 2.0
_CARDS_SECONDS = 2.0
_CARDS_AGAIN = 1.0
_CARDS_CACHED = 300.0
_CARDS_FAILED = 10.0
# When the models of all servers are listed, no further server is asked after this time.
_OTHERS_SECONDS = 2.0
_NO_KEY = (401, 403)
# Bytes of a server's description of its model, most of which is the chat template.
_MAX_ABOUT = 1024 * 1024
_MAX_REMEMBERED = 1024


@dataclass(slots=True)
class _Served:
    """A server's list of models, and until when (`time.monotonic`) it is valid.

    `refused` is the key that the server rejected. `about` is the answer at the path that this kind of server has for
    details (`model_list.ABOUT`); it is requested at most once for each list, while `about_due` is true.
    """

    cards: tuple[ModelCard, ...] = ()
    until: float = 0.0
    refused: str | None = None
    about: tuple[Shown, ...] = ()
    about_due: bool = False
    asking: threading.Lock = field(default_factory=threading.Lock)

    def is_due(self, key: str) -> bool:
        """Return whether it is time to ask for the list with this key."""
        return time.monotonic() >= self.until or self.refused not in (None, key)

    def ask(self, server: ModelServer, path: str, headers: Mapping[str, str], most: int) -> tuple[int, bytes]:
        """Return status and body of the answer, or 0 and b"" without one. The first question has a longer timeout."""
        with contextlib.suppress(UpstreamError, Unavailable):
            return fetch(server, path, headers, _CARDS_AGAIN if self.until else _CARDS_SECONDS, most)
        return 0, b""


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
    audit: AuditFile | None = None
    keys: Keys = field(default_factory=Keys)
    via: str = ""
    _ready: bool = False
    _ready_until: float = 0.0
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _served: dict[str, _Served] = field(default_factory=dict)
    _proxied: set[str] = field(default_factory=set)

    def server_key(self, model: str | None, main: str) -> str:
        """Return the key for the server of a model, or "". `main` is the key for the main server."""
        if model is None:
            return main
        return server_key(self.rules.entry(model), self.settings, self.keys, main)

    def parses(self, model: str) -> bool:
        """Return whether the server has shown that it cannot parse this model's calls."""
        return model in self._proxied

    def remember(self, model: str) -> None:
        """Make the proxy parse this model's calls until the rules change."""
        if len(self._proxied) >= _MAX_REMEMBERED:
            return
        self._proxied.add(model)
        log.warning("the model server cannot parse the calls of model %r; the proxy does it from now on", model[:100])

    def cards(self, headers: Mapping[str, str], server: ModelServer) -> tuple[ModelCard, ...]:
        """Return the models of a server, requested with these headers; empty if it does not list any."""
        key = headers.get("Authorization", "")
        served = self._served.setdefault(server.target.url, _Served())

        def ask() -> None:
            status, body = served.ask(server, MODELS, headers, MAX_ANSWER)
            cards = read_cards(body)
            served.cards = cards or served.cards  # keep the list of a server that is busy
            served.about_due = bool(cards)
            # Only this key was rejected: a client with another one may ask immediately.
            served.refused = key if status in _NO_KEY else None
            served.until = time.monotonic() + (_CARDS_CACHED if cards else _CARDS_FAILED)

        _ask_once(served.asking, lambda: served.is_due(key), ask, wait=not served.cards)
        return served.cards

    def family(self, model: str, profile: Profile, headers: Mapping[str, str], server: ModelServer) -> Family | None:
        """Return the family of a model. Its server is asked only if neither the rules nor the name decide."""
        return family_of(model, profile.family, self._shown(model, profile.server_kind, headers, server))

    def _shown(self, model: str, kind: str, headers: Mapping[str, str], server: ModelServer) -> Iterator[Shown]:
        """Yield what a server reveals about a model: first from its list, then from its details."""
        cards = self.cards(headers, server)
        yield from loaded(model, cards)
        path, served = ABOUT.get(kind or kind_of(cards), ""), self._served[server.target.url]
        # The details of a server with several models do not name the model that they describe.
        if not path or len(distinct_models(cards)) != 1:
            return

        def ask() -> None:
            served.about_due = False
            served.about = read_about(served.ask(server, path, headers, _MAX_ABOUT)[1]) or served.about

        _ask_once(served.asking, lambda: served.about_due, ask, wait=not served.about)
        yield from served.about

    def known_models(self) -> frozenset[str]:
        """Return the names of the models that servers have listed so far; no server is asked."""
        return frozenset(card.id for served in [*self._served.values()] for card in served.cards)

    def all_models(self) -> frozenset[str]:
        """Return the names of the models of all servers. A server is asked if its list is missing or too old."""
        for entry in (Model("*"), *self.rules.models):
            self._cards_of(entry, self.keys.upstream)
        return self.known_models()

    def other_models(self, main: str) -> tuple[ModelCard, ...]:
        """Return the models that the rules route to other servers. `main` is the key for the main server.

        If a server does not answer in time, its last answer is used.
        """
        until = time.monotonic() + _OTHERS_SECONDS
        found: list[ModelCard] = []
        for entry in self.rules.models:
            url = server_of(entry, self.settings)
            if url == self.settings.upstream:
                continue
            if time.monotonic() < until:
                cards = self._cards_of(entry, main)
            else:
                cards = self._served.get(self.servers[url].target.url, _Served()).cards
            found += [card for card in cards if server_of(self.rules.entry(card.id), self.settings) == url]
        return tuple(found)

    def _cards_of(self, entry: Model, main: str) -> tuple[ModelCard, ...]:
        """Return the models of the server that a rules entry names, requested with that server's key."""
        key = server_key(entry, self.settings, self.keys, main)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.cards(headers, self.servers[server_of(entry, self.settings)])

    def server_kind(self, headers: Mapping[str, str], server: ModelServer) -> str:
        """Return the kind of a server from its models' `owned_by`, such as `vllm`, or ""."""
        return kind_of(self.cards(headers, server))

    def ready(self) -> bool:
        """Return whether a model server answers its health check; asked at most every two seconds."""

        def ask() -> None:
            self._ready = any(map(is_ready, self.servers.values()))
            self._ready_until = time.monotonic() + READY_CACHED

        due = lambda: time.monotonic() >= self._ready_until  # noqa: E731
        _ask_once(self._asking, due, ask, wait=not self._ready_until)
        return self._ready


def _ask_once(asking: threading.Lock, due: Callable[[], bool], ask: Callable[[], None], *, wait: bool) -> None:
    """Ask a server if that is `due`. One thread asks; others use the last answer, or `wait` if there is none."""
    if due() and asking.acquire(blocking=wait):
        try:
            if due():
                ask()
        finally:
            asking.release()


def is_ready(server: ModelServer) -> bool:
    """Return whether a model server answers its health check."""
    try:
        status, _ = fetch(server, HEALTH, {}, READY_SECONDS)
    except (UpstreamError, Unavailable):
        return False
    # A server without that path, or one that requires a key for it, is running.
    return status < 500


def make_snapshot(settings: Settings, rules: Rules, keys: Keys | None = None, via: str = "") -> Snapshot:
    """Return a new snapshot. No model server is contacted yet."""
    audit = AuditFile(settings.audit_file, AUDIT_MAX) if settings.audit_file else None
    options = ServerOptions(settings.upstream, CONNECT_SECONDS, SEND_SECONDS, settings.upstream_ca, via)
    urls = dict.fromkeys((settings.upstream, *rules.urls))
    servers = {url: ModelServer(replace(options, url=url)) for url in urls}
    return Snapshot(settings, rules, servers, audit, keys or Keys(), via)
