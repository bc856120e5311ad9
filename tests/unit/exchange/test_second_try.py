"""The second try after a silent reply: its conditions, and how the two replies are joined (F63, F72)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat.request import read_chat
from proxy.engine.events import Event, Reasoning, Text
from proxy.exchange.plan import SILENT, Why, reasons_to_ask_again
from proxy.exchange.second_try import summed
from proxy.json import JsonObject
from tests.support.rows import rows
from tests.unit.exchange.test_reply_content import STOP, said

TOOLS: list[Any] = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
BROKEN = Text(0, '<tool_call>{"name": "read', broken="read")


def reasons(*, broken: bool = True, **fields: Any) -> frozenset[Why]:
    body = {"model": "m", "messages": [{"role": "user", "content": "Q"}], "tools": TOOLS, **fields}
    return reasons_to_ask_again(read_chat(b"", body), broken=broken)


@rows(__file__, "fields")
def test_a_request_whose_replies_cannot_be_joined_is_not_retried(fields: dict[str, Any]) -> None:
    assert reasons(**fields) == frozenset()


@pytest.mark.parametrize("fields", [{"n": 1}, {"n": None}, {"messages": []}, {"messages": ["odd"]}])
def test_any_other_request_may_be_retried(fields: dict[str, Any]) -> None:
    assert reasons(**fields) == {*SILENT, Why.BROKEN}


@pytest.mark.parametrize(
    "events,tokens,why",
    [
        ([], 0, Why.EMPTY),
        ([], 1, Why.EMPTY),
        ([], 2, Why.SWALLOWED),
        ([Text(0, "\n\n")], 3, Why.EMPTY),
        ([Text(0, "\n\n")], 4, Why.SWALLOWED),
        ([Reasoning(0, "a")], 40, Why.THOUGHT),
        ([Text(0, "a")], 40, None),
    ],
)
def test_tokens_without_content_were_swallowed(events: list[Event], tokens: int, why: Why | None) -> None:
    """Whitespace takes at most one token, and so does the end of the turn."""
    assert said(*events, STOP).why_again(tokens) is why


def test_nested_usage_counts_are_summed() -> None:
    one: JsonObject = {"prompt_tokens": 1, "details": {"cached": 1, "audio": None}, "cost": 0.5, "mine": 1}
    other: JsonObject = {"prompt_tokens": 2, "details": {"cached": 3, "audio": 1}, "cost": 0.25, "other": None}
    assert summed(one, other) == {
        **{"prompt_tokens": 3, "details": {"cached": 4, "audio": 1}, "cost": 0.75},
        **{"mine": 1, "other": None},
    }
