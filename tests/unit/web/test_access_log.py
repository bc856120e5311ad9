"""The log's line for each request, and what it counts: no line can be forged, and no key is in one."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.audit_record import Repair
from proxy.config.api_keys import ClientKey
from proxy.config.rules import Profile
from proxy.config.settings import Settings
from proxy.dialects.base import Dialect
from proxy.errors import UpstreamTimeout
from proxy.exchange.plan import Plan, Why
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.web import routes
from proxy.web.context import PreparedRequest, RequestContext
from proxy.web.record import MAX_LINES, MAX_TEXT, log_request, measure
from tests.support.answered_exchange import request
from tests.support.worker_state import make_state, read_rules

KEY = "sk-0123456789-abcdefghijklmnop"
REPAIR = Repair("closers", '{"a": 1', '{"a": 1}', "a bracket was missing", "bash")


def context(*, asks: bool = True, model: str = "tiny", audit: str = "", **more: Any) -> RequestContext:
    """A request that has ended."""
    worker = make_state(Settings(upstream="http://h:1", audit_file=audit), read_rules(None))
    given: dict[str, Any] = {"method": "POST", "path": routes.CHAT.path, "route": routes.CHAT, "secrets": (KEY,)}
    ctx = RequestContext("r1", worker, worker.current(), **{**given, **more})
    if asks:
        server = ModelServer(ServerOptions("http://h:1"))
        ctx.prepared = PreparedRequest(request(model=model), Profile(), cast(Dialect, None), server, {})
    return ctx


@pytest.fixture(name="lines", autouse=True)
def _lines(logged: pytest.LogCaptureFixture) -> list[str]:
    return logged.messages


def facts(line: str) -> dict[str, str]:
    """What a line says."""
    return dict(word.split("=", 1) for word in line.split(" ") if "=" in word)


def told(ctx: RequestContext, logged: pytest.LogCaptureFixture, status: int = 200) -> dict[str, str]:
    """What the request's own line says."""
    log_request(ctx, status)
    return facts(logged.messages[0])


def test_a_request_has_one_line_with_its_facts(logged: pytest.LogCaptureFixture) -> None:
    ctx = context(sent=7, client="pi", key=ClientKey("alice", hashlib.sha256(b"a").digest()))
    ctx.first_byte = ctx.began + 0.25
    said = told(ctx, logged)
    assert len(logged.messages) == 1 and float(said.pop("ms")) >= 0
    assert said == {
        **{"id": "r1", "method": "POST", "path": routes.CHAT.path, "status": "200", "dialect": "chat"},
        **{"route": routes.CHAT.path, "client": "pi", "key": "alice", "ttfb_ms": "250.0", "bytes": "7"},
        **{"model": "tiny", "stream": "true", "calls": "0", "upstream": "ok"},
    }


def test_what_asks_no_model_says_nothing_of_one(logged: pytest.LogCaptureFixture) -> None:
    said = told(context(asks=False, route=None), logged, 404)
    assert said["dialect"] == "own" and not {"model", "route", "upstream", "ttfb_ms"} & said.keys()


def test_a_client_that_left_is_said_to_have_left(logged: pytest.LogCaptureFixture) -> None:
    for sent, when in ((0, "waiting"), (9, "answering")):
        ctx = context(sent=sent)
        ctx.outcome.gone = True
        log_request(ctx, 499)
        said = facts(logged.messages[-1])
        assert said["gone"] == when and "upstream" not in said


def test_how_the_model_server_failed_is_said(logged: pytest.LogCaptureFixture) -> None:
    ctx = context()
    ctx.outcome.fail(UpstreamTimeout(f"late {KEY}"))
    log_request(ctx, 504)
    line = logged.messages[0]
    assert "upstream=timeout" in line and "late" in line and KEY not in line


def test_what_several_tries_were_is_said(logged: pytest.LogCaptureFixture) -> None:
    ctx = context()
    ctx.outcome.tries, ctx.outcome.plan = 2, Plan(parse="proxy")
    said = told(ctx, logged)
    assert (said["tries"], said["parse"]) == ("2", "proxy")


@pytest.mark.parametrize(("parse", "advice"), [("server", "set parse: proxy"), ("proxy", "without one")])
def test_a_swallowed_call_is_warned_of_with_what_to_do(
    logged: pytest.LogCaptureFixture, parse: Any, advice: str
) -> None:
    ctx = context()
    ctx.outcome.swallowed, ctx.outcome.plan = True, Plan(parse=parse)
    log_request(ctx, 200)
    (warning,) = (record for record in logged.records if record.levelno == logging.WARNING)
    assert advice in warning.getMessage()


@pytest.mark.parametrize(
    "path", ["/a\nid=forged", "/a b=c", "/a\x1b[31m", '/"quoted"', "/\u2028id=forged", "/" + "x" * 5000]
)
def test_nothing_that_a_client_says_can_forge_a_line(logged: pytest.LogCaptureFixture, path: str) -> None:
    log_request(context(asks=False, path=path, model=path), 404)
    (line,) = logged.messages
    assert line.isprintable() and len(line) < 2 * MAX_TEXT + 200 and ' path="' in line


@pytest.mark.parametrize("path", [f"/{KEY}", f"/{'x' * 400}{KEY}", f"/{'x' * (MAX_TEXT - 10)}{KEY}"])
def test_a_key_where_it_does_not_belong_is_not_logged(logged: pytest.LogCaptureFixture, path: str) -> None:
    """Not even the half of it that a cut would leave."""
    ctx = context(path=path, model=KEY)
    log_request(ctx, 200)
    assert KEY[:9] not in logged.text


def test_each_repair_has_a_line_without_values(logged: pytest.LogCaptureFixture) -> None:
    ctx = context()
    ctx.outcome.audit = (REPAIR, REPAIR)
    log_request(ctx, 200)
    first, *repairs = logged.messages
    assert "fixes=closers:2" in first and len(repairs) == 2
    assert repairs[0] == 'repair id=r1 model=tiny tool=bash fix=closers why="a bracket was missing"'


def test_a_request_says_why_there_is_no_call(logged: pytest.LogCaptureFixture) -> None:
    ctx = context()
    ctx.outcome.refusals = {"not_offered": 1, "quoted": 2}
    log_request(ctx, 200)
    assert "refused=not_offered:1,quoted:2" in logged.messages[0]


def test_what_of_a_request_was_not_carried_is_not_in_the_log(logged: pytest.LogCaptureFixture) -> None:
    """It is the same at every turn."""
    ctx = context()
    ctx.outcome.request_audit = ctx.outcome.audit = (REPAIR,)
    log_request(ctx, 200)
    assert len(logged.messages) == 1


def test_countless_repairs_cannot_fill_the_log(logged: pytest.LogCaptureFixture) -> None:
    ctx = context()
    ctx.outcome.audit = (REPAIR,) * (MAX_LINES + 7)
    log_request(ctx, 200)
    assert len(logged.messages) == MAX_LINES + 2 and logged.messages[-1] == "repair id=r1 more=7"


def test_the_audit_file_has_values_and_no_keys(tmp_path: Path) -> None:
    ctx = context(audit=str(tmp_path / "audit.jsonl"))
    ctx.outcome.audit = (Repair("closers", f"a {KEY}", "b", "why", "bash"),)
    log_request(ctx, 200)
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["after"] == "b" and KEY not in line


def test_an_audit_file_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    ctx = context(audit=str(tmp_path))
    ctx.outcome.audit = (REPAIR,)
    log_request(ctx, 200)
    assert b"tool_proxy_audit_lost_total 1.0" in ctx.worker.metrics.exposition(rules_in_force=True)


def counted(ctx: RequestContext, status: int = 200) -> str:
    """The metrics of a request, where servers list its model."""
    measure(ctx, status)
    return ctx.worker.metrics.exposition(rules_in_force=True, models=("tiny", KEY)).decode()


def test_a_request_is_counted_by_what_became_of_it() -> None:
    ctx = context(denied="")
    ctx.first_byte = time.monotonic()
    ctx.outcome.audit, ctx.outcome.again = (REPAIR,), Why.EMPTY
    names = counted(ctx)
    assert "chat" in names and "closers" in names and "empty" in names and "tiny" in names


def test_a_model_that_is_a_key_is_none_of_the_metrics() -> None:
    assert KEY not in counted(context(model=KEY))
