"""Views for token counts, models, stored responses, paths that the model server answers, and the proxy's own paths."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial

from flask import Response, request

from proxy import SERVICE, __version__
from proxy.dialects.chat.request import conversation_key
from proxy.dialects.messages import request as messages
from proxy.dialects.messages.models import model_info, models_page
from proxy.dialects.responses import request as responses
from proxy.dialects.responses.kept import ADVICE, resume
from proxy.dialects.token_count import HEADER, count
from proxy.errors import BadRequest, LimitExceeded, NotFound, RulesError, Unavailable
from proxy.healing.reasoning import effort_words
from proxy.json import JsonObject, as_object, dump_json, load_json
from proxy.limits import MAX_ANSWER, REPLY_SECONDS
from proxy.secrets import masked, masked_text
from proxy.server.logging_setup import lost_lines
from proxy.server.metrics import CONTENT_TYPE, label_of
from proxy.upstream.answer_wait import Timeouts
from proxy.upstream.client import ModelServer, UpstreamCall
from proxy.upstream.model_list import CLAUDE, all_cards, completed_list, read_cards, served_name
from proxy.upstream.responses import (
    KNOWN,
    decoded,
    error_of_response,
    pass_through,
    whole_body,
)
from proxy.web import routes
from proxy.web.admission import parse_body
from proxy.web.answer import sent
from proxy.web.context import RequestContext, current_request, json_response, request_context
from proxy.web.prepare import find_model, healed_conversation, model_server, response_store, thinking

log = logging.getLogger("proxy")

# Time limit in seconds for the model server to count tokens or list its models.
_SECONDS = 30.0
_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{0,4096}")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@+-")


def count_tokens() -> Response:
    """`POST /v1/messages/count_tokens` and `/v1/responses/input_tokens`. A header names the counting method (F95)."""
    ctx = request_context()
    body, own, answer = parse_body(ctx.body), None, JsonObject()
    if ctx.route is routes.COUNT_TOKENS:
        target, options = find_model(ctx, body)
        chat, own = messages.translate_count(body, options).body, body
    else:
        body = resume(body, response_store(ctx)).body
        target, options = find_model(ctx, body)
        chat = responses.translate(body, options).body
        answer["object"] = "response.input_tokens"

    healed = healed_conversation(ctx, thinking(ctx, target, chat).body, target.family)
    number, method = count(partial(_ask, target.server, target.headers), healed, own)
    response = json_response(dump_json({**answer, "input_tokens": number}))
    response.headers[HEADER] = method
    return response


def models() -> Response:
    """`GET /v1/models`: the models of all servers, and the aliases of the rules, in the client's dialect."""
    ctx = request_context()
    rules = ctx.snapshot.rules
    if not ctx.in_messages and not (rules.aliases or rules.urls):
        return passed(routes.MODELS.path)
    listed, others = _list(ctx), ctx.snapshot.other_models(ctx.upstream_key)
    if not ctx.in_messages:
        return json_response(completed_list(listed, others, rules))
    # Without an alias, a claude-* name in a Messages request means a model of the main server.
    named = [card for card in others if rules.has_alias(card.id) or not card.id.startswith(CLAUDE)]
    return json_response(dump_json(models_page(all_cards(read_cards(listed), named, rules))))


def model(name: str) -> Response:
    """`GET /v1/models/{id}`. In Messages the name may be an alias; in other dialects the path is forwarded."""
    # The name becomes part of an upstream path, so only plain words between slashes are allowed.
    if not all(word.strip(".") and _NAME.issuperset(word) for word in name.split("/")):
        raise NotFound(f"{name!r} is not a valid model name")
    ctx = request_context()
    if not ctx.in_messages:
        ctx.check_model(name)
        return passed(f"{routes.MODELS.path}/{name}", model=name)
    cards, rules = read_cards(_list(ctx)), ctx.snapshot.rules
    served = served_name(name, cards, rules)
    ctx.check_model(served)
    server = model_server(ctx, served)
    if server is not model_server(ctx):
        cards = read_cards(_list(ctx, served))
    card = next((card for card in cards if card.id == served), None)
    if card is None:
        raise NotFound(f"model: {name[:100]!r} is not served; GET {routes.MODELS.path} lists what is")
    headers = ctx.upstream_headers(served)
    family = ctx.snapshot.family(served, rules.profile(served, ctx.client), headers, server)
    # A rule can forbid setting the effort.
    efforts = () if rules.entry(served).thinking == "none" else effort_words(family)
    return json_response(dump_json(model_info(card, name, efforts)))


def _list(ctx: RequestContext, model: str | None = None) -> bytes:
    """Return the list of models of the server of `model`. None selects the main server."""
    headers = ctx.upstream_headers(model)
    return _ask(model_server(ctx, model), headers, routes.MODELS.path)[1]


def _ask(server: ModelServer, headers: Mapping[str, str], path: str, data: bytes | None = None) -> tuple[int, bytes]:
    """Return the status and body of the answer to a GET or, with `data`, to a POST.

    Raises the model server's error for 401, 403 and failed GETs.
    """
    ctx, method = request_context(), "GET" if data is None else "POST"
    wait = ctx.wait(Timeouts(_SECONDS, until_complete=True))
    wait.give_way()
    with server.open(method, path, headers, data) as call:
        body = whole_body(call, wait)
        if call.status in (401, 403) or (method == "GET" and call.status != 200):
            raise error_of_response(call, body, ctx.secrets)
        return call.status, body


def passed(path: str, model: str | None = None) -> Response:
    """Forward a request upstream and return the response. `model` is the model in the path, if any."""
    request = current_request()
    ctx, query = request.context, request.query_string.decode("latin-1")
    wait = ctx.wait(Timeouts(ctx.snapshot.settings.idle_timeout, total=REPLY_SECONDS))
    rules, content_type = ctx.snapshot.rules, request.environ.get("CONTENT_TYPE", "")
    routed = bool(rules.urls or rules.key_sources)
    fields = _fields(ctx, routed=routed)
    if model is None and routed:
        named = fields.get("model")
        model = named if isinstance(named, str) else None
    conversation = conversation_key(fields) if "messages" in fields else ""
    headers = ctx.upstream_headers(model, content_type, conversation)
    data: bytes | None = ctx.body
    if not data and ctx.method in ("GET", "HEAD"):
        data = None
    method = "GET" if ctx.method == "HEAD" else ctx.method
    if not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL contains invalid characters")
    target = f"{path}?{query}" if query else path
    wait.give_way()
    call = model_server(ctx, model).open(method, target, headers, data)
    try:
        answer_headers, parts = pass_through(call, wait)
        if call.status >= 400:
            answer_headers, parts = _masked_error(ctx, call, answer_headers, parts)
    except BaseException:
        call.close()
        raise
    ctx.first_byte = time.monotonic() - ctx.began
    response = Response(sent(ctx, parts), call.status, answer_headers)
    if not call.header("Content-Type"):
        # Flask would add text/html, and a browser would guess a type.
        del response.headers["Content-Type"]
        response.headers["X-Content-Type-Options"] = "nosniff"
    response.call_on_close(call.close)
    return response


def _masked_error(
    ctx: RequestContext, call: UpstreamCall, headers: dict[str, str], parts: Iterator[bytes]
) -> tuple[dict[str, str], Iterator[bytes]]:
    """Return the headers and the body of an error, read, decompressed and masked.

    Raises an error without the body if its compression is unknown, because the body may quote a key.
    """
    if call.coding and call.coding not in KNOWN:
        raise error_of_response(call, b"", ctx.secrets)
    received = bytearray()
    for part in decoded(call, parts):
        received += part or b""
        if len(received) > MAX_ANSWER:
            raise LimitExceeded("the size of an error", MAX_ANSWER)
    body = masked(bytes(received), ctx.secrets)
    shown = {name: masked_text(value, ctx.secrets) for name, value in headers.items() if name != "Content-Encoding"}
    return {**shown, "Content-Length": str(len(body))}, iter((body,))


def _fields(ctx: RequestContext, *, routed: bool) -> JsonObject:
    """Return the fields of a body, or {} if none matters: it may be large, so it is then not parsed.

    `routed`: its model decides about the server or the key.
    """
    if routed or b'"messages"' in ctx.body:
        with contextlib.suppress(ValueError):
            return as_object(load_json(ctx.body))
    return {}


def one_response(name: str) -> Response:
    """Answer `GET` and `DELETE /v1/responses/{response}`."""
    store = response_store(request_context())
    if store is None:
        raise BadRequest(responses.NO_RESPONSES)
    if request.args.get("stream") == "true":
        raise BadRequest("stream: a kept response comes whole; leave it out")
    if request.method == "DELETE":
        deleted: JsonObject = {"id": name, "object": "response", "deleted": True}
        found = deleted if store.delete(name) else None
    else:
        found = store.response(name)
    if found is None:
        raise NotFound(f"there is no response {name[:100]!r}: {ADVICE}")
    return json_response(dump_json(found))


def compact() -> Response:
    """Refuse `POST /v1/responses/compact`."""
    raise BadRequest(responses.NO_COMPACTION)


def reload() -> Response:
    """`POST /_reload`: read settings and rules again for all workers. The status is 422 if they are invalid."""
    try:
        request_context().worker.reload()
    except RulesError as error:
        log.error("not reloaded, the rules that were in force stay so: %s", error.message)
        body = {"status": "error", "message": "the configuration was not reloaded", "errors": [error.message]}
        return json_response(dump_json(body), 422)
    return json_response(b'{"status":"success","message":"Configuration reloaded"}')


def metrics() -> Response:
    """`GET /metrics`: the counters of all workers, for Prometheus."""
    worker, models = request_context().worker, request_context().snapshot.all_models()
    with contextlib.suppress(Unavailable):
        models = worker.shared.listed_models(map(label_of, models))
    in_force = not worker.published.error
    data = worker.metrics.exposition(rules_in_force=in_force, models=models, log_lost=lost_lines())
    return Response(data, content_type=CONTENT_TYPE)


def root() -> Response:
    """`GET /`: the service, its version and its paths."""
    paths = routes.shown_paths(request_context().snapshot.settings.pass_through)
    return json_response(dump_json({"service": SERVICE, "version": __version__, "paths": paths}))


def health() -> Response:
    """`GET /health`: reports that the process runs. The upstream is not checked."""
    return json_response(dump_json(request_context().worker.health()))


def ready() -> Response:
    """`GET /_ready`: 200 if a model server answers, else 503."""
    snapshot = request_context().snapshot
    if any(map(snapshot.is_ready, snapshot.servers)):
        return json_response(b'{"status":"ready"}')
    response = json_response(b'{"status":"unavailable","reason":"the model server does not answer"}', 503)
    response.headers["Retry-After"] = "5"
    return response
