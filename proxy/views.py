"""The views: what each path does with a request that was read and checked."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from flask import Response, request

from . import __version__
from .answers import refused
from .asked import way_as_it_came
from .audit import as_header
from .capture import Capture
from .encoding import KNOWN, decoded
from .engine import Engine
from .errors import BadRequest, ClientGone, ProxyError, RulesError
from .events import dump_json
from .fleet import Way
from .intake import upstream_headers
from .limits import MAX_ERROR_BODY
from .loop_guard import ended, guarded
from .masking import Masking, mask_of
from .metrics import CONTENT_TYPE, exposition
from .pump import HasDescriptor, Patience, Pump
from .redact import Redactor
from .relay import relay
from .rewrite import ChatRequest, Plan, proxy_parses
from .rules import Profile
from .settings import Settings
from .snapshot import Snapshot
from .stream import Exchange, chat
from .tasks import make_task
from .visit import JSON_TYPE, Asked, Visit, json_response, visit

log = logging.getLogger("proxy")

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"
MODELS = "/v1/models"
# What the upstream answers itself, and how it is asked.
PASSED: Mapping[str, tuple[str, ...]] = {
    MODELS: ("GET",),
    "/v1/completions": ("POST",),
    "/v1/embeddings": ("POST",),
    "/tokenize": ("POST",),
    "/detokenize": ("POST",),
}
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{1,4096}")
_SSE_HEADERS = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),
)


def reply() -> Response:
    """`POST /v1/chat/completions` and `/v1/messages`: repaired, streamed or whole."""
    now = visit()
    asked = now.asked
    assert asked is not None  # the rewriter reads it before every request of these paths
    wanted, settings = asked.chat, now.snapshot.settings
    now.outcome.observe = settings.observe
    if settings.observe:
        # It goes up as it came, and once.
        asked = replace(asked, profile=replace(asked.profile, parse="server", upstream="live"))
    ending = None if settings.observe else guarded(wanted, settings.max_tool_calls)
    if ending is not None:
        now.error = "loop guard"
        data = ended(ending, asked.dialect, stream=wanted.stream)
        return Response(data, 200, list(_SSE_HEADERS)) if wanted.stream else json_response(data)
    parts = chat(_exchange(now, asked))
    if not wanted.stream:
        return _whole(now, parts)
    first = next(parts, b"")
    now.first_byte = time.monotonic()
    headers = [*_SSE_HEADERS, *now.outcome.headers]
    response = Response(_sent(now, chain((first,), parts)), 200, headers, content_type=now.outcome.content_type or None)
    response.call_on_close(parts.close)
    now.service.streams(1)
    response.call_on_close(lambda: now.service.streams(-1))
    return response


def _whole(now: Visit, parts: Iterator[bytes]) -> Response:
    """An answer that was waited for: what was repaired in it is known before its headers go."""
    body = b"".join(parts)
    now.first_byte, now.sent = time.monotonic(), len(body)
    response = Response(body, 200, [("Content-Type", now.outcome.content_type or JSON_TYPE), *now.outcome.headers])
    if now.outcome.audit and not now.outcome.observe:
        response.headers["X-Tool-Proxy-Fixes"] = as_header(now.outcome.audit)
    return response


def passed(path: str) -> Response:
    """A path that the upstream answers itself: request and answer go through untouched."""
    now = visit()
    settings = now.snapshot.settings
    patience = Patience(settings.header_timeout, settings.idle_timeout, total=settings.total_timeout)
    pump = Pump(now.socket, patience, now.service.drain)
    headers = upstream_headers(request.environ, request.environ.get("CONTENT_TYPE", ""), now.id)
    body = now.body if now.body or request.method not in ("GET", "HEAD") else None
    method = "GET" if request.method == "HEAD" else request.method
    now.way = way_as_it_came(now, path.removeprefix(f"{MODELS}/") if path.startswith(f"{MODELS}/") else "")
    call = now.way.open(method, path + _query(), headers, body)
    try:
        answer = relay(call, pump)
        parts, headers_down, length = answer.parts, answer.headers, answer.length
        if answer.status >= 400:
            if call.coding and call.coding not in KNOWN:
                raise refused(call, b"", now.secrets)  # what cannot be read may quote a key
            if call.coding:
                parts, length = filter(None, decoded(call, parts)), None
                headers_down = tuple(header for header in headers_down if header[0] != "Content-Encoding")
            # What breaks off is told by a status while it can be.
            discreet = _discreet(now, parts)
            parts = chain((next(discreet, b""),), discreet)
    except BaseException:
        call.close()
        raise
    now.first_byte = time.monotonic()
    sized = [] if length is None else [("Content-Length", str(length))]
    response = Response(_sent(now, parts), answer.status, [*headers_down, *sized])
    response.call_on_close(call.close)
    return response


def _discreet(now: Visit, parts: Iterator[bytes]) -> Iterator[bytes]:
    """An error's body, of the same length, without the keys that it may quote; its beginning is looked at as one."""
    redactor = Redactor(now.secrets)
    beginning = b""
    for part in parts:
        beginning += part
        if len(beginning) > MAX_ERROR_BODY:
            break
    yield redactor.feed(beginning)
    yield from map(redactor.feed, parts)
    yield redactor.finish()


def _query() -> str:
    """The query as it came, if it is one."""
    query = request.query_string.decode("latin-1")
    if query and not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL holds characters that do not belong there")
    return f"?{query}" if query else ""


def reload() -> Response:
    """`POST /_reload`: settings and rules are read anew, for all workers; 422 if they cannot be used."""
    try:
        visit().service.reload()
    except RulesError as error:
        log.error("not reloaded, the rules that were in force stay so: %s", error.message)
        told = {"status": "error", "message": "the configuration was not reloaded", "errors": [error.message]}
        return json_response(dump_json(told), 422)
    return json_response(b'{"status":"success","message":"Configuration reloaded"}')


def metrics() -> Response:
    """`GET /metrics`: what all workers have counted, for Prometheus."""
    memory, snapshot = visit().service.memory, visit().snapshot
    models = snapshot.all_models(snapshot.keys.upstream)
    data = exposition(memory.tally, __version__, rules_in_force=not memory.error(), models=models)
    return Response(data, content_type=CONTENT_TYPE)


def root() -> Response:
    """`GET /`: what this is, and what it answers."""
    about = {"service": "vllm-tool-proxy", "version": __version__, "paths": paths(visit().snapshot)}
    return json_response(dump_json(about))


def health() -> Response:
    """`GET /health`: the process lives; the upstream is not asked."""
    return json_response(dump_json(visit().service.health()))


def ready() -> Response:
    """`GET /_ready`: 200 if a model server answers, else 503."""
    if visit().snapshot.ready():
        return json_response(b'{"status":"ready"}')
    response = json_response(b'{"status":"unavailable","reason":"the model server does not answer"}', 503)
    response.headers["Retry-After"] = "5"
    return response


def paths(snapshot: Snapshot) -> list[str]:
    """All paths that are answered."""
    own = ["/for/{client}/v1/…", "/health", "/_health", "/_ready", "/_reload", "/metrics", "/"]
    return [CHAT, MESSAGES, COUNT_TOKENS, *PASSED, f"{MODELS}/{{id}}", *snapshot.settings.pass_through, *own]


def _exchange(now: Visit, asked: Asked) -> Exchange:
    snapshot, settings, wanted, profile = now.snapshot, now.snapshot.settings, asked.chat, asked.profile
    headers = upstream_headers(request.environ, JSON_TYPE, now.id)
    seed = secrets.token_bytes(16)
    way = now.way or snapshot.upstream.way()
    policy = snapshot.rules.policy(wanted.model)

    def engine(plan: Plan) -> Engine:
        raw_text = proxy_parses(wanted, plan)
        limits = {"max_held": settings.max_held, "max_calls": settings.max_calls}
        ordered = not asked.dialect.verbatim  # the blocks of Messages
        return Engine(make_task(wanted, policy, seed=seed, raw_text=raw_text, ordered=ordered, **limits))

    return Exchange(
        way=way,
        path=CHAT,
        headers=headers,
        request=wanted,
        plan=_plan(snapshot, asked, headers, way),
        auto=profile.parse == "auto",
        pump=Pump(now.socket, _patience(settings, wanted, profile), now.service.drain),
        engine=engine,
        dialect=asked.dialect,
        server=lambda: profile.server or snapshot.server_kind(headers, way),
        elsewhere=lambda: _plan(snapshot, asked, headers, way) if way.move() else None,
        remember=lambda: snapshot.remember(wanted.model),
        crashed=lambda error: log.error("the proxy failed while it read a reply", exc_info=error),
        max_event=settings.max_event,
        hold_timeout=settings.hold_timeout,
        retry_tokens=settings.retry_tokens,
        capture=_capture(now),
        observe=now.outcome.observe,
        outcome=now.outcome,
        secrets=now.secrets,
    )


def _capture(now: Visit) -> Capture | None:
    folder = now.snapshot.settings.capture
    return Capture(folder, now.id, now.secrets) if folder else None


def _plan(snapshot: Snapshot, asked: Asked, headers: dict[str, str], way: Way) -> Plan:
    """How the request goes up first (README: who parses)."""
    wanted, profile = asked.chat, asked.profile
    proxied = profile.parse == "proxy" or (profile.parse == "auto" and snapshot.parses(wanted.model))
    server = profile.server
    if proxied and not server and wanted.tools is not None:
        server = snapshot.server_kind(headers, way)
    return Plan(parse="proxy" if proxied else "server", transport=profile.upstream, server=server)


def _patience(settings: Settings, wanted: ChatRequest, profile: Profile) -> Patience:
    return Patience(
        header=settings.header_timeout,
        idle=settings.idle_timeout,
        heartbeat=settings.heartbeat if wanted.stream else 0.0,
        whole=not wanted.stream or profile.upstream == "whole",
        total=settings.total_timeout,
    )


def _sent(now: Visit, parts: Iterator[bytes]) -> Iterator[bytes]:
    """The body on its way out, without the request's secrets, and counted. What cannot be finished must not look
    finished: the connection is cut.

    It closes nothing: it may never be begun (a HEAD request, a client that is gone).
    """
    masking = Masking(mask_of(now.secrets))
    try:
        for part in parts:
            if ready := masking.feed(part):
                now.sent += len(ready)
                yield ready
        if rest := masking.finish():
            now.sent += len(rest)
            yield rest
    except (ClientGone, GeneratorExit) as error:
        now.error, now.gone = "client gone", True
        if isinstance(error, GeneratorExit):
            raise
    except Exception as error:
        now.error, now.failure = str(error), error
        if not isinstance(error, ProxyError):
            log.exception("a reply could not be finished")
        _cut(now.socket)


def _cut(client: HasDescriptor | None) -> None:
    """End the client's connection without the end of the body."""
    if isinstance(client, socket.socket):
        with contextlib.suppress(OSError):  # it may be gone already
            client.shutdown(socket.SHUT_RDWR)
