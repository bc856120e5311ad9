"""The views: what each path does with a request that was read and checked."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

from flask import Request, Response

from proxy import SERVICE, __version__
from proxy.codec.json_access import objects_in
from proxy.codec.json_text import JsonObject, dump_json
from proxy.codec.secrets import masked, masked_text
from proxy.config.rules import Parse, Profile, entry_with
from proxy.config.settings import Settings
from proxy.dialects.chat.request import ChatRequest
from proxy.engine.engine import Engine
from proxy.errors import BadRequest, ClientGone, LimitExceeded, ProxyError, RulesError, Unavailable
from proxy.exchange.attempt import Exchange, run_exchange
from proxy.exchange.capture import Capture
from proxy.exchange.capture_folder import CaptureFolder
from proxy.exchange.loop_guard import limit_answer, render_limit_answer
from proxy.exchange.plan import Plan, Retries, Why, reasons_to_ask_again
from proxy.exchange.task import make_task
from proxy.healing.heal import HealPlan
from proxy.healing.repeats import TOLD_IN_THE_LOG, newest_repeat
from proxy.limits import MAX_ANSWER, REPLY_SECONDS
from proxy.upstream.answer_wait import AnswerWait, HasDescriptor, Timeouts
from proxy.upstream.client import ModelServer, UpstreamCall
from proxy.upstream.paths import CHAT_COMPLETIONS
from proxy.upstream.responses import KNOWN, PassthroughResponse, decoded, error_of_response, pass_through
from proxy.web.activity_record import begin_activity, note_sent
from proxy.web.context import PreparedRequest, RequestContext, current_request, json_response, request_context
from proxy.web.headers import JSON_TYPE, STREAM_HEADERS, STREAM_TYPE
from proxy.web.passed_body import PassedBody
from proxy.web.prepare import model_server
from proxy.web.routes import shown_paths
from proxy.web.thinking import thoughts_in_text
from proxy.web.token_counts import tokens_of
from proxy.worker.audit_log import as_header
from proxy.worker.logging_setup import keep_secrets, lost_lines
from proxy.worker.metrics import CONTENT_TYPE
from proxy.worker.snapshot import Snapshot
from proxy.worker.state import WorkerState

log = logging.getLogger("proxy")

# Reads a dialect's request into the internal one; it may ask the model server which models it has.
Prepare: TypeAlias = Callable[[RequestContext, Mapping[str, Any]], PreparedRequest]
# Under this name gunicorn's worker takes what the body of a stream waits for: then its pump drives it (server/pump.py).
HAND_OVER = "tool_proxy.hand_over"
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{1,4096}")


def reply(prepare: Prepare) -> Response:
    """`POST /v1/chat/completions` and `/v1/messages`: repaired, streamed or whole."""
    request = current_request()
    ctx = request.context
    ctx.prepared = prepared = prepare(ctx, request.environ)
    return answered(ctx, prepared, request.environ)


def answered(ctx: RequestContext, prepared: PreparedRequest, environ: Mapping[str, Any]) -> Response:
    """The reply to a request that was read."""
    chat = prepared.chat
    heal_plan = ctx.heal_plan(chat.model, prepared.family)
    ending = _ending(ctx, chat, heal_plan)
    if ending is not None:
        ctx.outcome.stop_loop()
        data = render_limit_answer(ending, prepared.dialect, stream=chat.stream)
        return Response(data, 200, list(STREAM_HEADERS)) if chat.stream else json_response(data)
    if chat.stream:
        ctx.take_stream()
    begin_activity(ctx)
    exchange = _exchange(ctx, prepared, heal_plan)
    parts = run_exchange(exchange)
    if not chat.stream:
        return _complete_answer(ctx, parts)
    first = next(filter(None, parts), b"")
    ctx.first_byte = time.monotonic()
    headers = [*STREAM_HEADERS, *ctx.outcome.headers]
    response = Response(_sent(ctx, chain((first,), parts)), 200, headers, content_type=STREAM_TYPE)
    response.call_on_close(parts.close)
    hand_over = environ.get(HAND_OVER)
    if hand_over is not None:
        exchange.wait.on_lane = partial(note_sent, ctx)
        hand_over(exchange.wait)
        ctx.return_thread()
    return response


def _ending(ctx: RequestContext, chat: ChatRequest, plan: HealPlan) -> JsonObject | None:
    """The answer without the model to a conversation that went on for too long, or that turns in a circle; the log is
    told of a model that has just made the same call with the same result again (F92).
    """
    name, count = repeat = newest_repeat(objects_in(chat.body.get("messages")), plan.tools.polls)
    if count >= TOLD_IN_THE_LOG:
        words = "model %r has made the same call of %r with the same result %d times in this conversation"
        log.warning(words, chat.model[:100], name[:100], count)
    return limit_answer(chat, ctx.snapshot.settings.max_tool_calls, repeat, plan.tools.most_repeats)


def _complete_answer(ctx: RequestContext, parts: Iterator[bytes]) -> Response:
    """An answer that was waited for: what was repaired in it is known before its headers go."""
    body = b"".join(parts)
    ctx.first_byte = time.monotonic()
    note_sent(ctx, body)
    response = Response(body, 200, [("Content-Type", JSON_TYPE), *ctx.outcome.headers])
    if ctx.outcome.audit:
        response.headers["X-Tool-Proxy-Fixes"] = as_header(ctx.outcome.audit)
    return response


def passed(path: str, model: str | None = None) -> Response:
    """Pass request and answer of a path that the upstream answers itself; `model` is the model in the path, if any."""
    request = current_request()
    ctx, settings = request.context, request.context.snapshot.settings
    timeouts = Timeouts(settings.idle_timeout, total=REPLY_SECONDS)
    wait = AnswerWait(ctx.socket, timeouts, ctx.worker.drain, turn=ctx.turn)
    body = PassedBody(ctx, path)
    model = model or body.model()
    headers = body.headers(request.environ, model)
    data = body.upward(headers) if ctx.body or ctx.method not in ("GET", "HEAD") else None
    wait.start_over()
    method = "GET" if ctx.method == "HEAD" else ctx.method
    call = model_server(ctx, model).open(method, path + _query(request), headers, data, wait.connecting())
    try:
        answer = pass_through(call, wait)
        if answer.status >= 400:
            answer = _passed_error(ctx, call, answer)
    except BaseException:
        call.close()
        raise
    ctx.first_byte = time.monotonic()
    sized = [] if answer.length is None else [("Content-Length", str(answer.length))]
    response = Response(_sent(ctx, answer.parts), answer.status, [*answer.headers, *sized])
    if not call.header("Content-Type"):
        # Flask's default is text/html, and a browser would guess.
        del response.headers["Content-Type"]
        response.headers["X-Content-Type-Options"] = "nosniff"
    response.call_on_close(call.close)
    return response


def _passed_error(ctx: RequestContext, call: UpstreamCall, answer: PassthroughResponse) -> PassthroughResponse:
    """Return a passed error, read whole, decompressed, and with its secrets masked.

    Raises an error with its status alone if the compression is unknown: the body may quote a key.
    """
    if call.coding and call.coding not in KNOWN:
        raise error_of_response(call, b"", ctx.secrets)
    body = bytearray()
    for part in decoded(call, answer.parts):
        body += part or b""
        if len(body) > MAX_ANSWER:
            raise LimitExceeded("the size of an error", MAX_ANSWER)
    kept = ((name, value) for name, value in answer.headers if name != "Content-Encoding")
    headers = tuple((name, masked_text(value, ctx.secrets)) for name, value in kept)
    return replace(answer, headers=headers, length=len(body), parts=iter((masked(bytes(body), ctx.secrets),)))


def _query(request: Request) -> str:
    """The query as it came, if it is one."""
    query = request.query_string.decode("latin-1")
    if query and not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL holds characters that do not belong there")
    return f"?{query}" if query else ""


def reload() -> Response:
    """`POST /_reload`: settings and rules are read anew, for all workers; 422 if they cannot be used."""
    try:
        request_context().worker.reload()
    except RulesError as error:
        log.error("not reloaded, the rules that were in force stay so: %s", error.message)
        body = {"status": "error", "message": "the configuration was not reloaded", "errors": [error.message]}
        return json_response(dump_json(body), 422)
    return json_response(b'{"status":"success","message":"Configuration reloaded"}')


def metrics() -> Response:
    """`GET /metrics`: what all workers have counted, for Prometheus."""
    worker, models = request_context().worker, request_context().snapshot.all_models()
    with contextlib.suppress(Unavailable):
        models = worker.shared.listed_models(models)
    in_force = not worker.published.error
    data = worker.metrics.exposition(rules_in_force=in_force, models=models, log_lost=lost_lines())
    return Response(data, content_type=CONTENT_TYPE)


def root() -> Response:
    """`GET /`: what this is, and what it answers."""
    paths = shown_paths(request_context().snapshot.settings.pass_through)
    about = {"service": SERVICE, "version": __version__, "paths": paths}
    return json_response(dump_json(about))


def health() -> Response:
    """`GET /health`: the process lives; the upstream is not asked."""
    return json_response(dump_json(request_context().worker.health()))


def ready() -> Response:
    """`GET /_ready`: 200 if a model server answers, else 503."""
    if request_context().snapshot.ready():
        return json_response(b'{"status":"ready"}')
    response = json_response(b'{"status":"unavailable","reason":"the model server does not answer"}', 503)
    response.headers["Retry-After"] = "5"
    return response


def _exchange(ctx: RequestContext, prepared: PreparedRequest, heal_plan: HealPlan) -> Exchange:
    snapshot, settings, chat, profile = ctx.snapshot, ctx.snapshot.settings, prepared.chat, prepared.profile
    server = _ServerOfRequest(snapshot, prepared, ctx.worker)
    plan = _plan(prepared, server, heal_plan)
    ask_again = reasons_to_ask_again(chat, broken=profile.broken_calls != "text")
    return Exchange(
        upstream=server,
        path=CHAT_COMPLETIONS,
        headers=prepared.headers,
        request=chat,
        plan=plan,
        wait=AnswerWait(ctx.socket, _timeouts(settings, chat, profile), ctx.worker.drain, turn=ctx.turn),
        engine=_Engines(snapshot, prepared, plan.parse, ctx.seed, Why.BROKEN in ask_again),
        dialect=prepared.dialect,
        hold_timeout=settings.hold_timeout,
        capture=_capture(ctx, prepared),
        recording=ctx.recording,
        count=server.count_tokens,
        retries=Retries(plan.parse, profile.parse == "auto", ask_again, profile.broken_calls == "retry"),
        outcome=ctx.outcome,
        secrets=ctx.secrets,
    )


def _capture(ctx: RequestContext, prepared: PreparedRequest) -> Capture | None:
    settings = ctx.snapshot.settings
    if not settings.capture:
        return None
    count = ctx.worker.metrics.add
    return Capture(
        folder=CaptureFolder(settings.capture, lambda what, number: count("captures", number, what)),
        id=ctx.id,
        secrets=ctx.secrets,
        client=ctx.client,
        ordered=not prepared.dialect.verbatim,
        thoughts=prepared.thoughts,
    )


@dataclass(frozen=True, slots=True)
class _ServerOfRequest:
    """The model server of one request, and what is known of it (`exchange.Upstream`)."""

    snapshot: Snapshot
    prepared: PreparedRequest
    worker: WorkerState

    @property
    def server(self) -> ModelServer:
        return self.prepared.server

    def kind(self) -> str:
        configured_kind = self.prepared.profile.server_kind
        return configured_kind or self.snapshot.server_kind(self.prepared.headers, self.server)

    def count_tokens(self, text: str) -> int:
        """How many tokens a text has; 0 where nobody says."""
        return tokens_of(text, self.prepared.chat.model, self.prepared.server, self.prepared.headers)

    def remember_parser_failure(self) -> None:
        self.snapshot.remember(self.prepared.chat.model)

    def remember_healings(self, ids: tuple[str, ...]) -> None:
        model = self.prepared.chat.model
        if self.worker.learn(model, ids):
            entry = entry_with(self.snapshot.rules.entry(model), model, sorted(self.worker.lessons_of(model)))
            words = "the model server refused a request for model %r and took it healed, as all are from now on; %s: %s"
            log.warning(words, model[:100], "to keep that, put first in models of rules.yaml", entry)

    def parser_has_failed(self) -> bool:
        """True if the server showed before that it cannot find this model's calls."""
        return self.snapshot.parses(self.prepared.chat.model)


@dataclass(frozen=True, slots=True)
class _Engines:
    """Makes the engine for each try of a request. `parse`: who looks for calls in the first one; `hold_broken`: a call
    that cannot be read waits, as it may be asked for once more.
    """

    snapshot: Snapshot
    prepared: PreparedRequest
    parse: Parse
    seed: bytes
    hold_broken: bool

    def __call__(self, raw_text: bool, forced: str) -> Engine:
        prepared, settings, chat = self.prepared, self.snapshot.settings, self.prepared.chat
        ordered = not prepared.dialect.verbatim  # the blocks of Messages
        parse = "proxy" if raw_text else self.parse
        apart = thoughts_in_text(prepared.thoughts, prepared.profile, parse, blocks=ordered)
        policy = self.snapshot.rules.policy(chat.model, prepared.family)
        task = make_task(
            chat,
            policy,
            seed=self.seed,
            raw_text=raw_text,
            ordered=ordered,
            thoughts=apart,
            max_held=settings.max_held,
        )
        if forced:
            # A model that is made to call writes the arguments at once, also where the prompt has opened a thought.
            maybe = None if apart is None else replace(apart, begun="", unknown=True)
            return Engine(replace(task, forced=forced, one_call=True, thoughts=maybe))
        return Engine(replace(task, hold_broken=True) if self.hold_broken else task)


def _plan(prepared: PreparedRequest, server: _ServerOfRequest, heal: HealPlan) -> Plan:
    """The plan of the first try (docs/configuration.md: who parses)."""
    profile = prepared.profile
    parse = profile.parse
    if parse == "auto":
        parse = "proxy" if server.parser_has_failed() else "server"
    if parse == "server":
        return Plan(parse, profile.transport, profile.server_kind, heal=heal)
    # Which request makes a server leave the calls alone depends on its kind; without tools there are none.
    kind = profile.server_kind if prepared.chat.tools is None else server.kind()
    return Plan(parse, profile.transport, kind, heal=heal)


def _timeouts(settings: Settings, chat: ChatRequest, profile: Profile) -> Timeouts:
    return Timeouts(
        idle=settings.idle_timeout,
        heartbeat=settings.heartbeat if chat.stream else 0.0,
        until_complete=not chat.stream or profile.transport == "whole",
        total=REPLY_SECONDS,
    )


def _sent(ctx: RequestContext, parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts of the body, and count them. If they break off, the connection is cut: the client must not take
    the body for complete.

    It closes nothing: it may never start (a HEAD request, a client that is gone).
    """
    try:
        for part in parts:
            note_sent(ctx, part)
            yield part
            keep_secrets(ctx.secrets)  # the pump's thread works on many requests
    except (ClientGone, GeneratorExit) as error:
        ctx.outcome.leave()
        if isinstance(error, GeneratorExit):
            raise
    except Exception as error:
        ctx.outcome.break_off(error)
        if not isinstance(error, ProxyError):
            log.exception("a reply could not be finished")
        _cut(ctx.socket)


def _cut(client: HasDescriptor | None) -> None:
    """End the client's connection without the end of the body."""
    if isinstance(client, socket.socket):
        with contextlib.suppress(OSError):  # it may be gone already
            client.shutdown(socket.SHUT_RDWR)
