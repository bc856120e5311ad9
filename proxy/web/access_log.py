"""The log's line for each request, and what it counts. What clients and models say is quoted: no line can be forged."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping

from proxy.codec.secrets import MIN_SECRET, masked_start, masked_text
from proxy.dialects.chat.request import ChatRequest
from proxy.web.context import RequestContext
from proxy.worker.audit_log import Audited, lines, total
from proxy.worker.logging_setup import FactsRecord
from proxy.worker.metrics import OTHER, upstream_kind

log = logging.getLogger("proxy")
# Lines about the repairs of one reply; the request's own line counts them all.
MAX_LINES = 100
# Characters of one fact.
MAX_TEXT = 500
# What to do about a swallowed call. vLLM's newer parsers take calls out of the text though told to look for none.
_ADVICE = "set parse: proxy for this model in rules.yaml"
_ADVICE_BY_PROXY = "start it with the parser of the model's family, or without one"
# What JSON writes of them is what Python does.
_NUMBERS = frozenset((int, float))
_PLAIN = re.compile(r"[A-Za-z0-9._:,/{}-]{1,200}")


def log_request(ctx: RequestContext, status: int) -> None:
    """One line about a request that has ended."""
    facts: dict[str, object] = {"id": ctx.id, "method": ctx.method, "path": ctx.path, "status": status}
    facts["ms"] = round((time.monotonic() - ctx.began) * 1000, 1)
    facts["dialect"] = ctx.dialect
    if ctx.route is not None:
        facts["route"] = ctx.route.path
    if ctx.client:
        facts["client"] = ctx.client
    if ctx.key is not None:
        facts["key"] = ctx.key.name
    if ctx.first_byte:
        facts["ttfb_ms"] = round((ctx.first_byte - ctx.began) * 1000, 1)
    facts["bytes"] = ctx.sent
    if ctx.prepared is not None:
        facts |= _chat_facts(ctx, ctx.prepared.chat)
    if state := _upstream(ctx, status):
        facts["upstream"] = state
    if ctx.outcome.gone:
        facts["gone"] = _gone(ctx)
    if ctx.outcome.error:
        facts["error"] = ctx.outcome.error
    _log(ctx, logging.INFO, "request", facts)
    if ctx.prepared is not None:
        _audit(ctx, ctx.prepared.chat)


def measure(ctx: RequestContext, status: int) -> None:
    """Count a request that has ended, for /metrics."""
    ctx.worker.metrics.count(
        ctx.outcome,
        dialect=ctx.dialect,
        status=status,
        seconds=time.monotonic() - ctx.began,
        first_byte=ctx.first_byte - ctx.began if ctx.first_byte else None,
        model=_model(ctx, ctx.prepared.chat.model) if ctx.prepared is not None else "",
        when=_gone(ctx),
        denied=ctx.denied,
    )


def _model(ctx: RequestContext, named: str) -> str:
    """The model's name for the metrics: no client's key, and none that no server has, as far as that is known now. A
    scrape, which knows more, shows less.
    """
    if not named:
        return ""
    known_models = ctx.snapshot.known_models()
    if known_models and named not in known_models:
        return OTHER
    holds_key = masked_text(named, ctx.secrets) != named
    return OTHER if holds_key else named


def _gone(ctx: RequestContext) -> str:
    """When the client left, or ""."""
    if not ctx.outcome.gone:
        return ""
    return "answering" if ctx.sent else "waiting"


def _upstream(ctx: RequestContext, status: int) -> str:
    """Return `ok` or the kind of failure; "" if the server was not asked or the client left early."""
    kind = upstream_kind(ctx.outcome.failure)
    if kind:
        return kind
    if ctx.outcome.gone:
        return ""
    if ctx.dialect == "own":
        return ""
    answered = status < 400 and ctx.first_byte
    return "ok" if answered else ""


def _audit(ctx: RequestContext, chat: ChatRequest) -> None:
    """Tell what was done to a reply: without values in the log, with them in the audit file."""
    outcome = ctx.outcome
    # Most records of a translated request are the same at every turn: they are only in the audit file.
    of_request = outcome.request_audit
    repairs = (*outcome.audit[len(of_request) :], *(repair for repair in of_request if repair.logged))
    for repair in repairs[:MAX_LINES]:
        about = {"id": ctx.id, "model": chat.model, "tool": repair.tool, "fix": repair.id, "why": repair.why}
        _log(ctx, logging.INFO, "repair", about)
    if len(repairs) > MAX_LINES:
        _log(ctx, logging.INFO, "repair", {"id": ctx.id, "more": len(repairs) - MAX_LINES})
    audit_log = ctx.snapshot.audit
    if audit_log is None or not outcome.audit:
        return
    audited = Audited(ctx.id, chat.model, ctx.client, outcome.audit)
    if not audit_log.write(lines(audited, time.time(), ctx.secrets)):
        ctx.worker.metrics.add("audit_lost", 1)


def _log(ctx: RequestContext, level: int, event: str, facts: Mapping[str, object]) -> None:
    """Log one record: its facts with secrets masked, and the line that shows them as text."""
    if not log.isEnabledFor(level):
        return
    start = "" if event == "request" else f"{event} "
    shown = {name: _masked(value, ctx.secrets) for name, value in facts.items()}
    log.handle(FactsRecord(level, f"{start}{_line(shown)}", event, shown))


def _masked(value: object, secrets: tuple[str, ...]) -> object:
    if not isinstance(value, str) or len(value) < MIN_SECRET:
        return value
    return masked_start(value, MAX_TEXT, secrets)


def _line(facts: Mapping[str, object]) -> str:
    return " ".join([f"{name}={_shown(value)}" for name, value in facts.items()])


def _chat_facts(ctx: RequestContext, chat: ChatRequest) -> dict[str, object]:
    outcome = ctx.outcome
    facts: dict[str, object] = {"model": chat.model, "stream": chat.stream, "calls": outcome.calls}
    fixes = total(outcome.audit)
    if fixes:
        facts["fixes"] = fixes
    if outcome.refusals:
        facts["refused"] = dict(outcome.refusals)
    if outcome.invalid:
        facts["invalid"] = outcome.invalid
    if outcome.cut:
        facts["cut"] = outcome.cut
    if outcome.tries > 1:
        facts |= {"tries": outcome.tries, "parse": outcome.plan.parse}
    if outcome.swallowed and chat.tools is not None:
        log.warning(
            "model %s used tokens and said nothing: the server's tool parser may have swallowed a call; %s",
            _shown(masked_start(chat.model, MAX_TEXT, ctx.secrets)),
            _ADVICE_BY_PROXY if outcome.plan.parse == "proxy" else _ADVICE,
        )
    return facts


def _shown(value: object) -> str:
    """A plain word as it is, everything else as a JSON string."""
    if value.__class__ in _NUMBERS:
        return repr(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        value = ",".join(f"{name}:{number}" for name, number in value.items())
    text = value if isinstance(value, str) else json.dumps(value)
    if _PLAIN.fullmatch(text):
        return text
    return json.dumps(text[:MAX_TEXT])
