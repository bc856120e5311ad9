"""Who speaks, and in which order: each healing on conversations that need it, and on those that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.codec.json_text import JsonObject
from proxy.healing import roles

Healing = Callable[[JsonObject], JsonObject]
CALL: Any = {"id": "a", "type": "function", "function": {"name": "read"}}


def said(*turns: str) -> list[Any]:
    """`user: Hi` for each message; `call` and `result` for a call and its result."""
    made: list[Any] = []
    for turn in turns:
        role, _, text = turn.partition(": ")
        if turn == "call":
            made.append({"role": "assistant", "content": None, "tool_calls": [CALL]})
        elif role == "result":
            made.append({"role": "tool", "tool_call_id": "a", "content": text})
        else:
            made.append({"role": role, "content": text})
    return made


def reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"


LATE = (
    roles.remind_late_systems,
    ("user: a", "system: b", "user: c"),
    ("user: a", f"user: {reminder('b')}", "user: c"),
)
CASES: list[tuple[Healing, tuple[str, ...], tuple[str, ...]]] = [
    (roles.rename_developer, ("developer: a", "user: b"), ("system: a", "user: b")),
    (roles.drop_token_counts, ("user: a", "system: <total_tokens>9 left</total_tokens>"), ("user: a",)),
    (
        roles.merge_systems,
        ("system: a", "system: b", "user: c", "system: d"),
        ("system: a\n\nb", "user: c", "system: d"),
    ),
    (
        roles.remind_late_systems,
        ("user: a", "system: b", "user: c"),
        ("user: a", f"user: {reminder('b')}", "user: c"),
    ),
    (roles.remind_late_systems, ("call", "result: a", "system: b"), ("call", f"result: a\n\n{reminder('b')}")),
    (roles.give_system_to_user, ("system: a", "system: b", "user: c"), ("user: a\n\nb\n\nc",)),
    (roles.give_system_to_user, ("system: a", "assistant: b"), ("user: a", "assistant: b")),
    (roles.begin_with_user, ("system: a", "assistant: b"), ("system: a", "user: Continue.", "assistant: b")),
    (roles.put_text_into_results, ("call", "result: a", "user: b"), ("call", "result: a\n\nb")),
    (roles.alternate, ("user: a", "user: b"), ("user: a\n\nb",)),
    (
        roles.alternate,
        ("call", "result: a", "user: b", "assistant: c", "assistant: d"),
        ("call", "result: a", "assistant: Understood.", "user: b", "assistant: c", "user: Continue.", "assistant: d"),
    ),
    (roles.end_with_user, ("user: a", "assistant: b"), ("user: a", "assistant: b", "user: Continue.")),
    (
        roles.end_with_user,
        ("assistant: a", "assistant: b", "user: c"),
        ("assistant: a", "user: Continue.", "assistant: b", "user: c"),
    ),
]


@pytest.mark.parametrize(("healing", "before", "after"), CASES)
def test_each_does_its_part(healing: Healing, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    healed = healing({"messages": said(*before)})
    assert healed == {"messages": said(*after)}
    assert healing(healed) is healed, "twice is once"


WELL: list[tuple[Healing, tuple[str, ...]]] = [
    (roles.rename_developer, ("system: a", "user: b")),
    (roles.drop_token_counts, ("system: <total_tokens>9 left</total_tokens>",)),
    (roles.merge_systems, ("system: a", "user: b")),
    (roles.remind_late_systems, ("system: a", "system: b", "user: c")),
    (roles.remind_late_systems, ("system: a",)),
    (roles.give_system_to_user, ("user: a", "system: b")),
    (roles.begin_with_user, ("system: a", "user: b")),
    (roles.put_text_into_results, ("user: a", "call", "result: b", "assistant: c", "user: d")),
    (roles.alternate, ("system: a", "user: b", "call", "result: c", "result: d", "assistant: e")),
    (roles.end_with_user, ("user: a", "call")),
    (roles.end_with_user, ("assistant: a", "user: b")),
]


@pytest.mark.parametrize(("healing", "messages"), WELL)
def test_what_needs_nothing_stays_the_very_same(healing: Healing, messages: tuple[str, ...]) -> None:
    body: Any = {"messages": said(*messages)}
    assert healing(body) is body


@pytest.mark.parametrize("more", [{"continue_final_message": True}, {"add_generation_prompt": False}])
def test_an_answer_that_is_to_go_on_is_not_spoken_to(more: Any) -> None:
    body = {"messages": said("user: a", "assistant: b"), **more}
    assert roles.end_with_user(body) is body
