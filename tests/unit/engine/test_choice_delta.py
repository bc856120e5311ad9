"""What one entry of a chunk's `choices` says (F64)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.call_delta import CallDelta
from proxy.engine.choice_delta import read_choice
from proxy.engine.events import Reasoning, Text
from tests.support.helpers import delta


def test_text_reasoning_and_finish() -> None:
    said = read_choice(delta(0, "stop", content="a", reasoning="b"))
    assert (said.text, said.reasoning, said.finish, said.calls) == ("a", "b", "stop", ())
    assert said.content(3) == [Reasoning(3, "b"), Text(3, "a")]
    assert not said.sign_of_life


def test_content_in_parts_is_their_text() -> None:
    parts: list[Any] = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}, {"type": "text"}, "b"]
    assert read_choice(delta(content=[*parts, {"type": "text", "text": "c"}])).text == "ac"


def test_the_other_name_of_the_reasoning_counts_where_the_first_is_empty() -> None:
    """F73."""
    assert read_choice(delta(reasoning_content="a")).reasoning == "a"
    assert read_choice(delta(reasoning="", reasoning_content="a")).reasoning == "a"
    assert read_choice(delta(reasoning="b", reasoning_content="a")).reasoning == "b"


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"delta": None},
        {"delta": "text"},
        {"delta": []},
        {"index": 0, "delta": {"content": ["a"], "reasoning": 5}, "finish_reason": 5},
        {"delta": {"tool_calls": "x", "function_call": "y"}, "message": "z"},
    ],
    ids=str,
)
def test_what_has_the_wrong_type_is_not_said(entry: dict[str, Any]) -> None:
    said = read_choice(entry)
    assert (said.text, said.reasoning, said.finish, said.calls, said.content(0)) == ("", "", None, (), [])


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"content": ""},
        {"content": None, "tool_calls": []},
        {"content": "", "reasoning": None, "refusal": None},
        {"tool_call_generating": True},
    ],
    ids=str,
)
def test_f64_a_delta_that_says_nothing(said: dict[str, Any]) -> None:
    assert read_choice(delta(**said)).sign_of_life
    assert read_choice({**delta(**said), "logprobs": None}).sign_of_life
    assert not read_choice({**delta(**said), "logprobs": {"content": [1]}}).sign_of_life
    assert not read_choice(delta(0, "stop", **said)).sign_of_life


@pytest.mark.parametrize("said", [{"role": "assistant"}, {"content": " "}, {"refusal": "no"}, {"more": [1]}], ids=str)
def test_f64_whatever_else_is_something(said: dict[str, Any]) -> None:
    assert not read_choice(delta(**said)).sign_of_life


def test_an_empty_list_of_calls_is_noted() -> None:
    assert read_choice(delta(tool_calls=[])).empty_calls
    assert not read_choice(delta(tool_calls=None)).empty_calls
    assert not read_choice(delta()).empty_calls


def test_a_whole_message_beside_the_delta_gives_its_calls() -> None:
    """F25: what was lost in the stream is there."""
    function = {"name": "f", "arguments": "{}"}
    entry = {**delta(content="a"), "message": {"content": "b", "tool_calls": [{"id": "x", "function": function}]}}
    said = read_choice(entry)
    assert said.text == "a"
    assert said.calls == (CallDelta(0, "x", "f", "{}", standard=True, complete=True),)
