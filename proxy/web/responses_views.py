"""The views of the Responses dialect beside the response itself: its tokens counted, and what would need a store."""

from __future__ import annotations

from flask import Response, request

from proxy.codec.json_text import dump_json
from proxy.dialects.responses.request import translate_count
from proxy.dialects.token_count import HEADER, count
from proxy.errors import BadRequest
from proxy.web.context import json_response, request_context
from proxy.web.messages_views import ask
from proxy.web.prepare import translated
from proxy.web.request_body import parse_body


def input_tokens() -> Response:
    """`POST /v1/responses/input_tokens`: the number, and in a header the way it came."""
    ctx = request_context()
    body = parse_body(ctx.body, ctx.snapshot.settings.max_depth)
    given = translated(ctx, request.environ, body, translate_count)

    def post(path: str, data: bytes) -> tuple[int, bytes]:
        return ask("POST", path, data, given.server, given.headers)

    number, method = count(post, given.translation.body)
    response = json_response(dump_json({"object": "response.input_tokens", "input_tokens": number}))
    response.headers[HEADER] = method
    return response


def not_kept(name: str = "") -> Response:
    """What would need responses that are kept."""
    raise BadRequest(
        "this server keeps no responses; configure the client to send the whole conversation each time "
        "(`store: false`), and to compact it by an ordinary request (Codex: a provider that is not named OpenAI)"
    )
