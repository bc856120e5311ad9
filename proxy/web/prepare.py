"""What a client asks of a model, read from its dialect: the one internal request, the profile, and the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from proxy.codec.json_text import Json, JsonObject, dump_request, load_json
from proxy.config.rules import Profile
from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.request import ChatRequest, read_chat
from proxy.dialects.chat.writer import ChatOptions
from proxy.dialects.conversation_key import conversation_key
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.request import MessagesOptions, Translation, translate
from proxy.dialects.messages.writer import MessagesDialect
from proxy.errors import BadRequest
from proxy.upstream.model_list import served_name
from proxy.upstream.server_pool import ServerCandidates
from proxy.web.context import JSON_TYPE, PreparedRequest, RequestContext
from proxy.web.request_body import parse_body, upstream_headers

# How Claude Code calls itself.
_CLAUDE_CODE = "claude-cli/"


def prepare_chat(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Chat Completions request; it is the internal one. An alias of the rules gives it another model."""
    body, raw = parse_body(ctx.body, ctx.snapshot.settings.max_depth), ctx.body
    told = _conversation_key(body)
    model = body.get("model")
    other = ctx.snapshot.rules.alias(model) if isinstance(model, str) else model
    if other != model and not ctx.snapshot.settings.observe:
        body["model"] = other
        raw = dump_request(body)
    wanted = read_chat(raw, body)
    ctx.check_model(wanted.model)
    profile = ctx.snapshot.profile(wanted.model, ctx.client)
    ctx.way = ctx.snapshot.upstream.way(profile.servers, told)
    return PreparedRequest(wanted, profile, ChatDialect(_chat_options(wanted, profile)))


def prepare_messages(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Messages request, translated; what of it could not be carried is noted in the visit's outcome."""
    body = parse_body(ctx.body, ctx.snapshot.settings.max_depth)
    translation, profile, server = translated(ctx, environ, body, translate)
    ctx.outcome.asked = translation.dropped
    wanted = read_chat(dump_request(translation.body), translation.body)
    stops = body.get("stop_sequences")
    named = frozenset(stop for stop in stops if isinstance(stop, str)) if isinstance(stops, list) else frozenset()
    # llama.cpp repeats what the client began the answer with, but not in streams.
    prefill = translation.prefill if server == "llamacpp" and not wanted.stream else ""
    its_way = str(environ.get("HTTP_USER_AGENT", "")).startswith(_CLAUDE_CODE)
    dialect = MessagesDialect(ReplyOptions(str(body["model"]), named, ctx.id, prefill, leave_open=its_way))
    # Who asked for JSON did so also where the server is not told (C3).
    config = body.get("output_config")
    json_reply = bool(body.get("output_format") or (isinstance(config, dict) and config.get("format")))
    return PreparedRequest(replace(wanted, results=translation.results, json_reply=json_reply), profile, dialect)


def translated(
    ctx: RequestContext,
    environ: Mapping[str, Any],
    body: JsonObject,
    how: Callable[[JsonObject, MessagesOptions], Translation],
) -> tuple[Translation, Profile, str]:
    """A Messages body in chat completions, for the model that the upstream knows; that model's profile, and the kind of
    server.

    Raises BadRequest, and NotFound where it is not said which model is meant.
    """
    snapshot, model = ctx.snapshot, body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: the name of a model is required, as a string")
    headers = upstream_headers(environ, JSON_TYPE, ctx.id)
    ctx.way = snapshot.upstream.way(key=_conversation_key(body))
    served = served_name(model, snapshot.cards(headers, ctx.way), snapshot.rules)
    ctx.check_model(served)
    profile = snapshot.profile(served, ctx.client)
    if profile.servers:
        ctx.way = snapshot.upstream.way(profile.servers, _conversation_key(body))
    server = profile.server or snapshot.server_kind(headers, ctx.way)
    options = MessagesOptions(
        model=served,
        server=server,
        thinking=profile.thinking,
        reasoning_history=profile.reasoning_history,
        server_tools=profile.server_tools,
    )
    return how(body, options), profile, server


def way_as_it_came(ctx: RequestContext, model: str = "") -> ServerCandidates:
    """The way of a request that passes as it came: by `model`, or by the model and the messages that its body names."""
    fleet = ctx.snapshot.upstream
    if model:
        return fleet.way(ctx.snapshot.profile(model, ctx.client).servers)
    body: Json = None
    if fleet.several and ctx.body:
        with contextlib.suppress(ValueError):
            body = load_json(ctx.body)
    if not isinstance(body, dict):
        return fleet.way()
    named = body.get("model")
    servers = ctx.snapshot.profile(named, ctx.client).servers if isinstance(named, str) else ()
    return fleet.way(servers, _conversation_key(body))


def _conversation_key(body: JsonObject) -> Callable[[], bytes]:
    """What the conversation of a client's body is told by, once it is asked for."""
    model = body.get("model")
    return lambda: conversation_key(model if isinstance(model, str) else "", body)


def _chat_options(wanted: ChatRequest, profile: Profile) -> ChatOptions:
    return ChatOptions(
        model=wanted.model,
        usage=wanted.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=wanted.tools is not None,
        reasoning=profile.reasoning,
    )
