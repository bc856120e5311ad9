"""The request on its way up: what is read of it, and what the upstream gets instead of what the client sent.

What the upstream gets is a deterministic function of the request (contract C8), and a body in which nothing has to
change goes up as the very bytes that came (contract C1).
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.audit_record import Repair
from proxy.codec.json_access import as_object
from proxy.codec.json_text import Json, JsonObject, dump_request
from proxy.config.rules import Parse, Transport
from proxy.dialects.chat.request import ChatRequest, is_true
from proxy.exchange.guided import forced_request, with_one_tool
from proxy.exchange.second_try import Why
from proxy.healing.heal import NO_HEALING, Healed, HealPlan, heal_request

# Servers whose `tool_choice: "none"` keeps the tools in the prompt (docs/configuration.md: who parses).
KEEPS_TOOLS = frozenset(("vllm", "llamacpp"))
# Servers that decode a forced call by its tool's schema.
GUIDES = frozenset(("vllm", "sglang", "llamacpp", "lmdeploy"))


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one try. `second`: it was refused before, and is changed only by what a template's refusal teaches.
    `learnt` are the healings that refusals asked for, so many as there were `lessons`; they are kept for the model if
    the request is taken with them. `again`: why it goes up once more although it was answered, with the tool `guided`
    forced if a call of that could not be read.
    """

    parse: Parse = "server"
    transport: Transport = "live"
    server_kind: str = ""
    without: tuple[str, ...] = ()
    max_tokens: int | None = None
    second: bool = False
    heal: HealPlan = NO_HEALING
    learnt: tuple[str, ...] = ()
    lessons: int = 0
    again: Why | None = None
    guided: str = ""


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """The request of one try, as it goes up. `raw_text`: the server is told not to look for calls, so their raw text
    comes back. `healed` tells what was healed in it.
    """

    body: bytes
    raw_text: bool
    healed: tuple[Repair, ...] = ()


def upstream_request(request: ChatRequest, plan: Plan) -> UpstreamRequest:
    """The request that goes up by this plan."""
    if plan.guided:
        request = forced_request(request, plan.guided)
    raw_text = proxy_parses(request, plan)
    healed = heal_request(request.body, plan.heal)
    return UpstreamRequest(_body(request, healed, plan, raw_text), raw_text, healed.repairs)


def proxy_parses(request: ChatRequest, plan: Plan) -> bool:
    """True if the raw text comes back: the server is told not to look for calls.

    A forced choice always goes up as it is, and so does every choice where `none` would take the tools away.
    """
    if plan.parse != "proxy":
        return False
    if request.tools is None:
        return False
    if request.forced:
        return False
    return plan.server_kind in KEEPS_TOOLS


class _Draft:
    """A body on its way up, and whether it is another one than came."""

    def __init__(self, healed: Healed) -> None:
        self.body = dict(healed.body)
        self.changed = healed.changed

    def replace(self, body: JsonObject) -> None:
        """Another body goes up."""
        self.body, self.changed = body, True

    def set(self, name: str, value: Json) -> None:
        """A field gets another value."""
        self.body[name] = value
        self.changed = True

    def drop(self, name: str) -> None:
        """A field is left out, if it is there."""
        if name in self.body:
            del self.body[name]
            self.changed = True


def _body(request: ChatRequest, healed: Healed, plan: Plan, raw_text: bool) -> bytes:
    """The body for the upstream: the bytes that came, where nothing in them has to change."""
    draft = _Draft(healed)
    if plan.guided and plan.server_kind == "llamacpp":
        draft.replace(with_one_tool(draft.body))
    if raw_text:
        draft.set("tool_choice", "none")
        if plan.server_kind == "vllm":
            draft.set("skip_special_tokens", False)
    if plan.transport == "whole" and request.stream:
        draft.set("stream", False)
    _set_stream_options(draft, again=plan.again is not None)
    for name in plan.without:
        draft.drop(name)
    if plan.max_tokens is not None:
        _limit_tokens(draft, plan.max_tokens)
    return dump_request(draft.body) if draft.changed else request.raw


def _limit_tokens(draft: _Draft, most: int) -> None:
    """Give the reply so many tokens, in the words of the request."""
    for name in ("max_tokens", "max_completion_tokens"):
        if draft.body.get(name, most) != most:
            draft.set(name, most)


def _set_stream_options(draft: _Draft, *, again: bool) -> None:
    """Ask for the usage where the reply is asked for `again`: whether the server's parser swallowed a call is told from
    the tokens. Servers refuse the options beside `stream: false` (F60).
    """
    options = as_object(draft.body.get("stream_options"))
    if not is_true(draft.body.get("stream")):
        draft.drop("stream_options")
    elif again and options.get("include_usage") is not True:
        draft.set("stream_options", {**options, "include_usage": True})
