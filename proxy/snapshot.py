"""What a request works on from its beginning to its end: settings, rules, and the upstream with what is known of it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from .answers import fetch
from .audit import AuditFile
from .errors import UpstreamError
from .limits import MAX_ANSWER
from .models import Card, read_cards
from .rules import Profile, Rules
from .settings import Settings
from .upstream import Target, Upstream

log = logging.getLogger("proxy")

READY_SECONDS = 1.0
READY_CACHED = 2.0
_CARDS_SECONDS = 2.0
_CARDS_CACHED = 300.0
_CARDS_FAILED = 10.0
_NO_KEY = (401, 403)
_MAX_REMEMBERED = 1024
# What model servers call themselves in `owned_by` of /v1/models.
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "llamacpp": "llamacpp", "llama.cpp": "llamacpp"}


@dataclass(slots=True)
class _Known:
    """Whether the upstream is ready, and until when (`time.monotonic`) the answer holds."""

    value: bool = False
    until: float = 0.0


@dataclass(slots=True)
class _Served:
    """What the upstream serves, and until when (`time.monotonic`) that holds. One thread asks, the others wait."""

    cards: tuple[Card, ...] = ()
    until: float = 0.0
    asking: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Snapshot:
    """The settings and rules of one generation. What is learnt under them is forgotten with them."""

    settings: Settings
    rules: Rules
    upstream: Upstream
    audit: AuditFile | None = None
    _ready: _Known = field(default_factory=_Known)
    _served: _Served = field(default_factory=_Served)
    _proxied: set[str] = field(default_factory=set)

    def profile(self, model: str, client: str) -> Profile:
        """The profile of a model for a client."""
        return self.rules.profile(model, client)

    def parses(self, model: str) -> bool:
        """True if the server showed that it cannot find this model's calls itself."""
        return model in self._proxied

    def remember(self, model: str) -> None:
        """For this model the proxy parses from now on, until the rules change."""
        if len(self._proxied) < _MAX_REMEMBERED:
            self._proxied.add(model)
        log.warning("the model server cannot parse the calls of model %s; the proxy does it from now on", _shown(model))

    def cards(self, headers: Mapping[str, str]) -> tuple[Card, ...]:
        """The models that the upstream serves; empty if it does not say. `headers` are those to ask with."""
        served = self._served
        with served.asking:
            if time.monotonic() >= served.until:
                status, cards = self._ask_cards(headers)
                served.cards = cards or served.cards  # a server that is busy is still what it was
                # A key that is refused says nothing of the server: the next client may ask at once.
                if status not in _NO_KEY:
                    served.until = time.monotonic() + (_CARDS_CACHED if cards else _CARDS_FAILED)
            return served.cards

    def server_kind(self, headers: Mapping[str, str]) -> str:
        """What kind of server the upstream says it is (`owned_by` of its models), or an empty string."""
        kinds = (_OWNERS.get(card.owner.lower(), "") for card in self.cards(headers))
        return next(filter(None, kinds), "")

    def _ask_cards(self, headers: Mapping[str, str]) -> tuple[int, tuple[Card, ...]]:
        """Status and cards of the upstream's answer; 0 and none if there is no answer."""
        try:
            status, body = fetch(self.upstream, "/v1/models", headers, _CARDS_SECONDS, MAX_ANSWER)
        except UpstreamError:
            return 0, ()
        return status, read_cards(body)

    def ready(self) -> bool:
        """True if the upstream answers its health check; asked at most every two seconds."""
        now = time.monotonic()
        if now >= self._ready.until:
            answer = self._ask_ready()
            self._ready = _Known(answer, time.monotonic() + READY_CACHED)
        return self._ready.value

    def _ask_ready(self) -> bool:
        try:
            status, _ = fetch(self.upstream, "/health", {}, READY_SECONDS)
        except UpstreamError:
            return False
        # A server without that path, or one that wants a key for it, is there.
        return status < 500


def make_snapshot(settings: Settings, rules: Rules) -> Snapshot:
    """A new generation; nothing is asked of the upstream yet."""
    target = Target(
        settings.upstream, settings.connect_timeout, settings.send_timeout, settings.upstream_ca, settings.max_header
    )
    audit = AuditFile(settings.audit_file, settings.audit_size) if settings.audit_file else None
    return Snapshot(settings, rules, Upstream(target), audit)


def _shown(text: str) -> str:
    """A client's word for the log: quoted, on one line, and short."""
    return repr(text[:100])
