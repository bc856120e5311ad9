"""Text that takes the lane is prose: no call begins in it, whatever text precedes it."""

from __future__ import annotations

import json
import random

import pytest

from tests.support.helpers import new_scanner

WORDS = (
    *("So", " it", " is", " TOOL", "TOOL_CALLS", "to", "=", " to", "Action", ":", "a", " a", "analysis", "é", "😀"),
    *("\n", "\n  ", " ", "\t", "{", '{"name"', "[", "[TOOL", "]", "<", "<tool_call>", ">", ">>>", "`", "```", "~~~"),
    *('"', "\\", "◁think▷", "▁", "｜", "</think>", "functions.read", "read(", ".", "!", "-", "1", "|"),
)
BEFORE = ("So ", "So it is.\n", "It says: ", "x\n\n", "- item ", "the", "analysis[TOOL_CALLS]bash[ARGS]{}x")


@pytest.mark.parametrize("seed", range(200))
def test_text_in_the_lane_is_immediately_released_as_prose(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(50):
        before, text = rng.choice(BEFORE), "".join(rng.choices(WORDS, k=rng.randint(1, 4)))
        reader = new_scanner()
        reader.feed(before)
        lane = reader.lane
        written = json.dumps(text, ensure_ascii=False)[1:-1].encode()
        if lane is None or lane.fullmatch(written) is None:
            continue
        assert reader.passes(text), (before, text)


@pytest.mark.parametrize("text", [" it", "é", " 日本", "The", " is. ", "a\nb", 'say "x"', "x = 2"])
def test_prose_takes_the_lane(text: str) -> None:
    reader = new_scanner()
    reader.feed("So it is")
    lane = reader.lane
    written = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    assert lane is not None and lane.fullmatch(written) and reader.passes(text)
