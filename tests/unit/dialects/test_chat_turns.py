"""Turns of a conversation as chat messages."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.dialects.chat_turns import (
    AssistantTurn,
    UserTurn,
    content,
    is_own,
    remind,
    reminders,
    text_part,
    turn_of,
)

IMAGE: Any = {"type": "image_url", "image_url": {"url": "data:,"}}
REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"


def result(text: str) -> Any:
    return {"role": "tool", "tool_call_id": "a", "content": text}


def test_only_text_is_one_string() -> None:
    assert content([text_part("a"), text_part("b")]) == "a\n\nb"
    assert content([text_part("a"), IMAGE]) == [text_part("a"), IMAGE]
    assert content([]) == ""


def test_results_come_first_and_what_clients_add_stands_in_the_last_of_them() -> None:
    turn = UserTurn([result("one"), result("two")], [IMAGE], [text_part(REMINDER), text_part("Go on.")])
    assert turn.messages() == [
        result("one"),
        result(f"two\n\n{REMINDER}"),
        {"role": "user", "content": [IMAGE, text_part("Go on.")]},
    ]
    assert UserTurn([result("")], [], [text_part(REMINDER)]).messages() == [result(REMINDER)]


def test_a_turn_of_nothing_is_an_empty_message() -> None:
    assert UserTurn().empty and UserTurn().messages() == [{"role": "user", "content": ""}]
    assert AssistantTurn().empty and AssistantTurn().messages("reasoning") == [{"role": "assistant", "content": ""}]


def test_what_the_assistant_says_calls_and_thinks_is_one_message() -> None:
    turn = AssistantTurn()
    for last, text in (("", "a"), ("text", "b"), ("tool_use", "c"), ("text", "")):
        turn.last = last
        turn.say(text)
    turn.thoughts += ["x", "y"]
    assert turn.prefill == "ab\n\nc"
    assert turn.messages("reasoning") == [{"role": "assistant", "content": "ab\n\nc", "reasoning": "x\n\ny"}]
    turn.calls.append({"id": "a"})
    turn.thought_field = "reasoning_content"
    (message,) = turn.messages("reasoning")
    assert (turn.prefill, message["tool_calls"], message["reasoning_content"]) == ("", [{"id": "a"}], "x\n\ny")
    assert AssistantTurn(calls=[{"id": "a"}]).messages("")[0]["content"] is None


def test_messages_of_one_side_in_a_row_are_one_turn() -> None:
    turns: list[UserTurn | AssistantTurn] = []
    found = [turn_of(role, turns) for role in ("user", "tool", "assistant", "assistant", "user")]
    assert [type(turn) for turn in turns] == [UserTurn, AssistantTurn, UserTurn]
    assert found == [turns[0], turns[0], turns[1], turns[1], turns[2]]


@pytest.mark.parametrize(
    ("text", "own"),
    [("Hi", True), (REMINDER, False), (f" {REMINDER}\n{REMINDER}", False), (f"{REMINDER} Hi", True), ("", False)],
)
def test_reminders_are_not_the_users_words(text: str, own: bool) -> None:
    assert is_own(text_part(text)) is own
    assert is_own(IMAGE)


def test_reminders_are_found_in_a_text() -> None:
    assert reminders(f"a {REMINDER} b <system-reminder>open") == [REMINDER, "<system-reminder>open"]


def test_a_late_system_message_is_user_text_that_is_marked() -> None:
    turn = UserTurn()
    for text in ("Be brief.", REMINDER, "", "<total_tokens>12 left</total_tokens>"):
        remind(turn, text)
    assert turn.parts == [text_part(REMINDER), text_part(REMINDER)]
