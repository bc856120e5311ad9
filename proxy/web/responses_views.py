"""The views of the Responses dialect: responses, token counts, and kept responses."""

from __future__ import annotations

from flask import Response, request

from proxy.codec.json_text import JsonObject, dump_json
from proxy.dialects.responses.fields import NO_COMPACTION
from proxy.dialects.responses.kept import ADVICE
from proxy.dialects.responses.request import NO_RESPONSES, translate_count
from proxy.dialects.token_count import HEADER, count
from proxy.errors import BadRequest, NotFound
from proxy.web.admission import parse_body
from proxy.web.completions import answered
from proxy.web.context import current_request, json_response, request_context
from proxy.web.messages_views import ask
from proxy.web.prepare import healed_conversation, prepare_responses, response_store, resumed, translated


def create() -> Response:
    """Answer `POST /v1/responses`."""
    asked = current_request()
    ctx, environ = asked.context, asked.environ
    ctx.prepared = prepared = prepare_responses(ctx, environ)
    return answered(ctx, prepared, environ)


def input_tokens() -> Response:
    """`POST /v1/responses/input_tokens`: the number, and in a header the way it came."""
    ctx = request_context()
    body = parse_body(ctx.body)
    body = resumed(ctx, request.environ, body).body
    outgoing = translated(ctx, request.environ, body, translate_count)

    def post(path: str, data: bytes) -> tuple[int, bytes]:
        return ask("POST", path, data, outgoing.server, outgoing.headers)

    number, method = count(post, healed_conversation(ctx, outgoing.body, outgoing.family).body)
    response = json_response(dump_json({"object": "response.input_tokens", "input_tokens": number}))
    response.headers[HEADER] = method
    return response


def one_response(name: str) -> Response:
    """Answer `GET` and `DELETE /v1/responses/{response}`."""
    store = response_store(request_context(), request.environ)
    if store is None:
        raise BadRequest(NO_RESPONSES)
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
    raise BadRequest(NO_COMPACTION.removeprefix("refused: "))


def cancel(name: str) -> Response:
    """Refuse `POST /v1/responses/{response}/cancel`."""
    raise BadRequest(
        f"{name[:100]!r} cannot be cancelled: this server makes no responses in the background; "
        "close the connection of a response to stop it"
    )
