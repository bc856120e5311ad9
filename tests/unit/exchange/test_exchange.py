"""What the answers of one exchange teach: whether its request goes up again, and how."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from proxy.engine.events import Text
from proxy.errors import ClientGone, ProxyError, UpstreamRefused
from proxy.exchange.exchange import log_crash, no_count
from proxy.exchange.plan import Plan
from proxy.exchange.second_try import SILENT, Why
from tests.support.answered_exchange import Answered, answered

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
EVERY = frozenset(Why)
BROKEN = Text(0, '<tool_call>{"name": "bash', broken="bash")


def given(steps: Generator[bytes, None, Plan | None]) -> Plan | None:
    """The plan, behind the steps before it; without a driver there are none."""
    said: list[bytes] = []
    while True:
        try:
            said.append(next(steps))
        except StopIteration as done:
            assert said == []
            plan: Plan | None = done.value
            return plan


def second(made: Answered, error: ProxyError, plan: Plan | None = None) -> Plan | None:
    return given(made.exchange.second(plan or made.exchange.plan, error))


def once_more(made: Answered, silence: Why | None, *, kept: bool = False, **more: Any) -> Plan | None:
    plan, broken = more.get("plan", made.exchange.plan), more.get("broken")
    return given(made.exchange.once_more(plan, silence, broken, withheld=kept))


def refused(message: str, status: int = 400) -> UpstreamRefused:
    return UpstreamRefused(message, status=status)


def test_a_server_without_a_parser_is_asked_again_and_remembered() -> None:
    made = answered(auto=True)
    again = second(made, refused(NO_PARSER))
    assert again is not None and (again.parse, again.server_kind) == ("proxy", "vllm")
    assert made.known.parser_failures == 1


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({}, refused(NO_PARSER)),
        ({"auto": True}, ClientGone("gone")),
        ({"auto": True}, refused("no such model", 404)),
    ],
    ids=["the rules say who parses", "not the server's", "another refusal"],
)
def test_where_nothing_is_learnt_there_is_no_second_plan(more: dict[str, Any], error: ProxyError) -> None:
    made = answered(**more)
    assert second(made, error) is None and made.known.parser_failures == 0


@pytest.mark.parametrize("why", [*Why, None])
def test_without_leave_nothing_is_asked_again(why: Why | None) -> None:
    assert once_more(answered(auto=True), why) is None


@pytest.mark.parametrize("why", [Why.EMPTY, Why.THOUGHT])
def test_a_reply_that_says_nothing_goes_up_as_it_did(why: Why) -> None:
    made = answered(ask_again=SILENT, auto=True)
    assert once_more(made, why) == replace(made.exchange.plan, again=why)


def test_a_swallowed_call_is_asked_for_by_the_other_parser() -> None:
    made = answered(ask_again=SILENT, auto=True)
    again = once_more(made, Why.SWALLOWED)
    assert again is not None and (again.parse, again.server_kind, again.again) == ("proxy", "vllm", Why.SWALLOWED)
    back = answered(ask_again=SILENT, plan=Plan(parse="proxy", server_kind="vllm"))
    again = once_more(back, Why.SWALLOWED)
    assert again is not None and again.parse == "server"


def test_where_the_rules_say_who_parses_it_stays_so() -> None:
    again = once_more(answered(ask_again=SILENT, plan=Plan(parse="server")), Why.SWALLOWED)
    assert again is not None and again.parse == "server"


def test_a_broken_call_is_asked_for_in_an_answer_that_is_whole() -> None:
    made = answered(ask_again=EVERY)
    again = once_more(made, Why.BROKEN, broken=BROKEN)
    assert again is not None
    assert (again.guided, again.transport, again.second, again.server_kind) == ("bash", "whole", True, "vllm")


def test_a_second_reply_that_says_nothing_is_the_last() -> None:
    made = answered(ask_again=SILENT, auto=True)
    assert once_more(made, Why.EMPTY, plan=Plan(again=Why.EMPTY)) is None


@pytest.mark.parametrize(("kept", "failures"), [(True, 0), (False, 1)])
def test_only_where_its_end_was_kept_back_a_second_reply_is_followed_by_a_third(kept: bool, failures: int) -> None:
    """What has left cannot be taken back; for the next request it is remembered."""
    made = answered(ask_again=SILENT, auto=True)
    again = once_more(made, Why.SWALLOWED, kept=kept, plan=Plan(again=Why.EMPTY))
    assert (again is not None and again.parse == "proxy") is kept
    assert made.known.parser_failures == failures


@pytest.mark.parametrize(
    ("plan", "calls", "failures"),
    [
        (Plan(parse="proxy", again=Why.SWALLOWED), 1, 1),
        (Plan(parse="proxy", again=Why.SWALLOWED), 0, 0),
        (Plan(parse="proxy", again=Why.EMPTY), 1, 0),
        (Plan(parse="server", again=Why.SWALLOWED), 1, 0),
        (Plan(parse="proxy"), 1, 0),
    ],
    ids=["found here", "none there", "it was empty", "found by the server", "a first try"],
)
def test_calls_that_only_the_proxy_finds_show_that_the_server_cannot(plan: Plan, calls: int, failures: int) -> None:
    made = answered(auto=True)
    made.exchange.note_calls(plan, calls)
    assert made.known.parser_failures == failures


def test_nobody_counts_and_a_defect_is_logged(logged: pytest.LogCaptureFixture) -> None:
    assert no_count("a text") == 0
    log_crash(ZeroDivisionError("a defect"))
    (record,) = logged.records
    assert record.exc_info is not None and "a defect" in logged.text
