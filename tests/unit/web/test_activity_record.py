"""What the live page is told of a request: while it is under way, and when it has ended."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import pytest

from proxy.activity.activity import Activity
from proxy.activity.record import REFUSALS, REPAIRS, REQUESTS, Record
from proxy.activity.recording import Recording
from proxy.activity.ring import ActivityRing
from proxy.audit_record import Repair
from proxy.config.settings import Settings
from proxy.errors import UpstreamBroken
from proxy.web import routes
from proxy.web.context import RequestContext
from proxy.web.record import (
    MAX_REPAIRS,
    MAX_VALUE,
    begin_activity,
    end_activity,
    live_row,
    note_sent,
    record_of,
)
from proxy.worker.shared_file import SharedFile
from tests.support.worker_state import make_state, read_rules

SECRET = "sk-secret-0123456789"


def context(activity: Activity | None = None, **settings: Any) -> RequestContext:
    """A request that began ten seconds ago, and of which a secret is known."""
    worker = make_state(Settings(upstream="http://127.0.0.1:9", **settings), read_rules(None))
    worker.activity = activity
    found = RequestContext("r1", worker, worker.current(), route=routes.CHAT, client="agent", body=b"asked")
    found.began = time.monotonic() - 10
    found.secrets = (SECRET,)
    return found


def ended(ctx: RequestContext, status: int = 200) -> Record:
    return record_of(ctx, status, ctx.began + 4)


def test_a_request_that_waits_says_whose_it_is_and_for_how_long() -> None:
    row = live_row(context())
    assert (row["id"], row["client"], row["dialect"]) == ("r1", "agent", "chat")
    assert (row["path"], row["phase"], row["tokens_per_second"]) == (routes.CHAT.path, "waiting", 0.0)
    assert isinstance(row["seconds"], float) and 10 <= row["seconds"] < 60


def test_its_phase_is_told_by_what_has_left_and_how_often_it_went_up() -> None:
    ctx = context()
    ctx.outcome.tries = 1
    assert live_row(ctx)["phase"] == "waiting"
    ctx.outcome.tries = 2
    assert live_row(ctx)["phase"] == "trying again"
    note_sent(ctx, b"data: 1\n\n")
    assert live_row(ctx)["phase"] == "answering"


def test_what_is_sent_is_counted_in_bytes_and_in_events_and_kept_where_it_may_be_shown() -> None:
    ctx = context()
    note_sent(ctx, b"data: 1\n\ndata: 2\n")
    ctx.recording = Recording(b"")
    note_sent(ctx, b"\ndata: 3\n\n")
    assert (ctx.sent, ctx.events, ctx.recording.sent.data) == (27, 2, b"\ndata: 3\n\n")


def test_events_a_second_count_from_the_first_byte_on() -> None:
    ctx = context()
    ctx.events = 30
    assert ended(ctx).summary["tokens_per_second"] == 0.0
    ctx.first_byte = ctx.began + 1
    summary = ended(ctx).summary
    assert (summary["seconds"], summary["first_byte"], summary["tokens_per_second"]) == (4.0, 1.0, 10.0)


def test_a_record_tells_what_became_of_the_request() -> None:
    ctx = context()
    ctx.outcome.calls, ctx.outcome.tries, ctx.outcome.refusals = 2, 1, {"quoted": 3}
    record = ended(ctx)
    told = {key: record.summary[key] for key in ("status", "calls", "tries", "parse", "refusals", "error", "gone")}
    assert told == {
        **{"status": 200, "calls": 2, "tries": 1, "parse": "server"},
        **{"refusals": {"quoted": 3}, "error": "", "gone": False},
    }
    assert record.counts == {(REQUESTS, "answered"): 1, (REFUSALS, "quoted"): 3}
    at = record.summary["at"]
    assert isinstance(at, float) and abs(at - (time.time() - 6)) < 60


@pytest.mark.parametrize(("status", "error"), [(502, ""), (200, "it broke off")], ids=["status", "within the stream"])
def test_a_request_that_failed_counts_as_one(status: int, error: str) -> None:
    ctx = context()
    ctx.outcome.error = error
    assert ended(ctx, status).counts == {(REQUESTS, "failed"): 1}


def test_the_kind_of_a_failure_of_the_model_server_is_told_and_no_secret_of_it() -> None:
    ctx = context()
    ctx.outcome.fail(UpstreamBroken(f"it broke off at {SECRET}"))
    summary = ended(ctx, 502).summary
    assert summary["upstream"] == "broken"
    assert "it broke off" in str(summary["error"])
    assert SECRET not in json.dumps(summary)


def test_repairs_are_told_by_side_and_their_values_only_where_they_may_be_shown() -> None:
    up, healed, down = (Repair(name, f"a {SECRET}", "b", "so", "bash") for name in ("dropped", "heal_x", "finish"))
    ctx = context()
    ctx.outcome.request_audit, ctx.outcome.healed, ctx.outcome.audit = (up,), (healed,), (up, healed, down, down)
    record = ended(ctx)
    plain = {"tool": "bash", "why": "so"}
    repairs: Any = record.summary["repairs"]
    assert repairs[1:3] == [
        {"fix": "heal_x", **plain, "side": "request"},
        {"fix": "finish", **plain, "side": "reply"},
    ]
    assert repairs[0]["side"] == "request"
    assert record.counts == {
        **{(REQUESTS, "answered"): 1, (REPAIRS, "dropped"): 1},
        **{(REPAIRS, "heal_x"): 1, (REPAIRS, "finish"): 2},
    }
    ctx.recording = Recording(b"")
    shown: Any = ended(ctx).summary["repairs"]
    assert shown[0]["after"] == "b" and shown[0]["before"].startswith("a ")
    assert SECRET not in json.dumps(shown)


def test_repairs_and_their_values_are_bounded_and_no_secret_is_cut_in_half() -> None:
    ctx = context()
    long = "x" * (MAX_VALUE - 4) + SECRET
    ctx.outcome.audit = tuple(Repair("finish", long, "", "so") for _ in range(MAX_REPAIRS + 3))
    ctx.recording = Recording(b"")
    summary = ended(ctx).summary
    repairs: Any = summary["repairs"]
    assert (len(repairs), summary["more_repairs"]) == (MAX_REPAIRS, 3)
    assert len(repairs[0]["before"]) == MAX_VALUE and SECRET[:4] not in repairs[0]["before"]


def test_bodies_are_kept_only_under_audit_values_and_secrets_are_masked_in_requests_only() -> None:
    ctx = context()
    assert ended(ctx).parts == {}
    ctx.recording = Recording(f'{{"key": "{SECRET}"}}'.encode())
    ctx.recording.begin_try(b"up", raw_text=False)
    note_sent(ctx, sent := f"data: {SECRET}\n\n".encode())
    record = ended(ctx)
    assert record.summary["values"] is True
    assert [*record.parts] == ["asked", "up 1", "sent"]
    assert record.parts["up 1"] == b"up"
    assert SECRET.encode() not in record.parts["asked"]
    assert record.parts["sent"] == sent


@pytest.mark.parametrize(
    ("settings", "told", "recorded"),
    [({}, True, False), ({"audit_values": True}, True, True), ({"no_ui": True, "audit_values": True}, False, False)],
    ids=["usually", "with values", "without a page"],
)
def test_a_request_under_way_is_told_while_it_is(settings: dict[str, Any], told: bool, recorded: bool) -> None:
    rows: list[Any] = []

    class Noted(Activity):
        """Says nothing to anybody."""

        def begin(self, row: Any) -> Any:
            rows.append(row)
            return rows.clear

    ctx = context(Noted(ActivityRing(SharedFile().transaction), lambda: False, lambda count: None), **settings)
    begin_activity(ctx)
    assert [row()["id"] for row in rows] == (["r1"] if told else [])
    assert (ctx.recording is not None) is recorded
    ctx.give_back()
    assert rows == []


@pytest.mark.parametrize(
    ("route", "told"), [(routes.CHAT, True), (routes.RESPONSES, True), (routes.COUNT_TOKENS, False), (None, False)]
)
def test_the_end_is_told_of_requests_that_ask_a_model(route: routes.Route | None, told: bool) -> None:
    kept: list[tuple[Record, int]] = []

    class Kept(Activity):
        """Keeps all at once."""

        def keep(self, make: Any, size: int = 0) -> None:
            kept.append((make(), size))

    ctx = replace(context(Kept(ActivityRing(SharedFile().transaction), lambda: False, lambda count: None)), route=route)
    end_activity(ctx, 200)
    assert [(record.summary["status"], size) for record, size in kept] == ([(200, len(b"asked"))] if told else [])
