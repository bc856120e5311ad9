"""What the page is told: all of it once, then what is new."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from proxy.activity.record import Record
from proxy.codec.json_text import JsonObject
from proxy.notations.source import Rejection
from proxy.repair.text_report import reasons
from proxy.ui.state import MAX_SHOWN, STATUS_SECONDS, PageState, without_values
from tests.support.live_page import Page, live_page

URL = "http://127.0.0.1:9"
REPAIR: JsonObject = {"fix": "closers", "before": "a", "after": "b"}


@pytest.fixture(name="page")
def _page() -> Iterator[Page]:
    with live_page(URL, audit_values=True) as made:
        yield made


def keep(page: Page, *ids: str, count: int = 0) -> None:
    """Requests that have ended."""
    counts = {("repairs", "closers"): count} if count else {}
    page.activity.ring.add([Record({"id": id_, "repairs": [REPAIR]}, {}, counts) for id_ in ids], time.time())


def shown(page: Page) -> PageState:
    return PageState(page.worker, page.activity)


def news(state: PageState) -> Any:
    """What is told now, as the page reads it."""
    return json.loads(json.dumps(state.news()))


@pytest.mark.parametrize("place", ["", "-7", "other-7", "7", "{ring}-", "{ring}-x", "{ring}-1234567890123456"])
def test_a_place_of_another_ring_or_none_is_the_beginning(page: Page, place: str) -> None:
    keep(page, "a")
    state = shown(page)
    state.go_on(place.replace("{ring}", state.ring))
    assert state.last == 0 and len(news(state)["requests"]) == 1


def test_a_page_has_no_more_than_so_many_requests_at_once(page: Page) -> None:
    keep(page, *map(str, range(MAX_SHOWN + 5)))
    assert len(news(shown(page))["requests"]) == MAX_SHOWN


def test_how_the_servers_do_is_looked_at_now_and_then(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = shown(page)
    assert "status" in state.news()
    now[0] += STATUS_SECONDS - 0.1
    assert "status" not in state.news()
    now[0] += 0.1
    assert "status" in state.news()


@pytest.mark.parametrize("summary", [{}, {"repairs": None}, {"repairs": [7]}, {"repairs": []}])
def test_a_request_without_repairs_has_no_values(summary: JsonObject) -> None:
    assert without_values(summary) == {"repairs": [], "values": False}


def test_every_reason_has_its_sentence() -> None:
    told = reasons()
    assert {rejection.label for rejection in Rejection} <= told.keys()
    assert "no_name" in told and all(told.values())
