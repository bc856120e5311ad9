"""The views: what each path does with a request that was read and checked."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from flask import Response, g, request

from . import __version__
from .dialects.chat import ChatOptions, ChatWriter
from .engine import Engine, Task
from .errors import BadRequest, ClientGone, ProxyError
from .events import JsonObject, dump_json
from .intake import upstream_headers
from .loop_guard import as_stream, guarded
from .pump import HasDescriptor, Patience, Pump
from .relay import relay
from .rewrite import ChatRequest, Plan, proxy_parses
from .rules import Profile
from .service import Service
from .stream import Exchange, Outcome, chat

log = logging.getLogger("proxy")

CHAT = "/v1/chat/completions"
# What the upstream answers itself, and how it is asked.
PASSED: Mapping[str, tuple[str, ...]] = {
    "/v1/models": ("GET",),
    "/v1/completions": ("POST",),
    "/v1/embeddings": ("POST",),
    "/tokenize": ("POST",),
    "/detokenize": ("POST",),
}
_JSON = "application/json"
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{1,4096}")
_SSE_HEADERS = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),
)


@dataclass(slots=True)
class Visit:
    """One request of a client: the service as it was when it came, who sent it, and what its log line will say.

    `socket` is the client's under gunicorn; None elsewhere (test client), where only the upstream is watched.
    """

    id: str
    service: Service
    socket: HasDescriptor | None = None
    method: str = ""
    path: str = ""
    client: str = ""
    body: bytes = b""
    chat: ChatRequest | None = None
    began: float = field(default_factory=time.monotonic)
    first_byte: float = 0.0
    sent: int = 0
    error: str = ""
    outcome: Outcome = field(default_factory=Outcome)


def visit() -> Visit:
    """The visit of the request that this thread works on."""
    current: Visit = g.visit
    return current


def json_response(data: bytes, status: int = 200) -> Response:
    """A JSON answer of these very bytes."""
    return Response(data, status, content_type=_JSON)


def chat_completions() -> Response:
    """`POST /v1/chat/completions`: repaired, streamed or whole."""
    now = visit()
    wanted = now.chat
    assert wanted is not None  # the rewriter reads it before every request of this path
    profile = now.service.profile(wanted.model, now.client)
    options = _options(wanted, profile)
    ending = guarded(wanted, now.service.settings.max_tool_calls)
    if ending is not None:
        now.error = "loop guard"
        return _ended(ending, wanted, options)
    exchange = _exchange(now, wanted, profile, options)
    parts = chat(exchange)
    first = next(parts, b"")
    now.first_byte = time.monotonic()
    headers = [*(_SSE_HEADERS if wanted.stream else (("Content-Type", _JSON),)), *now.outcome.headers]
    if not wanted.stream:
        now.sent = len(first)
        return Response(first, 200, headers)
    response = Response(_sent(now, chain((first,), parts)), 200, headers)
    response.call_on_close(parts.close)
    return response


def passed(path: str) -> Response:
    """A path that the upstream answers itself: request and answer go through untouched."""
    now = visit()
    settings = now.service.settings
    pump = Pump(now.socket, Patience(settings.header_timeout, settings.idle_timeout))
    headers = upstream_headers(request.environ, request.environ.get("CONTENT_TYPE", ""), now.id)
    body = now.body if now.body or request.method not in ("GET", "HEAD") else None
    method = "GET" if request.method == "HEAD" else request.method
    call = now.service.upstream.open(method, path + _query(), headers, body)
    try:
        answer = relay(call, pump)
    except BaseException:
        call.close()
        raise
    now.first_byte = time.monotonic()
    sized = [] if answer.length is None else [("Content-Length", str(answer.length))]
    response = Response(_sent(now, answer.parts), answer.status, [*answer.headers, *sized])
    response.call_on_close(call.close)
    return response


def _query() -> str:
    """The query as it came, if it is one."""
    query = request.query_string.decode("latin-1")
    if query and not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL holds characters that do not belong there")
    return f"?{query}" if query else ""


def root() -> Response:
    """`GET /`: what this is, and what it answers."""
    service = visit().service
    about = {"service": "vllm-tool-proxy", "version": __version__, "paths": paths(service)}
    return json_response(dump_json(about))


def health() -> Response:
    """`GET /health`: the process lives; the upstream is not asked."""
    return json_response(dump_json(visit().service.health()))


def ready() -> Response:
    """`GET /_ready`: 200 if the upstream answers, else 503."""
    if visit().service.ready():
        return json_response(b'{"status":"ready"}')
    response = json_response(b'{"status":"unavailable","reason":"the model server does not answer"}', 503)
    response.headers["Retry-After"] = "5"
    return response


def paths(service: Service) -> list[str]:
    """All paths that are answered."""
    own = ["/for/{client}/v1/…", "/health", "/_health", "/_ready", "/"]
    return [CHAT, *PASSED, "/v1/models/{id}", *service.settings.pass_through, *own]


def _exchange(now: Visit, wanted: ChatRequest, profile: Profile, options: ChatOptions) -> Exchange:
    service, settings = now.service, now.service.settings
    headers = upstream_headers(request.environ, _JSON, now.id)
    seed = secrets.token_bytes(16)

    def engine(plan: Plan) -> Engine:
        return Engine(
            Task(
                tools=wanted.tools,
                seed=seed,
                raw_text=proxy_parses(wanted, plan),
                json_reply=wanted.json_reply,
                results=wanted.results,
                ids=wanted.ids,
                max_held=settings.max_held,
                max_calls=settings.max_calls,
            )
        )

    return Exchange(
        upstream=service.upstream,
        path=CHAT,
        headers=headers,
        request=wanted,
        plan=_plan(service, wanted, profile, headers),
        auto=profile.parse == "auto",
        pump=Pump(now.socket, _patience(service, wanted, profile)),
        engine=engine,
        writer=lambda expand: ChatWriter(options, expand=expand),
        clean=profile.clean,
        server=lambda: profile.server or service.server_kind(headers),
        remember=lambda: service.remember(wanted.model),
        crashed=lambda error: log.error("the proxy failed while it read a reply", exc_info=error),
        max_event=settings.max_event,
        hold_timeout=settings.hold_timeout,
        outcome=now.outcome,
    )


def _plan(service: Service, wanted: ChatRequest, profile: Profile, headers: dict[str, str]) -> Plan:
    """How the request goes up first (README: who parses)."""
    proxied = profile.parse == "proxy" or (profile.parse == "auto" and service.parses(wanted.model))
    server = profile.server
    if proxied and not server and wanted.tools is not None:
        server = service.server_kind(headers)
    return Plan(parse="proxy" if proxied else "server", transport=profile.upstream, server=server)


def _options(wanted: ChatRequest, profile: Profile) -> ChatOptions:
    return ChatOptions(
        model=wanted.model,
        usage=wanted.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=wanted.tools is not None,
    )


def _ended(answer: JsonObject, wanted: ChatRequest, options: ChatOptions) -> Response:
    if not wanted.stream:
        return json_response(dump_json(answer))
    return Response(as_stream(answer, ChatWriter(options, expand=True)), 200, list(_SSE_HEADERS))


def _patience(service: Service, wanted: ChatRequest, profile: Profile) -> Patience:
    settings = service.settings
    return Patience(
        header=settings.header_timeout,
        idle=settings.idle_timeout,
        heartbeat=settings.heartbeat if wanted.stream else 0.0,
        whole=not wanted.stream or profile.upstream == "whole",
    )


def _sent(now: Visit, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The body on its way out, counted. What cannot be finished must not look finished: the connection is cut.

    It closes nothing: it may never be begun (a HEAD request, a client that is gone).
    """
    try:
        for part in parts:
            now.sent += len(part)
            yield part
    except ClientGone:
        now.error = "client gone"
    except Exception as error:
        now.error = str(error)
        if not isinstance(error, ProxyError):
            log.exception("a reply could not be finished")
        _cut(now.socket)


def _cut(client: HasDescriptor | None) -> None:
    """End the client's connection without the end of the body."""
    if isinstance(client, socket.socket):
        with contextlib.suppress(OSError):  # it may be gone already
            client.shutdown(socket.SHUT_RDWR)
