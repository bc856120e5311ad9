"""What a client asks of a model, read from its dialect: one internal request, its server, and the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json, JsonObject, dump_request, load_json
from proxy.config.rules import Profile
from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.dialects.chat.writer import ChatOptions
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.request import MessagesOptions, Translation, translate
from proxy.dialects.messages.writer import MessagesDialect
from proxy.errors import BadRequest
from proxy.exchange.routing import choose_server, conversation_of
from proxy.formats.reasoning import Thoughts
from proxy.upstream.client import ModelServer
from proxy.upstream.model_list import served_name
from proxy.web.context import PreparedRequest, RequestContext
from proxy.web.headers import JSON_TYPE, upstream_headers
from proxy.web.request_body import parse_body
from proxy.web.thinking import with_thinking

# How Claude Code calls itself.
_CLAUDE_CODE = "claude-cli/"


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """A Messages request in chat completions: where it goes, with which headers, and what kind of server is there."""

    translation: Translation
    profile: Profile
    server: ModelServer
    server_kind: str
    headers: Mapping[str, str]
    thoughts: Thoughts


def prepare_chat(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Chat Completions request; it is the internal one. An alias of the rules gives it another model."""
    body, raw = parse_body(ctx.body, ctx.snapshot.settings.max_depth), ctx.body
    headers = conversation_headers(ctx, environ, body)
    model = body.get("model")
    other = ctx.snapshot.rules.alias(model) if isinstance(model, str) else model
    if other != model and not ctx.snapshot.settings.observe:
        body["model"] = other
        raw = dump_request(body)
    wanted = read_chat(raw, body)
    ctx.check_model(wanted.model)
    profile = ctx.snapshot.profile(wanted.model, ctx.client)
    dialect = ChatDialect(_chat_options(wanted, profile))
    prepared = PreparedRequest(wanted, profile, dialect, model_server(ctx, wanted.model), headers)
    if ctx.snapshot.settings.observe:
        return prepared
    return _thinking(ctx, prepared, as_text(model))


def _thinking(ctx: RequestContext, prepared: PreparedRequest, asked: str) -> PreparedRequest:
    """A chat request in the words of the model's family."""
    wanted = prepared.chat
    made = with_thinking(wanted.body, ctx.snapshot.rules, prepared.profile, model=wanted.model, asked=asked)
    ctx.outcome.asked = made.told
    if made.body is not wanted.body:
        wanted = replace(wanted, raw=dump_request(made.body), body=made.body)
    return replace(prepared, chat=wanted, thoughts=made.thoughts)


def prepare_messages(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Messages request, translated; what of it could not be carried is noted in the request's outcome.

    It may ask the model server which models it has.
    """
    body = parse_body(ctx.body, ctx.snapshot.settings.max_depth)
    given = translated(ctx, environ, body, translate)
    translation = given.translation
    ctx.outcome.asked = translation.dropped
    wanted = read_chat(dump_request(translation.body), translation.body)
    wanted = replace(wanted, results=translation.results, json_reply=_wants_json(body))
    # llama.cpp repeats what the client began the answer with, but not in streams.
    repeats = given.server_kind == "llamacpp" and not wanted.stream
    options = ReplyOptions(
        str(body["model"]),
        _stop_sequences(body),
        ctx.id,
        translation.prefill if repeats else "",
        leave_open=str(environ.get("HTTP_USER_AGENT", "")).startswith(_CLAUDE_CODE),
    )
    return PreparedRequest(
        wanted, given.profile, MessagesDialect(options), given.server, given.headers, given.thoughts
    )


def _stop_sequences(body: JsonObject) -> frozenset[str]:
    """The stop sequences that a Messages client names."""
    stops = body.get("stop_sequences")
    if not isinstance(stops, list):
        return frozenset()
    return frozenset(stop for stop in stops if isinstance(stop, str))


def _wants_json(body: JsonObject) -> bool:
    """True if a Messages client asked for JSON; it did so also where the server is not told (C3)."""
    if body.get("output_format"):
        return True
    config = body.get("output_config")
    return isinstance(config, dict) and bool(config.get("format"))


def translated(
    ctx: RequestContext,
    environ: Mapping[str, Any],
    body: JsonObject,
    how: Callable[[JsonObject, MessagesOptions], Translation],
) -> TranslatedRequest:
    """A Messages body in chat completions, for the model that the upstream knows.

    Asks the model server for its models where that is not known. Raises BadRequest, and NotFound where it is not said
    which model is meant.
    """
    snapshot, model = ctx.snapshot, body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: the name of a model is required, as a string")
    headers = conversation_headers(ctx, environ, body)
    # A claude-* name means the only model of the settings' server; the rules may say where that one really is.
    served = served_name(model, snapshot.cards(headers), snapshot.rules)
    ctx.check_model(served)
    profile, server = snapshot.profile(served, ctx.client), model_server(ctx, served)
    kind = profile.server or snapshot.server_kind(headers, server)
    options = MessagesOptions(
        model=served,
        server=kind,
        thinking=profile.thinking,
        reasoning_history="reasoning_content" if profile.reasoning_history == "auto" else profile.reasoning_history,
        server_tools=profile.server_tools,
    )
    made = how(body, options)
    said = with_thinking(made.body, snapshot.rules, profile, model=served, asked=model)
    made = replace(made, body=said.body, dropped=(*made.dropped, *said.told))
    return TranslatedRequest(made, profile, server, kind, headers, said.thoughts)


def model_server(ctx: RequestContext, model: str | None = None) -> ModelServer:
    """The server of a model, by the name that servers know; None: of no model in particular."""
    return ctx.snapshot.server(choose_server(model, ctx.snapshot.rules, ctx.snapshot.settings))


def conversation_headers(ctx: RequestContext, environ: Mapping[str, Any], body: JsonObject) -> dict[str, str]:
    """The headers of all that goes up for a conversation, with the one that keeps it at one of several servers."""
    name = ctx.snapshot.settings.conversation_header
    own = {name: conversation_of(body)} if name else {}
    return upstream_headers(environ, JSON_TYPE, ctx.id, own)


def named_model(ctx: RequestContext) -> str | None:
    """The model of a body that passes as it came, if it decides where that goes."""
    if not ctx.body or not ctx.snapshot.rules.urls:
        return None
    body: Json = None
    with contextlib.suppress(ValueError):
        body = load_json(ctx.body)
    model = body.get("model") if isinstance(body, dict) else None
    return model if isinstance(model, str) else None


def _chat_options(wanted: ChatRequest, profile: Profile) -> ChatOptions:
    return ChatOptions(
        model=wanted.model,
        usage=wanted.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=wanted.tools is not None,
        reasoning=profile.reasoning,
    )
