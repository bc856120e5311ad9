"""What a client asks of a model, read from its dialect: the one internal request, the profile, and the way back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .balance import conversation
from .dialects.chat import ChatOptions
from .dialects.chat_whole import ChatDialect
from .dialects.messages import MessagesDialect
from .dialects.messages_blocks import MessagesAsked
from .dialects.messages_request import MessagesOptions, Translation, translate
from .errors import BadRequest
from .events import Json, JsonObject, load_json
from .fleet import Way
from .intake import parse_body, upstream_headers
from .models import served_name
from .rewrite import ChatRequest, dump_request, read_chat
from .rules import Profile
from .visit import JSON_TYPE, Asked, Visit

# How Claude Code calls itself.
_CLAUDE_CODE = "claude-cli/"


def ask_chat(now: Visit, environ: Mapping[str, Any]) -> Asked:
    """A Chat Completions request; it is the internal one. An alias of the rules gives it another model."""
    body, raw = parse_body(now.body, now.snapshot.settings.max_depth), now.body
    told = _told(body)
    model = body.get("model")
    other = now.snapshot.rules.alias(model) if isinstance(model, str) else model
    if other != model and not now.snapshot.settings.observe:
        body["model"] = other
        raw = dump_request(body)
    wanted = read_chat(raw, body)
    now.check_model(wanted.model)
    profile = now.snapshot.profile(wanted.model, now.client)
    now.way = now.snapshot.upstream.way(profile.servers, told)
    return Asked(wanted, profile, ChatDialect(_chat_options(wanted, profile)))


def ask_messages(now: Visit, environ: Mapping[str, Any]) -> Asked:
    """A Messages request, translated; what of it could not be carried is noted in the visit's outcome."""
    body = parse_body(now.body, now.snapshot.settings.max_depth)
    translation, profile, server = translated(now, environ, body, translate)
    now.outcome.asked = translation.dropped
    wanted = read_chat(dump_request(translation.body), translation.body)
    stops = body.get("stop_sequences")
    named = frozenset(stop for stop in stops if isinstance(stop, str)) if isinstance(stops, list) else frozenset()
    # llama.cpp repeats what the client began the answer with, but not in streams.
    prefill = translation.prefill if server == "llamacpp" and not wanted.stream else ""
    its_way = str(environ.get("HTTP_USER_AGENT", "")).startswith(_CLAUDE_CODE)
    dialect = MessagesDialect(MessagesAsked(str(body["model"]), named, now.id, prefill, leave_open=its_way))
    # Who asked for JSON did so also where the server is not told (C3).
    config = body.get("output_config")
    json_reply = bool(body.get("output_format") or (isinstance(config, dict) and config.get("format")))
    return Asked(replace(wanted, results=translation.results, json_reply=json_reply), profile, dialect)


def translated(
    now: Visit,
    environ: Mapping[str, Any],
    body: JsonObject,
    how: Callable[[JsonObject, MessagesOptions], Translation],
) -> tuple[Translation, Profile, str]:
    """A Messages body in chat completions, for the model that the upstream knows; that model's profile, and the kind of
    server.

    Raises BadRequest, and NotFound where it is not said which model is meant.
    """
    snapshot, model = now.snapshot, body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: the name of a model is required, as a string")
    headers = upstream_headers(environ, JSON_TYPE, now.id)
    now.way = snapshot.upstream.way(key=_told(body))
    served = served_name(model, snapshot.cards(headers, now.way), snapshot.rules)
    now.check_model(served)
    profile = snapshot.profile(served, now.client)
    if profile.servers:
        now.way = snapshot.upstream.way(profile.servers, _told(body))
    server = profile.server or snapshot.server_kind(headers, now.way)
    options = MessagesOptions(
        model=served,
        server=server,
        thinking=profile.thinking,
        reasoning_history=profile.reasoning_history,
        server_tools=profile.server_tools,
    )
    return how(body, options), profile, server


def way_as_it_came(now: Visit, model: str = "") -> Way:
    """The way of a request that passes as it came: by `model`, or by the model and the messages that its body names."""
    fleet = now.snapshot.upstream
    if model:
        return fleet.way(now.snapshot.profile(model, now.client).servers)
    body: Json = None
    if fleet.several and now.body:
        with contextlib.suppress(ValueError):
            body = load_json(now.body)
    if not isinstance(body, dict):
        return fleet.way()
    named = body.get("model")
    servers = now.snapshot.profile(named, now.client).servers if isinstance(named, str) else ()
    return fleet.way(servers, _told(body))


def _told(body: JsonObject) -> Callable[[], bytes]:
    """What the conversation of a client's body is told by, once it is asked for."""
    model = body.get("model")
    return lambda: conversation(model if isinstance(model, str) else "", body)


def _chat_options(wanted: ChatRequest, profile: Profile) -> ChatOptions:
    return ChatOptions(
        model=wanted.model,
        usage=wanted.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=wanted.tools is not None,
        reasoning=profile.reasoning,
    )
