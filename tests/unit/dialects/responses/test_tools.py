"""Tool names of Responses requests (C8). The recorded requests cover everything else about tools."""

from __future__ import annotations

import re
from typing import Any

import pytest

from proxy.dialects.responses.tools import Called, Kind, joined_name
from tests.support.responses_ask import CUSTOM, SPACE, TOOL, ask, sent
from tests.support.rows import rows


def test_functions_of_a_namespace_are_sent_under_joined_names_and_restored() -> None:
    translation = sent(ask(tools=[TOOL, SPACE, CUSTOM]))
    names = [each["function"]["name"] for each in translation.body["tools"]]
    assert names == ["run", "agents__close", "apply_patch"]
    assert translation.body["tools"][1]["function"]["description"] == "agents: For agents."
    assert [translation.tools.called(name) for name in (*names, "odd")] == [
        Called(Kind.FUNCTION, "run"),
        Called(Kind.FUNCTION, "close", "agents"),
        Called(Kind.CUSTOM, "apply_patch"),
        Called(Kind.FUNCTION, "odd"),
    ]


@pytest.mark.parametrize(
    ("namespace", "name"),
    [("a" * 60, "b" * 60), ("a.b", "c"), ("a" * 32, "b" * 31), ("é", "c")],
)
def test_a_joined_name_is_short_plain_and_unique(namespace: str, name: str) -> None:
    found = joined_name(namespace, name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", found)
    assert found == joined_name(namespace, name) != joined_name(namespace, f"{name}x")


def test_of_two_equal_names_the_later_one_gets_a_digest() -> None:
    plain = {**TOOL, "name": "agents__close"}
    translation = sent(ask(tools=[SPACE, plain]))
    first, other = [each["function"]["name"] for each in translation.body["tools"]]
    assert first == "agents__close" != other
    assert translation.tools.called(first) == Called(Kind.FUNCTION, "close", "agents")
    assert translation.tools.called(other) == Called(Kind.FUNCTION, "agents__close")


@rows(__file__, "tools,name,namespace")
def test_a_call_without_namespace_is_resolved_if_the_name_is_unique(tools: Any, name: str, namespace: str) -> None:
    """Codex answers "unsupported call" to a name without its namespace."""
    called = sent(ask(tools=tools)).tools.called(name)
    assert (called.kind, called.name, called.namespace) == (Kind.FUNCTION, name, namespace)


def test_names_of_two_namespaces_that_join_equally_stay_different() -> None:
    one = {**SPACE, "name": "a__b", "tools": [{**TOOL, "name": "c"}]}
    two = {**SPACE, "name": "a", "tools": [{**TOOL, "name": "b__c"}]}
    tools = sent(ask(tools=[one, two])).tools
    assert sorted(map(str, tools.by_name.values())) == sorted(
        map(str, (Called(Kind.FUNCTION, "c", "a__b"), Called(Kind.FUNCTION, "b__c", "a")))
    )
