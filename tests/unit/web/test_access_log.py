"""The log's line for each request, and what it counts: no line can be forged, and no key is in one."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any, cast

import pytest

from proxy.audit_record import Repair
from proxy.config.api_keys import ClientKey
from proxy.config.rules import Profile
from proxy.config.settings import Settings
from proxy.dialects.base import Dialect
from proxy.dialects.chat.request import read_chat
from proxy.exchange.plan import Plan
from proxy.upstream.client import ModelServer, ServerOptions
from proxy.web import routes
from proxy.web.access_log import MAX_LINES, MAX_TEXT, log_request, measure
from proxy.web.context import PreparedRequest, RequestContext
from tests.support.scripted import WRITE_FILE, chat
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
        asked = read_chat(b"", chat(model=model, tools=[WRITE_FILE]))
        ctx.prepared = PreparedRequest(asked, Profile(), cast(Dialect, None), server, {})
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


def test_a_client_that_left_is_said_to_have_left(logged: pytest.LogCaptureFixture) -> None:
    for sent, when in ((0, "waiting"), (9, "answering")):
        ctx = context(sent=sent)
        ctx.outcome.gone = True
        log_request(ctx, 499)
        said = facts(logged.messages[-1])
        assert said["gone"] == when and "upstream" not in said


@pytest.mark.parametrize(("parse", "advice"), [("server", "set parse: proxy"), ("proxy", "without one")])
def test_a_swallowed_call_is_warned_of_with_what_to_do(
    logged: pytest.LogCaptureFixture, parse: Any, advice: str
) -> None:
    ctx = context()
    ctx.outcome.swallowed, ctx.outcome.plan = True, Plan(parse=parse)
    log_request(ctx, 200)
    (warning,) = (record for record in logged.records if record.levelno == logging.WARNING)
    assert advice in warning.getMessage()


@pytest.mark.parametrize("path", [f"/{KEY}", f"/{'x' * 400}{KEY}", f"/{'x' * (MAX_TEXT - 10)}{KEY}"])
def test_a_key_where_it_does_not_belong_is_not_logged(logged: pytest.LogCaptureFixture, path: str) -> None:
    """Not even the half of it that a cut would leave."""
    ctx = context(path=path, model=KEY)
    log_request(ctx, 200)
    assert KEY[:9] not in logged.text


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


def test_an_audit_file_that_cannot_be_written_is_counted(tmp_path: Path) -> None:
    ctx = context(audit=str(tmp_path))
    ctx.outcome.audit = (REPAIR,)
    log_request(ctx, 200)
    assert any("audit" in name and value for name, value in ctx.worker.memory.counters.values().items())


def counted(ctx: RequestContext, status: int = 200) -> str:
    """The names of what is counted for a request."""
    measure(ctx, status)
    return "\n".join(name for name, value in ctx.worker.memory.counters.values().items() if value)


def test_a_model_that_is_a_key_is_none_of_the_metrics() -> None:
    assert KEY not in counted(context(model=KEY))
