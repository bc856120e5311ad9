"""Records of a request: log lines, metrics, and its row and details on the live page.

In the log, text from clients and models is quoted, so that no line can be forged. The live page gets bodies only with
`audit_values`. Secrets are masked everywhere but in the model's replies.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from proxy.dialects.chat.request import ChatRequest
from proxy.display import escaped
from proxy.exchange.capture import CaptureFolder, capture_bytes, request_facts
from proxy.exchange.recording import MAX_KEPT, Recording, TryRecording
from proxy.json import JsonObject
from proxy.limits import MAX_CAPTURE
from proxy.repair.record import Repair
from proxy.secrets import MIN_SECRET, masked, masked_start
from proxy.server.activity import Record
from proxy.server.audit_log import lines, total
from proxy.server.logging_setup import FactsRecord
from proxy.server.metrics import OTHER, upstream_kind
from proxy.web import routes
from proxy.web.context import RequestContext

log = logging.getLogger("proxy")
# The maximum number of log lines about the repairs of one reply. The request's line counts all repairs.
MAX_LINES = 100
# The maximum number of characters of one logged value.
MAX_TEXT = 500
# Limits for one request on the live page: tools, repairs, and characters of a value before and after a repair.
MAX_TOOLS = 20
MAX_REPAIRS = 50
MAX_VALUE = 4000
# The second advice is needed because vLLM's newer parsers remove calls from the text even with `tool_choice: "none"`.
_ADVICE = "set parse: proxy for this model in rules.yaml"
_ADVICE_BY_PROXY = "start it with the parser of the model's family, or without one"
_PLAIN = re.compile(r"[A-Za-z0-9._:,/{}-]{1,200}")


def facts_of(ctx: RequestContext, status: int) -> dict[str, Any]:
    """Return the facts about a request that has ended, for the log and the live page; secrets are masked."""
    outcome = ctx.outcome
    first_byte = None if ctx.first_byte is None else round(ctx.first_byte * 1000, 1)
    answered = status < 400 and first_byte is not None and not outcome.gone and ctx.dialect != "own"
    facts = {
        "id": ctx.id,
        "method": ctx.method,
        "path": ctx.path,
        "status": status,
        "ms": round((time.monotonic() - ctx.began) * 1000, 1),
        "dialect": ctx.dialect,
        "route": None if ctx.route is None else ctx.route.path,
        "client": ctx.client or None,
        "key": None if ctx.key is None else ctx.key.name,
        "ttfb_ms": first_byte,
        "bytes": ctx.sent,
        **({} if ctx.prepared is None else _chat_facts(ctx, ctx.prepared.chat)),
        "upstream": upstream_kind(outcome.failure) or ("ok" if answered else None),
        "gone": ("answering" if ctx.sent else "waiting") if outcome.gone else None,
        "error": outcome.error or None,
    }
    return _masked(ctx, facts)


def _chat_facts(ctx: RequestContext, chat: ChatRequest) -> dict[str, object]:
    outcome, again = ctx.outcome, ctx.outcome.tries > 1
    return {
        "model": chat.model,
        "stream": chat.stream,
        "calls": outcome.calls,
        "fixes": total(outcome.audit) or None,
        "refused": dict(outcome.refusals) or None,
        "invalid": outcome.invalid or None,
        "cut": outcome.cut or None,
        "tries": outcome.tries if again else None,
        "parse": outcome.plan.parse if again else None,
    }


def log_request(ctx: RequestContext, facts: Mapping[str, Any]) -> None:
    """Log a request that has ended and its repairs, and write its audit records. Skips the live page's polling."""
    if ctx.route is routes.UI_STATE and facts["status"] < 400:
        return
    outcome = ctx.outcome
    if outcome.swallowed and ctx.prepared is not None and ctx.prepared.chat.tools is not None:
        log.warning(
            "model %s used tokens and said nothing: the server's tool parser may have swallowed a call; %s",
            _shown(facts["model"]),
            _ADVICE_BY_PROXY if outcome.plan.parse == "proxy" else _ADVICE,
        )
    _log("request", facts)
    if ctx.prepared is not None:
        _audit(ctx, ctx.prepared.chat)


def _audit(ctx: RequestContext, chat: ChatRequest) -> None:
    """Log the repairs of a reply without values, and write them with values to the audit file."""
    outcome = ctx.outcome
    # Most records of a translated request repeat in every turn, so they go only to the audit file.
    of_request = outcome.request_audit
    repairs = (*outcome.audit[len(of_request) :], *(repair for repair in of_request if repair.logged))
    for repair in repairs[:MAX_LINES]:
        about = {"id": ctx.id, "model": chat.model, "tool": repair.tool, "fix": repair.id, "why": repair.why}
        _log("repair", _masked(ctx, about))
    if len(repairs) > MAX_LINES:
        _log("repair", {"id": ctx.id, "more": len(repairs) - MAX_LINES})
    audit_log = ctx.snapshot.audit
    if audit_log is not None and outcome.audit:
        about = {"id": ctx.id, "model": chat.model, "client": ctx.client}
        if not audit_log.write(lines(outcome.audit, time.time(), **about, secrets=ctx.secrets)):
            ctx.worker.metrics.add("audit_lost", 1)


def _masked(ctx: RequestContext, facts: Mapping[str, object]) -> dict[str, Any]:
    """Return the facts that are not None, with secrets masked."""
    return {
        name: _clean(ctx, value) if isinstance(value, str) else value
        for name, value in facts.items()
        if value is not None
    }


def _log(event: str, facts: Mapping[str, object]) -> None:
    """Log the facts as values and as a line of text."""
    if not log.isEnabledFor(logging.INFO):
        return
    words = [f"{name}={_shown(value)}" for name, value in facts.items()]
    line = " ".join(words if event == "request" else [event, *words])
    log.handle(FactsRecord(logging.INFO, line, event, facts))


def _shown(value: object) -> str:
    """Return a plain word unchanged, and everything else as a JSON string."""
    if isinstance(value, dict):
        value = ",".join(f"{name}:{number}" for name, number in value.items())
    text = value if isinstance(value, str) else json.dumps(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text[:MAX_TEXT])


def measure(ctx: RequestContext, facts: Mapping[str, Any]) -> None:
    """Count a request that has ended with these facts, for /metrics."""
    model = "" if ctx.prepared is None else ctx.prepared.chat.model
    if model:
        known_models = ctx.snapshot.known_models()
        # Never use an unknown model or a client's key as a label.
        if (known_models and model not in known_models) or facts["model"] != model:
            model = OTHER
    ctx.worker.metrics.count(
        ctx.outcome,
        dialect=ctx.dialect,
        status=facts["status"],
        seconds=time.monotonic() - ctx.began,
        first_byte=ctx.first_byte,
        model=model,
        when=facts.get("gone", ""),
    )


def begin_recording(ctx: RequestContext) -> None:
    """Record the bodies of a request to a model from now on, if they are captured or shown on the live page."""
    settings = ctx.snapshot.settings
    if settings.capture or (settings.audit_values and not settings.no_ui):
        ctx.recording = Recording(MAX_CAPTURE if settings.capture else None)


def note_sent(ctx: RequestContext, part: bytes) -> None:
    """Count a part of the answer that is sent to the client."""
    ctx.sent += len(part)
    if ctx.recording is not None:
        ctx.recording.sent.add(part)


def _result(ctx: RequestContext, status: int) -> str:
    """Return the result of a request in one word.

    It is "rescued" if the client got calls that were repaired or found in text, or a useful reply after another try.
    """
    outcome = ctx.outcome
    if outcome.gone:
        return "left"
    if status >= 400 or outcome.error:
        return "failed"
    of_reply = outcome.audit[len(outcome.request_audit) + len(outcome.healed) :]
    again = outcome.again is not None and not outcome.swallowed
    if again or any(repair.tool and outcome.calls for repair in of_reply):
        return "rescued"
    return "rejected" if outcome.refusals else "clean"


def end_activity(ctx: RequestContext, facts: Mapping[str, Any]) -> None:
    """Pass a completed request and its facts to the live page, if it asked a model.

    The record is built later, on the thread that writes the ring. Call this after `keep_captures`.
    """
    activity = ctx.worker.activity
    asks_model = ctx.route is not None and ctx.route.keeps_model_busy and ctx.dialect != "passed"
    if activity is not None and asks_model and not ctx.snapshot.settings.no_ui:
        recorded = 0 if ctx.recording is None else ctx.recording.size
        activity.keep(partial(record_of, ctx, facts, time.time()), len(ctx.body) + recorded)


def record_of(ctx: RequestContext, facts: Mapping[str, Any], ended: float) -> Record:
    """Return the record of a request with these facts that ended at this time (seconds since 1970)."""
    outcome = ctx.outcome
    of_request = len(outcome.request_audit) + len(outcome.healed)
    summary: JsonObject = {
        **facts,
        "model": escaped(facts.get("model", "")),
        "at": ended,
        "tokens": {**outcome.tokens},
        "result": _result(ctx, facts["status"]),
        "tools": {_clean(ctx, name): count for name, count in [*outcome.called.items()][:MAX_TOOLS]},
        "tries": outcome.tries,
        "parse": outcome.plan.parse,
        "repairs": [
            _repair(ctx, repair, "request" if place < of_request else "reply")
            for place, repair in enumerate(outcome.audit[:MAX_REPAIRS])
        ],
        "values": ctx.recording is not None,
    }
    return Record(summary, {} if ctx.recording is None else dict(_parts(ctx, ctx.recording)))


def _repair(ctx: RequestContext, repair: Repair, side: str) -> JsonObject:
    """Return one repair for the live page, with values only if they may be shown."""
    texts = {"fix": repair.id, "tool": repair.tool, "why": repair.why}
    if ctx.snapshot.settings.audit_values:
        texts |= {"before": repair.before, "after": repair.after}
    return {"side": side, **{name: _clean(ctx, text, MAX_VALUE) for name, text in texts.items()}}


def _clean(ctx: RequestContext, text: str, most: int = MAX_TEXT) -> str:
    return masked_start(text, most, ctx.secrets) if len(text) >= MIN_SECRET else text


def _parts(ctx: RequestContext, recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield the bodies of a request by name: from the client, to and from the model server, and to the client."""
    yield "asked", masked(ctx.body[:MAX_KEPT], ctx.secrets)
    for number, one in enumerate(recording.tries, 1):
        yield f"up {number}", masked(one.up[:MAX_KEPT], ctx.secrets)
        if one.status:
            # The limit leaves room for the facts of the request.
            yield f"capture {number}", _capture(ctx, one, 4 * MAX_KEPT)
    yield "sent", recording.sent.data


def _capture(ctx: RequestContext, one: TryRecording, most: int | None = None) -> bytes:
    prepared = ctx.prepared
    assert prepared is not None, "only requests to a model are recorded"
    verbatim, thoughts = prepared.dialect.verbatim, prepared.thoughts
    about = request_facts(
        prepared.chat, raw_text=one.raw_text, client=ctx.client, ordered=not verbatim, thoughts=thoughts
    )
    return capture_bytes(about, one, ctx.secrets, most)


def keep_captures(ctx: RequestContext) -> None:
    """Write the captures of a request that has ended, and release what the live page may not keep."""
    settings, recording = ctx.snapshot.settings, ctx.recording
    if recording is None:
        return
    if settings.capture:
        folder = CaptureFolder(settings.capture, ctx.worker.metrics.add)
        for one in recording.tries:
            if one.status:
                folder.keep(ctx.id, partial(_capture, ctx, one))
    recording.shorten()
    if not settings.audit_values:
        ctx.recording = None
