"""Where in Markdown a position is: what stands in code is an example, never a call (contract C3, F88)."""

from __future__ import annotations

import random

import pytest

from proxy.parsing.markdown import FENCES, Fence, FenceStep, Markdown
from tests.support.each_case import each_case
from tests.support.helpers import all_cuts
from tests.support.tables import check_way

# Each text is judged at its end: is the next byte in code, and is it the first of its line?
AT_END: list[tuple[str, bool, bool]] = [
    ("", False, True),
    ("plain", False, False),
    ("plain\n", False, True),
    ("plain\n  ", False, True),
    ("plain\r\n", False, True),
    # Inline spans.
    ("`", True, False),
    ("`code", True, False),
    ("`code`", False, False),
    ("`code` and `more", True, False),
    ("``code", True, False),
    ("``code`", True, False),
    ("``code` still", True, False),
    ("``code` still``", False, False),
    ("`code``", True, False),
    ("`code`` still", True, False),
    ("a `code\nin the next line", True, False),
    ("a `stray\n\nnext paragraph", False, False),
    ("a `stray\n \nnext paragraph", False, False),
    ("a `stray\r\n\r\nnext paragraph", False, False),
    ("a ``` b", True, False),
    ("a ``` b ``` c", False, False),
    ("a ~ b ~~~ c", False, False),
    # Fences.
    ("```", True, False),
    ("```\n", True, True),
    ("```json\n", True, True),
    ("```json\n{", True, False),
    ("```\ncode\n```", True, False),
    ("```\ncode\n```\n", False, True),
    ("```\ncode\n```  \n", False, True),
    ("```\ncode\n``` no end\n", True, True),
    ("```\ncode\n````\n", False, True),
    ("````\ncode\n```\n", True, True),
    ("````\ncode\n```\n````\n", False, True),
    ("```\ncode ```\n", True, True),
    ("```\ncode\n\n\nmore\n", True, True),
    ("  ```\ncode\n  ```\n", False, True),
    ("```\ncode\n~~~\n", True, True),
    ("~~~\ncode\n", True, True),
    ("~~~\ncode\n```\n", True, True),
    ("~~~\ncode\n~~~\n", False, True),
    ("~~~ `info`\ncode\n", True, True),
    ("``` a ``` b", False, False),
    ("```a`` b``` c\n", False, True),
    ("a\n```\nb\n```\nc `d", True, False),
    ("a `stray\n```\ncode\n", True, True),
    ("a `stray\n```\ncode\n```\nplain", False, False),
    ("naïve `🙂", True, False),
]


@pytest.mark.parametrize(("text", "in_code", "line_start"), AT_END, ids=repr)
def test_the_place_is_the_same_at_every_cut(text: str, in_code: bool, line_start: bool) -> None:
    data = text.encode()
    for cut in all_cuts(data):
        markdown = Markdown()
        for part in cut:
            markdown.feed(part)
        assert (markdown.in_code, markdown.line_start) == (in_code, line_start)


def test_any_text_gives_one_place_at_every_cut() -> None:
    rng = random.Random(7)
    for _ in range(200):
        data = "".join(rng.choices(["`", "``", "```", "~~~", "\n", "\n\n", "a", " ", "\r"], k=20)).encode()
        found = set()
        for cut in all_cuts(data):
            markdown = Markdown()
            for part in cut:
                markdown.feed(part)
            found.add((markdown.in_code, markdown.line_start))
        assert len(found) == 1


RUNS = (
    *("\n", "\n\n", "\n ", "`", "```\n", "\n```\n", "~~~\n", "a\n`b` ", "`` ` ", "- a\n", "    x\n", "\n>", "\\`"),
    *("\\\\", "1. a\n\n"),
)


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "a ", "```\n", "- b\n\n", "a `b "])
@each_case("unit", RUNS, ids=repr)
def test_a_long_text_that_repeats_itself_is_as_if_it_came_byte_by_byte(before: str, unit: str) -> None:
    run = unit * (3000 // len(unit))
    for text in (run, run[:-1], f"{run}`x", f"{run}\n    y"):
        whole, single = Markdown(), Markdown()
        for each in (before, text):
            whole.feed(each.encode())
        for byte in (before + text).encode():
            single.feed(bytes([byte]))
        for markdown in (whole, single):
            markdown.feed(b"z\n")
        assert whole.state == single.state
        assert whole.before[-3000:] == single.before[-3000:]


# Each step, from where, and to where; all else is a defect.
WAYS = {
    (Fence.NONE, FenceStep.OPEN): Fence.INFO,
    (Fence.INFO, FenceStep.REVOKE): Fence.NONE,
    (Fence.INFO, FenceStep.END_LINE): Fence.INSIDE,
    (Fence.INSIDE, FenceStep.CLOSE): Fence.CLOSING,
    (Fence.INSIDE, FenceStep.SAY): Fence.INSIDE,
    (Fence.CLOSING, FenceStep.CLOSE): Fence.CLOSING,
    (Fence.CLOSING, FenceStep.SAY): Fence.INSIDE,
    (Fence.CLOSING, FenceStep.END_LINE): Fence.NONE,
}


@pytest.mark.parametrize("fence", Fence)
@pytest.mark.parametrize("step", FenceStep)
def test_every_step_of_a_fence_leads_where_the_table_says(fence: Fence, step: FenceStep) -> None:
    check_way(FENCES, WAYS, fence, step)
