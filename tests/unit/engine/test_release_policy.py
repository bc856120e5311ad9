"""What of a call may leave before its end: all that no repair can change (contract C2)."""

from __future__ import annotations

import pytest

from proxy.engine.release_policy import ReleasePolicy, release_policy
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import offered


def policy_of(written: str, *, hold_all: bool = False) -> ReleasePolicy:
    return release_policy(Repairer(offered(), Policy()), written, hold_all=hold_all)


@pytest.mark.parametrize(("written", "name"), [("bash", "bash"), ("functions.Bash:0", "bash"), ("nope", None)])
def test_the_policy_is_that_of_the_offered_tool(written: str, name: str | None) -> None:
    tool = policy_of(written).tool
    assert (tool.name if tool else None) == name


@pytest.mark.parametrize("hold_all", [True, False])
def test_who_asks_to_hold_all_gets_it(hold_all: bool) -> None:
    assert policy_of("bash", hold_all=hold_all).hold_all is hold_all


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ('{"command": "ls"}', True),
        ('{"command": "ls", "timeout": "10"}', False),
        ('{"command": "ls"', False),
        ("not JSON", False),
    ],
)
def test_what_needs_no_repair_is_accepted(text: str, accepted: bool) -> None:
    assert policy_of("bash").accepts(text) is accepted


@pytest.mark.parametrize(("name", "accepted"), [("bash", False), ("now", True), ("nope", True)])
def test_empty_arguments_are_accepted_of_a_tool_that_takes_none(name: str, accepted: bool) -> None:
    """F25: those of every other tool may still come."""
    assert policy_of(name).accepts("{}") is accepted


def test_keys_that_the_tool_does_not_have_are_not_known() -> None:
    assert policy_of("bash").knows("command")
    assert not policy_of("bash").knows("cmd")
    assert policy_of("nope").knows("cmd")
    assert policy_of("now").knows("cmd")


def test_a_value_that_no_rule_touches_is_kept() -> None:
    policy = policy_of("bash")
    assert policy.rule_keys == frozenset()
    assert policy.keeps("command", "ls")
    assert ReleasePolicy(None).keeps("command", "ls") and ReleasePolicy(None).accepts("{}")
