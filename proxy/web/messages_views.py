"""The views of the Messages dialect beside the message itself: its tokens counted, and the models."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request

from proxy.codec.json_text import dump_json
from proxy.dialects.messages.models import model_info, models_page
from proxy.dialects.messages.request import translate_count
from proxy.dialects.token_count import HEADER, count
from proxy.errors import NotFound
from proxy.upstream.answer_wait import AnswerWait, Timeouts
from proxy.upstream.client import ModelServer
from proxy.upstream.model_list import CLAUDE, ModelCard, all_cards, completed_list, read_cards, served_name
from proxy.upstream.paths import MODELS
from proxy.upstream.responses import decoded, error_of_response, read_body
from proxy.web.admission import parse_body
from proxy.web.context import RequestContext, json_response, request_context
from proxy.web.headers import upstream_headers
from proxy.web.prepare import healed_conversation, model_server, translated
from proxy.web.thinking import efforts_of

# Seconds in which the model server must have counted, or listed its models; a client waits for it to go on.
_SECONDS = 30.0
_NO_KEY = (401, 403)


def count_tokens() -> Response:
    """`POST /v1/messages/count_tokens`: the number, and in a header the way it came (F95)."""
    ctx = request_context()
    body = parse_body(ctx.body)
    outgoing = translated(ctx, request.environ, body, translate_count)

    def post(path: str, data: bytes) -> tuple[int, bytes]:
        return ask("POST", path, data, outgoing.server, outgoing.headers)

    number, method = count(post, healed_conversation(ctx, outgoing.body, outgoing.family).body, body)
    response = json_response(dump_json({"input_tokens": number}))
    response.headers[HEADER] = method
    return response


def models() -> Response:
    """`GET /v1/models` of a Messages client: the models of all servers, then the aliases of the rules."""
    ctx = request_context()
    rules = ctx.snapshot.rules
    query = {name: request.args.get(name, "") for name in ("limit", "before_id", "after_id")}
    cards = _cards(ctx, None)
    others = ctx.snapshot.other_models(ctx.upstream_key)
    # Without an alias, a claude-* name in a Messages request means a model of the main server.
    named = [card for card in others if rules.has_alias(card.id) or not card.id.startswith(CLAUDE)]
    return json_response(dump_json(models_page(all_cards(cards, named, rules), **query)))


def openai_models() -> Response:
    """`GET /v1/models` of any other client, where the rules have aliases or other servers."""
    ctx = request_context()
    _, body = ask("GET", MODELS, None, model_server(ctx), _headers(ctx, None))
    others = ctx.snapshot.other_models(ctx.upstream_key)
    return json_response(completed_list(body, others, ctx.snapshot.rules))


def model(name: str) -> Response:
    """`GET /v1/models/{id}` of a Messages client; a name that stands for another one is one too."""
    ctx = request_context()
    cards = _cards(ctx, None)
    served = served_name(name, cards, ctx.snapshot.rules)
    if model_server(ctx, served) is not model_server(ctx):
        cards = _cards(ctx, served)
    card = next((card for card in cards if card.id == served), None)
    if card is None:
        raise NotFound(f"model: {name[:100]!r} is not served; GET {MODELS} lists what is")
    profile, server = ctx.snapshot.rules.profile(served, ctx.client), model_server(ctx, served)
    family = ctx.snapshot.family(served, profile, _headers(ctx, served), server)
    efforts = efforts_of(ctx.snapshot.rules, served, family)
    return json_response(dump_json(model_info(card, name, efforts)))


def _headers(ctx: RequestContext, model: str | None) -> dict[str, str]:
    return upstream_headers(request.environ, "", ctx.id, ctx.server_key(model))


def _cards(ctx: RequestContext, model: str | None) -> tuple[ModelCard, ...]:
    """Return the models of the server of `model`; None is the main server."""
    _, body = ask("GET", MODELS, None, model_server(ctx, model), _headers(ctx, model))
    return read_cards(body)


def ask(
    method: str, path: str, data: bytes | None, server: ModelServer, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Status and body of the model server's answer; an error that the client must know of is raised."""
    ctx = request_context()
    timeouts = Timeouts(_SECONDS, until_complete=True)
    wait = AnswerWait(ctx.socket, timeouts, ctx.worker.drain, turn=ctx.turn)
    wait.start_over()
    with server.open(method, path, headers, data, wait.connecting()) as call:
        whole = read_body(decoded(call, wait.receive(call)))
        while True:
            try:
                next(whole)
            except StopIteration as done:
                body: bytes = done.value
                break
        if call.status in _NO_KEY or (method == "GET" and call.status != 200):
            raise error_of_response(call, body, ctx.secrets)
        return call.status, body
