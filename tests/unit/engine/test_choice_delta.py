"""What one entry of a chunk's `choices` says (F64)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.engine.call_delta import CallDelta
from proxy.engine.choice_delta import read_choice
from proxy.engine.events import Reasoning, Text
from proxy.errors import UnreadableReply
from tests.support.helpers import delta


def test_text_reasoning_and_finish() -> None:
    said = read_choice(delta(0, "stop", content="a", reasoning="b"))
    assert (said.text, said.reasoning, said.finish, said.calls) == ("a", "b", "stop", ())
    assert said.content(3) == [Reasoning(3, "b"), Text(3, "a")]
    assert not said.sign_of_life


def test_content_in_parts_is_their_text() -> None:
    parts: list[Any] = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}, {"type": "text"}, "b"]
    assert read_choice(delta(content=[*parts, {"type": "text", "text": "c"}])).text == "abc"


def test_reasoning_in_content_parts_is_reasoning() -> None:
    """Mistral sends it so."""
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": "a"}, "b"]}, {"thinking": "c"}]
    said = read_choice(delta(content=[*thoughts, {"type": "reasoning", "text": "d"}, {"type": "text", "text": "e"}]))
    assert (said.reasoning, said.text) == ("abcd", "e")
    assert read_choice(delta(reasoning=[{"type": "text", "text": "a"}])).reasoning == "a"


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
        {"delta": []},
        {"index": 0, "delta": {"content": [], "reasoning": 5}, "finish_reason": 5},
        {"delta": {"content": [None, {"type": "image"}], "reasoning": {}}},
        {"delta": {"content": [{"type": "image_url", "image_url": {"url": "a"}}, {"type": "foo", "id": "a"}]}},
        {"delta": {"content": [{"type": "thinking", "thinking": "", "signature": "a"}]}},
        {"delta": {"tool_calls": 5, "function_call": 5}, "message": "z"},
        {"delta": {"tool_calls": [None, 5, []], "function_call": {}}},
    ],
    ids=str,
)
def test_what_can_hold_no_text_is_not_said(entry: dict[str, Any]) -> None:
    said = read_choice(entry)
    assert (said.text, said.reasoning, said.finish, said.calls, said.content(0)) == ("", "", None, (), [])


@pytest.mark.parametrize(
    "entry",
    [
        {"delta": "text"},
        {"delta": ["text"]},
        *({"delta": {"content": content}} for content in ({}, {"text": "a"}, 5, False, [["a"]], [{"text": {"a": 1}}])),
        {"delta": {"content": [{"thinking": {"text": ["a"]}}]}},
        {"delta": {"content": "a", "reasoning": {"text": "a"}}},
        {"delta": {}, "finish_reason": {"type": "length"}},
        {"delta": {"tool_calls": "x"}},
        {"delta": {"tool_calls": {"index": 0, "function": {"name": "f", "arguments": "{}"}}}},
        {"delta": {"tool_calls": ["x"]}},
        {"delta": {"tool_calls": [{"index": 0, "function": "f", "arguments": "{}"}]}},
        {"delta": {"function_call": "f"}},
        {"message": {"tool_calls": "x"}},
    ],
    ids=str,
)
def test_what_may_hold_text_and_cannot_be_read_is_an_error(entry: dict[str, Any]) -> None:
    with pytest.raises(UnreadableReply):
        read_choice(entry)


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
