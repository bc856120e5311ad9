"""Surrogates: pairs split over two events, and lone ones, which no strict reader accepts."""

from __future__ import annotations

import pytest

from proxy.dialects.reply_parts import CharacterJoiner, SurrogateFilter
from tests.support.helpers import all_cuts

CASES = {
    '{"a": "b"}': '{"a": "b"}',
    r'{"a": "\n\\ \" é"}': r'{"a": "\n\\ \" é"}',
    r"\ud83d\ude00": r"\ud83d\ude00",
    r"\uD83D\uDE00x": r"\uD83D\uDE00x",
    r"\ud83d": r"\ufffd",
    r"\ude00": r"\ufffd",
    r"\ud83dx": r"\ufffdx",
    r"\ud83d\n": r"\ufffd\n",
    r"\ud83d\ud83d\ude00": r"\ufffd\ud83d\ude00",
    r"\ud83d\u0041": r"\ufffd\u0041",
    r"\\ud83d": r"\\ud83d",
    r"\\\ud83d": r"\\\ufffd",
    r"\u00e9 \u12": r"\u00e9 \u12",
    "a\\": "a\\",
    r"\ud83d\u": r"\ufffd\u",
    r"\uzzzz": r"\uzzzz",
    "": "",
}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a \ud83d", "\ude00 b"], ["a ", "\U0001f600 b"]),
        (["\ud83d", "", "\ude00"], ["", "", "\U0001f600"]),
        (["a \ud83d", "b"], ["a ", "\ud83db"]),
        (["\ud83d", "\ud83d", "\ude00"], ["", "\ud83d", "\U0001f600"]),
        (["\ude00"], ["\ude00"]),
        (["a", "b"], ["a", "b"]),
    ],
    ids=["in halves", "nothing between", "the other half never came", "two first", "the second half alone", "whole"],
)
def test_half_a_character_waits_for_the_other_half(given: list[str], expected: list[str]) -> None:
    characters, escapes = CharacterJoiner(), SurrogateFilter()
    assert [characters.feed(text) for text in given] == expected
    assert [escapes.feed(text) for text in given] == expected
    assert (characters.finish(), escapes.finish(), escapes.empty) == ("", "", True)


def through(parts: list[str]) -> str:
    escapes = SurrogateFilter()
    return "".join(map(escapes.feed, parts)) + escapes.finish()


@pytest.mark.parametrize("text", CASES)
def test_the_result_does_not_depend_on_the_cuts(text: str) -> None:
    for cut in all_cuts(text):
        assert through(cut) == CASES[text]
