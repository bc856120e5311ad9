"""Messages whose header names the tool: which channel and which recipient call (F11)."""

from __future__ import annotations

import pytest

from tests.support.helpers import all_cuts, scan

LS = '{"command": "ls"}'
ONE = [("bash", {"command": "ls"})]
TO = "to=functions.bash"


THOUGHT = "<|channel|>analysis<|message|>I look first.<|end|>"
ASKED = f"<|channel|>analysis {TO} <|constrain|>json<|message|>{LS}<|call|>"


@pytest.mark.parametrize(
    ("before", "content"),
    [
        ("", ""),
        (f"{THOUGHT}<|start|>assistant", THOUGHT),
        ("Let me see.\n", "Let me see.\n"),
    ],
)
def test_in_the_analysis_channel_a_message_that_is_only_arguments_is_a_call(before: str, content: str) -> None:
    """F11: at every cut, and wherever the message stands."""
    for cut in all_cuts(before + ASKED):
        found = scan(cut)
        assert (found.parsed, found.text) == (ONE, content)
    again = before + ASKED.replace(" <|constrain|>json", "")
    for cut in all_cuts(again):
        assert scan(cut).parsed == ONE
    unsure = before + ASKED.replace(" <|constrain|>json", "").replace(LS, f"I will run {LS}")
    for cut in all_cuts(unsure):
        assert scan(cut).calls == ()
