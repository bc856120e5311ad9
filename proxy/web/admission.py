"""Checks a request before its view. No check uses the network.

The view reads the body in its dialect, because that may require a request to the model server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from flask import Request
from gunicorn.http.errors import ParseException
from werkzeug.routing import RequestRedirect

from proxy.config.settings import Settings
from proxy.errors import ENDING, BadRequest, BodyTooLarge, Loop, NotFound, TooMany, Unavailable
from proxy.json import JsonObject, as_text, is_deep, load_json
from proxy.limits import MAX_DEPTH
from proxy.server.logging_setup import keep_secrets
from proxy.server.state import WorkerState
from proxy.web import routes
from proxy.web.access import is_of_own_page
from proxy.web.context import RequestContext
from proxy.web.headers import forwarded, owner_digest, request_id, secrets
from proxy.web.routes import Access, Route

# The key of the WSGI environment for the request's turn to compute (server/pump_worker.py).
TURN = "tool_proxy.turn"
# `Retry-After` in seconds for a client with too many running requests. The end of a request cannot be predicted.
_WAIT = 2
_TOO_DEEP = f"the body is nested more than {MAX_DEPTH} levels deep (max_depth)"


class UnsupportedEncoding(BadRequest):
    """The body is compressed."""

    status = 415


class BodyTooSlow(BadRequest):
    """The body did not arrive in time."""

    status = 408
    kind = "timeout_error"


def begin(worker: WorkerState, request: Request) -> RequestContext:
    """Return the context of a new request, which counts as active until `held` of the context is closed."""
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
        in_messages=routes.asks_in_messages(path, names_version="HTTP_ANTHROPIC_VERSION" in environ),
        owner=owner_digest(environ),
        user_agent=environ.get("HTTP_USER_AGENT", ""),
        forwarded=forwarded(environ),
        secrets=request_secrets,
    )
    worker.enter()
    context.held.callback(worker.leave)
    return context


def check_target(environ: Mapping[str, Any]) -> None:
    """Raise BadRequest for an ambiguous target: a request without Host, or an absolute URL."""
    # HTTP/1.0 has no Host (RFC 9112, 3.2).
    if environ.get("SERVER_PROTOCOL") == "HTTP/1.1" and not environ.get("HTTP_HOST"):
        raise BadRequest("the request has no Host header")
    target = environ.get("RAW_URI", "/")
    if not target.startswith("/") and (target, environ.get("REQUEST_METHOD")) != ("*", "OPTIONS"):
        raise BadRequest("the request target must be a path; absolute URLs are not supported")


def check_loop(environ: Mapping[str, Any], pseudonym: str) -> None:
    """Raise Loop for a request with this proxy's own entry in `Via` (RFC 9110, 7.6.3): `1.1 PSEUDONYM`."""
    entries = environ.get("HTTP_VIA", "").split(",")
    if pseudonym and any(pseudonym in entry.split()[1:2] for entry in entries):
        raise Loop


def find_target(request: Request, settings: Settings) -> tuple[Route | None, str | None]:
    """Return the route of a request and the client in its path, or None for each. The view does not get the client.

    Raises NotFound for a path that Flask would redirect.
    """
    path = request.path
    if isinstance(request.routing_exception, RequestRedirect):
        raise NotFound(f"there is nothing at {path!r}")
    if request.routing_exception is None:
        # No view takes the client as an argument.
        return routes.BY_PATH[request.endpoint or ""], (request.view_args or {}).pop("client", None)
    plain = routes.without_client(path)
    if request.method not in routes.LISTED_METHODS or not is_listed(plain, settings):
        return None, None
    client = None if plain == path else path.removeprefix("/for/").partition("/")[0]
    return routes.listed_route(plain), client


def is_listed(path: str, settings: Settings) -> bool:
    """Return whether `settings.pass_through` lists a path that has no route of its own. `path` excludes the client."""
    return path in settings.pass_through and not routes.is_api(path)


def is_of_live_page(request: Request) -> bool:
    """Return whether the live page requests one of its own paths, which needs no entry in `origins`."""
    if request.routing_exception is not None or not is_of_own_page(request.environ):
        return False
    return routes.BY_PATH[request.endpoint or ""] in routes.LIVE_PAGE


def let_in(ctx: RequestContext, route: Route, environ: Mapping[str, Any], client: str | None) -> None:
    """Check the limits of an authenticated request and read its body. `client` is the one in its path.

    Raises TooMany, Unavailable, NotFound, Forbidden, and the errors of `read_body`.
    """
    key, shared, settings = ctx.key, ctx.worker.shared, ctx.snapshot.settings
    if key is not None and key.requests_per_minute:
        wait = shared.rate_limit(f"key {key.name}", key.requests_per_minute)
        if wait:
            words = f"the key {key.name} may send {key.requests_per_minute} requests per minute (requests_per_minute)"
            raise TooMany(words, "rate", wait)
    if route.dialect != "own":  # it waits for the model server, so it must not use the last threads
        ctx.take_thread()
    if client is not None and client not in ctx.snapshot.rules.clients:
        known_names = ", ".join(ctx.snapshot.rules.clients) or "none"
        raise NotFound(f"there is no client {client!r} in the rules; known are: {known_names} (clients: in rules.yaml)")
    ctx.client = client or (key.client if key else "") or settings.client
    if ctx.method in ("POST", "PUT") and route.access not in (Access.ADMIN, Access.PAGE):
        ctx.body = read_body(environ, settings.max_body)
    if key is None:
        return
    if key.restricted and route.names_model:
        named = named_model(ctx.body)
        if route.dialect == "passed":
            key.check_model(named)  # a dialect's view checks the upstream name
    if key.streams and route.keeps_model_busy:
        if not shared.acquire_slot(f"key {key.name}", key.streams):
            words = f"the key {key.name} already has {key.streams} concurrent requests (streams)"
            raise TooMany(words, "streams", _WAIT)
        ctx.held.callback(shared.release_slot, f"key {key.name}")


def named_model(body: bytes) -> str:
    """Return the model that a body requests, or "". Raises BadRequest if it is ambiguous.

    A key may be restricted to some models, so the server must not find another model in the forwarded body.
    """
    try:
        pairs = json.loads(body, object_pairs_hook=tuple)  # with duplicate keys
    except (ValueError, RecursionError):
        return ""
    if not isinstance(pairs, tuple):
        return ""
    named = [(name, value) for name, value in pairs if name.casefold() == "model"]
    if not named:
        return ""
    name, model = named[0]
    if len(named) > 1 or name != "model":
        raise BadRequest("the body must name its model once, as model: this key may not use every model")
    return as_text(model)


def read_body(environ: Mapping[str, Any], limit: int) -> bytes:
    """Return the whole body of a WSGI request.

    Werkzeug silently truncates a chunked body at its limit and accepts an incomplete body, so it is not used here.

    Raises BodyTooLarge over `limit` bytes, BadRequest if it is incomplete, BodyTooSlow, and Unavailable if the worker
    ends.
    """
    if environ.get("HTTP_CONTENT_ENCODING", "").strip().lower() not in ("", "identity"):
        raise UnsupportedEncoding("the body is compressed (Content-Encoding); send it uncompressed")
    if environ.get("HTTP_TRANSFER_ENCODING", "chunked").strip().lower() != "chunked":
        raise BadRequest("the transfer coding must be chunked (Transfer-Encoding)")
    length = environ.get("CONTENT_LENGTH", "")
    announced = int(length) if length.isdecimal() else None
    # Reading one byte beyond the limit shows whether the body is too large.
    size = (limit + 1 if environ.get("wsgi.input_terminated") is True else 0) if announced is None else announced
    body = b""
    if 0 < size <= limit + (announced is None):
        try:
            body = environ["wsgi.input"].read(size)
        except TimeoutError as error:
            raise BodyTooSlow(str(error)) from None
        except InterruptedError:
            raise Unavailable(ENDING) from None
        except (OSError, ParseException):
            raise BadRequest("the request body was incomplete") from None
    if max(len(body), announced or 0) > limit:
        raise BodyTooLarge(f"the body is larger than {limit} bytes (max_body)")
    if announced not in (None, len(body)):
        raise BadRequest(f"the body has {len(body)} bytes, and Content-Length says {announced}")
    return body


def parse_body(raw: bytes) -> JsonObject:
    """Return the JSON object of a body. Raises BadRequest with the place of a syntax error."""
    try:
        body = load_json(raw)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise BadRequest(f"the body is not valid JSON: {error.msg} at {position}") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: byte {error.start} cannot be decoded") from None
    except ValueError as error:
        is_too_deep = isinstance(error.__context__, RecursionError)
        raise BadRequest(_TOO_DEEP if is_too_deep else f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object, at character 0")
    # Most bodies have fewer brackets than the limit, so their depth need not be measured.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and is_deep(body):
        raise BadRequest(_TOO_DEEP)
    return body
