"""The state that one request has from its beginning to its end: settings, rules, model servers and what is known of
them.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from proxy.config.api_keys import Keys
from proxy.config.rules import Model, Profile, Rules
from proxy.config.settings import Settings
from proxy.errors import Unavailable, UpstreamError
from proxy.exchange.routing import choose_server, server_key, server_of
from proxy.healing.families import Family, Shown, family_of
from proxy.limits import AUDIT_MAX, CONNECT_SECONDS, MAX_ANSWER, SEND_SECONDS
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.upstream.model_list import ABOUT, ModelCard, distinct_models, kind_of, loaded, read_about, read_cards
from proxy.upstream.paths import HEALTH, MODELS
from proxy.upstream.responses import fetch
from proxy.worker.audit_log import AuditFile

log = logging.getLogger("proxy")

READY_SECONDS = 1.0
READY_CACHED = 2.0
_CARDS_SECONDS = 2.0
_CARDS_AGAIN = 1.0
_CARDS_CACHED = 300.0
_CARDS_FAILED = 10.0
# After this time no further server is asked for the list of the models of all servers.
_OTHERS_SECONDS = 2.0
_NO_KEY = (401, 403)
# Bytes of what a server says of its model: most of it is the chat template.
_MAX_ABOUT = 1024 * 1024
_MAX_REMEMBERED = 1024


@dataclass(slots=True)
class _Known:
    """The readiness of a model server, and until when (`time.monotonic`) the answer holds."""

    value: bool = False
    until: float = 0.0


@dataclass(slots=True)
class _Served:
    """What a server says of its models, and until when (`time.monotonic`) its list holds.

    One thread asks; the others get the last answer, or wait if there is none. `refused` is the key with which the
    server would not answer. `about` is what the server says at a path of its own (`model_list.ABOUT`), asked at most
    once for each list: `about_due` until then.
    """

    cards: tuple[ModelCard, ...] = ()
    until: float = 0.0
    refused: str | None = None
    about: tuple[Shown, ...] = ()
    about_due: bool = False
    asking: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Snapshot:
    """The settings, rules and keys of one generation. What is learnt under them is forgotten with them.

    `servers` are the model servers by their URLs: that of the settings first, then those that the rules name. Questions
    about a server (`cards`, `server_kind`) ask it at most once in a while; they choose nothing. `via` is the proxy's
    pseudonym in the `Via` header, which all of its workers share.
    """

    settings: Settings
    rules: Rules
    servers: Mapping[str, ModelServer]
    audit: AuditFile | None = None
    keys: Keys = field(default_factory=Keys)
    via: str = ""
    _ready: _Known = field(default_factory=_Known)
    _asking: threading.Lock = field(default_factory=threading.Lock)
    _served: dict[str, _Served] = field(default_factory=dict)
    _proxied: set[str] = field(default_factory=set)

    def profile(self, model: str, client: str) -> Profile:
        """The profile of a model for a client."""
        return self.rules.profile(model, client)

    def server(self, url: str) -> ModelServer:
        """The model server at a URL that `exchange.routing` chose."""
        return self.servers[url]

    def server_key(self, model: str | None, main: str) -> str:
        """Return the key for the server of a model, or ""; `main` is the key that the main server gets."""
        if model is None:
            return main
        return server_key(self.rules.entry(model), self.settings, self.keys, main)

    def parses(self, model: str) -> bool:
        """True if the server showed that it cannot find this model's calls itself."""
        return model in self._proxied

    def remember(self, model: str) -> None:
        """For this model the proxy parses from now on, until the rules change."""
        if len(self._proxied) < _MAX_REMEMBERED:
            self._proxied.add(model)
        log.warning("the model server cannot parse the calls of model %r; the proxy does it from now on", model[:100])

    def cards(self, headers: Mapping[str, str], server: ModelServer) -> tuple[ModelCard, ...]:
        """Return the models of a server, asked with these headers; empty if it does not say."""
        served = self._served.setdefault(server.target.url, _Served())
        if _is_due(served, headers) and served.asking.acquire(blocking=not served.cards):
            try:
                if _is_due(served, headers):
                    _ask_cards(served, server, headers)
            finally:
                served.asking.release()
        return served.cards

    def family(
        self, model: str, profile: Profile, headers: Mapping[str, str], server: ModelServer
    ) -> Family | None:
        """Return the family of a model, for which its server is asked only if neither rules nor name tell it."""
        return family_of(model, profile.family, self._shown(model, profile.server_kind, headers, server))

    def _shown(self, model: str, kind: str, headers: Mapping[str, str], server: ModelServer) -> Iterator[Shown]:
        """Yield what a server shows of a model: what its list says first, then what it says at a path of its own."""
        cards = self.cards(headers, server)
        yield from loaded(model, cards)
        path = ABOUT.get(kind or kind_of(cards), "")
        # A server of several models says it of one that is not named.
        if path and len(distinct_models(cards)) == 1:
            yield from self._about(path, headers, server)

    def _about(self, path: str, headers: Mapping[str, str], server: ModelServer) -> tuple[Shown, ...]:
        """Return what a server says at a path of its own; the list has been asked for before."""
        served = self._served[server.target.url]
        if served.about_due and served.asking.acquire(blocking=not served.about):
            try:
                if served.about_due:
                    _ask_about(served, path, server, headers)
            finally:
                served.asking.release()
        return served.about

    def known_models(self) -> frozenset[str]:
        """The names of the models that the servers have said they have; nothing is asked. Empty: none has said so."""
        return frozenset(card.id for served in [*self._served.values()] for card in served.cards)

    def all_models(self) -> frozenset[str]:
        """Return the names of the models of all servers; servers that have not said so yet are asked."""
        for entry in (Model("*"), *self.rules.models):
            self._cards_of(entry, self.keys.upstream)
        return self.known_models()

    def other_models(self, main: str) -> tuple[ModelCard, ...]:
        """Return the models that the rules route to servers of their own; `main` is the key that the main server gets.

        A server that does not answer in time is represented by its last answer.
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
                cards = self._served.get(self.server(url).target.url, _Served()).cards
            found += [card for card in cards if choose_server(card.id, self.rules, self.settings) == url]
        return tuple(found)

    def _cards_of(self, entry: Model, main: str) -> tuple[ModelCard, ...]:
        """Return the models of the server of an entry of the rules, asked with the key for that server."""
        key = server_key(entry, self.settings, self.keys, main)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.cards(headers, self.server(server_of(entry, self.settings)))

    def server_kind(self, headers: Mapping[str, str], server: ModelServer) -> str:
        """The kind of a server by `owned_by` of its models, such as `vllm`, or an empty string."""
        return kind_of(self.cards(headers, server))

    def ready(self) -> bool:
        """True if a model server answers its health check; asked at most every two seconds."""
        # One asks; the others are told what was so a moment ago, if anything is known.
        if time.monotonic() >= self._ready.until and self._asking.acquire(blocking=not self._ready.until):
            try:
                if time.monotonic() >= self._ready.until:
                    answer = any(map(is_ready, self.servers.values()))
                    self._ready = _Known(answer, time.monotonic() + READY_CACHED)
            finally:
                self._asking.release()
        return self._ready.value


def _ask_cards(served: _Served, server: ModelServer, headers: Mapping[str, str]) -> None:
    """Ask a server for its models and note the answer; the caller holds `served.asking`."""
    status = 0
    cards: tuple[ModelCard, ...] = ()
    with contextlib.suppress(UpstreamError, Unavailable):
        status, body = fetch(server, MODELS, headers, _seconds(served), MAX_ANSWER)
        cards = read_cards(body)
    served.cards = cards or served.cards  # a server that is busy is still what it was
    served.about_due = bool(cards)
    # A refused key says nothing of the server: a client with another one may ask at once.
    served.refused = _key(headers) if status in _NO_KEY else None
    served.until = time.monotonic() + (_CARDS_CACHED if cards else _CARDS_FAILED)


def _ask_about(served: _Served, path: str, server: ModelServer, headers: Mapping[str, str]) -> None:
    """Ask a server what it says at a path of its own, and note it; the caller holds `served.asking`."""
    served.about_due = False
    with contextlib.suppress(UpstreamError, Unavailable):
        _, body = fetch(server, path, headers, _seconds(served), _MAX_ABOUT)
        served.about = read_about(body) or served.about


def _is_due(served: _Served, headers: Mapping[str, str]) -> bool:
    """Return whether it is time to ask for the list with these headers."""
    if time.monotonic() >= served.until:
        return True
    return served.refused is not None and served.refused != _key(headers)


def _key(headers: Mapping[str, str]) -> str:
    return headers.get("Authorization", "")


def _seconds(served: _Served) -> float:
    """Return how long the server may take while a request waits: less once it has been asked."""
    return _CARDS_AGAIN if served.until else _CARDS_SECONDS


def is_ready(server: ModelServer) -> bool:
    """Return whether a model server answers its health check."""
    try:
        status, _ = fetch(server, HEALTH, {}, READY_SECONDS)
    except (UpstreamError, Unavailable):
        return False
    # A server without that path, or one that wants a key for it, is there.
    return status < 500


def make_snapshot(settings: Settings, rules: Rules, keys: Keys | None = None, via: str = "") -> Snapshot:
    """A new generation; nothing is asked of the model servers yet."""
    audit = AuditFile(settings.audit_file, AUDIT_MAX) if settings.audit_file else None
    return Snapshot(settings, rules, _servers(settings, rules.urls, via), audit, keys or Keys(), via)


def _servers(settings: Settings, others: Iterable[str], via: str) -> dict[str, ModelServer]:
    """The model server of the settings and those of the rules, by their URLs."""
    options = ServerOptions(settings.upstream, CONNECT_SECONDS, SEND_SECONDS, settings.upstream_ca, via)
    urls = dict.fromkeys((settings.upstream, *others))
    return {url: ModelServer(replace(options, url=url)) for url in urls}
