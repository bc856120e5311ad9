"""A text without anything that could begin a mark of thoughts need not be read to know that it is no thought."""

from __future__ import annotations

import random

import pytest

from proxy.notations.front import ThoughtReader, holds_no_mark
from proxy.notations.thoughts import REASONING_MARKERS

MARKS = [mark for each in REASONING_MARKERS for mark in (each.opener, *each.closers)]
WORDS = (
    "So",
    " it is",
    "\n\n",
    "```\n",
    "    code",
    "`x`",
    "# Title\n",
    "- one\n",
    "| a | b |\n",
    " \u2603 ",
    "\ud83d",
    "{}",
    "()",
    ":",
    "'",
    '"',
)


@pytest.mark.parametrize("mark", [each.opener for each in REASONING_MARKERS])
def test_each_mark_is_seen_wherever_it_stands(mark: str) -> None:
    for before in ("", "a", "a ", "a\n", "\n"):
        assert not holds_no_mark(f"{before}{mark}b")


@pytest.mark.parametrize("seed", range(200))
def test_a_text_without_one_is_read_as_no_thought(seed: int) -> None:
    rng = random.Random(seed)
    said = "".join(rng.choices((*WORDS, *MARKS), [8] * len(WORDS) + [1] * len(MARKS), k=rng.randint(1, 12)))
    reader = ThoughtReader()
    parts = [*reader.feed(said), *reader.finish()]
    if holds_no_mark(said):
        assert not any(part.thinking for part in parts)
        assert "".join(part.text for part in parts) == said
    thinks = any(part.thinking for part in parts)
    assert not (thinks and holds_no_mark(said))


def test_both_kinds_of_text_are_among_them() -> None:
    assert holds_no_mark("".join(WORDS[:2])) and not holds_no_mark(MARKS[0])
