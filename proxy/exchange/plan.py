"""Decisions about a request: its server, who parses the reply, and when to retry (docs/configuration.md: who parses).

All functions are pure. The upstream request is a deterministic function of the client's request (contract C8). A body
that needs no change is sent verbatim (contract C1).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from proxy.config.api_keys import Keys
from proxy.config.rules import SAME_KEY, Model, Parse, Profile, Rules, Transport
from proxy.config.settings import Settings, origin
from proxy.dialects.chat.request import ChatRequest, is_true
from proxy.engine.task import Task
from proxy.errors import ProxyError, UpstreamError, UpstreamRefused, UpstreamUnreachable
from proxy.healing.heal import NO_HEALING, HealPlan, heal_request, lesson
from proxy.healing.reasoning import SHOWN_BY_REPLY
from proxy.json import JsonObject, as_list, as_object, dump_request, objects_in
from proxy.limits import RETRY_TOKENS
from proxy.notations.thoughts import Thoughts
from proxy.repair.record import Repair
from proxy.upstream.context_overflow import read_overflow

# Servers whose `tool_choice: "none"` keeps the tools in the prompt.
KEEPS_TOOLS = frozenset(("vllm", "llamacpp"))
# Servers that constrain decoding of a forced call to its tool's schema.
GUIDES = frozenset(("vllm", "sglang", "llamacpp", "lmdeploy"))

# The lesson that the server cannot parse a model's calls. All other lessons are ids of healings.
PROXY_PARSES = "proxy_parses"
# The error of a server that was started without a tool parser (vLLM).
NO_PARSER = re.compile(r"--enable-auto-tool-choice|--tool-call-parser")
# The errors of a server whose own parser failed (llama-server). The error names the expected format. "Content-only" is
# excluded: there the server failed to decode a partial character, not a call.
PARSER_FAILED = re.compile(
    r"Failed to parse input|[Ee]mpty grammar|does not match the expected (?!Content-only\b)[\w-]{1,40} format"
)
# The errors for a field that the server does not accept, and the fields that may be left out.
_REFUSED = re.compile(
    r"extra[ _]forbidden|not permitted|not supported|unsupported|unknown|unexpected|unrecognized|not allowed",
    re.IGNORECASE,
)
_OPTIONAL = frozenset(
    (
        *("store", "metadata", "user", "service_tier", "stream_options", "parallel_tool_calls", "reasoning_effort"),
        *("verbosity", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "include_reasoning"),
        *("skip_special_tokens", "prediction", "modalities", "web_search_options", "chat_template_kwargs"),
    )
)
_QUOTED = re.compile(r"['\"`]([A-Za-z_][A-Za-z0-9_]{0,63})['\"`]")
# The number of characters of an error message that are searched.
_LONGEST = 4096
# Statuses with which servers report that a chat template failed.
_TEMPLATE_FAILED = frozenset((400, 422, 500))
# The maximum number of healings to learn from the errors of one request.
_MOST_LESSONS = 3
_MAX_TOKENS = ("max_tokens", "max_completion_tokens")


class Why(Enum):
    """Why a request was sent again although it was answered (F63, F72)."""

    EMPTY = "the reply was empty"
    THOUGHT = "the reply was only thought"
    SWALLOWED = "the reply used tokens and said nothing: the server's parser may have swallowed a call"
    BROKEN = "the reply ended with a call that cannot be read"


# The reasons of replies that contain neither text nor a call.
SILENT = frozenset((Why.EMPTY, Why.THOUGHT, Why.SWALLOWED))


@dataclass(frozen=True, slots=True)
class Plan:
    """How one try is sent.

    `second`: the request has been retried after an error, so only template errors may still change it. `lessons` counts
    those template errors and `learnt` are the healings from them. The healings are remembered for the model if the
    server then accepts the request. `again` is the reason for repeating an answered request. `guided` is the tool to
    force because its call was unreadable, or "".
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
    """The body of one try. `raw_text`: the request disables the server's parser. `healed` are the audit records."""

    body: bytes
    raw_text: bool
    healed: tuple[Repair, ...] = ()


def upstream_request(request: ChatRequest, plan: Plan) -> UpstreamRequest:
    """Return the upstream request for a plan."""
    raw, body = request.raw, request.body
    if plan.guided:
        body = {**body, "tool_choice": {"type": "function", "function": {"name": plan.guided}}}
        raw = dump_request(body)
    raw_text = proxy_parses(request, plan)
    healed = heal_request(body, plan.heal)
    changed = _changed(dict(healed.body), plan, raw_text=raw_text, stream=request.stream)
    if healed.repairs or changed != healed.body:
        raw = dump_request(changed)
    return UpstreamRequest(raw, raw_text, healed.repairs)


def proxy_parses(request: ChatRequest, plan: Plan) -> bool:
    """Return whether only the proxy parses: the request disables the server's parser with `tool_choice: "none"`.

    A forced choice is never replaced by `none`. Nor is any choice if `none` would remove the tools from the prompt.
    """
    if plan.parse != "proxy" or request.tools is None or request.forced or plan.guided:
        return False
    return plan.server_kind in KEEPS_TOOLS


def _changed(body: JsonObject, plan: Plan, *, raw_text: bool, stream: bool) -> JsonObject:
    """Apply the plan to the healed body."""
    if plan.guided and plan.server_kind == "llamacpp":
        # llama.cpp cannot force a tool by name, so offer only that tool and require a call.
        offered = objects_in(body.get("tools"))
        tools = [tool for tool in offered if as_object(tool.get("function")).get("name") == plan.guided]
        body |= {"tools": [*tools], "tool_choice": "required", "parallel_tool_calls": False}
    if raw_text:
        body["tool_choice"] = "none"
        if plan.server_kind == "vllm":
            body["skip_special_tokens"] = False
    if plan.transport == "whole" and stream:
        body["stream"] = False
    options = as_object(body.get("stream_options"))
    if not is_true(body.get("stream")):
        # Servers reject `stream_options` with `stream: false` (F60).
        body.pop("stream_options", None)
    elif plan.again is not None and options.get("include_usage") is not True:
        # The token counts show whether the server's parser swallowed a call.
        body["stream_options"] = {**options, "include_usage": True}
    for name in plan.without:
        body.pop(name, None)
    if plan.max_tokens is not None:
        body |= {name: plan.max_tokens for name in _MAX_TOKENS if name in body}
    return body


@dataclass(frozen=True, slots=True)
class Retries:
    """The tries that the rules and the request allow.

    `auto`: the proxy may take over parsing if the server fails to parse. `parse` is the parser of the first try.
    `again` are the reasons for repeating an answered request. `any_guides`: force a tool on servers of any kind, not
    just those in GUIDES.
    """

    parse: Parse = "server"
    auto: bool = False
    again: frozenset[Why] = frozenset()
    any_guides: bool = False


def reasons_to_ask_again(request: ChatRequest, *, broken: bool) -> frozenset[Why]:
    """Return the reasons for repeating the request once answered: a silent reply and, if `broken`, an unreadable call.

    The set is empty unless the request offers tools, asks for one choice, and has no prefilled answer.
    """
    body = request.body
    messages = as_list(body.get("messages"))
    prefilled = bool(messages) and as_object(messages[-1]).get("role") == "assistant"
    if body.get("continue_final_message") or body.get("add_generation_prompt") is False or prefilled:
        return frozenset()
    if request.tools is None or body.get("n") not in (None, 1):
        return frozenset()
    return SILENT | {Why.BROKEN} if broken and not request.json_reply else SILENT


@dataclass(frozen=True, slots=True)
class Ended:
    """How a try ended: with an `error`, or with a reply of `calls` calls and perhaps a reason for another try (`why`).

    `broken` is the tool of the unreadable call, or "". `withheld`: the end of the reply has not been sent.
    """

    error: ProxyError | None = None
    why: Why | None = None
    broken: str = ""
    calls: int = 0
    withheld: bool = False


@dataclass(frozen=True, slots=True)
class Next:
    """The plan of the next try, or None.

    `parser_failed`: the server cannot parse this model's calls. It is remembered even without a next try.
    """

    plan: Plan | None = None
    parser_failed: bool = False


def next_plan(request: ChatRequest, plan: Plan, ended: Ended, allowed: Retries, kind: Callable[[], str]) -> Next:
    """Decide whether and how to send the request again after a try with `plan`.

    - After a failed connection, or an error that says what to change: retry once.
    - After an error of the chat template that a healing can fix: retry, at most `_MOST_LESSONS` times.
    - After a silent reply, or one that ends in an unreadable call: retry once. A third try follows only if the second
      reply shows that the server swallowed a call.

    `kind` returns the kind of the server. It may send a request to it.
    """
    if isinstance(ended.error, UpstreamError):
        if allowed.auto and not plan.second:
            again = _second_plan(request, replace(plan, second=True), ended.error, kind)
            if again is not None:
                return Next(again, parser_failed=again.parse != plan.parse)
        return Next(_healed_plan(request, plan, ended.error))
    if ended.error is None and ended.why in allowed.again:
        following = _after_reply(request, plan, ended, allowed, kind)
        if following.plan is not None or following.parser_failed:
            return following
    # The server swallowed calls that the proxy then found, so its parser cannot find them.
    found = ended.calls > 0 and plan.again is Why.SWALLOWED
    return Next(parser_failed=found and plan.parse == "proxy" and allowed.parse != "proxy")


def _second_plan(request: ChatRequest, again: Plan, error: UpstreamError, kind: Callable[[], str]) -> Plan | None:
    """Return the plan for a retry after an error, or None if no retry can help."""
    if isinstance(error, UpstreamUnreachable):
        return again if error.refused else None
    if not isinstance(error, UpstreamRefused):
        return None
    if parser_failed(error):
        parsed_here = replace(again, parse="proxy", server_kind=again.server_kind or kind())
        return parsed_here if not proxy_parses(request, again) and proxy_parses(request, parsed_here) else None
    if error.status != 400:
        return None
    fitting = _fitting(request, again, error)
    if fitting is not None:
        return fitting
    message = error.message[:_LONGEST]
    named = {name for name in _QUOTED.findall(message) if name in request.body} & _OPTIONAL
    if len(named) != 1 or not _REFUSED.search(message):
        return None
    return replace(again, without=(*again.without, *named))


def parser_failed(error: UpstreamError) -> bool:
    """Return whether the error shows that the server has no tool parser, or that its parser failed."""
    if not isinstance(error, UpstreamRefused):
        return False
    message = error.message[:_LONGEST]
    if error.status == 400:
        return NO_PARSER.search(message) is not None
    return error.status >= 500 and PARSER_FAILED.search(message) is not None


def _fitting(request: ChatRequest, again: Plan, error: UpstreamRefused) -> Plan | None:
    """Return the plan that limits the answer to the rest of the context, if the request asked for more (F85).

    If the server did not count the whole prompt, the limit is left out and the server uses the rest. With fewer than
    RETRY_TOKENS left, return None: the answer would be cut off, while the error lets the client shorten its prompt.
    """
    overflow = read_overflow(error.message, error.body)
    limit = request.body.get("max_completion_tokens", request.body.get("max_tokens"))
    if overflow is None or not isinstance(limit, int):
        return None
    unlimited = replace(again, without=(*again.without, *_MAX_TOKENS))
    if overflow.prompt is None:
        return unlimited
    left = overflow.limit - overflow.prompt
    if not RETRY_TOKENS <= left < limit:
        return None
    return unlimited if overflow.least else replace(again, max_tokens=left)


def _healed_plan(request: ChatRequest, plan: Plan, error: UpstreamError) -> Plan | None:
    """Return the plan with the healing that the chat template's error asks for, or None.

    A template reports one problem at a time, and vLLM checks for a tool parser before it renders the template.
    """
    if plan.guided or plan.lessons >= _MOST_LESSONS or not isinstance(error, UpstreamRefused):
        return None
    if error.status not in _TEMPLATE_FAILED or parser_failed(error):
        return None
    learnt = lesson(error.message, heal_request(request.body, plan.heal).body, plan.heal)
    if not learnt:
        return None
    heal = plan.heal.learnt(learnt)
    return replace(plan, heal=heal, learnt=(*plan.learnt, *learnt), lessons=plan.lessons + 1)


def _after_reply(request: ChatRequest, plan: Plan, ended: Ended, allowed: Retries, kind: Callable[[], str]) -> Next:
    again = replace(plan, again=ended.why)
    if ended.why is Why.SWALLOWED:
        again = _by_the_other(request, again, allowed, kind)
    if plan.again is None:
        if not ended.broken:
            return Next(again)
        server_kind = plan.server_kind or kind()
        if server_kind not in GUIDES and not allowed.any_guides:
            return Next()
        guided = replace(again, guided=ended.broken, server_kind=server_kind, transport="whole", second=True)
        return Next(guided)
    if again.parse == plan.parse:
        return Next()
    if ended.withheld:
        return Next(again)
    # Part of the reply has been sent, so this request cannot be retried.
    return Next(parser_failed=again.parse == "proxy")


def _by_the_other(request: ChatRequest, plan: Plan, allowed: Retries, kind: Callable[[], str]) -> Plan:
    """Return the plan with the other parser: the proxy instead of the server, or the server instead of the proxy.

    The proxy may fail, too: with `none`, vLLM's newer parsers still remove their family's calls from the text.
    """
    if proxy_parses(request, plan):
        return replace(plan, parse="server")
    if not allowed.auto:
        return plan
    again = replace(plan, parse="proxy", server_kind=plan.server_kind or kind())
    return again if proxy_parses(request, again) else plan


def server_of(entry: Model, settings: Settings) -> str:
    """Return the URL of the server for an entry of the rules."""
    return entry.url or settings.upstream


def keyless(rules: Rules, settings: Settings) -> tuple[Model, ...]:
    """Return the entries that use another server than the main one without naming a key for it."""
    return tuple(entry for entry in rules.models if not entry.key and not _is_main(entry, settings))


def server_key(entry: Model, settings: Settings, keys: Keys, main: str) -> str:
    """Return the key for the server of an entry, or "". `main` is the key of the main server.

    A key is sent only to the origin that it was configured for. A server with another scheme, host or port gets the key
    that its entry names.
    """
    if entry.key and entry.key != SAME_KEY:
        return keys.named.get(entry.key, "")
    return main if entry.key or _is_main(entry, settings) else ""


def _is_main(entry: Model, settings: Settings) -> bool:
    return not entry.url or origin(entry.url) == origin(settings.upstream)


def thoughts_in_text(own: Thoughts, profile: Profile, parse: Parse, *, blocks: bool) -> Thoughts | None:
    """Return how to separate reasoning from the text of a reply, or None to leave it in the text.

    `own` is the family's format, and `parse` is who parses. If the proxy parses and the family is unknown, only marks
    in the reply show its reasoning. `blocks`: the dialect has blocks for reasoning, so marked reasoning is always
    separated.
    """
    if profile.telling == "split":
        return own
    if profile.telling == "auto" and parse == "proxy":
        return own if own.family else SHOWN_BY_REPLY
    return Thoughts() if blocks else None


def make_task(request: ChatRequest, *, thoughts: Thoughts | None, forced: str = "") -> Task:
    """Return the part of the engine's task that follows from the request.

    `thoughts`: how to separate reasoning from the text. `forced`: the tool that this try forces.
    """
    if forced and thoughts is not None:
        # A forced call starts with the arguments, even if the prompt has opened reasoning.
        thoughts = replace(thoughts, begun="", unknown=True)
    return Task(
        tools=request.tools,
        json_reply=request.json_reply,
        sources=request.sources,
        made=request.made,
        ids=request.ids,
        one_call=request.one_call or forced != "",
        thoughts=thoughts,
        forced=forced or request.forced_tool,
    )
