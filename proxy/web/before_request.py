"""The steps of a request before its view; none of them asks the network.

    find_target    which route is meant, and for which client of the rules
    authenticate   who asks, which key goes up, and what no log may show of it
    admit          its share of the key's minute, and one of the worker's threads
    read           the body, whole, and one of the requests that the key may have under way

Each returns what it finds, and what it takes together with how that is given back; the context keeps both.
What a dialect makes of the body is its view's matter: it may have to ask the model server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flask import Request
from werkzeug.routing import RequestRedirect

from proxy.config.api_keys import ClientKey
from proxy.config.settings import Settings
from proxy.errors import NotFound
from proxy.web import access
from proxy.web.admin_access import is_of_own_page
from proxy.web.context import HeldThread, RequestContext
from proxy.web.headers import request_id, secrets, with_secret
from proxy.web.request_body import read_body
from proxy.web.routes import (
    BY_PATH,
    LISTED_METHODS,
    LIVE_PAGE,
    Route,
    asks_in_messages,
    is_api,
    listed_route,
    without_client,
)
from proxy.worker.logging_setup import keep_secrets
from proxy.worker.snapshot import Snapshot
from proxy.worker.state import WorkerState

# The key of the WSGI environment for the request's turn to compute (server/pump_worker.py).
TURN = "tool_proxy.turn"
_WITH_BODY = frozenset(("POST", "PUT"))


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request: its route, None where there is none, and the client in its path, None without one."""

    route: Route | None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of who asks: the client key that let the request in, None where none is needed; the key that goes
    up, "" for none; and the secrets that the request has with it, that key among them.
    """

    key: ClientKey | None
    upstream_key: str = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Received:
    """The body of a request, and how its place among the requests of its key is given back; None where it has none."""

    body: bytes
    give_back: Callable[[], object] | None = None


def begin(worker: WorkerState, request: Request) -> RequestContext:
    """The context of a request that has come; it counts as active until `context.give_back`."""
    environ = request.environ
    path, request_secrets = request.path, secrets(environ)
    keep_secrets(request_secrets)
    context = RequestContext(
        request_id(environ, request_secrets),
        worker,
        worker.current(),
        environ.get("gunicorn.socket"),
        environ.get(TURN),
        request.method,
        path,
        in_messages=asks_in_messages(path, names_version="HTTP_ANTHROPIC_VERSION" in environ),
        secrets=request_secrets,
        held=[worker.leave],
    )
    worker.enter()
    return context


def find_target(request: Request, settings: Settings) -> Target:
    """The route of a request. Raises NotFound for what Flask would redirect."""
    if isinstance(request.routing_exception, RequestRedirect):
        raise NotFound(f"there is nothing at {request.path!r}")
    route = find_route(request)
    if route is not None:
        return Target(route, (request.view_args or {}).get("client"))
    path = without_client(request.path)
    if request.method not in LISTED_METHODS or not is_listed(path, settings):
        return Target(None)
    if path == request.path:
        return Target(listed_route(path))
    return Target(listed_route(path), request.path.removeprefix("/for/").partition("/")[0])


def find_route(request: Request) -> Route | None:
    """The route of the table that a request is for; None for what is not in it, or has another method."""
    if request.routing_exception is not None:
        return None
    return BY_PATH[request.endpoint or ""]


def is_listed(path: str, settings: Settings) -> bool:
    """True for a path, without its client, that settings.pass_through lists and that is none of the table's."""
    return path in settings.pass_through and not is_api(path)


def is_of_live_page(request: Request) -> bool:
    """True if the live page itself asks for something of its own: then it does not go by `origins`, but by
    `admin_access.check_page`.
    """
    return is_of_own_page(request.environ) and find_route(request) in LIVE_PAGE


def authenticate(route: Route, environ: Mapping[str, Any], context: RequestContext) -> Identity:
    """Return the identity of who asks. Raises Unauthorized or Forbidden."""
    key = access.authenticate(route, environ, context.snapshot, context.worker.activity)
    upstream_key = access.upstream_key(environ, context.snapshot)
    request_secrets = with_secret(context.secrets, upstream_key)
    if request_secrets is not context.secrets:
        keep_secrets(request_secrets)
    return Identity(key, upstream_key, request_secrets)


def admit(context: RequestContext, route: Route) -> HeldThread | None:
    """Count the request of a key, and take a thread where the route may keep it for long.

    Raises TooMany or Unavailable.
    """
    if context.key is not None:
        access.count_request(context.key, context.worker.shared)
    return HeldThread(context.worker) if route.takes_thread else None


def client_name(key: ClientKey | None, snapshot: Snapshot, named: str | None) -> str:
    """The client's name in the rules: `named` in the path, told by its key, or the setting (User-Agents do not tell).

    Raises NotFound for a name that the rules do not have.
    """
    rules = snapshot.rules
    if named is None:
        if key is not None and key.client:
            return key.client
        return snapshot.settings.client
    if named not in rules.clients:
        known_names = ", ".join(rules.client_names) or "none"
        raise NotFound(f"there is no client {named!r} in the rules; known are: {known_names} (clients: in rules.yaml)")
    return named


def read(context: RequestContext, route: Route, environ: Mapping[str, Any]) -> Received:
    """The body, where the route has one; its model is checked, and it counts among those of its key.

    Raises what `request_body.read_body` does, Forbidden, and TooMany.
    """
    body = b""
    if context.method in _WITH_BODY and route.reads_body:
        body = read_body(environ, context.snapshot.settings.max_body)
    if context.key is None:
        return Received(body)
    access.check_named_model(context.key, route, body)
    shared = context.worker.shared
    if not access.acquire_slot(context.key, route, shared):
        return Received(body)
    return Received(body, partial(access.release_slot, context.key, shared))
