"""Converts requests in three dialects to the internal form, with server, headers and reply dialect."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from functools import partial

from proxy.config.rules import Thinking
from proxy.dialects.base import Dialect
from proxy.dialects.chat.answer import ChatOptions
from proxy.dialects.chat.request import ChatRequest, conversation_key, read_chat
from proxy.dialects.chat.writer import ChatWriter
from proxy.dialects.messages import request as messages
from proxy.dialects.messages.writer import MessagesWriter, ReplyOptions
from proxy.dialects.responses import request as responses
from proxy.dialects.responses.kept import resume
from proxy.dialects.responses.writer import ReplyOptions as ResponsesOptions
from proxy.dialects.responses.writer import ResponsesWriter, echo
from proxy.dialects.translation import OWN_WORDS, ModelOptions
from proxy.errors import BadRequest
from proxy.exchange.plan import server_of
from proxy.healing.families import Family
from proxy.healing.heal import WANTS_REASONING, heal_request
from proxy.healing.parameters import Sampling
from proxy.healing.reasoning import ThinkingRequest, field_back, think
from proxy.json import JsonObject, as_list, as_text, dump_request
from proxy.notations.thoughts import Thoughts
from proxy.server.shared_file import ResponseStore
from proxy.upstream.client import ModelServer
from proxy.upstream.model_list import served_name
from proxy.web.admission import parse_body
from proxy.web.context import PreparedRequest, RequestContext, TargetModel
from proxy.web.headers import JSON_TYPE, fresh_id


def prepare_chat(ctx: RequestContext) -> PreparedRequest:
    """Prepare a Chat Completions request, which is already in the internal form. An alias changes its model."""
    body, raw = parse_body(ctx.body), ctx.body
    model, rules = body.get("model"), ctx.snapshot.rules
    served = rules.alias(model) if isinstance(model, str) else model
    conversation = conversation_key(body)
    if served != model:
        body["model"] = served
        raw = dump_request(body)
    chat = read_chat(raw, body)
    target = _target(ctx, as_text(model), chat.model, conversation)
    profile = target.profile
    options = ChatOptions(
        model=chat.model,
        usage=chat.usage,
        clean=profile.clean,
        heartbeat_chunk=profile.heartbeat == "chunk",
        parsed=chat.tools is not None,
        reasoning=profile.reasoning,
        calls_as_text=profile.calls == "text",
    )
    rewritten = thinking(ctx, target, chat.body)
    ctx.outcome.request_audit = rewritten.audit
    if rewritten.body is not chat.body:
        chat = replace(chat, raw=dump_request(rewritten.body), body=rewritten.body)
    return PreparedRequest(target, chat, Dialect(partial(ChatWriter, options), verbatim=True), rewritten.thoughts)


def prepare_messages(ctx: RequestContext) -> PreparedRequest:
    """Translate a Messages request. This may request the model server's list of models."""
    body = parse_body(ctx.body)
    target, model = find_model(ctx, body)
    made = messages.translate(body, model)
    chat, thoughts = _translated(ctx, target, made)
    # llama.cpp repeats the client's prefill at the start of a whole answer, but not in streams.
    repeats = model.server_kind == "llamacpp" and not chat.stream
    options = ReplyOptions(
        target.requested,
        made.stop_sequences,
        ctx.id,
        made.prefill if repeats else "",
        leave_open=ctx.user_agent.startswith("claude-cli/"),
    )
    return PreparedRequest(target, chat, Dialect(partial(MessagesWriter, options)), thoughts)


def prepare_responses(ctx: RequestContext) -> PreparedRequest:
    """Translate a Responses request. This may request the model server's list of models."""
    store = response_store(ctx)
    request = resume(parse_body(ctx.body), store)
    target, model = find_model(ctx, request.body)
    made = responses.translate(request.body, model)
    chat, thoughts = _translated(ctx, target, made)
    limit = chat.body.get("max_tokens")
    options = ResponsesOptions(
        fresh_id(12),
        echo(request.body) | request.echo,
        made.tools,
        limit if isinstance(limit, int) else None,
        target.context,
        int(time.time()),
        lambda: int(time.time()),
        None if store is None or not request.keep else partial(store.keep, items=as_list(request.body["input"])),
    )
    dialect = Dialect(partial(ResponsesWriter, options), keeps=options.keep is not None)
    return PreparedRequest(target, chat, dialect, thoughts)


def _translated(
    ctx: RequestContext, target: TargetModel, made: messages.Translation | responses.Translation
) -> tuple[ChatRequest, Thoughts]:
    """Return the chat request for a translated one, and how reasoning is marked in the text of its reply."""
    rewritten = thinking(ctx, target, made.body)
    ctx.outcome.request_audit = (*made.dropped, *rewritten.audit)
    chat = read_chat(dump_request(rewritten.body), rewritten.body)
    return replace(chat, json_reply=made.json_reply), rewritten.thoughts


def thinking(ctx: RequestContext, target: TargetModel, body: JsonObject) -> ThinkingRequest:
    """Return a body with the reasoning settings in the form of the model's family."""
    suffix = ctx.snapshot.rules.thinking_suffix(target.requested)
    return think(body, target.family, target.profile.thinking, suffix)


def response_store(ctx: RequestContext) -> ResponseStore | None:
    """Return the store of responses for the client's key, or None if responses are not stored.

    The key need not be one of the configured client keys.
    """
    if not ctx.worker.keeps or ctx.snapshot.settings.store == "off":
        return None
    return ResponseStore(ctx.worker.shared, ctx.owner.hex() if ctx.key is None else ctx.key.digest)


def find_model(ctx: RequestContext, body: JsonObject) -> tuple[TargetModel, ModelOptions]:
    """Return the model that a request to translate means. This may request the model server's list of models.

    Raises BadRequest, Forbidden, and NotFound if the name is ambiguous.
    """
    snapshot, model = ctx.snapshot, body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model: the name of a model is required, as a string", "model")
    # A claude-* name means the only model of the main server. The rules may then route that model elsewhere.
    conversation = conversation_key(body)
    cards = snapshot.cards(ctx.upstream_headers(None, JSON_TYPE, conversation), model_server(ctx))
    served = served_name(model, cards, snapshot.rules)
    context = next((card.max_len for card in cards if card.id == served), None)
    target = _target(ctx, model, served, conversation, context)
    wants_reasoning = WANTS_REASONING in ctx.heal_plan(served, target.family).ids
    options = ModelOptions(
        model=served,
        server_kind=target.server_kind(snapshot),
        thinking=switch_of(snapshot.rules.entry(served).thinking, target.family),
        reasoning_history=field_back(target.family, wanted=wants_reasoning),  # (F74)
        server_tools=target.profile.server_tools or "",
    )
    return target, options


def _target(
    ctx: RequestContext, requested: str, model: str, conversation: str, context: int | None = None
) -> TargetModel:
    """Return the model with this upstream name. Raises Forbidden if the client key may not use it.

    By the key of the `conversation`, a load balancer keeps the conversation at one server.
    """
    ctx.check_model(model)
    profile, server = ctx.snapshot.rules.profile(model, ctx.client), model_server(ctx, model)
    headers = ctx.upstream_headers(model, JSON_TYPE, conversation)
    return TargetModel(
        requested, profile, server, headers, ctx.snapshot.family(model, profile, headers, server), context
    )


def healed_conversation(ctx: RequestContext, chat: JsonObject, family: Family | None) -> JsonObject:
    """Return a conversation for token counting, healed as it would be for a completion."""
    plan = replace(ctx.heal_plan(as_text(chat.get("model")), family), sampling=Sampling())
    with contextlib.suppress(Exception):  # a defect of the healing leaves the request unchanged (contract C6)
        return heal_request(chat, plan).body
    return chat


def model_server(ctx: RequestContext, model: str | None = None) -> ModelServer:
    """Return the server of a model, given by its upstream name. None selects the main server."""
    rules, settings = ctx.snapshot.rules, ctx.snapshot.settings
    return ctx.snapshot.servers[settings.upstream if model is None else server_of(rules.entry(model), settings)]


def switch_of(named: Thinking | None, family: Family | None) -> str:
    """Return the switch that carries the thinking settings of a translated request to the model.

    It is the one that the rules have `named`, by default the family's. A family with words for the effort needs
    OWN_WORDS instead.
    """
    if family is not None and named != "none":
        if family.efforts is not None and not (family.efforts.top and named):
            return OWN_WORDS
        if named is None and family.switch is not None:
            return "enable_thinking"
    return named or "none"
