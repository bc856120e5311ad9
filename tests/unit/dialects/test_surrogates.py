"""Lone surrogates in arguments: JSON can write them, and no strict reader takes them."""

from __future__ import annotations

import pytest

from proxy.dialects.surrogates import SurrogateFilter
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


def through(parts: list[str]) -> str:
    escapes = SurrogateFilter()
    return "".join(map(escapes.feed, parts)) + escapes.finish()


@pytest.mark.parametrize("text", CASES)
def test_every_cut_gives_the_same(text: str) -> None:
    for cut in all_cuts(text):
        assert through(cut) == CASES[text]


def test_only_half_an_escape_waits() -> None:
    escapes = SurrogateFilter()
    assert escapes.feed(r"a\n\ud83") == r"a\n"
    assert escapes.feed("d") == ""
    assert escapes.feed(r"\ude00b") == r"\ud83d\ude00b"
