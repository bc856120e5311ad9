"""Where a request goes, and by which header it stays there. Sans-IO; asked once for each request.

A model has one URL: that of its entry in the rules (`models[].url`), else that of the settings (`upstream`). Behind a
URL there may be several equal servers, and what stands before them (HAProxy, vLLM's router) chooses among them. It
keeps a conversation at one server, whose cache then has its beginning, by a header that all requests of a conversation
share (docs/scale.md):

    X-Conversation-Key: 3f9c0d5b6a1e4f7788aa90bb12cd34ef
"""

from __future__ import annotations

from proxy.codec.json_text import JsonObject
from proxy.config.api_keys import Keys
from proxy.config.rules import SAME_KEY, Model, Rules
from proxy.config.settings import Settings, origin
from proxy.dialects.conversation_key import conversation_key


def choose_server(model: str | None, rules: Rules, settings: Settings) -> str:
    """The URL of the server for a model, by the name under which servers know it; None is no model in particular."""
    if model is None:
        return settings.upstream
    return server_of(rules.entry(model), settings)


def server_of(entry: Model, settings: Settings) -> str:
    """The URL of the server for the models of an entry of the rules."""
    return entry.url or settings.upstream


def keyless(rules: Rules, settings: Settings) -> tuple[Model, ...]:
    """Return the entries that are on another server than the main one and name no key for it."""
    return tuple(entry for entry in rules.models if not entry.key and not _is_main(entry, settings))


def server_key(entry: Model, settings: Settings, keys: Keys, main: str) -> str:
    """Return the key for the server of an entry, or "". `main` is the key that the main server gets.

    A key goes only to the server that it was given for: another scheme, host or port gets the key that its entry names.
    """
    if entry.key and entry.key != SAME_KEY:
        return keys.named.get(entry.key, "")
    return main if entry.key or _is_main(entry, settings) else ""


def _is_main(entry: Model, settings: Settings) -> bool:
    return not entry.url or origin(entry.url) == origin(settings.upstream)


def conversation_of(body: JsonObject) -> str:
    """The key of a client's conversation, whatever the dialect: a digest in hex, and no text.

    It is that of the client's own words: the model as it calls it, the first system and the first user message. Empty
    where there is no such message.
    """
    model = body.get("model")
    name = model if isinstance(model, str) else ""
    return conversation_key(name, body).hex()
