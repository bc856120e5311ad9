"""Rows: weak evidence counts only where the reply ends with it; what is strong needs none (F3, F6, F18, C3)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.formats.unwrapped import rest_of_calls, strong, unwrapped
from proxy.parsing.cursor import RawCall
from tests.support.helpers import call_json, offered, outcome, scan

LS = call_json("bash", command="ls")
PWD = call_json("bash", command="pwd")
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
INVOKE = '<invoke name="bash"><parameter name="command">ls</parameter></invoke>'
FENCE = f"```json\n{LS}\n```"
WRAPPED = f"<tool_call>{PWD}</tool_call>"
ONE = [("bash", {"command": "ls"})]
TWO = [*ONE, ("bash", {"command": "pwd"})]

ROWS: dict[str, tuple[str, list[tuple[str, Any]]]] = {
    "an object": (LS, ONE),
    "an array": (f"[{LS}, {PWD}]", TWO),
    "Python's list": ("[bash(command='ls'), bash(command='pwd')]", TWO),
    "lines": (f"{LS}\n{PWD}\n", TWO),
    "blank lines between": (f"{LS}\n\n\n{PWD}", TWO),
    "commas between": (f"{LS},\n{PWD}", TWO),
    "semicolons between": (f"{LS}; {PWD}", TWO),
    "a brace missing": (LS[:-1], ONE),
    "a brace too many": (f"{LS}}}", ONE),
    "a bracket too many": (f"{LS}\n]", ONE),
    "a fence": (FENCE, ONE),
    "two fences": (f"{FENCE}\n\n```json\n{PWD}\n```", TWO),
    "tags": (TAGS, ONE),
    "tags twice": (f"{TAGS}\n{TAGS.replace('ls', 'pwd')}", TWO),
    "tags with an orphan closer": (f"{TAGS}\n</tool_call>", ONE),
    "invoke with an orphan closer": (f"{INVOKE}\n</function_calls>", ONE),
    "an orphan closer": (f"{LS}\n</tools>", ONE),
    "end of turn": (f"{LS}<|im_end|>", ONE),
    "end of turn, twice and blanks": (f"{LS}\n<|eot_id|>\n<|end_of_text|>\n", ONE),
    "closer and end of turn": (f"{TAGS}\n</tool_call><|im_end|>\n", ONE),
    "a wrapper in it": (f"{LS}\n{WRAPPED}", TWO),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_ends_the_reply_is_its_calls(name: str) -> None:
    text, expected = ROWS[name]
    found = outcome(unwrapped, text)
    assert (found.calls, found.rest, found.weak) == (expected, "", True)
    assert all(0 <= start < end <= len(text) for start, end in found.spans)
    assert found.spans


@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_was_cut_off_is_none(name: str) -> None:
    """C4: what is weak needs the natural end."""
    assert outcome(unwrapped, ROWS[name][0], stopped=False).calls is None


REFUSED = {
    "prose in its line": f"{LS} is what I would call",
    "prose behind it": f"{LS}\nDone.",
    "prose behind a fence": f"{FENCE}\nThis calls bash.",
    "another language behind a fence": f"```json\n{LS}\n```json",
    "an open fence": f"```json\n{LS}\n",
    "a fence of tags": f"```xml\n{TAGS}\n```",
    "another object": f"{LS}\n{{}}",
    "a comma": f"{LS},",
    "a required argument missing": call_json("bash"),
    "another one missing": call_json("bash", timeout=5),
    "an unknown key": call_json("bash", command="ls", cmd="x"),
    "a name that was not offered": call_json("nope", command="ls"),
    "one of two was not offered": f"{LS}\n{call_json('nope')}",
    "one of two lacks an argument": f"{LS}\n{call_json('bash')}",
    "tags, a required argument missing": "<function=bash></function>",
    "tags, an unknown key": "<function=bash><parameter=cmd>ls</parameter></function>",
    "an empty fence": "```json\n```",
    "two empty fences": "```\n```\n```\n```",
    "blanks": "\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_row_with_anything_else_or_with_other_keys_is_none(name: str) -> None:
    """C3: weak evidence needs every key to be a property and every required one to be there."""
    found = outcome(unwrapped, REFUSED[name])
    assert found.calls is None and found.why


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "cut off"])
@pytest.mark.parametrize("behind", ["", " so", "\nDone.", f"\n{LS}", "</tool_call>", "<|im_end|>"])
def test_what_is_strong_ends_with_its_wrapper(stopped: bool, behind: str) -> None:
    """C3: whatever stands behind it, and whatever it lacks."""
    for text, calls in (
        (f"<tool_call>{LS}</tool_call>", ONE),
        (f"<tool_call>{call_json('bash')}</tool_call>", [("bash", {})]),
    ):
        found = outcome(strong, f"{text}{behind}", stopped=stopped)
        assert (found.calls, found.rest, found.weak) == (calls, behind, False)


UNCLOSED: dict[str, tuple[str, list[tuple[str, Any]] | None]] = {
    "an object": (f"<tool_call>\n{LS}", ONE),
    "two": (f"<tool_call>{LS}\n{PWD}", TWO),
    "the end of the turn behind it": (f"<tool_call>{LS}<|im_end|>\n", ONE),
    "a row behind it": (f"<tool_call>{TAGS}\n</function>\n", ONE),
    "a required argument missing": (f"<tool_call>{call_json('bash')}", None),
    "an unknown key": (f"<tool_call>{call_json('bash', command='ls', cmd='x')}", None),
    "prose behind it": (f"<tool_call>{LS}\nDone, as asked.", None),
}


@pytest.mark.parametrize("name", UNCLOSED)
def test_a_wrapper_that_never_closes_is_weak(name: str) -> None:
    """C3."""
    text, expected = UNCLOSED[name]
    found = outcome(strong, text)
    assert found.calls == expected
    assert expected is None or (found.weak and not found.rest)
    assert outcome(strong, text.removesuffix("<|im_end|>\n"), stopped=False).calls is None


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "cut off"])
def test_what_is_closed_in_a_wrapper_that_breaks_off_needs_its_own_keys(stopped: bool) -> None:
    """F10."""
    text = f"<tool_call>{TAGS}\n<function=bash>\n<par"
    found = outcome(strong, text, stopped=stopped)
    assert (found.calls, found.rest, found.weak) == (ONE, "\n<function=bash>\n<par", True)
    assert outcome(strong, text.replace("command", "cmd"), stopped=stopped).calls is None


def test_the_rest_of_a_row_goes_on_behind_calls_that_were_read() -> None:
    tool = offered().resolve("bash")
    assert tool is not None
    before = (RawCall(tool, "bash", '{"command": "ls"}'),)
    found = outcome(lambda reader: rest_of_calls(reader, before), f"\n</tool_call>\n{PWD}<|im_end|>")
    assert (found.calls, found.rest) == (TWO, "")
    assert outcome(lambda reader: rest_of_calls(reader, before), "").calls == ONE
    assert outcome(lambda reader: rest_of_calls(reader, before), " so").calls is None


@pytest.mark.parametrize("lead", [LS, FENCE, f"{LS}\n{LS}", f"[{LS}]", TAGS, f"{LS}\n</tool_call>"])
@pytest.mark.parametrize(
    "behind", ["\nDone.", "\nDone, as you asked {so}.", "\n{}", f"\n{call_json('nope', a=1)}", f"\n{LS} x"]
)
def test_of_a_row_that_fails_the_wrappers_still_count(lead: str, behind: str) -> None:
    """C3: a closed wrapper is a call although what stands before it is none, at every cut."""
    text = f"{lead}\n{WRAPPED}{behind}"
    for cut in ([text], [*text], [text[:-3], text[-3:]]):
        assert scan(cut).parsed == TWO[1:]
