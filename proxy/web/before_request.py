"""The steps of a request before its view; none of them asks the network.

    find_target    which route is meant, and for which client of the rules
    authenticate   who asks, and what no log may show of it
    admit          its share of the key's minute, and one of the worker's threads
    read           the body, whole, and one of the requests that the key may have under way

What a dialect makes of the body is its view's matter: it may have to ask the model server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Request
from werkzeug.routing import RequestRedirect

from proxy.config.api_keys import ClientKey
from proxy.config.settings import Settings
from proxy.errors import NotFound
from proxy.web import access
from proxy.web.admin_access import is_of_own_page
from proxy.web.context import RequestContext
from proxy.web.headers import request_id, secrets
from proxy.web.request_body import read_body
from proxy.web.routes import BY_PATH, LISTED_METHODS, LIVE_PAGE, Route, is_api, listed_route, without_client
from proxy.worker.logging_setup import keep_secret
from proxy.worker.snapshot import Snapshot
from proxy.worker.state import WorkerState

# Under this name the worker gives a request's turn to compute (server/wsgi_answer.py).
TURN = "tool_proxy.turn"
_WITH_BODY = frozenset(("POST", "PUT"))


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request: its route, None where there is none, and the client in its path, None without one."""

    route: Route | None
    client: str | None = None


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of who asks: the client key that let the request in, None where none is needed, and the secrets that
    it has with it, the key that goes up among them.
    """

    key: ClientKey | None
    secrets: tuple[str, ...]


def begin(worker: WorkerState, request: Request) -> RequestContext:
    """The context of a request that has come; it counts as active until `context.give_back`."""
    environ = request.environ
    context = RequestContext(request_id(environ), worker, worker.current(), environ.get("gunicorn.socket"))
    context.turn = environ.get(TURN)
    context.method, context.path = request.method, request.path
    context.secrets = secrets_of(environ)
    worker.enter()
    context.held.append(worker.leave)
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
    """True if the live page itself asks for something of its own: then it does not go by `origins` and `hosts`, but by
    `admin_access.check_page`.
    """
    route = find_route(request)
    return route in LIVE_PAGE and is_of_own_page(request.environ)


def authenticate(route: Route, environ: dict[str, Any], context: RequestContext) -> Identity:
    """Return the identity of who asks. Raises Unauthorized or Forbidden."""
    key = access.authenticate(route, environ, context.snapshot, context.worker.activity)
    return Identity(key, secrets_of(environ))


def admit(context: RequestContext, route: Route, *, background: bool = False) -> None:
    """Count the request of a key, and take a thread where the route may keep it for long. One that is made in the
    `background` was counted when it came.

    Raises TooMany or Unavailable.
    """
    if context.key is not None and not background:
        access.count_request(context.key, context.worker.memory.counters)
    if route.takes_thread:
        context.take_thread()


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


def read(context: RequestContext, route: Route, environ: Mapping[str, Any]) -> bytes:
    """The body, where the route has one; its model is checked, and it counts among those of its key.

    Raises what `request_body.read_body` does, Forbidden, and TooMany.
    """
    body = b""
    if context.method in _WITH_BODY and route.reads_body:
        body = read_body(environ, context.snapshot.settings.max_body)
    if context.key is not None:
        access.check_named_model(context.key, route, body)
        counters = context.worker.memory.counters
        if access.acquire_slot(context.key, route, counters):
            context.held.append(partial(access.release_slot, context.key, counters))
    return body


def secrets_of(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """The secrets of a request, which from now on no log line shows."""
    request_secrets = secrets(environ)
    keep_secret(request_secrets)
    return request_secrets
