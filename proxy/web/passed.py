"""Forwards requests for paths that the model server answers. Only headers change."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace

from flask import Response

from proxy.dialects.chat.request import conversation_key
from proxy.errors import BadRequest, LimitExceeded
from proxy.json import Json, JsonObject, as_list, as_object, as_text, dump_request, load_json
from proxy.limits import MAX_ANSWER, REPLY_SECONDS
from proxy.secrets import masked, masked_text
from proxy.upstream.answer_wait import Timeouts
from proxy.upstream.api import COMPLETIONS, TOKENIZE
from proxy.upstream.client import UpstreamCall
from proxy.upstream.responses import KNOWN, PassthroughResponse, decoded, error_of_response, pass_through
from proxy.web.answer import sent
from proxy.web.context import RequestContext, current_request
from proxy.web.headers import upstream_headers
from proxy.web.prepare import healed_conversation, model_server

_QUERY = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]{0,4096}")


def passed(path: str, model: str | None = None) -> Response:
    """Forward a request upstream and return the response. `model` is the model in the path, if any."""
    request = current_request()
    ctx, query = request.context, request.query_string.decode("latin-1")
    wait = ctx.wait(Timeouts(ctx.snapshot.settings.idle_timeout, total=REPLY_SECONDS))
    rules, content_type = ctx.snapshot.rules, request.environ.get("CONTENT_TYPE", "")
    routed = bool(rules.urls or rules.key_sources)
    fields = _fields(ctx, path, routed=routed)
    if model is None and routed:
        named = fields.get("model")
        model = named if isinstance(named, str) else None
    conversation = _conversation(path, fields)
    headers = upstream_headers(request.environ, content_type, ctx.id, ctx.server_key(model), conversation)
    data: bytes | None = ctx.body
    if path == TOKENIZE and "messages" in fields:
        data = _healed(ctx, fields, headers)
    elif not data and ctx.method in ("GET", "HEAD"):
        data = None
    method = "GET" if ctx.method == "HEAD" else ctx.method
    if not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL contains invalid characters")
    target = f"{path}?{query}" if query else path
    wait.give_way()
    call = model_server(ctx, model).open(method, target, headers, data)
    try:
        answer = pass_through(call, wait)
        if answer.status >= 400:
            answer = _passed_error(ctx, call, answer)
    except BaseException:
        call.close()
        raise
    ctx.first_byte = time.monotonic()
    sized = [] if answer.length is None else [("Content-Length", str(answer.length))]
    response = Response(sent(ctx, answer.parts), answer.status, [*answer.headers, *sized])
    if not call.header("Content-Type"):
        # Flask would add text/html, and a browser would guess a type.
        del response.headers["Content-Type"]
        response.headers["X-Content-Type-Options"] = "nosniff"
    response.call_on_close(call.close)
    return response


def _passed_error(ctx: RequestContext, call: UpstreamCall, answer: PassthroughResponse) -> PassthroughResponse:
    """Return an error response with its body read, decompressed and masked.

    Raises an error without the body if its compression is unknown, because the body may quote a key.
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


def _fields(ctx: RequestContext, path: str, *, routed: bool) -> JsonObject:
    """Return the fields of a body, or {} if none matters: it may be large, so it is then not parsed.

    `routed`: its model decides about the server or the key.
    """
    if routed or path in (COMPLETIONS, TOKENIZE) or b'"messages"' in ctx.body:
        with contextlib.suppress(ValueError):
            return as_object(load_json(ctx.body))
    return {}


def _conversation(path: str, fields: JsonObject) -> str:
    """Return the conversation key of a body, or "": embeddings, tokens and empty bodies have no conversation."""
    if "messages" in fields:
        return conversation_key(fields)
    if path != COMPLETIONS:
        return ""
    # Unlike messages, prompts do not continue each other: only equal prompts are the same conversation.
    prompt = fields.get("prompt")
    texts = [prompt] if isinstance(prompt, str) else as_list(prompt)
    said: Json = [{"role": "user", "content": "\n".join(text for text in texts if isinstance(text, str))}]
    return conversation_key({"model": fields.get("model"), "messages": said})


def _healed(ctx: RequestContext, fields: JsonObject, headers: Mapping[str, str]) -> bytes:
    """Return the body of a request to count the tokens of a conversation, healed as for a completion.

    `headers` are those of the request. They are also used to ask the server for its models.
    """
    model = as_text(fields.get("model"))
    profile = ctx.snapshot.rules.profile(model, ctx.client)
    family = ctx.snapshot.family(model, profile, headers, model_server(ctx, model))
    healed = healed_conversation(ctx, fields, family)
    return dump_request(healed.body) if healed.changed else ctx.body
