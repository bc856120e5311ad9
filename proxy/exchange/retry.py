"""When a request may go up a second time, and how (docs/configuration.md: who parses).

Once, and only while nothing but heartbeats has gone to the client: when no connection could be made, when the server
refused the request before it generated anything and said what to change, and when llama-server's own parser failed.
What the chat template refuses is healed beside that, cause by cause (`healed_plan`).
"""

from __future__ import annotations

import re
from dataclasses import replace

from proxy.dialects.chat.request import ChatRequest
from proxy.errors import UpstreamError, UpstreamRefused, UpstreamUnreachable
from proxy.exchange.plan import Plan, proxy_parses
from proxy.healing.heal import heal_request
from proxy.healing.lessons import lesson
from proxy.limits import RETRY_TOKENS
from proxy.upstream.context_overflow import read_overflow

# What a server says when it was started without a tool parser (vLLM), and when its own parser failed (llama-server).
_NO_PARSER = re.compile(r"--enable-auto-tool-choice|--tool-call-parser")
# llama-server names the format that its parser expected; where that is text alone, it is not calls that it could not
# read, but half a character.
PARSER_FAILED = re.compile(
    r"Failed to parse input|[Ee]mpty grammar|does not match the expected (?!Content-only\b)[\w-]{1,40} format"
)
# What names a field that the server does not take, and the fields without which the request is still the same one.
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
_LONGEST = 4096
# Statuses with which servers say that a chat template failed.
_TEMPLATE_FAILED = frozenset((400, 422, 500))
# So many refusals teach something of one request.
_MOST_LESSONS = 3
_MAX_TOKENS = ("max_tokens", "max_completion_tokens")


def second_plan(
    request: ChatRequest, plan: Plan, error: UpstreamError, server_kind: str, least: int = RETRY_TOKENS
) -> Plan | None:
    """The plan for a second try after this error, or None if there is to be none.

    `server_kind` is "" as long as it is not known; with fewer tokens than the `least` no answer is worth a try: it
    would be cut off, and a client that is told what is wrong makes room.
    """
    if plan.second:
        return None
    again = replace(plan, second=True)
    if isinstance(error, UpstreamUnreachable):
        return again if error.refused else None
    if not isinstance(error, UpstreamRefused):
        return None
    message = error.message[:_LONGEST]
    if _asks_for_proxy(error.status, message):
        return _parsed_here(request, plan, replace(again, parse="proxy", server_kind=server_kind))
    if error.status != 400:
        return None
    fitting = _fitting(request, again, error, least)
    if fitting is not None:
        return fitting
    field = _refused_field(request, message)
    return replace(again, without=(*plan.without, field)) if field else None


def _parsed_here(request: ChatRequest, plan: Plan, again: Plan) -> Plan | None:
    """The second plan, by which the proxy parses, if it can and did not by the first."""
    if proxy_parses(request, plan):
        return None
    return again if proxy_parses(request, again) else None


def healed_plan(request: ChatRequest, plan: Plan, error: UpstreamError) -> Plan | None:
    """The plan for one more try with what the refusal says that the chat template wants, or None.

    A template names one cause at a time, and vLLM looks for its parser before it asks the template. Each lesson is
    another one, and what a request needs of them is kept only once all are known.
    """
    if plan.guided or plan.lessons >= _MOST_LESSONS or not isinstance(error, UpstreamRefused):
        return None
    if error.status not in _TEMPLATE_FAILED:
        return None
    if asks_for_proxy(error):
        # It is the answer that the server could not read.
        return None
    body = heal_request(request.body, plan.heal).body
    learnt = lesson(error.message, body, plan.heal)
    if not learnt:
        return None
    heal = plan.heal.learnt(learnt)
    return replace(plan, heal=heal, learnt=(*plan.learnt, *learnt), lessons=plan.lessons + 1)


def asks_for_proxy(error: UpstreamError) -> bool:
    """True if the server showed that it cannot find the calls itself."""
    if not isinstance(error, UpstreamRefused):
        return False
    return _asks_for_proxy(error.status, error.message[:_LONGEST])


def _asks_for_proxy(status: int, message: str) -> bool:
    if status == 400:
        return _NO_PARSER.search(message) is not None
    if status < 500:
        return False
    return PARSER_FAILED.search(message) is not None


def _fitting(request: ChatRequest, plan: Plan, error: UpstreamRefused, least: int) -> Plan | None:
    """The plan that asks for what is left of the context, if the request asked for more than that (F85).

    Where the server did not count the whole prompt, it is asked without a number: then it gives what is left.
    """
    overflow = read_overflow(error.message, error.body)
    limit = request.body.get("max_completion_tokens", request.body.get("max_tokens"))
    if overflow is None or not isinstance(limit, int):
        return None
    unlimited = replace(plan, without=(*plan.without, *_MAX_TOKENS))
    if overflow.prompt is None:
        return unlimited
    left = overflow.limit - overflow.prompt
    if not least <= left < limit:
        return None
    return unlimited if overflow.least else replace(plan, max_tokens=left)


def _refused_field(request: ChatRequest, message: str) -> str | None:
    """The one optional field of the body that the message names as refused."""
    if not _REFUSED.search(message):
        return None
    named = {name for name in _QUOTED.findall(message) if name in request.body} & _OPTIONAL
    return named.pop() if len(named) == 1 else None
