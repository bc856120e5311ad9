"""Views for token counts, models, stored responses, and the proxy's own paths."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping

from flask import Response, request

from proxy import SERVICE, __version__
from proxy.dialects.messages import request as messages
from proxy.dialects.messages.models import model_info, models_page
from proxy.dialects.responses import request as responses
from proxy.dialects.responses.kept import ADVICE
from proxy.dialects.token_count import HEADER, count
from proxy.errors import BadRequest, NotFound, RulesError, Unavailable
from proxy.json import JsonObject, dump_json
from proxy.server.logging_setup import lost_lines
from proxy.server.metrics import CONTENT_TYPE
from proxy.upstream.answer_wait import Timeouts
from proxy.upstream.client import ModelServer
from proxy.upstream.model_list import CLAUDE, all_cards, completed_list, read_cards, served_name
from proxy.upstream.responses import error_of_response, whole_body
from proxy.web import routes
from proxy.web.admission import parse_body
from proxy.web.context import RequestContext, json_response, request_context
from proxy.web.headers import upstream_headers
from proxy.web.passed import passed
from proxy.web.prepare import efforts_of, find_model, healed_conversation, model_server, response_store, resumed

log = logging.getLogger("proxy")

# Time limit in seconds for the model server to count tokens or list its models.
_SECONDS = 30.0
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:@+-")


def count_tokens() -> Response:
    """`POST /v1/messages/count_tokens` and `/v1/responses/input_tokens`. A header names the counting method (F95)."""
    ctx = request_context()
    body, own, answer = parse_body(ctx.body), None, JsonObject()
    if ctx.route is routes.COUNT_TOKENS:
        target = find_model(ctx, request.environ, body)
        chat, own = messages.translate_count(body, target.options).body, body
    else:
        body = resumed(ctx, request.environ, body).body
        target = find_model(ctx, request.environ, body)
        chat = responses.translate(body, target.options).body
        answer["object"] = "response.input_tokens"

    def post(path: str, data: bytes) -> tuple[int, bytes]:
        return _ask("POST", path, data, target.server, target.headers)

    healed = healed_conversation(ctx, target.thinking(ctx, chat).body, target.family)
    number, method = count(post, healed.body, own)
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
    query = {name: request.args.get(name, "") for name in ("limit", "before_id", "after_id")}
    # Without an alias, a claude-* name in a Messages request means a model of the main server.
    named = [card for card in others if rules.has_alias(card.id) or not card.id.startswith(CLAUDE)]
    return json_response(dump_json(models_page(all_cards(read_cards(listed), named, rules), **query)))


def model(name: str) -> Response:
    """`GET /v1/models/{id}`. In Messages the name may be an alias; in other dialects the path is forwarded."""
    # The name becomes part of an upstream path, so only plain words between slashes are allowed.
    if not all(word.strip(".") and _NAME.issuperset(word) for word in name.split("/")):
        raise NotFound(f"{name!r} is not a valid model name")
    ctx = request_context()
    if not ctx.in_messages:
        return passed(f"{routes.MODELS.path}/{name}", model=name)
    cards, rules = read_cards(_list(ctx)), ctx.snapshot.rules
    served = served_name(name, cards, rules)
    server = model_server(ctx, served)
    if server is not model_server(ctx):
        cards = read_cards(_list(ctx, served))
    card = next((card for card in cards if card.id == served), None)
    if card is None:
        raise NotFound(f"model: {name[:100]!r} is not served; GET {routes.MODELS.path} lists what is")
    headers = upstream_headers(request.environ, "", ctx.id, ctx.server_key(served))
    family = ctx.snapshot.family(served, rules.profile(served, ctx.client), headers, server)
    return json_response(dump_json(model_info(card, name, efforts_of(rules, served, family))))


def _list(ctx: RequestContext, model: str | None = None) -> bytes:
    """Return the list of models of the server of `model`. None selects the main server."""
    headers = upstream_headers(request.environ, "", ctx.id, ctx.server_key(model))
    return _ask("GET", routes.MODELS.path, None, model_server(ctx, model), headers)[1]


def _ask(
    method: str, path: str, data: bytes | None, server: ModelServer, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Return the status and body of the model server's answer. Raises its error for 401, 403 and failed GETs."""
    ctx = request_context()
    wait = ctx.wait(Timeouts(_SECONDS, until_complete=True))
    wait.give_way()
    with server.open(method, path, headers, data) as call:
        body = whole_body(call, wait)
        if call.status in (401, 403) or (method == "GET" and call.status != 200):
            raise error_of_response(call, body, ctx.secrets)
        return call.status, body


def one_response(name: str) -> Response:
    """Answer `GET` and `DELETE /v1/responses/{response}`."""
    store = response_store(request_context(), request.environ)
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


def cancel(name: str) -> Response:
    """Refuse `POST /v1/responses/{response}/cancel`."""
    raise BadRequest(
        f"{name[:100]!r} cannot be cancelled: this server makes no responses in the background; "
        "close the connection of a response to stop it"
    )


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
        models = worker.shared.listed_models(models)
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
    if request_context().snapshot.ready():
        return json_response(b'{"status":"ready"}')
    response = json_response(b'{"status":"unavailable","reason":"the model server does not answer"}', 503)
    response.headers["Retry-After"] = "5"
    return response
