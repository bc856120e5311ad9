"""Rows: weak evidence counts only where the reply ends with it; what is strong needs none (F3, F6, F18, C3)."""

from __future__ import annotations

import pytest

from tests.support.helpers import call_json, scan

LS = call_json("bash", command="ls")
PWD = call_json("bash", command="pwd")
TAGS = "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>"
FENCE = f"```json\n{LS}\n```"
WRAPPED = f"<tool_call>{PWD}</tool_call>"
ONE = [("bash", {"command": "ls"})]
TWO = [*ONE, ("bash", {"command": "pwd"})]


@pytest.mark.parametrize("lead", [LS, FENCE, f"{LS}\n{LS}", f"[{LS}]", TAGS, f"{LS}\n</tool_call>"])
@pytest.mark.parametrize("behind", ["\nDone.", "\nDone, as you asked {so}.", "\n{}", f"\n{LS} x"])
def test_of_a_row_that_fails_the_wrappers_still_count(lead: str, behind: str) -> None:
    """C3: a closed wrapper is a call although what stands before it is none, at every cut."""
    text = f"{lead}\n{WRAPPED}{behind}"
    for cut in ([text], [*text], [text[:-3], text[-3:]]):
        assert scan(cut).parsed == TWO[1:]


@pytest.mark.parametrize("lead", [LS, FENCE, f"{LS}\n{LS}", f"[{LS}]", TAGS, f"{LS}\n</tool_call>"])
def test_a_call_that_is_not_offered_stays_text_in_a_row(lead: str) -> None:
    text = f"{lead}\n{WRAPPED}\n{call_json('nope', a=1)}"
    for cut in ([text], [*text], [text[:-3], text[-3:]]):
        assert scan(cut).parsed == [*ONE * lead.count("ls"), *TWO[1:]]
