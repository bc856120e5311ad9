"""The live page's facts of a request: while it is under way, and when it has ended.

What clients and models say is recorded only under `audit_values`. Secrets are masked in everything but the model's
replies. The record is built on the thread that writes the ring, after the client has its answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from proxy.activity.record import REFUSALS, REPAIRS, REQUESTS, Record
from proxy.activity.recording import MAX_KEPT, Recording, TryRecording
from proxy.audit_record import Repair
from proxy.codec.json_text import Json, JsonObject
from proxy.codec.secrets import masked, masked_start
from proxy.exchange.capture import Answer, capture_bytes, request_facts
from proxy.web.context import PreparedRequest, RequestContext
from proxy.worker.audit_log import total
from proxy.worker.metrics import upstream_kind

# Repairs of one request that are shown, and characters of what each was before and after.
MAX_REPAIRS = 50
MAX_VALUE = 4000
# Characters of any other text.
_MAX_TEXT = 500
_TOLD = frozenset(("chat", "messages", "responses"))
# Room for what a capture says of the request.
_MAX_CAPTURE = 4 * MAX_KEPT


def begin_activity(ctx: RequestContext) -> None:
    """A request for a model goes up: from now on the page shows it."""
    activity, settings = ctx.worker.activity, ctx.snapshot.settings
    if activity is None or settings.no_ui:
        return
    if settings.audit_values:
        ctx.recording = Recording(ctx.body)
    ctx.held.append(activity.begin(partial(live_row, ctx)))


def note_sent(ctx: RequestContext, part: bytes) -> None:
    """A part of the answer goes to the client."""
    ctx.sent += len(part)
    ctx.events += part.count(b"\n\n")
    if ctx.recording is not None:
        ctx.recording.sent.add(part)


def live_row(ctx: RequestContext) -> JsonObject:
    """The row of a request that is under way, as the page shows it."""
    now = time.monotonic()
    return {
        **_about(ctx),
        "phase": _phase(ctx),
        "seconds": round(now - ctx.began, 1),
        "events": ctx.events,
        "tokens_per_second": _rate(ctx, now),
    }


def _phase(ctx: RequestContext) -> str:
    if ctx.sent:
        return "answering"
    if ctx.outcome.tries > 1:
        return "trying again"
    return "waiting"


def _rate(ctx: RequestContext, until: float) -> float:
    """Tokens a second, about: model servers send an event for each."""
    seconds = until - ctx.first_byte
    if not ctx.first_byte or seconds <= 0:
        return 0.0
    return round(ctx.events / seconds, 1)


def end_activity(ctx: RequestContext, status: int) -> None:
    """A request has ended: the page is told what became of it."""
    activity = ctx.worker.activity
    if activity is None or ctx.snapshot.settings.no_ui or not _is_told(ctx):
        return
    ended = time.monotonic()
    recorded = 0 if ctx.recording is None else ctx.recording.size
    activity.keep(lambda: record_of(ctx, status, ended), len(ctx.body) + recorded)


def _is_told(ctx: RequestContext) -> bool:
    """True for a request that asks a model through a dialect."""
    if ctx.route is None or not ctx.route.keeps_model_busy:
        return False
    return ctx.dialect in _TOLD


def record_of(ctx: RequestContext, status: int, ended: float) -> Record:
    """The record of a request that has ended at this time (`time.monotonic`)."""
    outcome = ctx.outcome
    summary: JsonObject = {
        **_about(ctx),
        "at": round(time.time() - (time.monotonic() - ended), 3),
        "status": status,
        "seconds": round(ended - ctx.began, 3),
        "first_byte": round(ctx.first_byte - ctx.began, 3) if ctx.first_byte else None,
        "bytes": ctx.sent,
        "events": ctx.events,
        "tokens_per_second": _rate(ctx, ended),
        "calls": outcome.calls,
        "tries": outcome.tries,
        "parse": outcome.plan.parse,
        "gone": outcome.gone,
        "error": _clean(ctx, outcome.error),
        "upstream": upstream_kind(outcome.failure),
        "repairs": [_repair(ctx, repair) for repair in outcome.audit[:MAX_REPAIRS]],
        "more_repairs": max(0, len(outcome.audit) - MAX_REPAIRS),
        "refusals": dict(outcome.refusals),
        "swallowed": outcome.swallowed,
        "values": ctx.recording is not None,
    }
    counts = {(REQUESTS, "failed" if status >= 400 or outcome.error else "answered"): 1}
    counts |= {(REPAIRS, _clean(ctx, name)): count for name, count in total(outcome.audit).items()}
    counts |= {(REFUSALS, reason): count for reason, count in outcome.refusals.items()}
    parts = {} if ctx.recording is None else dict(_parts(ctx, ctx.recording))
    return Record(summary, parts, counts)


def _about(ctx: RequestContext) -> JsonObject:
    """The facts that say whose request it is: its id, client, key, path and model."""
    prepared = ctx.prepared
    return {
        "id": ctx.id,
        "client": ctx.client,
        "key": "" if ctx.key is None else ctx.key.name,
        "dialect": ctx.dialect,
        "path": "" if ctx.route is None else ctx.route.path,
        "model": "" if prepared is None else _clean(ctx, prepared.chat.model),
        "stream": prepared is not None and prepared.chat.stream,
        "server": "" if prepared is None else prepared.server.target.url,
    }


def _repair(ctx: RequestContext, repair: Repair) -> JsonObject:
    """One repair; what was before and after only where values may be shown."""
    record: dict[str, Json] = {
        "fix": _clean(ctx, repair.id),
        "tool": _clean(ctx, repair.tool),
        "why": _clean(ctx, repair.why),
        "side": "request" if _is_of_request(ctx, repair) else "reply",
    }
    if ctx.recording is not None:
        record |= {"before": _clean(ctx, repair.before, MAX_VALUE), "after": _clean(ctx, repair.after, MAX_VALUE)}
    return record


def _is_of_request(ctx: RequestContext, repair: Repair) -> bool:
    """True for what was changed on the way up: by the dialect, or healed."""
    return repair in ctx.outcome.request_audit or repair in ctx.outcome.healed


def _clean(ctx: RequestContext, text: str, most: int = _MAX_TEXT) -> str:
    return masked_start(text, most, ctx.secrets) if text else ""


def _parts(ctx: RequestContext, recording: Recording) -> Iterator[tuple[str, bytes]]:
    """Yield the bodies of a request by name: from the client, to and from the model server, and to the client."""
    yield "asked", masked(recording.client_body.data, ctx.secrets)
    for number, one in enumerate(recording.tries, 1):
        yield f"up {number}", masked(one.up.data, ctx.secrets)
        if ctx.prepared is not None and one.status:
            yield f"capture {number}", _capture(ctx, ctx.prepared, one)
    yield "sent", recording.sent.data


def _capture(ctx: RequestContext, prepared: PreparedRequest, one: TryRecording) -> bytes:
    about = request_facts(
        prepared.chat,
        raw_text=one.raw_text,
        client=ctx.client,
        ordered=not prepared.dialect.verbatim,
        thoughts=prepared.thoughts,
    )
    whole = one.complete and not one.answer.cut
    answer = Answer(one.status, one.content_type, one.answer.data, _MAX_CAPTURE, complete=whole, cut=one.answer.cut)
    return capture_bytes(about, answer, ctx.secrets)
