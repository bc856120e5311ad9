"""Repeated calls with the same arguments and the same result (F92)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.healing.heal import HealPlan, heal_request
from proxy.healing.parameters import OfferedTools
from proxy.healing.results import newest_repeat, tell_repeats
from tests.healing.shapes import call, calls, result, user

SENTENCE = "[This call of read_file with these arguments has now been made {} times, each time with this result.]"


def made(*results: str, path: str = "a") -> list[dict[str, Any]]:
    """Return a conversation in which one call has these results."""
    messages: list[dict[str, Any]] = [user()]
    for number, text in enumerate(results):
        arguments = '{"path": "' + path + '"}'
        messages += [calls(call(id=f"c{number}", arguments=arguments)), result(text=text, tool_call_id=f"c{number}")]
    return messages


def results_of(messages: Any) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


def test_the_fifth_and_every_later_repeat_is_annotated() -> None:
    annotated = results_of(tell_repeats(made(*["same"] * 7), ()))
    assert annotated[:4] == ["same"] * 4
    assert annotated[4:] == [f"same\n\n{SENTENCE.format(number)}" for number in (5, 6, 7)]


def test_calls_with_other_results_or_arguments_are_not_repeats() -> None:
    for messages in (made(*"abcdefg"), [*made(*"aaaa"), *made(*"aaaa", path="b")]):
        assert [*tell_repeats(messages, ())] == messages


def test_other_results_in_between_do_not_matter() -> None:
    """C8: only earlier messages decide where the sentence is added."""
    annotated = results_of(tell_repeats(made("a", "b", "a", "a", "b", "a", "a", "c"), ()))
    assert annotated == ["a", "b", "a", "a", "b", "a", f"a\n\n{SENTENCE.format(5)}", "c"]


@pytest.mark.parametrize("glob", ["read_file", "read_*"])
def test_tools_that_poll_are_exempt(glob: str) -> None:
    messages = made(*["same"] * 7)
    assert [*tell_repeats(messages, (glob,))] == messages
    assert newest_repeat(messages, (glob,)) == ("", 1)
    plan = HealPlan(tools=OfferedTools(polls=(glob,)))
    assert heal_request({"messages": [*messages]}, plan).repairs == ()


@pytest.mark.parametrize(
    "results,newest", [("", 1), ("a", 1), ("aa", 2), ("aab", 1), ("aaba", 3), ("aaaaaa", 6), ("abab", 2)]
)
def test_only_repeats_of_the_newest_call_are_logged(results: str, newest: int) -> None:
    assert newest_repeat(made(*results), ())[1] == newest


def test_a_repeat_is_recorded_and_can_be_switched_off() -> None:
    messages = made(*["same"] * 5)
    (repair,) = heal_request({"messages": [*messages]}, HealPlan()).repairs
    assert repair.id == "heal_repeated_calls" and "5 times" in repair.after
    off = HealPlan(off=frozenset(("repeated_calls",)))
    assert heal_request({"messages": [*messages]}, off).repairs == ()


def test_results_with_more_than_text_are_not_repeats() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [
        message if message["role"] != "tool" else {**message, "content": [picture]} for message in made(*"aaaaaa")
    ]
    assert [*tell_repeats(messages, ())] == messages


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from("ab"), max_size=14), st.data())
def test_annotating_twice_changes_nothing_and_keeps_the_beginning(results: list[str], data: st.DataObject) -> None:
    messages = made(*results)
    whole = [*tell_repeats(messages, ())]
    assert [*tell_repeats(whole, ())] == whole
    cut = data.draw(st.integers(0, len(messages)))
    assert [*tell_repeats(messages[:cut], ())] == whole[:cut]
