"""What a request keeps from its beginning to its end: settings, rules, model servers, and what is known of them."""

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
from proxy.exchange.plan import choose_server, server_key, server_of
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
class _Served:
    """What a server says of its models, and until when (`time.monotonic`) its list is valid.

    `refused` is the key with which the server would not answer. `about` is what the server says at a path of its own
    (`model_list.ABOUT`), asked at most once for each list, while `about_due` is true.
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
        """Return status and body of an answer, 0 and b"" without one; a server that was asked before has less time."""
        with contextlib.suppress(UpstreamError, Unavailable):
            return fetch(server, path, headers, _CARDS_AGAIN if self.until else _CARDS_SECONDS, most)
        return 0, b""


@dataclass(slots=True)
class Snapshot:
    """The settings, rules and keys of one reload. What is learnt under them is forgotten with them.

    `servers` are the model servers by their URLs: that of the settings first, then those that the rules name. Questions
    about a server (`cards`, `server_kind`) ask it at most once in a while. `via` is the proxy's pseudonym in the `Via`
    header, which all of its workers share.
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
        """Return the key for the server of a model, or ""; `main` is the key that the main server gets."""
        if model is None:
            return main
        return server_key(self.rules.entry(model), self.settings, self.keys, main)

    def parses(self, model: str) -> bool:
        """Return whether the server showed that it cannot find this model's calls itself."""
        return model in self._proxied

    def remember(self, model: str) -> None:
        """Let the proxy parse for this model until the rules change."""
        if len(self._proxied) < _MAX_REMEMBERED:
            self._proxied.add(model)
        log.warning("the model server cannot parse the calls of model %r; the proxy does it from now on", model[:100])

    def cards(self, headers: Mapping[str, str], server: ModelServer) -> tuple[ModelCard, ...]:
        """Return the models of a server, asked with these headers; empty if it does not say."""
        key = headers.get("Authorization", "")
        served = self._served.setdefault(server.target.url, _Served())

        def ask() -> None:
            status, body = served.ask(server, MODELS, headers, MAX_ANSWER)
            cards = read_cards(body)
            served.cards = cards or served.cards  # a server that is busy is still what it was
            served.about_due = bool(cards)
            # A refused key says nothing of the server: a client with another one may ask immediately.
            served.refused = key if status in _NO_KEY else None
            served.until = time.monotonic() + (_CARDS_CACHED if cards else _CARDS_FAILED)

        _ask_once(served.asking, lambda: served.is_due(key), ask, wait=not served.cards)
        return served.cards

    def family(self, model: str, profile: Profile, headers: Mapping[str, str], server: ModelServer) -> Family | None:
        """Return the family of a model, for which its server is asked only if neither rules nor name tell it."""
        return family_of(model, profile.family, self._shown(model, profile.server_kind, headers, server))

    def _shown(self, model: str, kind: str, headers: Mapping[str, str], server: ModelServer) -> Iterator[Shown]:
        """Yield what a server shows of a model: what its list says first, then what it says at a path of its own."""
        cards = self.cards(headers, server)
        yield from loaded(model, cards)
        path, served = ABOUT.get(kind or kind_of(cards), ""), self._served[server.target.url]
        # A server of several models says it of one that is not named.
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
                cards = self._served.get(self.servers[url].target.url, _Served()).cards
            found += [card for card in cards if choose_server(card.id, self.rules, self.settings) == url]
        return tuple(found)

    def _cards_of(self, entry: Model, main: str) -> tuple[ModelCard, ...]:
        """Return the models of the server of an entry of the rules, asked with the key for that server."""
        key = server_key(entry, self.settings, self.keys, main)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return self.cards(headers, self.servers[server_of(entry, self.settings)])

    def server_kind(self, headers: Mapping[str, str], server: ModelServer) -> str:
        """Return the kind of a server by `owned_by` of its models, such as `vllm`, or an empty string."""
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
    """Ask a server if that is `due`. One thread asks; the others use the last answer, or `wait` if there is none."""
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
    # A server without that path, or one that wants a key for it, is there.
    return status < 500


def make_snapshot(settings: Settings, rules: Rules, keys: Keys | None = None, via: str = "") -> Snapshot:
    """Return a new snapshot; nothing is asked of the model servers yet."""
    audit = AuditFile(settings.audit_file, AUDIT_MAX) if settings.audit_file else None
    options = ServerOptions(settings.upstream, CONNECT_SECONDS, SEND_SECONDS, settings.upstream_ca, via)
    urls = dict.fromkeys((settings.upstream, *rules.urls))
    servers = {url: ModelServer(replace(options, url=url)) for url in urls}
    return Snapshot(settings, rules, servers, audit, keys or Keys(), via)
