"""Reasoning in the text: nothing in it is a call, unless the reply is nothing else and ends with one (F70, F71)."""

from __future__ import annotations

import itertools

import pytest

from proxy.notations.reply import Channel
from proxy.notations.thoughts import (
    ALL_MARKERS,
    HY3,
    KIMI_K3,
    PLAMO,
    REASONING_MARKERS,
    ReasoningMarkers,
)
from tests.support.helpers import all_cuts, call_json, new_scanner, scan

WEAK = call_json("bash", command="ls")
CALL = f"<tool_call>{WEAK}</tool_call>"
ONE = [("bash", {"command": "ls"})]
CLOSED = [(thought, closer) for thought in REASONING_MARKERS for closer in thought.closers]


def name(value: object) -> str:
    return value.opener if isinstance(value, ReasoningMarkers) else str(value)


@pytest.mark.parametrize(("thought", "closer"), CLOSED, ids=name)
def test_nothing_in_reasoning_that_is_closed_is_a_call(thought: ReasoningMarkers, closer: str) -> None:
    """F71."""
    text = f"{thought.opener}I could write {CALL} or\n{WEAK}\n{closer}"
    for cut in all_cuts(text):
        assert (scan(cut).calls, scan(cut).text) == ((), text)


@pytest.mark.parametrize(("thought", "closer"), CLOSED, ids=name)
def test_behind_reasoning_a_call_counts_again(thought: ReasoningMarkers, closer: str) -> None:
    text = f"{thought.opener}So.{closer}"
    if closer in ("<|start|>", "<|channel|>"):
        return  # it begins the header of the next message
    for call in (CALL, f"\n{CALL}", 'bash{"command": "ls"}'):
        for cut in all_cuts(text + call):
            assert scan(cut).parsed == ONE


@pytest.mark.parametrize("thought", REASONING_MARKERS, ids=name)
def test_a_wrapped_call_at_the_end_of_a_reply_that_is_only_reasoning_is_meant(thought: ReasoningMarkers) -> None:
    """F70."""
    text = f"{thought.opener}I look. "
    for cut in all_cuts(text + CALL):
        assert (scan(cut).parsed, scan(cut).text) == (ONE, text)


NOT_MEANT = {
    "more thought": f"{CALL} or not",
    "no wrapper": WEAK,
    "a wrapper that is not closed": f"<tool_call>{WEAK[:-4]}",
    "an unknown key": CALL.replace("command", "cmd"),
    "a required argument missing": f"<tool_call>{call_json('bash')}</tool_call>",
    "a name that was not offered": CALL.replace("bash", "nope"),
    "in code": f"`{CALL}`",
    "in a fence": f"\n```\n{CALL}\n```",
}


@pytest.mark.parametrize("case", NOT_MEANT)
@pytest.mark.parametrize("thought", REASONING_MARKERS[:1] + REASONING_MARKERS[3:6], ids=name)
def test_all_else_in_reasoning_that_never_ends_is_only_thought(thought: ReasoningMarkers, case: str) -> None:
    """C3."""
    text = f"{thought.opener}I look. {NOT_MEANT[case]}"
    for cut in all_cuts(text):
        assert (scan(cut).calls, scan(cut).text) == ((), text)


@pytest.mark.parametrize("thought", REASONING_MARKERS, ids=name)
def test_behind_text_or_cut_off_no_call_in_reasoning_is_meant(thought: ReasoningMarkers) -> None:
    """F70: the reply must be nothing else."""
    text = f"{thought.opener}I look. {CALL}"
    for cut in all_cuts(text):
        assert scan(cut, stopped=False).calls == ()
    for cut in all_cuts(f"Well.\n{text}"):
        assert scan(cut).calls == ()


@pytest.mark.parametrize("thought", [thought for thought in REASONING_MARKERS if thought.may_begin], ids=name)
def test_the_prompt_may_have_begun_the_reasoning(thought: ReasoningMarkers) -> None:
    """What stands behind its end is the reply's beginning."""
    text = f"So I look.{thought.closers[0]}\n"
    for cut in all_cuts(f'{text}bash{{"command": "ls"}}'):
        found = scan(cut)
        assert (found.parsed, found.text.strip()) == (ONE, text.strip())


def test_reasoning_of_which_the_tokens_were_stripped_ends_where_the_next_header_stands() -> None:
    """F11."""
    text = 'analysisI look.assistantcommentary to=functions.bash json{"command": "ls"}'
    for cut in all_cuts(text):
        assert (scan(cut).parsed, scan(cut).text) == (ONE, "analysisI look.")
    for text in ("analysisI look.assistantfinalDone.", "analysis of the code"):
        for cut in all_cuts(text):
            assert (scan(cut).calls, scan(cut).text) == ((), text)


RARE = [thought for thought in ALL_MARKERS if thought.may_begin and thought not in REASONING_MARKERS]


@pytest.mark.parametrize("thought", RARE, ids=name)
def test_without_a_word_what_would_end_a_rarer_kind_is_text_where_none_began(thought: ReasoningMarkers) -> None:
    """C1: nothing begins behind it, so that what follows is not taken for a token at the beginning of a reply."""
    text = f"I look.{thought.closers[0]}<|open|>response<|sep|>So."
    for cut in all_cuts(text):
        assert (scan(cut).calls, scan(cut).text) == ((), text)


def test_the_rarer_kinds_are_known() -> None:
    assert {name(thought) for thought in RARE} == {name(thought) for thought in (KIMI_K3, HY3, PLAMO)}


def test_a_wrapped_call_that_ends_the_reasoning_of_a_field_of_its_own_is_read() -> None:
    """F70."""
    for cut in all_cuts(f"I look. {CALL}"):
        assert scan(cut, new_scanner(channel=Channel.REASONING)).parsed == ONE
    for case, stopped in itertools.product(NOT_MEANT.values(), (True, False)):
        assert scan([f"I look. {case}"], new_scanner(channel=Channel.REASONING), stopped=stopped).calls == ()
