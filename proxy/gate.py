"""Who may come in: the key that a request needs, the model that the key may use, and how much of both.

It goes by the route that was found, never by the text of a path, and what is not named here needs a key.
"""

from __future__ import annotations

from typing import Any

from .admin import check_admin, key_bytes
from .errors import BadRequest
from .intake import BEARER, credential
from .keys import ClientKey, TooMany, named_model
from .views import CHAT, COUNT_TOKENS, MESSAGES, MODELS
from .visit import Visit

# What tells nothing of the model server but that it is there, and what only the admin may do.
FREE = frozenset(("/", "/for/<client>/", "/health", "/_health", "/_ready"))
ADMIN = frozenset(("/_reload", "/metrics"))
# What keeps no model busy, and what names no model.
_QUICK = frozenset((COUNT_TOKENS, "/tokenize", "/detokenize"))
_LISTS = (MODELS, f"{MODELS}/{{id}}")
_DIALECTS = {CHAT: "chat", MESSAGES: "messages", COUNT_TOKENS: "messages"}
# What a client that has too much under way is told to wait, in seconds: nobody knows.
_WAIT = 2


def check_target(environ: dict[str, Any]) -> None:
    """Raise BadRequest for what gunicorn lets pass and two readers may take for two things: no Host, another's URL."""
    if environ.get("SERVER_PROTOCOL") == "HTTP/1.1" and not environ.get("HTTP_HOST"):
        raise BadRequest("the request has no Host header")
    target = str(environ.get("RAW_URI", "/"))
    if not target.startswith("/") and not (target == "*" and environ.get("REQUEST_METHOD") == "OPTIONS"):
        raise BadRequest("the target of the request must be a path; this is no proxy for other servers")


def dialect_of(route: str) -> str:
    """The dialect of a route, for the log and the metrics: chat, messages, passed (as it came), own."""
    return "own" if not route or route in FREE or route in ADMIN else _DIALECTS.get(route, "passed")


def come_in(now: Visit, environ: dict[str, Any]) -> None:
    """Check the key that `now.route` needs, and count the request; says in `environ` which key goes up.

    Raises Unauthorized, Forbidden or TooMany.
    """
    keys = now.snapshot.keys
    environ[BEARER] = keys.goes_up(credential(environ), passed=now.snapshot.settings.pass_auth)
    if now.route in ADMIN:
        check_admin(environ, keys)
    elif now.route not in FREE and keys.clients:
        now.key = key = keys.client(key_bytes(environ))
        limit = key.requests_per_minute
        wait = now.service.memory.tally.wait(_name(key), limit) if limit else 0.0
        if wait:
            raise TooMany(f"the key {key.name} has {limit} requests a minute (requests_per_minute)", "rate", wait)


def take_model(now: Visit) -> None:
    """Check the model of a request whose body passes as it came, and take one of those that its key may have under way.

    Raises Forbidden or TooMany.
    """
    key = now.key
    if key is None or now.route in _LISTS or now.dialect == "own":
        return
    if key.restricted and (now.dialect == "passed" or now.route == CHAT):
        named = named_model(now.body)
        if now.dialect == "passed":
            key.check_model(named)
    if key.streams and now.route not in _QUICK:
        if not now.service.memory.tally.hold(_name(key), 1, key.streams):
            told = f"the key {key.name} has {key.streams} requests under way already (streams)"
            raise TooMany(told, "streams", _WAIT)
        now.holds = True


def leave(now: Visit) -> None:
    """The request has ended."""
    if now.holds and now.key is not None:
        now.service.memory.tally.hold(_name(now.key), -1)


def _name(key: ClientKey) -> str:
    return f"key {key.name}"
