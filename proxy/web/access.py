"""Who may come in: the key that a request needs, the model that the key may use, and how much of both.

It goes by the route that was found, never by the text of a path, and what is not named here needs a key.
"""

from __future__ import annotations

from typing import Any

from proxy.config.api_keys import ClientKey, TooMany, named_model
from proxy.errors import BadRequest
from proxy.web.admin_access import check_admin
from proxy.web.completions import CHAT, COUNT_TOKENS, MESSAGES, MODELS
from proxy.web.context import RequestContext
from proxy.web.headers import BEARER, credential, key_bytes

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


def authenticate(ctx: RequestContext, environ: dict[str, Any]) -> None:
    """Check the key that `now.route` needs, and count the request; says in `environ` which key goes up.

    Raises Unauthorized, Forbidden or TooMany.
    """
    keys = ctx.snapshot.keys
    environ[BEARER] = keys.upstream_key(credential(environ), passed=ctx.snapshot.settings.pass_auth)
    if ctx.route in ADMIN:
        check_admin(environ, keys)
    elif ctx.route not in FREE and keys.clients:
        ctx.key = key = keys.client(key_bytes(environ))
        limit = key.requests_per_minute
        wait = ctx.worker.memory.tally.wait(_name(key), limit) if limit else 0.0
        if wait:
            raise TooMany(f"the key {key.name} has {limit} requests a minute (requests_per_minute)", "rate", wait)


def acquire_slot(ctx: RequestContext) -> None:
    """Check the model of a request whose body passes as it came, and take one of those that its key may have under way.

    Raises Forbidden or TooMany.
    """
    key = ctx.key
    if key is None or ctx.route in _LISTS or ctx.dialect == "own":
        return
    if key.restricted and (ctx.dialect == "passed" or ctx.route == CHAT):
        named = named_model(ctx.body)
        if ctx.dialect == "passed":
            key.check_model(named)
    if key.streams and ctx.route not in _QUICK:
        if not ctx.worker.memory.tally.hold(_name(key), 1, key.streams):
            told = f"the key {key.name} has {key.streams} requests under way already (streams)"
            raise TooMany(told, "streams", _WAIT)
        ctx.holds = True


def release(ctx: RequestContext) -> None:
    """The request has ended."""
    if ctx.holds and ctx.key is not None:
        ctx.worker.memory.tally.hold(_name(ctx.key), -1)


def _name(key: ClientKey) -> str:
    return f"key {key.name}"
