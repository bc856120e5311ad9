"""The WSGI application: the view of each route, the steps before and after it, and errors in the path's dialect."""

from __future__ import annotations

import logging
import re
from functools import cache, partial

from flask import Flask, Request, Response
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as NoSuchMethod
from werkzeug.exceptions import NotFound as NoSuchPath
from werkzeug.routing import Map, MapAdapter, Rule

from proxy.dialects.chat import writer as chat
from proxy.dialects.messages import writer as messages
from proxy.dialects.responses import errors as responses
from proxy.errors import (
    ClientGone,
    InternalError,
    MethodNotAllowed,
    NotFound,
    ProxyError,
    UpgradeRefused,
)
from proxy.secrets import mask_error
from proxy.server.logging_setup import keep_secrets, set_up_logging
from proxy.server.state import WorkerState, announce, start_worker, tidy_captures
from proxy.web import admission, page_views, routes, views
from proxy.web.access import authenticate, check_web_page, cors
from proxy.web.answer import reply
from proxy.web.context import ClientRequest, RequestContext, View, current_request, json_response, request_context
from proxy.web.headers import add_id, credential
from proxy.web.prepare import prepare_chat, prepare_messages, prepare_responses
from proxy.web.record import end_activity, facts_of, keep_captures, log_request, measure

log = logging.getLogger("proxy")

# Statuses for which a retry is useless. SDKs learn that from a header.
_PERMANENT = frozenset((400, 401, 403, 404, 405, 413, 415, 422, 508))
_PLACEHOLDER = re.compile(r"\{[a-z]+\}")


class _App(Flask):
    """Flask whose routing ignores the host."""

    def create_url_adapter(self, request: Request | None) -> MapAdapter | None:
        """Return the URL adapter of a request. Routes depend only on the path, not on `Host`."""
        if request is None:
            return None
        return self.url_map.bind("", path_info=request.path, default_method=request.method)


def create_app() -> Flask:
    """Return one worker's application, from the environment and the rules file. Raises RulesError."""
    set_up_logging()
    worker = start_worker()
    settings = worker.snapshot.settings
    set_up_logging(json_lines=settings.log_format == "json")
    announce(worker)
    tidy_captures(worker)
    return make_app(worker)


def make_app(worker: WorkerState) -> Flask:
    """Return the application for a worker's state."""
    app = _App("proxy", static_folder=None)
    app.request_class = ClientRequest
    all_views = _views()
    app.url_map = _url_map(tuple(all_views))
    app.view_functions = {route.path: view for route, view in all_views.items()}
    app.before_request(lambda: _before_request(worker))
    app.after_request(_closing)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(ProxyError, _proxy_error)
    app.register_error_handler(Exception, _defect)
    return app


def _views() -> dict[routes.Route, View]:
    """Return the view of each route."""
    return {
        routes.CHAT: partial(reply, prepare_chat),
        routes.MESSAGES: partial(reply, prepare_messages),
        routes.COUNT_TOKENS: views.count_tokens,
        routes.RESPONSES: partial(reply, prepare_responses),
        routes.INPUT_TOKENS: views.count_tokens,
        routes.COMPACT: views.compact,
        routes.RESPONSE: views.one_response,
        routes.MODELS: views.models,
        routes.MODEL: views.model,
        **{route: partial(views.passed, route.path) for route in routes.PASSED},
        **dict.fromkeys(routes.HEALTH, views.health),
        routes.READY: views.ready,
        routes.RELOAD: views.reload,
        routes.METRICS: views.metrics,
        routes.UI: page_views.page,
        routes.UI_ASSET: page_views.asset,
        routes.UI_STATE: page_views.state,
        routes.UI_REQUEST: page_views.one_request,
        routes.ROOT: views.root,
        routes.CLIENT_ROOT: views.root,
    }


@cache
def _url_map(answered: tuple[routes.Route, ...]) -> Map:
    """Return the URL rules of these routes, whose endpoints are the routes' paths.

    A route for clients is also under `/for/NAME`, for that client of the rules.
    """
    rules = list[Rule]()
    for route in answered:
        path = _PLACEHOLDER.sub("<name>", route.path.replace("{id}", "<path:name>"))
        paths = [path, f"/for/<client>{path}"] if route in routes.API else [path]
        rules += [Rule(each, endpoint=route.path, methods=route.methods) for each in paths]
    return Map(rules, merge_slashes=False)


def _before_request(worker: WorkerState) -> Response | None:
    """Check a request before its view. Return the response to requests without a view: OPTIONS and listed paths."""
    request = current_request()
    environ = request.environ
    request.context = context = admission.begin(worker, request)
    snapshot = context.snapshot
    admission.check_target(environ)
    if not admission.is_of_live_page(request):
        check_web_page(environ, snapshot.settings.origins)
        context.cors = cors(environ)
    if request.method == "OPTIONS":
        allowed = _allowed(request)
        return Response(status=204, headers={"Allow": allowed} if allowed else None)
    route, client = admission.find_target(request, snapshot.settings)
    context.route = route
    if route is None:
        return None  # Flask raises the error next
    admission.check_loop(environ, snapshot.via)
    context.key = authenticate(route, environ, snapshot)
    context.upstream_key = snapshot.keys.upstream_key(credential(environ))
    context.add_secret(context.upstream_key)
    admission.let_in(context, route, environ, client)
    return None if request.routing_exception is None else views.passed(route.path)


def _allowed(request: ClientRequest) -> str:
    """Return the supported methods if the path exists but not for the requested method, else ""."""
    missing, settings = request.routing_exception, request.context.snapshot.settings
    if missing is not None and admission.is_listed(routes.without_client(request.path), settings):
        return ", ".join([*routes.LISTED_METHODS, "OPTIONS"])
    methods = missing.valid_methods if isinstance(missing, NoSuchMethod) else None
    return ", ".join([*methods, "OPTIONS"]) if methods else ""


def _closing(response: Response) -> Response:
    """Complete the headers of a response, and end the request when the response is closed."""
    ctx = request_context()
    if ctx.cors:
        response.headers.update(ctx.cors)
    add_id(response.headers, ctx.id, in_messages=ctx.in_messages)
    length = 0 if response.is_streamed else response.content_length or 0
    response.call_on_close(partial(_ended, ctx, response.status_code, length))
    return response


def _ended(ctx: RequestContext, status: int, length: int) -> None:
    """Record a request that has ended, and release its resources.

    The response is not an argument: it refers to this call, and the cycle would keep the request's texts in memory.
    """
    keep_secrets(ctx.secrets)  # the thread that ends a stream has worked on another request
    if not ctx.sent:
        ctx.sent = length
    try:
        facts = facts_of(ctx, status)
        log_request(ctx, facts)
        measure(ctx, facts)
        keep_captures(ctx)
        end_activity(ctx, facts)
    finally:
        ctx.held.close()
    ctx.outcome.failure = None  # its traceback keeps the request's frames alive


def _proxy_error(error: ProxyError) -> Response:
    """Return an error of the proxy in the shape of the path's API."""
    ctx = request_context()
    mask_error(error, ctx.secrets)
    # A stream stores its error; the error's traceback would keep the stream alive.
    error.with_traceback(None)
    ctx.outcome.fail(error)
    if isinstance(error, ClientGone):
        ctx.outcome.gone = True
        return Response(status=error.status)
    if ctx.in_messages:
        response = json_response(messages.error_body(error), messages.error_status(error))
    elif routes.asks_in_responses(ctx.path):
        response = json_response(responses.error_body(error), responses.error_status(error))
    else:
        response = json_response(chat.error_body(error), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = error.retry_after
    if response.status_code in _PERMANENT:
        response.headers["X-Should-Retry"] = "false"
    response.headers.update(error.headers)
    return response


def _http_error(error: HTTPException) -> Response:
    """Return one of Flask's errors in the shape of the path's API instead of HTML."""
    request = current_request()
    path, allowed = request.path, _allowed(request)
    if allowed:
        words = f"{path} supports {allowed}, not {request.method}"
        refused: ProxyError = MethodNotAllowed(words)
        if "HTTP_UPGRADE" in request.environ and routes.asks_in_responses(path):
            # Codex asks for a WebSocket first; only after 426 does it send its request without waiting.
            refused = UpgradeRefused(f"{path} does not support WebSocket; send the request with POST")
        refused.headers = (("Allow", allowed),)
    elif isinstance(error, NoSuchPath):
        known = ", ".join(routes.shown_paths(request.context.snapshot.settings.pass_through))
        refused = NotFound(
            f"there is nothing at {path!r}; this proxy answers {known}. Another path of the model server "
            "is passed through when it is listed in settings.pass_through of rules.yaml."
        )
    else:
        refused = ProxyError(error.description or error.name)
        refused.status = error.code or 500
    return _proxy_error(refused)


def _defect(error: Exception) -> Response:
    """Log a defect of the proxy, and return its error."""
    log.error("a request could not be answered", exc_info=error)
    return _proxy_error(InternalError("the proxy failed; its log says why"))
