"""Reasoning in the text, taken apart: only at the beginning of a segment, and equally at every cut (F18, F70, F71)."""

from __future__ import annotations

import pytest

from proxy.dialects.thinking import ThinkingSplitter
from tests.support.helpers import all_cuts

HARMONY = "<|channel|>analysis<|message|>let me see<|end|><|start|>assistant<|channel|>final<|message|>Hello."

CASES = {
    "none": ("Just text.", [("text", "Just text.")]),
    "think": ("<think>\nhm, 2<3</think>\n\nYes.", [("thinking", "\nhm, 2<3"), ("text", "\n\nYes.")]),
    "blanks_before": (" \n<think>a</think>b", [("thinking", "a"), ("text", "b")]),
    "empty": ("<think></think>a", [("text", "a")]),
    "twice": ("<think>a</think>\n<think>b</think>c", [("thinking", "ab"), ("text", "c")]),
    "never_ends": ("<think>so it goes </thin", [("thinking", "so it goes </thin")]),
    "in_prose": ("The tag <think>x</think> is old.", [("text", "The tag <think>x</think> is old.")]),
    "nearly": ("<thinking>a</thinking>", [("text", "<thinking>a</thinking>")]),
    "lone_closer": ("a</think>b", [("text", "a</think>b")]),
    "mistral": ("[THINK]a[/THINK]b", [("thinking", "a"), ("text", "b")]),
    "minimax": ("<mm:think>a</mm:think>b", [("thinking", "a"), ("text", "b")]),
    "gemma": ("<|channel>thought\na<channel|>b", [("thinking", "a"), ("text", "b")]),
    "harmony": (HARMONY, [("thinking", "let me see"), ("text", "Hello.")]),
    "harmony_without_end": (HARMONY.replace("<|end|>", ""), [("thinking", "let me see"), ("text", "Hello.")]),
    "harmony_final_only": ("<|channel|>final<|message|>Hello.", [("text", "Hello.")]),
    "half_a_marker": ("<thi", [("text", "<thi")]),
    "only_blanks": ("\n \n", [("text", "\n \n")]),
    "nothing": ("", []),
}


def split(parts: list[str]) -> list[tuple[str, str]]:
    """The pieces of a text that comes in these parts, joined by kind."""
    splitter = ThinkingSplitter()
    pieces = [piece for part in parts for piece in splitter.feed(part)]
    joined: list[tuple[str, str]] = []
    for kind, text in [*pieces, *splitter.segment()]:
        before = joined.pop()[1] if joined and joined[-1][0] == kind else ""
        joined.append((kind, before + text))
    return joined


@pytest.mark.parametrize("case", CASES)
def test_every_cut_gives_the_same(case: str) -> None:
    text, expected = CASES[case]
    for cut in all_cuts(text):
        assert split(cut) == expected


def test_only_what_may_be_a_marker_waits() -> None:
    splitter = ThinkingSplitter()
    assert splitter.feed("<think>") == []
    assert splitter.feed("one <") == [("thinking", "one ")]
    assert splitter.feed("b> two") == [("thinking", "<b> two")]
    assert splitter.feed("</think>") == []
    assert splitter.feed("<") == []
    assert splitter.feed("b>") == [("text", "<b>")]
    assert splitter.feed(" <think>") == [("text", " <think>")]


def test_behind_something_else_a_segment_begins() -> None:
    """Models think again between two calls."""
    splitter = ThinkingSplitter()
    assert splitter.feed("text ") == [("text", "text ")]
    assert splitter.segment() == []
    assert splitter.feed("<think>again</think>x") == [("thinking", "again"), ("text", "x")]


def test_reasoning_that_is_interrupted_has_ended() -> None:
    splitter = ThinkingSplitter()
    assert splitter.feed("<think>a<") == [("thinking", "a")]
    assert splitter.segment() == [("thinking", "<")]
    assert splitter.feed("b") == [("text", "b")]


def test_long_texts_and_endless_blanks_are_read() -> None:
    """Thousands of segments in one piece, and thousands of blanks before the first word (C7)."""
    made = split(["<think>a</think>" * 20_000])
    assert made == [("thinking", "a" * 20_000)]
    splitter = ThinkingSplitter()
    for _ in range(20_000):
        assert splitter.feed(" " * 16) == []
    assert splitter.feed("x") == [("text", " " * 4096 + "x")]
