"""What a request works on from its beginning to its end: settings, rules, and the upstream with what is known of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from .answers import fetch
from .audit import AuditFile
from .errors import UpstreamError
from .events import load_json
from .rules import Profile, Rules
from .settings import Settings
from .upstream import Target, Upstream

log = logging.getLogger("proxy")

READY_SECONDS = 1.0
READY_CACHED = 2.0
_KIND_SECONDS = 2.0
_KIND_CACHED = 300.0
_KIND_FAILED = 10.0
_MAX_REMEMBERED = 1024
# What model servers call themselves in `owned_by` of /v1/models.
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "llamacpp": "llamacpp", "llama.cpp": "llamacpp"}


@dataclass(slots=True)
class _Known:
    """Something asked of the upstream, and until when (`time.monotonic`) the answer holds."""

    value: str | bool = False
    until: float = 0.0


@dataclass(slots=True)
class Snapshot:
    """The settings and rules of one generation. What is learnt under them is forgotten with them."""

    settings: Settings
    rules: Rules
    upstream: Upstream
    audit: AuditFile | None = None
    _ready: _Known = field(default_factory=_Known)
    _kind: _Known = field(default_factory=_Known)
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

    def server_kind(self, headers: Mapping[str, str]) -> str:
        """What kind of server the upstream says it is (`owned_by` of its models), or an empty string."""
        now = time.monotonic()
        if now >= self._kind.until:
            kind = self._ask_kind(headers)
            kind = kind or str(self._kind.value or "")  # a server that is busy is still what it was
            self._kind = _Known(kind, time.monotonic() + (_KIND_CACHED if kind else _KIND_FAILED))
        return str(self._kind.value)

    def _ask_kind(self, headers: Mapping[str, str]) -> str:
        try:
            _, body = fetch(self.upstream, "/v1/models", headers, _KIND_SECONDS)
            answer = load_json(body)
        except (UpstreamError, ValueError):
            return ""
        cards = answer.get("data") if isinstance(answer, dict) else None
        for card in cards if isinstance(cards, list) else []:
            owner = card.get("owned_by") if isinstance(card, dict) else None
            if isinstance(owner, str) and owner.lower() in _OWNERS:
                return _OWNERS[owner.lower()]
        return ""

    def ready(self) -> bool:
        """True if the upstream answers its health check; asked at most every two seconds."""
        now = time.monotonic()
        if now >= self._ready.until:
            answer = self._ask_ready()
            self._ready = _Known(answer, time.monotonic() + READY_CACHED)
        return bool(self._ready.value)

    def _ask_ready(self) -> bool:
        try:
            status, _ = fetch(self.upstream, "/health", {}, READY_SECONDS)
        except UpstreamError:
            return False
        # A server without that path, or one that wants a key for it, is there.
        return status < 500


def make_snapshot(settings: Settings, rules: Rules) -> Snapshot:
    """A new generation; nothing is asked of the upstream yet."""
    target = Target(settings.upstream, settings.connect_timeout, settings.send_timeout, settings.upstream_ca)
    audit = AuditFile(settings.audit_file, settings.audit_size) if settings.audit_file else None
    return Snapshot(settings, rules, Upstream(target), audit)


def _shown(text: str) -> str:
    """A client's word for the log: quoted, on one line, and short."""
    return repr(text[:100])
