"""Forwards requests for paths that the model server answers. Only headers change."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from flask import Response

from proxy.errors import BadRequest, LimitExceeded
from proxy.exchange.plan import conversation_of
from proxy.json import Json, JsonObject, as_list, as_text, dump_request, load_json
from proxy.limits import MAX_ANSWER, REPLY_SECONDS
from proxy.secrets import masked, masked_text
from proxy.upstream.answer_wait import Timeouts
from proxy.upstream.api import COMPLETIONS, CONVERSATION, TOKENIZE
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
    body = PassedBody(ctx, path)
    model = model or body.model()
    headers = body.headers(request.environ, model)
    data = body.upward(headers) if ctx.body or ctx.method not in ("GET", "HEAD") else None
    method = "GET" if ctx.method == "HEAD" else ctx.method
    if not _QUERY.fullmatch(query):
        raise BadRequest("the query of the URL contains invalid characters")
    target = f"{path}?{query}" if query else path
    call = model_server(ctx, model).open(method, target, headers, data, wait.connecting())
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


class PassedBody:
    """The body of a request to `path`. It may be large, so it is parsed at most once and only if a field matters."""

    def __init__(self, ctx: RequestContext, path: str) -> None:
        self._ctx, self._path, self._data = ctx, path, ctx.body

    @cached_property
    def _fields(self) -> JsonObject:
        """The fields of the body; empty if it is not an object."""
        body: Json = None
        with contextlib.suppress(ValueError):
            body = load_json(self._data)
        return body if isinstance(body, dict) else {}

    @cached_property
    def _has_messages(self) -> bool:
        """True if the body has `messages`. It is not parsed if the word does not occur, except for `/tokenize`."""
        return (self._path == TOKENIZE or b'"messages"' in self._data) and "messages" in self._fields

    def model(self) -> str | None:
        """Return the model that the body names, or None if the model does not affect the server or the key."""
        rules = self._ctx.snapshot.rules
        if not self._data or not (rules.urls or rules.key_sources):
            return None
        model = self._fields.get("model")
        return model if isinstance(model, str) else None

    def headers(self, environ: Mapping[str, Any], model: str | None) -> dict[str, str]:
        """Return the headers to send upstream, with the API key for the server of `model` and the conversation key.

        Embeddings, tokens and empty bodies have no conversation.
        """
        ctx, conversation = self._ctx, ""
        if self._has_messages:
            conversation = conversation_of(self._fields)
        elif self._path == COMPLETIONS and self._data:
            # Unlike messages, prompts do not continue each other: only equal prompts are the same conversation.
            prompt = self._fields.get("prompt")
            texts = [prompt] if isinstance(prompt, str) else as_list(prompt)
            said: Json = [{"role": "user", "content": "\n".join(text for text in texts if isinstance(text, str))}]
            conversation = conversation_of({"model": self._fields.get("model"), "messages": said})
        content_type = environ.get("CONTENT_TYPE", "")
        return upstream_headers(environ, content_type, ctx.id, ctx.server_key(model), {CONVERSATION: conversation})

    def upward(self, headers: Mapping[str, str]) -> bytes:
        """Return the bytes to send upstream: the client's body, or a healed conversation for `/tokenize`.

        `headers` are those of the request. They are also used to ask the server for its models.
        """
        if self._path != TOKENIZE or not self._has_messages:
            return self._data
        ctx, model = self._ctx, as_text(self._fields.get("model"))
        profile = ctx.snapshot.rules.profile(model, ctx.client)
        family = ctx.snapshot.family(model, profile, headers, model_server(ctx, model))
        healed = healed_conversation(ctx, self._fields, family)
        return dump_request(healed.body) if healed.changed else self._data
