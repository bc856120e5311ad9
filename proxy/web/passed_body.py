"""The body of a path that passes as it came: what is in it decides where it goes, and by which headers.

It is read only where something in it may count, and once: a batch of texts to embed has megabytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from proxy.codec.json_access import as_list, as_text
from proxy.codec.json_text import Json, JsonObject, dump_request, load_json
from proxy.exchange.routing import conversation_of
from proxy.upstream.headers import CONVERSATION
from proxy.upstream.paths import COMPLETIONS, TOKENIZE
from proxy.web.context import RequestContext
from proxy.web.headers import upstream_headers
from proxy.web.prepare import healed_conversation, model_server


class PassedBody:
    """The body of one request. `path` is the one that it goes to."""

    def __init__(self, ctx: RequestContext, path: str) -> None:
        self._ctx, self._path, self._data = ctx, path, ctx.body

    @cached_property
    def _fields(self) -> JsonObject:
        """The object that the body is, read when first asked for; empty if it is none."""
        body: Json = None
        with contextlib.suppress(ValueError):
            body = load_json(self._data)
        return body if isinstance(body, dict) else {}

    def model(self) -> str | None:
        """Return the model that the body names, if it decides the server or its key."""
        rules = self._ctx.snapshot.rules
        if not self._data or not (rules.urls or rules.key_sources):
            return None
        model = self._fields.get("model")
        return model if isinstance(model, str) else None

    def headers(self, environ: Mapping[str, Any], model: str | None) -> dict[str, str]:
        """Return the headers sent upstream, with the key for the server of `model`.

        A body with messages, or a text to complete, has the header of its conversation.
        """
        ctx = self._ctx
        own = {CONVERSATION: self._conversation()}
        return upstream_headers(environ, environ.get("CONTENT_TYPE", ""), ctx.id, ctx.server_key(model), own)

    def upward(self, headers: Mapping[str, str]) -> bytes:
        """Return the bytes to send upstream: those of the client, but a conversation whose tokens are counted is healed
        as that of a chat request. `headers` are the request's, with which the server may be asked for its models.
        """
        if self._path != TOKENIZE or not self._has_messages():
            return self._data
        ctx, model = self._ctx, as_text(self._fields.get("model"))
        profile = ctx.snapshot.rules.profile(model, ctx.client)
        family = ctx.snapshot.family(model, profile, headers, model_server(ctx, model))
        healed = healed_conversation(ctx, self._fields, family)
        return dump_request(healed.body) if healed.changed else self._data

    def _conversation(self) -> str:
        """The key of its conversation; "" for what has none: texts to embed, tokens, no body."""
        if self._has_messages():
            return conversation_of(self._fields)
        if self._path != COMPLETIONS or not self._data:
            return ""
        # A prompt is not the beginning of the next one, as a message is: the same prompt is the same conversation.
        prompt = self._fields.get("prompt")
        texts = [prompt] if isinstance(prompt, str) else as_list(prompt)
        said: Json = [{"role": "user", "content": "\n".join(text for text in texts if isinstance(text, str))}]
        return conversation_of({"model": self._fields.get("model"), "messages": said})

    def _has_messages(self) -> bool:
        """True if the body holds a conversation; one without the word is not read, unless its tokens are counted."""
        if self._path != TOKENIZE and b'"messages"' not in self._data:
            return False
        return "messages" in self._fields
