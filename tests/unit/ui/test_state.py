"""What the page is told: all of it once, then what is new."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from proxy import __version__
from proxy.activity.record import Record
from proxy.activity.ring import MINUTES
from proxy.codec.json_text import JsonObject
from proxy.notations.source import Rejection
from proxy.repair.text_report import reasons
from proxy.ui.state import MAX_SHOWN, STATUS_SECONDS, PageState, without_values
from tests.support.live_page import Page, admin, live_page

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


def test_at_first_all_of_it_is_told_and_then_what_is_new(page: Page) -> None:
    keep(page, "a", "b")
    state = shown(page)
    first = news(state)
    assert {*first} == {"ring", "now", "live", "requests", "counts", "status"}
    assert [one["id"] for one in first["requests"]] == ["a", "b"]
    assert {*state.news()} <= {"ring", "now", "live", "counts"}
    keep(page, "c")
    (new,) = news(state)["requests"]
    assert new["id"] == "c"


def test_a_page_that_has_lost_its_connection_goes_on_from_its_place(page: Page) -> None:
    keep(page, "a")
    one = shown(page)
    one.news()
    keep(page, "b")
    other = shown(page)
    other.go_on(one.event_id)
    assert other.event_id == one.event_id
    (new,) = news(other)["requests"]
    assert new["id"] == "b"


@pytest.mark.parametrize("place", ["", "-7", "other-7", "7", "{ring}-", "{ring}-x", "{ring}-1234567890123456"])
def test_a_place_of_another_ring_or_none_is_the_beginning(page: Page, place: str) -> None:
    keep(page, "a")
    state = shown(page)
    state.go_on(place.replace("{ring}", state.ring))
    assert state.last == 0 and len(news(state)["requests"]) == 1


def test_a_page_has_no_more_than_so_many_requests_at_once(page: Page) -> None:
    keep(page, *map(str, range(MAX_SHOWN + 5)))
    assert len(news(shown(page))["requests"]) == MAX_SHOWN


def test_what_was_counted_is_told_by_minute(page: Page) -> None:
    keep(page, "a", count=3)
    counts = news(shown(page))["counts"]
    assert len(counts["repairs"]["closers"]) == MINUTES and sum(counts["repairs"]["closers"]) == 3


def test_how_the_servers_do_is_looked_at_now_and_then(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    state = shown(page)
    assert "status" in state.news()
    now[0] += STATUS_SECONDS - 0.1
    assert "status" not in state.news()
    now[0] += 0.1
    assert "status" in state.news()


def test_the_status_says_what_is_in_force() -> None:
    with live_page(URL, keys=admin("secret")) as page:
        status = news(shown(page))["status"]
    assert (status["version"], status["values"]) == (__version__, False)
    assert status["signed_in"]
    assert [server["url"] for server in status["servers"]] == [URL] and not status["servers"][0]["ready"]
    assert status["reasons"] == reasons() and status["lost"] == 0


def test_values_that_may_be_shown_no_more_are_left_out() -> None:
    with live_page(URL) as page:
        keep(page, "a")
        (told,) = news(shown(page))["requests"]
    assert told["repairs"] == [{"fix": "closers"}]
    assert told["values"] is False


@pytest.mark.parametrize("summary", [{}, {"repairs": None}, {"repairs": [7]}, {"repairs": []}])
def test_a_request_without_repairs_has_no_values(summary: JsonObject) -> None:
    assert without_values(summary) == {"repairs": [], "values": False}


def test_every_reason_has_its_sentence() -> None:
    told = reasons()
    assert {rejection.label for rejection in Rejection} <= told.keys()
    assert "no_name" in told and all(told.values())
