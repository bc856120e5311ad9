"""Records of completed requests for the live page."""

from __future__ import annotations

import time
from typing import Any

import pytest

from proxy.config.settings import Settings
from proxy.exchange.outcome import Outcome
from proxy.exchange.plan import Why
from proxy.repair.record import Repair
from proxy.server.activity import Record
from proxy.web import routes
from proxy.web.context import RequestContext
from proxy.web.record import MAX_REPAIRS, MAX_VALUE, facts_of, record_of
from tests.support.worker_state import make_state, read_rules

SECRET = "sk-secret-0123456789"
TEXT_CALL = Repair("text_call", "", "", "", "bash")


def context(**settings: Any) -> RequestContext:
    """Return a request that began ten seconds ago and has a secret."""
    worker = make_state(Settings(upstream="http://127.0.0.1:9", **settings), read_rules(None))
    found = RequestContext("r1", worker, worker.current(), route=routes.CHAT, client="agent", body=b"asked")
    found.began = time.monotonic() - 10
    found.secrets = (SECRET,)
    return found


def ended(ctx: RequestContext, status: int = 200) -> Record:
    return record_of(ctx, facts_of(ctx, status), time.time())


@pytest.mark.parametrize(
    ("changes", "status", "result"),
    [
        ({}, 200, "clean"),
        ({"refusals": {"quoted": 1}}, 200, "rejected"),
        ({"audit": (Repair("finish", "", "", ""),), "calls": 1}, 200, "clean"),
        ({"audit": (TEXT_CALL,), "calls": 1, "refusals": {"quoted": 1}}, 200, "rescued"),
        ({"audit": (TEXT_CALL,), "request_audit": (TEXT_CALL,), "calls": 1}, 200, "clean"),
        ({"audit": (Repair("no_call", "", "", "", "a"),), "calls": 0}, 200, "clean"),
        ({"again": Why.EMPTY}, 200, "rescued"),
        ({"again": Why.SWALLOWED, "swallowed": True}, 200, "clean"),
        ({"audit": (TEXT_CALL,), "calls": 1, "error": "broke off"}, 200, "failed"),
        ({}, 503, "failed"),
        ({"gone": True, "error": "client gone"}, 200, "left"),
    ],
)
def test_a_completed_request_has_one_result(changes: dict[str, Any], status: int, result: str) -> None:
    ctx = context()
    ctx.outcome = Outcome(**changes)
    assert ended(ctx, status).summary["result"] == result


def test_repairs_and_values_are_limited_and_no_secret_is_cut() -> None:
    ctx = context(audit_values=True)
    long = "x" * (MAX_VALUE - 4) + SECRET
    ctx.outcome.audit = tuple(Repair("finish", long, "", "so") for _ in range(MAX_REPAIRS + 3))
    summary = ended(ctx).summary
    repairs: Any = summary["repairs"]
    assert len(repairs) == MAX_REPAIRS
    assert len(repairs[0]["before"]) == MAX_VALUE and SECRET[:4] not in repairs[0]["before"]
