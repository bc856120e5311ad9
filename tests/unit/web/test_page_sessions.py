"""Who has signed in at the live page: for how long, with which key, and until when."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from proxy.activity.activity import Activity
from proxy.activity.ring import ActivityRing
from proxy.web.access import SECONDS, begin_session, end_session, has_session
from proxy.worker.shared_file import SharedFile

ADMIN, OTHER = b"a" * 32, b"b" * 32


@pytest.fixture(name="activity")
def _activity() -> Iterator[Activity]:
    """Whose ring is in memory."""
    made = Activity(ActivityRing(SharedFile().transaction), lambda: False, lambda count: None)
    yield made
    made.close()


def test_a_token_holds_for_the_key_with_which_it_was_given_alone(activity: Activity) -> None:
    token = begin_session(activity, ADMIN)
    assert has_session(activity, ADMIN, token)
    assert not has_session(activity, OTHER, token)


def test_each_who_signs_in_has_one_of_his_own(activity: Activity) -> None:
    first, second = begin_session(activity, ADMIN), begin_session(activity, ADMIN)
    assert first != second
    end_session(activity, ADMIN, first)
    assert (has_session(activity, ADMIN, first), has_session(activity, ADMIN, second)) == (False, True)


def test_nobody_else_ends_it(activity: Activity) -> None:
    token = begin_session(activity, ADMIN)
    end_session(activity, OTHER, token)
    end_session(activity, ADMIN, f"{token}x")
    assert has_session(activity, ADMIN, token)


def test_it_ends_by_itself(activity: Activity, monkeypatch: pytest.MonkeyPatch) -> None:
    token, now = begin_session(activity, ADMIN), time.time()
    for later, holds in ((SECONDS - 60, True), (SECONDS + 60, False)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        assert has_session(activity, ADMIN, token) is holds


@pytest.mark.parametrize("token", ["", "x", "\u00fc", "\u20ac", "\x00"])
def test_any_other_token_holds_for_nothing(activity: Activity, token: str) -> None:
    begin_session(activity, ADMIN)
    assert not has_session(activity, ADMIN, token)


def test_without_a_page_there_are_none() -> None:
    assert not has_session(None, ADMIN, "token")
