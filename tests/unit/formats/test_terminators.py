"""Where a call must be over, and what stands directly behind one (F3, F18)."""

from __future__ import annotations

import pytest

from proxy.formats.markers import AFTER_CALL, END_OF_TURN, MARKER_CLOSERS, encoded
from proxy.formats.terminators import LEFTOVERS, closes, completed_value, ends_here, leftover
from proxy.formats.xml_tags import read_tag
from tests.support.helpers import outcome


@pytest.mark.parametrize(
    "inside",
    ["/tool_call", "/tools", "/function", "/invoke", "/seed:tool_call", "/Call", "/｜DSML｜invoke", "/Parameters"],
)
def test_the_end_tags_of_calls_and_of_wrappers_close(inside: str) -> None:
    found = read_tag(inside)
    assert found is not None and closes(found)


@pytest.mark.parametrize("inside", ["tool_call", "function=bash", "/parameter", "/arg_value", "/b", "/think"])
def test_no_other_tag_closes(inside: str) -> None:
    found = read_tag(inside)
    assert found is not None and not closes(found)


ENDS = {
    "the end": "",
    "blanks": " \n",
    "a wrapper's end tag": "\n</tool_call> and more",
    "another one's": "</tools>",
    "a call's end tag": "</function>",
    "a marker's end": "<|tool_call_end|>x",
    "a fence's end": "\n```\nmore",
    "the end of the turn": "<|im_end|>",
    "ends of turns": "<|im_end|>\n</s> <|eot_id|>\n",
    "the next message": "<|end|><|start|>assistant",
}


@pytest.mark.parametrize("name", ENDS)
def test_a_call_must_be_over_at_what_closes_something_or_at_the_end(name: str) -> None:
    found = outcome(ends_here, ENDS[name])
    assert (found.given, found.rest) == (True, ENDS[name])


@pytest.mark.parametrize("text", ["", " \n", "<|im_end|>", "</s>\n"])
def test_where_the_reply_was_cut_off_nothing_must_be_over(text: str) -> None:
    """C4: an end-of-turn token is the model's own, whatever the server says."""
    assert outcome(ends_here, text, stopped=False).given is (bool(text.strip()))


GOES_ON = {
    "prose": "x",
    "prose behind blanks": "\n so",
    "a tag": "<b>",
    "the end tag of something else": "</b>",
    "the end tag of a parameter": "</parameter>",
    "another call": "<function=bash>",
    "half an end tag": "</tool_",
    "an end of turn, and more": "<|im_end|> and more",
    "a comma": ",",
    "too many blanks": " " * 100,
}


@pytest.mark.parametrize("name", GOES_ON)
def test_anywhere_else_a_call_may_go_on(name: str) -> None:
    found = outcome(ends_here, GOES_ON[name])
    assert (found.given, found.rest) == (False, GOES_ON[name])


@pytest.mark.parametrize("token", LEFTOVERS, ids=bytes.decode)
def test_each_token_behind_a_call_is_left_over(token: bytes) -> None:
    """F18."""
    found = outcome(leftover, f"{token.decode()}x", cuts=5)
    assert (found.given, found.rest) == (True, "x")


def test_what_is_left_over_are_the_closers_and_the_ends_of_turns() -> None:
    assert set(LEFTOVERS) == {*MARKER_CLOSERS, *encoded(*END_OF_TURN, *AFTER_CALL)}


@pytest.mark.parametrize(
    ("text", "rest"), [("</tool_call>\n", "\n"), ("</function>x", "x"), ("</｜DSML｜tool_calls>", "")]
)
def test_end_tags_behind_a_call_are_left_over(text: str, rest: str) -> None:
    """F3."""
    found = outcome(leftover, text)
    assert (found.given, found.rest) == (True, rest)


@pytest.mark.parametrize("text", ["", "x", "<b>", "</b>", "</tool_", "<tool_call>", "```", " </tool_call>", "<|im_"])
def test_nothing_else_is_left_over(text: str) -> None:
    found = outcome(leftover, text)
    assert (found.given, found.rest) == (False, text)


VALUES: dict[str, tuple[str, str | None, str]] = {
    "whole": ('{"a": [1]} x', '{"a": [1]}', " x"),
    "a bracket missing at the end": ('{"a": [1]', '{"a": [1]}', ""),
    "brackets missing before a closer": ('{"a": [1</tool_call>', '{"a": [1]}', "</tool_call>"),
    "a bracket missing, and more text": ('{"a": [1] and', None, " and"),
    "a string open": ('{"a": "b', None, ""),
    "no value": ("x", None, "x"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_may_lack_brackets_where_the_call_must_be_over(name: str) -> None:
    """F30."""
    text, value, rest = VALUES[name]
    found = outcome(completed_value, text)
    assert (found.given, bool(found.why)) == (value and value.encode(), value is None)
    assert value is None or found.rest == rest


def test_a_value_is_never_completed_where_the_reply_was_cut_off() -> None:
    """C4."""
    assert outcome(completed_value, '{"a": [1]', stopped=False).given is None
    assert outcome(completed_value, '{"a": [1]}', stopped=False).given == b'{"a": [1]}'
