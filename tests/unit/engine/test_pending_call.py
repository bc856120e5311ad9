"""A call that is being gathered: which delta is still its own (F41, F45, F46), and what is odd about one."""

from __future__ import annotations

import pytest

from proxy.engine.call_delta import CallDelta
from proxy.engine.pending_call import PendingCall
from proxy.engine.release_policy import ReleasePolicy

LS = '{"command": "ls"}'


def call(text: str = "", *, id_: str = "a", name: str = "bash") -> PendingCall:
    """A call of which this much has come; it is told as soon as its object begins."""
    pending = PendingCall(id_, 0, names=[name] if name else [])
    if text.startswith("{"):
        pending.begin(ReleasePolicy(None))
        assert pending.live is not None
        pending.live.feed(text)
    elif text:
        pending.collect(text)
    return pending


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("", CallDelta(0, "b", "read", "")),
        ("", CallDelta(0, "b", "bash", "")),
        (LS[:9], CallDelta(0, "b", "read", "x")),
        (LS[:9], CallDelta(0, "b", "bash", "")),
        (LS[:9], CallDelta(0, "b", "bash", ' {"command')),
        (LS, CallDelta(0, None, "", ' {"command')),
        (LS, CallDelta(0, "a", "", "{")),
        (LS, CallDelta(0, None, "read", "")),
    ],
)
def test_another_call_begins_with_a_delta(text: str, delta: CallDelta) -> None:
    assert call(text).ends_before(delta)


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("", CallDelta(0, "b", "", "{")),
        ("", CallDelta(0, None, "read", "")),
        (LS[:9], CallDelta(0, "b", "", LS[9:])),
        (LS[:9], CallDelta(0, "b", "bash", LS[9:])),
        (LS[:9], CallDelta(0, "a", "bash", LS[9:])),
        ('{"options": ', CallDelta(0, None, "", '{"a": 1}')),
        (LS, CallDelta(0, "b", "", "\n")),
        (LS, CallDelta(0, None, "bash", "")),
    ],
)
def test_a_delta_is_the_same_call_s(text: str, delta: CallDelta) -> None:
    assert not call(text).ends_before(delta)


@pytest.mark.parametrize(
    ("delta", "odd"),
    [
        (CallDelta(0, None, "", "x", True), False),
        (CallDelta(0, None, "", "x", False), True),
        (CallDelta(1, None, "", "x", True), True),
        (CallDelta(None, None, "", "x", True), True),
        (CallDelta(0, "a", "", "x", True), True),
        (CallDelta(0, "", "", "x", True), True),
        (CallDelta(0, None, "bash", "x", True), True),
    ],
)
def test_what_clients_do_not_expect_is_seen(delta: CallDelta, odd: bool) -> None:
    seen = call(LS[:9])
    seen.note(delta)
    assert seen.irregular is odd


def test_a_name_behind_the_arguments_is_seen() -> None:
    """Where there was none it is late (F38); where there was one it may be the next call's."""
    late = call("x", name="")
    late.note(CallDelta(0, None, "bash", "", True))
    assert late.irregular and late.repeated_name == ""
    again = call(LS)
    again.note(CallDelta(0, None, "bash", "", True))
    assert again.repeated_name == "bash"
    again = call(LS)
    again.note(CallDelta(0, "a", "bash", "", True))
    assert again.repeated_name == ""


@pytest.mark.parametrize(("text", "empty"), [("{}", True), ("{ \n} ", True), ("{", False), (LS, False), ("", False)])
def test_empty_arguments_are_known_once_they_are_whole(text: str, empty: bool) -> None:
    assert call(text).empty is empty


def test_arguments_that_left_are_not_empty_any_more() -> None:
    sent = call("{}")
    sent.open(0, "a", "bash")
    sent.complete("{}")
    assert not sent.empty


@pytest.mark.parametrize(
    ("delta", "may"),
    [
        (CallDelta(0, None, "", "x"), True),
        (CallDelta(0, "a", "bash", "x"), True),
        (CallDelta(0, None, "bash", "x"), True),
        (CallDelta(0, "b", "", "x"), True),
        (CallDelta(0, "b", "bash", "x"), False),
        (CallDelta(0, None, "read", "x"), False),
        (CallDelta(0, "a", "read", "x"), False),
    ],
)
def test_a_delta_may_be_taken_if_nothing_says_that_it_is_another_call_s(delta: CallDelta, may: bool) -> None:
    assert call("{}").may_take(delta) is may


def test_the_text_is_all_of_the_arguments() -> None:
    assert call(LS).text == LS
    assert call("not JSON").text == "not JSON"
