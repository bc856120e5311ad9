"""The views of the Messages dialect beside the message itself: its tokens counted, and the models."""

from __future__ import annotations

from flask import Response, request

from .answers import gather, refused
from .asked import translated
from .dialects.messages_models import model_info, models_page
from .dialects.messages_request import translate_count
from .encoding import decoded
from .errors import NotFound
from .events import dump_json
from .intake import parse_body, upstream_headers
from .models import Card, read_cards, served_name
from .pump import Patience, Pump
from .token_count import HEADER, count
from .views import MODELS
from .visit import JSON_TYPE, json_response, visit

# Seconds in which the model server must have counted, or listed its models; a client waits for it to go on.
_SECONDS = 30.0
_NO_KEY = (401, 403)


def count_tokens() -> Response:
    """`POST /v1/messages/count_tokens`: the number, and in a header the way it came (F95)."""
    now = visit()
    body = parse_body(now.body, now.snapshot.settings.max_depth)
    translation, *_ = translated(now, request.environ, body, translate_count)
    number, way = count(lambda path, data: _ask("POST", path, data), translation.body, body)
    response = json_response(dump_json({"input_tokens": number}))
    response.headers[HEADER] = way
    return response


def models() -> Response:
    """`GET /v1/models` of a Messages client."""
    given = {name: request.args.get(name, "") for name in ("limit", "before_id", "after_id")}
    return json_response(dump_json(models_page(_cards(), **given)))


def model(name: str) -> Response:
    """`GET /v1/models/{id}` of a Messages client; a name that stands for another one is one too."""
    now, cards = visit(), _cards()
    served = served_name(name, cards, now.snapshot.rules)
    servers = now.snapshot.profile(served, now.client).servers
    if servers:
        now.way = now.snapshot.upstream.way(servers)
        cards = _cards()
    card = next((card for card in cards if card.id == served), None)
    if card is None:
        raise NotFound(f"model: {name[:100]!r} is not served; GET {MODELS} lists what is")
    return json_response(dump_json(model_info(card, name)))


def _cards() -> tuple[Card, ...]:
    _, body = _ask("GET", MODELS, None)
    return read_cards(body)


def _ask(method: str, path: str, data: bytes | None) -> tuple[int, bytes]:
    """Status and body of the model server's answer; an error that the client must know of is raised."""
    now = visit()
    headers = upstream_headers(request.environ, JSON_TYPE if data is not None else "", now.id)
    pump = Pump(now.socket, Patience(header=_SECONDS, idle=_SECONDS, whole=True), now.service.drain)
    way = now.way = now.way or now.snapshot.upstream.way()
    with way.open(method, path, headers, data) as call:
        whole = gather(decoded(call, pump.receive(call)))
        while True:
            try:
                next(whole)
            except StopIteration as done:
                body: bytes = done.value
                break
        if call.status in _NO_KEY or (method == "GET" and call.status != 200):
            raise refused(call, body, now.secrets)
        return call.status, body
