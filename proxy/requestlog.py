"""The log: one line per request, to standard error. What clients and models say is quoted: no line can be forged."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping

from .audit import Audited, lines, total
from .rewrite import ChatRequest
from .visit import Visit

log = logging.getLogger("proxy")
# Lines about the repairs of one reply; the request's own line counts them all.
MAX_LINES = 100
_PLAIN = re.compile(r"[A-Za-z0-9._:,/-]{1,200}")


def set_up_logging(*, verbose: bool) -> None:
    """Log to standard error; a log that cannot be written never disturbs a request."""
    logging.raiseExceptions = False
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        log.addHandler(handler)
        log.propagate = False
    log.setLevel(logging.DEBUG if verbose else logging.INFO)


def log_visit(now: Visit, status: int) -> None:
    """One line about a request that has ended."""
    spent = time.monotonic() - now.began
    facts: dict[str, object] = {"id": now.id, "method": now.method, "path": now.path, "status": status}
    facts["ms"] = round(spent * 1000, 1)
    if now.client:
        facts["client"] = now.client
    if now.first_byte:
        facts["ttfb_ms"] = round((now.first_byte - now.began) * 1000, 1)
    if now.asked is not None:
        facts |= _chat_facts(now, now.asked.chat)
    error = now.error or now.outcome.error
    if error:
        facts["error"] = error
    log.info("%s", _line(facts))
    if now.asked is not None:
        _audit(now, now.asked.chat)


def _audit(now: Visit, wanted: ChatRequest) -> None:
    """Count what was done to a reply and tell it: without values in the log, with them in the audit file."""
    outcome = now.outcome
    word = "would repair" if outcome.observe else "repair"
    now.service.counters.count(total(outcome.audit), outcome.refusals, outcome.empty_calls)
    # What of a request could not be carried is the same at every turn: the audit file has it, the log only if asked.
    told = outcome.audit if log.isEnabledFor(logging.DEBUG) else outcome.audit[len(outcome.asked) :]
    for repair in told[:MAX_LINES]:
        about = {"id": now.id, "model": wanted.model, "tool": repair.tool, "fix": repair.id, "why": repair.why}
        log.info("%s %s", word, _line(about))
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s", word, _line({"id": now.id, "before": repair.before, "after": repair.after}))
    if len(told) > MAX_LINES:
        log.info("%s %s", word, _line({"id": now.id, "more": len(told) - MAX_LINES}))
    if outcome.audit and now.snapshot.audit is not None:
        audited = Audited(now.id, wanted.model, now.client, outcome.audit, observed=outcome.observe)
        now.snapshot.audit.write(lines(audited, time.time()))


def _line(facts: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_shown(value)}" for name, value in facts.items())


def _chat_facts(now: Visit, wanted: ChatRequest) -> dict[str, object]:
    outcome = now.outcome
    facts: dict[str, object] = {
        "model": wanted.model,
        "stream": wanted.stream,
        "bytes": now.sent,
        "calls": outcome.calls,
    }
    if outcome.observe:
        facts["observe"] = True
    fixes = total(outcome.audit)
    if fixes:
        facts["fixes"] = ",".join(f"{name}:{count}" for name, count in fixes.items())
    if outcome.tries > 1:
        facts |= {"tries": outcome.tries, "parse": outcome.plan.parse}
    if outcome.swallowed and wanted.tools is not None:
        log.warning(
            "model %s used tokens and said nothing: the server's tool parser may have swallowed a call; "
            "set parse: proxy for this model in rules.yaml",
            _shown(wanted.model),
        )
    return facts


def _shown(value: object) -> str:
    """A plain word as it is, everything else as a JSON string."""
    text = value if isinstance(value, str) else json.dumps(value)
    if _PLAIN.fullmatch(text):
        return text
    return json.dumps(text[:500])
