"""Answers completion requests in any dialect: prepares them, sends them upstream, and returns the repaired reply."""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from flask import Response

from proxy.config.rules import Parse, entry_with
from proxy.engine.engine import Engine
from proxy.errors import ClientGone, ProxyError
from proxy.exchange.attempt import Exchange, log_crash
from proxy.exchange.plan import PROXY_PARSES, Plan, Retries, Why, make_task, reasons_to_ask_again, thoughts_in_text
from proxy.exchange.tries import run_exchange
from proxy.exchange.whole_answer import limit_answer, render_limit_answer
from proxy.healing.heal import HealPlan
from proxy.healing.results import TOLD_IN_THE_LOG, newest_repeat
from proxy.json import JsonObject, as_list, dump_request, object_in, objects_in
from proxy.limits import REPLY_SECONDS
from proxy.server.audit_log import as_header
from proxy.server.logging_setup import keep_secrets
from proxy.upstream.answer_wait import Timeouts
from proxy.upstream.api import TOKENIZE
from proxy.upstream.responses import fetch
from proxy.web.context import PreparedRequest, RequestContext, TargetModel, current_request, json_response
from proxy.web.headers import JSON_TYPE, STREAM_HEADERS
from proxy.web.record import begin_recording, note_sent

log = logging.getLogger("proxy")

# WSGI key of a function that hands the wait object of a stream to the pump (server/pump.py).
HAND_OVER = "tool_proxy.hand_over"
# Time limit in seconds for counting tokens. The end of a reply waits for the count.
_COUNT_SECONDS = 1.0


def reply(prepare: Callable[[RequestContext], PreparedRequest]) -> Response:
    """Answer `POST /v1/chat/completions`, `/v1/messages` and `/v1/responses`.

    `prepare` reads the dialect's request; it may ask the model server for its models.
    """
    request = current_request()
    ctx = request.context
    ctx.prepared = prepared = prepare(ctx)
    chat, heal_plan = prepared.chat, ctx.heal_plan(prepared.chat.model, prepared.target.family)
    ending = _ending(ctx, prepared, heal_plan)
    if ending is not None:
        ctx.outcome.error = "loop guard"
        data = render_limit_answer(ending, prepared.dialect, log_crash, stream=chat.stream)
        return Response(data, 200, list(STREAM_HEADERS)) if chat.stream else json_response(data)
    if chat.stream:
        ctx.take_stream()
    begin_recording(ctx)
    exchange = _exchange(ctx, prepared, heal_plan)
    parts = run_exchange(exchange)
    first = next(filter(None, parts), b"") if chat.stream else b"".join(parts)
    ctx.first_byte = time.monotonic() - ctx.began
    if not chat.stream:
        note_sent(ctx, first)
        response = Response(first, 200, [("Content-Type", JSON_TYPE), *ctx.outcome.headers])
        if ctx.outcome.audit:
            response.headers["X-Tool-Proxy-Fixes"] = as_header(ctx.outcome.audit)
        return response
    headers = [*STREAM_HEADERS, *ctx.outcome.headers]
    response = Response(sent(ctx, chain((first,), parts)), 200, headers)
    response.call_on_close(parts.close)
    hand_over = request.environ.get(HAND_OVER)
    if hand_over is not None:
        exchange.wait.on_lane = partial(note_sent, ctx)
        hand_over(exchange.wait)
        ctx.thread.close()
    return response


def _ending(ctx: RequestContext, prepared: PreparedRequest, plan: HealPlan) -> JsonObject | None:
    """Return the answer that ends a conversation with too many or repeated calls, or None.

    A model that repeats a call with the same result is logged (F92).
    """
    chat = prepared.chat
    name, count = repeat = newest_repeat(objects_in(chat.body.get("messages")), plan.tools.polls)
    if count >= TOLD_IN_THE_LOG:
        words = "model %r has made the same call of %r with the same result %d times in this conversation"
        log.warning(words, chat.model[:100], name[:100], count)
    return limit_answer(chat, ctx.snapshot.settings.max_tool_calls, repeat, plan.tools.most_repeats)


def _exchange(ctx: RequestContext, prepared: PreparedRequest, heal_plan: HealPlan) -> Exchange:
    snapshot, settings, chat, target = ctx.snapshot, ctx.snapshot.settings, prepared.chat, prepared.target
    profile, parse, server_kind = target.profile, target.profile.parse, partial(target.server_kind, snapshot)
    if parse == "auto":  # docs/configuration.md: who parses
        parse = "proxy" if PROXY_PARSES in ctx.worker.lessons_of(chat.model) else "server"
    # The way to disable a server's parser depends on its kind. Without tools there are no calls to parse.
    kind = server_kind() if parse == "proxy" and chat.tools is not None else profile.server_kind
    ask_again = reasons_to_ask_again(chat, broken=profile.broken_calls != "text")
    timeouts = Timeouts(
        idle=settings.idle_timeout,
        heartbeat=settings.heartbeat if chat.stream else 0.0,
        until_complete=not chat.stream or profile.transport == "whole",
        total=REPLY_SECONDS,
    )
    return Exchange(
        server=target.server,
        kind=server_kind,
        learn=partial(_learn, ctx, chat.model),
        headers=target.headers,
        request=chat,
        plan=Plan(parse, profile.transport, kind, heal=heal_plan),
        wait=ctx.wait(timeouts),
        engine=partial(_engine, ctx, prepared, parse, hold_broken=Why.BROKEN in ask_again),
        dialect=prepared.dialect,
        hold_timeout=settings.hold_timeout,
        recording=ctx.recording,
        count=partial(tokens_of, target, chat.model),
        retries=Retries(parse, profile.parse == "auto", ask_again, profile.broken_calls == "retry"),
        outcome=ctx.outcome,
        secrets=ctx.secrets,
    )


def _learn(ctx: RequestContext, model: str, lessons: tuple[str, ...]) -> None:
    """Remember what a model's server has shown, and log it; for healings, also log how to keep them."""
    if not ctx.worker.learn(model, lessons):
        return
    if PROXY_PARSES in lessons:
        log.warning("the model server cannot parse the calls of model %r; the proxy does it from now on", model[:100])
    else:
        healings = sorted(ctx.worker.lessons_of(model) - {PROXY_PARSES})
        entry = entry_with(ctx.snapshot.rules.entry(model), model, healings)
        words = "the model server accepted a request for model %r only healed; all are healed from now on; %s: %s"
        log.warning(words, model[:100], "to keep this, put it first in models of rules.yaml", entry)


def _engine(
    ctx: RequestContext, prepared: PreparedRequest, parse: Parse, raw_text: bool, forced: str, *, hold_broken: bool
) -> Engine:
    """Return the engine for one try.

    `parse` is the parser of the first try. `hold_broken`: hold an unreadable call, because another try may replace it.
    `forced` is the tool that this try forces, or "".
    """
    ordered = not prepared.dialect.verbatim  # the blocks of Messages
    apart = thoughts_in_text(prepared.thoughts, prepared.target.profile, "proxy" if raw_text else parse, blocks=ordered)
    task = replace(
        make_task(prepared.chat, thoughts=apart, forced=forced),
        policy=ctx.snapshot.rules.policy(prepared.chat.model, prepared.target.family),
        seed=ctx.seed,
        raw_text=raw_text,
        ordered=ordered,
        max_held=ctx.snapshot.settings.max_held,
        hold_broken=hold_broken and not forced,
    )
    return Engine(task)


def sent(ctx: RequestContext, parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield and count the parts of a body.

    If the body breaks off, the connection is shut down, so that the client does not mistake the body for complete.
    `parts` is closed elsewhere, because this generator may never start (a HEAD request, a client that is gone).
    """
    try:
        for part in parts:
            note_sent(ctx, part)
            yield part
            keep_secrets(ctx.secrets)  # the pump's thread works on many requests
    except (ClientGone, GeneratorExit) as error:
        ctx.outcome.error, ctx.outcome.gone = "client gone", True
        if isinstance(error, GeneratorExit):
            raise
    except Exception as error:
        ctx.outcome.error, ctx.outcome.failure = str(error), error
        if not isinstance(error, ProxyError):
            log.exception("a reply could not be finished")
        if isinstance(ctx.socket, socket.socket):
            with contextlib.suppress(OSError):  # it may be gone already
                ctx.socket.shutdown(socket.SHUT_RDWR)


def tokens_of(target: TargetModel, model: str, text: str) -> int:
    """Return the number of tokens in a text, from `/tokenize` of vLLM or llama.cpp, or 0 if it is unknown.

    `model` is the upstream name of the target.
    """
    body: JsonObject = {"model": model, "prompt": text, "content": text, "add_special_tokens": False}
    try:
        status, data = fetch(target.server, TOKENIZE, target.headers, _COUNT_SECONDS, dump_request(body))
    except ProxyError:
        return 0
    if status != 200:
        return 0
    # {"count": 3} of vLLM, {"tokens": [1, 2, 3]} of llama.cpp
    answer = object_in(data)
    count = answer.get("count")
    return count if type(count) is int else len(as_list(answer.get("tokens")))
