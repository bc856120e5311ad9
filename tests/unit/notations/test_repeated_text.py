"""Text that repeats itself is read equally at every cut, and a call after it is found."""

from __future__ import annotations

import random
from itertools import cycle, islice
from typing import Any

import pytest

from proxy.notations.tables import END_OF_TURN
from proxy.notations.thoughts import Thoughts
from tests.contract.test_c7_linear import CLOSERS, FRAGMENTS, FRAMES, OPENERS, TOOLS
from tests.support.each_case import each_case
from tests.support.helpers import call_json, new_scanner

pytestmark = pytest.mark.once

WHOLE = 1 << 30
EVERY = tuple(dict.fromkeys([*OPENERS, *CLOSERS, *END_OF_TURN, *FRAGMENTS]))
NOW = f"<tool_call>{call_json('now')}</tool_call>"
BAD = '<tool_call>{"name": "now", "arguments": {"a": "b "c" d"}}</tool_call>'
READ = f"\n{call_json('read', path='a')}"
# Settings for reasoning in the text.
SETTINGS = {"off": None, "on": Thoughts(), "begun": Thoughts(begun="<think>"), "unknown": Thoughts(unknown=True)}


def found(text: str, cut: int, **options: Any) -> list[tuple[str, object]]:
    """Return the pieces of a text fed in parts of `cut` characters, with adjacent prose joined."""
    reader = new_scanner(TOOLS, **options)
    pieces = [piece for at in range(0, len(text), cut) for piece in reader.feed(text[at : at + cut])]
    joined: list[tuple[str, object]] = []
    for piece in [*pieces, *reader.finish()]:
        kind = (piece.calls, piece.mark, piece.broken)
        if piece.is_prose and not piece.broken and joined and joined[-1][1] == kind:
            joined[-1] = (joined[-1][0] + piece.text, kind)
        elif piece.text:
            joined.append((piece.text, kind))
    assert "".join(said for said, _ in joined) == text
    return joined


def assert_the_same(text: str, *cuts: int, **options: Any) -> None:
    whole = found(text, WHOLE, **options)
    for cut in cuts:
        assert found(text, cut, **options) == whole


@pytest.mark.slow
@each_case("fragment", EVERY, ids=repr)
def test_a_repeated_fragment_and_a_call_are_read_equally_at_every_cut(fragment: str) -> None:
    run = fragment * (600 // len(fragment))
    assert_the_same(run + NOW, 64)
    assert_the_same(f"{run}x{run[:-1]}{READ}", 130)


@pytest.mark.slow
@pytest.mark.parametrize("frame", FRAMES)
@each_case("seed", range(8))
def test_alternating_fragments_with_one_interruption_are_read_equally(frame: str, seed: int) -> None:
    rng = random.Random(f"{frame} {seed}")
    parts = rng.choices(EVERY, k=rng.randint(1, 4))
    row = "".join(islice(cycle(parts), 40))
    at = rng.randrange(len(row))
    text = FRAMES[frame].head + row[:at] + rng.choice(EVERY) + row[at:] + rng.choice((FRAMES[frame].tail, NOW, READ))
    assert_the_same(text, rng.choice((9, 20, 64, 300)))


MARKS = (
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "<function=x>", BAD),
    *("`", "\n", " ", "a", '"', "{"),
)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_repetitions_between_markers_and_broken_calls_are_read_equally(setting: str, watched: bool, seed: int) -> None:
    """The text before the repetition decides what a marker means and whether a broken call waits."""
    rng = random.Random(f"{setting} {seed}")
    text = ""
    for _ in range(3):
        row = "".join(rng.choices(MARKS, k=rng.randint(1, 3)))
        text += row * (rng.choice((1, 300)) // len(row) + 1) + rng.choice((*MARKS, NOW))
    assert_the_same(text, rng.choice((20, 64, 150)), thoughts=SETTINGS[setting], watch_broken=watched)


@pytest.mark.slow
@pytest.mark.parametrize("before", ["a", " ", '"', "`", "\n", "é", "“"])
@each_case("fragment", ['{"a": """', "TOOL_CALLS ", "Action:", "<|im_end|> ", "<|im_end|>", '<function=x>"'], ids=repr)
def test_the_text_before_the_first_repetition_is_read_separately(before: str, fragment: str) -> None:
    """The first object may not follow a quotation mark, while the others do."""
    for others in range(4):
        head = '{"a": 1}, 0' * others
        assert_the_same(f"I see. {head}{before}{fragment * 60}<b>", 60, 200)


NUMBERED = (
    *("<tool_call># ", "<tool_call>a # <tools>b # ", "<function=#>", '<invoke name="#">', "<｜DSML｜#>", '\n{"#": '),
    *('<tool_call>{"name": "#" ', '<tool_call>{"name": "now#", "arguments": {}}</tool_call>', "<tool_call>x#<arg_key>"),
    *("\n[read(a=#", "\nAction: [#\n", '\n```json\n{"#"\n', '<tool_call><function=#><parameter=#>"#', "<!--#-->"),
)


@pytest.mark.slow
@each_case("piece", NUMBERED, ids=repr)
def test_repetitions_that_differ_by_a_number_are_read_equally(piece: str) -> None:
    text = "".join(piece.replace("#", str(number)) for number in range(40)) + NOW
    rng = random.Random(piece)
    assert_the_same(text, 1, 7, 64, rng.randint(2, 9), rng.randint(10, 99), rng.randint(100, 400))


def test_released_text_does_not_join_the_text_that_follows() -> None:
    row = "<tool_call>" * 40
    assert_the_same(f"{row}{NOW}{row}{NOW}{row}", 64)
    reader = new_scanner(TOOLS)
    pieces = [*reader.feed(f"{row}<tool_call>{{"), *reader.release()]
    assert not reader.held
    pieces += [*reader.feed(f'"{row}'), *reader.finish()]
    assert not any(piece.calls for piece in pieces)


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_every_refused_call_is_counted(count: int) -> None:
    reader = new_scanner(TOOLS)
    reader.feed(f"<tool_call>{call_json('nope')}</tool_call>\n" * count)
    reader.finish()
    assert reader.refusals == {"not_offered": count}
