"""The WSGI application: its paths, the rewriter that runs before every view, and errors in the path's dialect."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as NoSuchMethod
from werkzeug.exceptions import NotFound as NoSuchPath
from werkzeug.routing import RequestRedirect

from proxy.codec.masking import mask_of
from proxy.codec.redaction import redact_error
from proxy.codec.response_masking import mask_body
from proxy.config.api_keys import Denied
from proxy.dialects.chat import writer as chat
from proxy.dialects.messages import writer as messages
from proxy.errors import ClientGone, InternalError, MethodNotAllowed, NotFound, ProxyError
from proxy.web import access as gate
from proxy.web import completions as views
from proxy.web import messages_views
from proxy.web.access_log import log_request, measure
from proxy.web.completions import CHAT, COUNT_TOKENS, MESSAGES, MODELS, PASSED, passed, paths
from proxy.web.context import PreparedRequest, RequestContext, json_response, request_context
from proxy.web.headers import request_id, secrets
from proxy.web.prepare import prepare_chat, prepare_messages
from proxy.web.request_body import read_body
from proxy.web.web_origins import check_web_page, cors
from proxy.worker.logging_setup import keep_secret, set_up_logging
from proxy.worker.state import WorkerState, announce, start_worker

log = logging.getLogger("proxy")

# Under this name gunicorn's worker finds how large a body may be (gunicorn_conf.py).
MAX_BODY = "tool-proxy-max-body"
# What a path that settings.pass_through lists takes.
_LISTED = ("GET", "HEAD", "POST", "PUT", "DELETE")
_View = Callable[..., Response]
# What the same request will be told again: the SDKs read it from a header.
_PERMANENT = frozenset((400, 401, 403, 404, 405, 413, 415, 422))
# The dialects that are read before the view.
_READ: Mapping[str, Callable[[RequestContext, Mapping[str, Any]], PreparedRequest]] = {
    CHAT: prepare_chat,
    MESSAGES: prepare_messages,
}
# What is answered here, without the model server: also while all its threads are busy.
_QUICK = gate.FREE | gate.ADMIN
_OWN = frozenset((CHAT, MESSAGES, COUNT_TOKENS, *PASSED))


def create_app() -> Flask:
    """The application for one worker, from the environment and the rules file; RulesError if they cannot be used."""
    set_up_logging(verbose=False)
    service = start_worker()
    settings = service.snapshot.settings
    set_up_logging(verbose=settings.verbose, json_lines=settings.log_format == "json")
    announce(service.snapshot)
    return make_app(service)


def make_app(service: WorkerState) -> Flask:
    """The application over a worker's state."""
    app = Flask("proxy", static_folder=None)
    app.url_map.merge_slashes = False
    app.extensions[MAX_BODY] = lambda: service.current().settings.max_body
    _add(app, "/", views.root, ("GET",))
    for path in ("/health", "/_health"):
        _add(app, path, views.health, ("GET",))
    _add(app, "/_ready", views.ready, ("GET",))
    _add(app, "/_reload", views.reload, ("POST",))
    _add(app, "/metrics", views.metrics, ("GET",))
    for path in _READ:
        _add_api(app, path, views.reply, ("POST",))
    _add_api(app, COUNT_TOKENS, messages_views.count_tokens, ("POST",))
    for path, methods in PASSED.items():
        _add_api(app, path, _passing(path), methods)
    _add_api(app, "/v1/models/<path:name>", _one_model, ("GET",))
    _add(app, "/for/<client>/", lambda client: views.root(), ("GET",))
    app.before_request(lambda: _rewrite(service))
    app.after_request(_closing)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(ProxyError, _proxy_error)
    app.register_error_handler(Exception, _defect)
    return app


def _add(app: Flask, path: str, view: _View, methods: tuple[str, ...]) -> None:
    app.add_url_rule(path, path, view, methods=methods, provide_automatic_options=False)


def _add_api(app: Flask, path: str, view: _View, methods: tuple[str, ...]) -> None:
    """A path for every client, and under `/for/NAME` for the client that says so."""
    _add(app, path, view, methods)
    _add(app, f"/for/<client>{path}", lambda client, **values: view(**values), methods)


def _passing(path: str) -> _View:
    if path == MODELS:
        return lambda: messages_views.models() if _asks_in_messages() else passed(path)
    return lambda: passed(path)


def _one_model(name: str) -> Response:
    """A model's name is the only part of a path that comes from the client: plain words between slashes."""
    words = name.split("/")
    if not all(word.strip(".") and set(word) <= _NAME for word in words):
        raise NotFound(f"{name!r} is no name of a model")
    return messages_views.model(name) if _asks_in_messages() else passed(f"{MODELS}/{name}")


_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@+-")


def _rewrite(service: WorkerState) -> Response | None:
    """Before every view: who asks, one snapshot of the rules, and a dialect's body, read and checked."""
    socket = request.environ.get("gunicorn.socket")
    g.context = ctx = RequestContext(request_id(request.environ), service, service.current(), socket)
    ctx.method, ctx.path, ctx.secrets = request.method, request.path, secrets(request.environ)
    keep_secret(ctx.secrets)
    service.enter()
    gate.check_target(request.environ)
    check_web_page(request.environ, ctx.snapshot.settings.origins, ctx.snapshot.settings.hosts)
    ctx.cors = cors(request.environ)
    listed, named = _listed(ctx)
    if request.method == "OPTIONS":
        return _options(listed)
    if isinstance(request.routing_exception, RequestRedirect):
        raise NotFound(f"there is nothing at {request.path!r}")
    if request.routing_exception is not None and request.method not in (_LISTED if listed else ()):
        return None  # Flask raises it next
    ctx.route = listed or _plain_rule(request.endpoint or "")
    ctx.dialect = gate.dialect_of(ctx.route)
    gate.authenticate(ctx, request.environ)
    ctx.secrets = secrets(request.environ)
    keep_secret(ctx.secrets)
    if listed or request.endpoint not in _QUICK:
        service.take_thread()
        ctx.threaded = True
    ctx.client = _client(ctx, named)
    if request.method in ("POST", "PUT") and ctx.route not in gate.ADMIN:
        ctx.body = read_body(request.environ, ctx.snapshot.settings.max_body)
    gate.acquire_slot(ctx)
    if listed:
        return passed(listed)
    read = _READ.get(ctx.route)
    if read is not None:
        ctx.prepared = read(ctx, request.environ)
    return None


def _plain_rule(rule: str) -> str:
    """A rule of paths without the client that it may name, as the log has it."""
    return rule if rule in _QUICK else _plain_path(rule).replace("<path:name>", "{id}")


def _listed(ctx: RequestContext) -> tuple[str, str | None]:
    """The path of settings.pass_through that is meant, or "", and the client that the path names, or None.

    They are no routes: those are made once, and a reload can change the setting.
    """
    named: str | None = (request.view_args or {}).get("client")
    path = request.path
    if request.routing_exception is None:
        return "", named
    if path.startswith("/for/"):
        named = path.removeprefix("/for/").partition("/")[0]
    path = _plain_path(path)
    listed = path in ctx.snapshot.settings.pass_through and path not in _OWN
    return (path, named) if listed else ("", None)


def _plain_path(path: str) -> str:
    """A path, or a rule of paths, without the client that it may name."""
    return path[path.find("/", len("/for/")) :] if path.startswith("/for/") and path.count("/") > 2 else path


def _asks_in_messages() -> bool:
    """True if the answer, or the error, is to be in the Messages dialect: by the path, else by the client's header."""
    path = _plain_path(request.path)
    if path == MESSAGES or path.startswith(f"{MESSAGES}/"):
        return True
    return "HTTP_ANTHROPIC_VERSION" in request.environ and (path == MODELS or path not in _OWN)


def _client(ctx: RequestContext, named: str | None) -> str:
    """The client's name: `named` in the path, from its key, or the setting (User-Agents do not tell)."""
    settings, rules = ctx.snapshot.settings, ctx.snapshot.rules
    if named is not None:
        if named not in rules.clients:
            known = ", ".join(rules.client_names) or "none"
            raise NotFound(f"there is no client {named!r} in the rules; known are: {known} (clients: in rules.yaml)")
        return named
    if ctx.key is not None and ctx.key.client:
        return ctx.key.client
    return settings.client


def _options(listed: str) -> Response:
    """`OPTIONS` of any path: 204, and what the path takes."""
    response = Response(status=204)
    missing = request.routing_exception
    methods = _LISTED if listed else missing.valid_methods if isinstance(missing, NoSuchMethod) else None
    if methods:
        response.headers["Allow"] = ", ".join([*methods, "OPTIONS"])
    return response


def _closing(response: Response) -> Response:
    """After every view: when the answer is all out, or nobody takes it any more, the request has ended."""
    ctx = request_context()

    def ended() -> None:
        if not ctx.sent and not response.is_streamed:
            ctx.sent = response.content_length or 0
        try:
            log_request(ctx, response.status_code)
            measure(ctx, response.status_code)
            for step in ctx.outcome.later:
                step()
        finally:
            gate.release(ctx)
            ctx.worker.leave(threaded=ctx.threaded)

    response.call_on_close(ended)
    _mask(response, ctx.secrets)
    response.headers.update(ctx.cors)
    response.headers.setdefault("X-Request-Id", ctx.id)
    if _asks_in_messages():
        response.headers["Request-Id"] = response.headers["X-Request-Id"]  # where the SDKs look for it
    return response


def _mask(response: Response, secrets: tuple[str, ...]) -> None:
    """Take the request's secrets out of the headers, and out of a body that was made whole unless the model wrote it;
    streams are masked on their way (`views._sent`).
    """
    mask = mask_of(secrets)
    if not response.is_streamed:
        data = response.get_data()
        masked = mask_body(mask, response.status_code, data)
        if masked is not data:
            response.set_data(masked)
    for name, value in [*response.headers]:
        if (masked_value := mask.text(value)) is not value:
            response.headers[name] = masked_value


def _proxy_error(error: ProxyError) -> Response:
    """An error of ours in the dialect of the path."""
    ctx = request_context()
    redact_error(error, ctx.secrets)
    ctx.error, ctx.failure = ctx.error or error.logged, error
    if isinstance(error, ClientGone):
        ctx.gone = True
        return Response(status=error.status)
    if isinstance(error, Denied):
        ctx.denied = error.reason
    if _asks_in_messages():
        response = json_response(messages.error_body(error), messages.error_status(error))
    else:
        response = json_response(chat.error_body(error), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = error.retry_after
    if response.status_code in _PERMANENT:
        response.headers["X-Should-Retry"] = "false"
    for name, value in error.headers:
        response.headers[name] = value
    return response


def _http_error(error: HTTPException) -> Response:
    """What Flask itself refuses: it says so in HTML, and clients read JSON."""
    ctx = request_context()
    if isinstance(error, NoSuchPath) and _listed(ctx)[0]:
        error = NoSuchMethod(_LISTED)
    if isinstance(error, NoSuchPath):
        known = ", ".join(paths(ctx.snapshot))
        return _proxy_error(
            NotFound(
                f"there is nothing at {request.path!r}; this proxy answers {known}. Another path of the model server "
                "is passed through when it is listed in settings.pass_through of rules.yaml."
            )
        )
    if isinstance(error, NoSuchMethod):
        allowed = ", ".join([*(error.valid_methods or ()), "OPTIONS"])
        response = _proxy_error(MethodNotAllowed(f"{request.path} takes {allowed}, not {request.method}"))
        response.headers["Allow"] = allowed
        return response
    refused = ProxyError(error.description or error.name)
    refused.status = error.code or 500
    return _proxy_error(refused)


def _defect(error: Exception) -> Response:
    """A defect of the proxy; the log has the traceback."""
    log.error("a request could not be answered", exc_info=error)
    return _proxy_error(InternalError("the proxy failed; its log says why"))
