"""Text that cannot contain a reasoning marker need not be read to know that it is not reasoning."""

from __future__ import annotations

import random

import pytest

from proxy.notations.front import Reader
from proxy.notations.signs import may_begin
from proxy.notations.thoughts import REASONING_MARKERS, Mark, Thoughts
from proxy.notations.toolset import ToolSet
from tests.support.rows import table

MARKS = [mark for each in REASONING_MARKERS for mark in (each.opener, *each.closers)]
WORDS: list[str] = table(__file__, "WORDS")


@pytest.mark.parametrize("mark", [each.opener for each in REASONING_MARKERS])
def test_a_marker_is_detected_anywhere(mark: str) -> None:
    for before in ("", "a", "a ", "a\n", "\n"):
        assert may_begin(f"{before}{mark}b")


def test_text_without_a_marker_is_not_reasoning() -> None:
    seen = set()
    for seed in range(200):
        rng = random.Random(seed)
        said = "".join(rng.choices((*WORDS, *MARKS), [8] * len(WORDS) + [1] * len(MARKS), k=rng.randint(1, 12)))
        reader = Reader(ToolSet(()), thoughts=Thoughts())
        pieces = [*reader.feed(said), *reader.finish()]
        thinks = any(piece.mark is Mark.THOUGHT for piece in pieces)
        assert "".join(piece.text for piece in pieces) == said
        assert may_begin(said) or not thinks
        seen.add((may_begin(said), thinks))
    assert len(seen) == 3
