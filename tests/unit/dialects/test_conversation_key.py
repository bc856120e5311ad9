"""Conversation keys: equal for all requests of a conversation, different between conversations."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat.request import conversation_key
from tests.support.rows import rows


def said(role: str, text: str) -> Any:
    return {"role": role, "content": text}


def key(model: str, body: dict[str, Any]) -> str:
    return conversation_key({**body, "model": model})


FIRST = [said("system", "Be brief."), said("user", "Fix it.")]


@rows(__file__, "body")
def test_all_requests_of_a_conversation_have_one_key(body: dict[str, Any]) -> None:
    """This holds in every dialect. Only Responses requests may name a key."""
    assert key("m", body) == key("m", {"messages": FIRST}) != ""


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [said("system", "Be long."), FIRST[1]]},
        {"messages": [FIRST[0], said("user", "Break it.")]},
        {"messages": [FIRST[1]]},
        {"messages": [FIRST[0]]},
        {"input": "Fix it.", "instructions": "Be brief.", "prompt_cache_key": "mine"},
    ],
)
def test_another_beginning_has_another_key(body: dict[str, Any]) -> None:
    assert key("m", body) not in (key("m", {"messages": FIRST}), "")
    assert key("m", body) != key("n", body)


def test_a_named_key_overrides_everything_else() -> None:
    bodies: list[dict[str, Any]] = [{"input": text, "prompt_cache_key": "mine"} for text in ("a", "b")]
    one, other = (key("m", body) for body in bodies)
    assert one == other != ""


@pytest.mark.parametrize("body", [{}, {"messages": []}, {"messages": [said("assistant", "Hi")]}, {"input": ""}])
def test_without_messages_there_is_no_key(body: dict[str, Any]) -> None:
    assert key("m", body) == ""
