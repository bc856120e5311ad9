"""A call that is being gathered: which delta is still its own (F41, F45, F46), and what is odd about one."""

from __future__ import annotations

import pytest

from proxy.arguments import Gate, LiveArguments
from proxy.deltas import Delta
from proxy.pending import Pending

LS = '{"command": "ls"}'


def call(text: str = "", *, id_: str = "a", name: str = "bash") -> Pending:
    """A call of which this much has come; it is told as soon as its object begins."""
    pending = Pending(id_, 0, names=[name] if name else [])
    if text.startswith("{"):
        pending.gate = Gate(None)
        pending.live = LiveArguments(pending.gate)
        pending.live.feed(text)
    elif text:
        pending.early.append(text)
    return pending


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("", Delta(0, "b", "read", "")),
        ("", Delta(0, "b", "bash", "")),
        (LS[:9], Delta(0, "b", "read", "x")),
        (LS[:9], Delta(0, "b", "bash", "")),
        (LS[:9], Delta(0, "b", "bash", ' {"command')),
        (LS, Delta(0, None, "", ' {"command')),
        (LS, Delta(0, "a", "", "{")),
        (LS, Delta(0, None, "read", "")),
    ],
)
def test_another_call_begins_with_a_delta(text: str, delta: Delta) -> None:
    assert call(text).ends_before(delta)


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("", Delta(0, "b", "", "{")),
        ("", Delta(0, None, "read", "")),
        (LS[:9], Delta(0, "b", "", LS[9:])),
        (LS[:9], Delta(0, "b", "bash", LS[9:])),
        (LS[:9], Delta(0, "a", "bash", LS[9:])),
        ('{"options": ', Delta(0, None, "", '{"a": 1}')),
        (LS, Delta(0, "b", "", "\n")),
        (LS, Delta(0, None, "bash", "")),
    ],
)
def test_a_delta_is_the_same_call_s(text: str, delta: Delta) -> None:
    assert not call(text).ends_before(delta)


@pytest.mark.parametrize(
    ("delta", "odd"),
    [
        (Delta(0, None, "", "x", True), False),
        (Delta(0, None, "", "x", False), True),
        (Delta(1, None, "", "x", True), True),
        (Delta(None, None, "", "x", True), True),
        (Delta(0, "a", "", "x", True), True),
        (Delta(0, "", "", "x", True), True),
        (Delta(0, None, "bash", "x", True), True),
    ],
)
def test_what_clients_do_not_expect_is_seen(delta: Delta, odd: bool) -> None:
    seen = call(LS[:9])
    seen.see(delta)
    assert seen.odd is odd


def test_a_name_behind_the_arguments_is_seen() -> None:
    """Where there was none it is late (F38); where there was one it may be the next call's."""
    late = call("x", name="")
    late.see(Delta(0, None, "bash", "", True))
    assert late.odd and late.again == ""
    again = call(LS)
    again.see(Delta(0, None, "bash", "", True))
    assert again.again == "bash"
    again = call(LS)
    again.see(Delta(0, "a", "bash", "", True))
    assert again.again == ""


@pytest.mark.parametrize(("text", "empty"), [("{}", True), ("{ \n} ", True), ("{", False), (LS, False), ("", False)])
def test_empty_arguments_are_known_once_they_are_whole(text: str, empty: bool) -> None:
    assert call(text).empty is empty


def test_arguments_that_left_are_not_empty_any_more() -> None:
    sent = call("{}")
    sent.done = "{}"
    assert not sent.empty


@pytest.mark.parametrize(
    ("delta", "may"),
    [
        (Delta(0, None, "", "x"), True),
        (Delta(0, "a", "bash", "x"), True),
        (Delta(0, None, "bash", "x"), True),
        (Delta(0, "b", "", "x"), True),
        (Delta(0, "b", "bash", "x"), False),
        (Delta(0, None, "read", "x"), False),
        (Delta(0, "a", "read", "x"), False),
    ],
)
def test_a_delta_may_be_taken_if_nothing_says_that_it_is_another_call_s(delta: Delta, may: bool) -> None:
    assert call("{}").may_take(delta) is may


def test_the_text_is_all_of_the_arguments() -> None:
    assert call(LS).text == LS
    assert call("not JSON").text == "not JSON"
