"""A client's request, read from its dialect: one internal request, its server, and the way back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from proxy.audit_record import Repair
from proxy.codec.json_access import as_text
from proxy.codec.json_text import JsonObject, dump_request
from proxy.config.rules import Profile
from proxy.dialects.base import Dialect
from proxy.dialects.chat.answer import ChatDialect
from proxy.dialects.chat.request import ChatRequest, KnownFields, read_chat
from proxy.dialects.chat.writer import ChatOptions
from proxy.dialects.messages.blocks import ReplyOptions
from proxy.dialects.messages.request import translate
from proxy.dialects.messages.writer import MessagesDialect
from proxy.dialects.model_options import ModelOptions
from proxy.dialects.responses import output
from proxy.dialects.responses import request as responses
from proxy.dialects.responses.echo import echo
from proxy.dialects.responses.kept import Resumed, resume
from proxy.dialects.responses.writer import ResponsesDialect
from proxy.errors import BadRequest
from proxy.exchange.routing import choose_server, conversation_of
from proxy.healing.families import Family
from proxy.healing.heal import WANTS_REASONING, Healed, heal_request
from proxy.healing.parameters import Sampling
from proxy.healing.reasoning import field_back
from proxy.notations.thoughts import Thoughts
from proxy.upstream.client import ModelServer
from proxy.upstream.headers import CONVERSATION
from proxy.upstream.model_list import served_name
from proxy.web.admission import parse_body
from proxy.web.context import PreparedRequest, RequestContext
from proxy.web.headers import JSON_TYPE, fresh_id, owner_digest, upstream_headers
from proxy.web.thinking import switch_of, with_thinking
from proxy.worker.response_store import ResponseStore

# How Claude Code calls itself.
_CLAUDE_CODE = "claude-cli/"


class _Translation(Protocol):
    """A translated request: a chat request, and what is known of it."""

    @property
    def body(self) -> JsonObject:
        """The chat request."""

    @property
    def dropped(self) -> tuple[Repair, ...]:
        """A record for each kind of field that could not be carried."""

    @property
    def json_reply(self) -> bool:
        """True if the client asked for JSON."""


_Made = TypeVar("_Made", bound=_Translation)


@dataclass(frozen=True, slots=True)
class TranslatedRequest(Generic[_Made]):
    """A request in chat completions: where it goes, with which headers, and what kind of server is there.

    `body` is that of the translation in the words of the model's family, `audit` the records of both, and
    `thoughts` are the family's, in the text of the reply. `context` is how many tokens the model's context has, None
    where the server does not say.
    """

    translation: _Made
    body: JsonObject
    audit: tuple[Repair, ...]
    profile: Profile
    server: ModelServer
    server_kind: str
    headers: Mapping[str, str]
    context: int | None
    thoughts: Thoughts
    family: Family | None


def prepare_chat(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Chat Completions request; it is the internal one. An alias of the rules gives it another model."""
    body, raw = parse_body(ctx.body), ctx.body
    model = body.get("model")
    served = ctx.snapshot.rules.alias(model) if isinstance(model, str) else model
    headers = conversation_headers(ctx, environ, body, as_text(served))
    if served != model:
        body["model"] = served
        raw = dump_request(body)
    chat = read_chat(raw, body)
    ctx.check_model(chat.model)
    profile = ctx.snapshot.rules.profile(chat.model, ctx.client)
    dialect, server = ChatDialect(_chat_options(chat, profile)), model_server(ctx, chat.model)
    family = ctx.snapshot.family(chat.model, profile, headers, server)
    chat, thoughts = _thinking(ctx, chat, profile, family, as_text(model))
    return PreparedRequest(chat, profile, dialect, server, headers, thoughts, family)


def _thinking(
    ctx: RequestContext, chat: ChatRequest, profile: Profile, family: Family | None, requested: str
) -> tuple[ChatRequest, Thoughts]:
    """Return a chat request in the words of the model's family, and how reasoning is marked in its reply."""
    rewritten = with_thinking(chat.body, ctx.snapshot.rules, profile, family, requested=requested)
    ctx.outcome.translate_request(rewritten.audit)
    if rewritten.changed:
        chat = replace(chat, raw=dump_request(rewritten.body), body=rewritten.body)
    return chat, rewritten.thoughts


def prepare_messages(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Messages request, translated; what of it could not be carried is noted in the request's outcome.

    It may ask the model server which models it has.
    """
    body = parse_body(ctx.body)
    outgoing = translated(ctx, environ, body, translate)
    translation = outgoing.translation
    ctx.outcome.translate_request(outgoing.audit)
    chat = _read_translation(outgoing)
    # llama.cpp repeats what the client began the answer with, but not in streams.
    repeats = outgoing.server_kind == "llamacpp" and not chat.stream
    options = ReplyOptions(
        str(body["model"]),
        translation.stop_sequences,
        ctx.id,
        translation.prefill if repeats else "",
        leave_open=str(environ.get("HTTP_USER_AGENT", "")).startswith(_CLAUDE_CODE),
    )
    dialect = MessagesDialect(options)
    return _prepared(outgoing, chat, dialect)


def _prepared(outgoing: TranslatedRequest[_Made], chat: ChatRequest, dialect: Dialect) -> PreparedRequest:
    return PreparedRequest(
        chat, outgoing.profile, dialect, outgoing.server, outgoing.headers, outgoing.thoughts, outgoing.family
    )


def _read_translation(outgoing: TranslatedRequest[_Made]) -> ChatRequest:
    """The chat request of a translation; what the translation knows of it is not looked for again."""
    known = KnownFields(json_reply=outgoing.translation.json_reply)
    return read_chat(dump_request(outgoing.body), outgoing.body, known)


def prepare_responses(ctx: RequestContext, environ: Mapping[str, Any]) -> PreparedRequest:
    """A Responses request, translated; what of it could not be carried is noted in the request's outcome.

    It may ask the model server which models it has.
    """
    body = parse_body(ctx.body)
    request = resumed(ctx, environ, body)
    outgoing = translated(ctx, environ, request.body, responses.translate)
    translation = outgoing.translation
    ctx.outcome.translate_request(outgoing.audit)
    chat = _read_translation(outgoing)
    limit = outgoing.body.get("max_tokens")
    options = output.ReplyOptions(
        fresh_id(12),
        echo(request.body) | request.echo,
        translation.tools,
        limit if isinstance(limit, int) else None,
        outgoing.context,
        int(time.time()),
        lambda: int(time.time()),
        _keeper(ctx, environ, request),
    )
    dialect = ResponsesDialect(options)
    return _prepared(outgoing, chat, dialect)


def response_store(ctx: RequestContext, environ: Mapping[str, Any]) -> ResponseStore | None:
    """Return the responses kept for the client's key, or None if nothing is kept.

    A key that only the client knows counts as well.
    """
    if not ctx.worker.keeps or ctx.snapshot.settings.store == "off":
        return None
    digest = owner_digest(environ) if ctx.key is None else ctx.key.digest
    return ResponseStore(ctx.worker.shared, digest.hex())


def resumed(ctx: RequestContext, environ: Mapping[str, Any], body: JsonObject) -> Resumed:
    """Return a Responses request with everything that it refers to; unchanged where nothing is kept."""
    store = response_store(ctx, environ)
    if store is None:
        return Resumed(body)
    return resume(body, store)


def _keeper(ctx: RequestContext, environ: Mapping[str, Any], request: Resumed) -> Callable[[JsonObject], None] | None:
    """Return a function that stores the response, or None if it should not be kept."""
    store = response_store(ctx, environ)
    if store is None or not request.keep:
        return None
    return lambda response: store.keep(response, request.items)


def translated(
    ctx: RequestContext,
    environ: Mapping[str, Any],
    body: JsonObject,
    translate_body: Callable[[JsonObject, ModelOptions], _Made],
) -> TranslatedRequest[_Made]:
    """A body of a dialect that is translated, in chat completions, for the model that the upstream knows.

    Asks the model server for its models where that is not known. Raises BadRequest, and NotFound where it is not said
    which model is meant.
    """
    snapshot, model = ctx.snapshot, body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: the name of a model is required, as a string", "model")
    # A claude-* name means the only model of the settings' server; the rules may say where that one really is.
    cards = snapshot.cards(conversation_headers(ctx, environ, body, None), model_server(ctx))
    served = served_name(model, cards, snapshot.rules)
    ctx.check_model(served)
    profile, server = snapshot.rules.profile(served, ctx.client), model_server(ctx, served)
    headers = conversation_headers(ctx, environ, body, served)
    kind = profile.server_kind or snapshot.server_kind(headers, server)
    family = snapshot.family(served, profile, headers, server)
    options = ModelOptions(
        model=served,
        server_kind=kind,
        thinking=switch_of(snapshot.rules, profile, served, family),
        reasoning_history=_reasoning_history(ctx, served, family),
        server_tools=profile.server_tools or "",
    )
    context = next((card.max_len for card in cards if card.id == served), None)
    translation = translate_body(body, options)
    rewritten = with_thinking(translation.body, snapshot.rules, profile, family, requested=model)
    audit = (*translation.dropped, *rewritten.audit)
    return TranslatedRequest(
        translation, rewritten.body, audit, profile, server, kind, headers, context, rewritten.thoughts, family
    )


def _reasoning_history(ctx: RequestContext, model: str, family: Family | None) -> str:
    """Where a translated client's earlier thinking goes (F74)."""
    wants_reasoning = WANTS_REASONING in ctx.heal_plan(model, family).ids
    return field_back(family, wanted=wants_reasoning)


def healed_conversation(ctx: RequestContext, chat: JsonObject, family: Family | None = None) -> Healed:
    """A conversation of which a client wants the tokens, as the healings make it: what is counted is what goes up."""
    plan = replace(ctx.heal_plan(as_text(chat.get("model")), family), sampling=Sampling())
    with contextlib.suppress(Exception):  # a defect of the healing leaves the request as it came (contract C6)
        return heal_request(chat, plan)
    return Healed(chat)


def model_server(ctx: RequestContext, model: str | None = None) -> ModelServer:
    """The server of a model, by the name that servers know; None: of no model in particular."""
    return ctx.snapshot.servers[choose_server(model, ctx.snapshot.rules, ctx.snapshot.settings)]


def conversation_headers(
    ctx: RequestContext, environ: Mapping[str, Any], body: JsonObject, model: str | None
) -> dict[str, str]:
    """Return the headers of a conversation's requests to the server of a model; None is the main server.

    They include the header that keeps the conversation at one of several equal servers, and the server's key.
    """
    own = {CONVERSATION: conversation_of(body)}
    return upstream_headers(environ, JSON_TYPE, ctx.id, ctx.server_key(model), own)


def _chat_options(chat: ChatRequest, profile: Profile) -> ChatOptions:
    return ChatOptions(
        model=chat.model,
        usage=chat.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=chat.tools is not None,
        reasoning=profile.reasoning,
        calls_as_text=profile.calls == "text",
    )
