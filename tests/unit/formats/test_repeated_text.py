"""Text that repeats itself: what is passed of it is what would be found, and it costs no more the longer it is."""

from __future__ import annotations

import cProfile
import random
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import pytest

from proxy.formats import scanner as scanner_module
from proxy.formats.broken_calls import UNWATCHED, BrokenCalls
from proxy.formats.grammar import grammars
from proxy.formats.markers import END_OF_TURN
from proxy.notations.thoughts import Thoughts
from proxy.formats.repeated_text import RepeatedText
from proxy.formats.scanner import Scanner
from proxy.formats.spans import Candidate, Piece, TextSpan
from proxy.formats.spans import begun as begin
from tests.contract.test_c7_linear import CLOSERS, FRAGMENTS, FRAMES, OPENERS, TOOLS
from tests.support.each_case import each_case
from tests.support.helpers import call_json

WHOLE = 1 << 30
EVERY = tuple(dict.fromkeys([*OPENERS, *CLOSERS, *END_OF_TURN, *FRAGMENTS]))
NOW = f"<tool_call>{call_json('now')}</tool_call>"
BAD = '<tool_call>{"name": "now", "arguments": {"a": "b "c" d"}}</tool_call>'
READ = f"\n{call_json('read', path='a')}"


# How the thoughts in a text are told.
TOLD = {"not": None, "told": Thoughts(), "begun": Thoughts(begun="<think>"), "perhaps begun": Thoughts(unknown=True)}


def new_scanner(thoughts: Thoughts | None = None, broken: BrokenCalls = UNWATCHED) -> Scanner:
    return Scanner(TOOLS, grammars(json_reply=False, raw_text=False), thoughts=thoughts, broken=broken)


def joined(pieces: Iterator[Piece]) -> list[Piece]:
    """The pieces, texts that touch made one."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, TextSpan) and isinstance(last, TextSpan) and last.end == piece.start:
            found[-1] = TextSpan(last.start, piece.end)
        else:
            found.append(piece)
    return found


def found(
    text: str, cut: int, thoughts: Thoughts | None, *, watched: bool
) -> tuple[list[Piece], list[tuple[int, bool, bool]], Counter[str], str]:
    """All that a scanner says of a text: the pieces, what was let go after each cut, why nothing was a call, and the
    broken call that ended it.
    """
    data = text.encode()
    broken = BrokenCalls() if watched else UNWATCHED
    scanner = new_scanner(thoughts, broken)

    def part(start: int, end: int) -> str:
        return data[start:end].decode("utf-8", "replace")

    pieces: list[Piece] = []
    left: list[tuple[int, bool, bool]] = []
    for at in range(0, len(text), cut):
        pieces += broken.pass_on(scanner.feed(text[at : at + cut]), part)
        left.append((pieces[-1].end if pieces else 0, scanner.held, scanner.confident))
    pieces += broken.pass_on(scanner.finish(stopped=True), part)
    ending = broken.ending(part)
    pieces += broken.give_up()
    return joined(iter(pieces)), left, scanner.refusals, ending


def assert_the_same(text: str, *cuts: int, thoughts: Thoughts | None = None, watched: bool = False) -> None:
    """What is passed is what would be found if nothing were."""
    for cut in cuts:
        passed = found(text, cut, thoughts, watched=watched)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RepeatedText, "may_go_on", lambda *_: False)
            patch.setattr("proxy.parsing.markdown._LONG", WHOLE)
            assert passed == found(text, cut, thoughts, watched=watched)


@pytest.mark.slow
@each_case("fragment", EVERY, ids=repr)
def test_each_fragment_again_and_again_and_then_a_call(fragment: str) -> None:
    run = fragment * (600 // len(fragment))
    assert_the_same(run + NOW, WHOLE, 64)
    assert_the_same(f"{run}x{run[:-1]}{READ}", 130)


@pytest.mark.slow
@pytest.mark.parametrize("frame", FRAMES)
@each_case("seed", range(8))
def test_fragments_in_turn_with_one_that_breaks_the_row(frame: str, seed: int) -> None:
    rng = random.Random(f"{frame} {seed}")
    parts = rng.choices(EVERY, k=rng.randint(1, 4))
    row = "".join(islice(cycle(parts), 40))
    at = rng.randrange(len(row))
    text = FRAMES[frame].head + row[:at] + rng.choice(EVERY) + row[at:] + rng.choice((FRAMES[frame].tail, NOW, READ))
    assert_the_same(text, WHOLE, rng.choice((9, 20, 64, 300)))


MARKS = (
    *("<think>", "</think>", "[THINK]", "[/THINK]", "<tool_call>", "<function=x>", BAD),
    *("`", "\n", " ", "a", '"', "{"),
)


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_rows_between_marks_of_thoughts_and_broken_calls(told: str, watched: bool, seed: int) -> None:
    """What a mark means, and whether a broken call waits, depends on what came before the row."""
    rng = random.Random(f"{told} {seed}")
    text = ""
    for _ in range(3):
        row = "".join(rng.choices(MARKS, k=rng.randint(1, 3)))
        text += row * (rng.choice((1, 300)) // len(row) + 1) + rng.choice((*MARKS, NOW))
    assert_the_same(text, WHOLE, rng.choice((20, 64, 150)), thoughts=TOLD[told], watched=watched)


COSTLY = (
    *(OPENERS[0], "<|tool_call>", "[TOOL_CALLS]", "<｜DSML｜tool_calls>", "\n[a"),
    *("[", "{", "{[", "[{", '{"', '\n{"', '["', '\n[{"', '{"a": ', '\n{"name": ', "<tool_call>["),
    *("\n```\n", "```", "``` ", "`", "~~~\n", "\n", "\n>", "a\n`b` ", "<|", "<tool_cal", "<!-- -->", "<think></think>"),
    *("<tool_call><function=", "\n[{<|"),
    *("<tool_call>a\n", "[TOOL_CALLS][", '<tool_call>{"name": "nope", "arguments": {}}</tool_call>'),
)


def steps(text: str) -> int:
    """The calls of functions that it takes to scan a text."""
    scanner = new_scanner()
    profile = cProfile.Profile()
    profile.enable()
    try:
        scanner.feed(text)
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.slow
@pytest.mark.parametrize("fragment", COSTLY, ids=repr)
def test_what_would_begin_a_candidate_again_and_again_is_passed_at_once(fragment: str) -> None:
    """A byte of 2 MB costs a fortieth of a call; to look at each opener takes ten and more for each byte."""
    size = 2_000_000
    assert steps(fragment * (size // len(fragment))) < size // 10


@pytest.mark.slow
@pytest.mark.parametrize("before", ["a", " ", '"', "`", "\n", "é", "“"])
@each_case("fragment", ['{"a": """', "TOOL_CALLS ", "Action:", "<|im_end|> ", "<|im_end|>", '<function=x>"'], ids=repr)
def test_what_stands_before_the_first_is_no_part_of_it(before: str, fragment: str) -> None:
    """The first object may stand behind no quotation mark where the others do."""
    for others in range(4):
        head = '{"a": 1}, 0' * others
        assert_the_same(f"I see. {head}{before}{fragment * 60}<b>", WHOLE, 60, 200)


@pytest.mark.parametrize("fragment", ['\n{"', '\n["', "\n[a", '{"a": 1}\n', "\n```\n", "<tool_call>a\n"], ids=repr)
def test_each_piece_of_it_costs_few_candidates(fragment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed as far as what stands there tells all, not only where much more has come."""
    begun: list[int] = []

    def counted(*args: Any, **kwds: Any) -> Candidate:
        begun.append(1)
        return begin(*args, **kwds)

    monkeypatch.setattr(scanner_module, "begun", counted)
    scanner = new_scanner()
    scanner.feed(fragment * 400)
    begun.clear()
    for _ in range(10):
        scanner.feed(fragment * 400)
    assert len(begun) < 10 * 16


NUMBERED = (
    *("<tool_call># ", "<tool_call>a # <tools>b # ", "<function=#>", '<invoke name="#">', "<｜DSML｜#>", '\n{"#": '),
    *('<tool_call>{"name": "#" ', '<tool_call>{"name": "now#", "arguments": {}}</tool_call>', "<tool_call>x#<arg_key>"),
    *("\n[read(a=#", "\nAction: [#\n", '\n```json\n{"#"\n', '<tool_call><function=#><parameter=#>"#', "<!--#-->"),
)


@pytest.mark.slow
@each_case("piece", NUMBERED, ids=repr)
def test_pieces_that_differ_by_a_number(piece: str) -> None:
    """Whole, byte by byte and in cuts of any length all of it is the same, and so is the call behind it."""
    text = "".join(piece.replace("#", str(number)) for number in range(40)) + NOW
    assert_the_same(text, WHOLE, 1, 7, 64)
    whole = found(text, WHOLE, None, watched=False)
    rng = random.Random(piece)
    for cut in (1, rng.randint(2, 9), rng.randint(10, 99), rng.randint(100, 400)):
        one = found(text, cut, None, watched=False)
        assert (one[0], *one[2:]) == (whole[0], *whole[2:])


def test_what_was_let_go_or_taken_is_no_piece_of_it() -> None:
    """Behind a call, and behind text that waited too long, the row begins anew."""
    row = "<tool_call>" * 40
    assert_the_same(f"{row}{NOW}{row}{NOW}{row}", WHOLE, 64)
    scanner = new_scanner()
    scanner.feed(f"{row}<tool_call>{{")
    assert scanner.held
    scanner.release()
    assert not scanner.held
    scanner.feed(f'"{row}')
    assert not [piece for piece in scanner.finish(stopped=True) if not isinstance(piece, TextSpan)]


@pytest.mark.parametrize("count", [1, 2, 3, 50, 500])
def test_what_is_refused_is_counted_as_often_as_it_stands_there(count: int) -> None:
    scanner = new_scanner()
    scanner.feed(f"<tool_call>{call_json('nope')}</tool_call> " * count)
    scanner.finish(stopped=True)
    assert scanner.refusals == {"not_offered": count}


@pytest.mark.parametrize("opener", ["<function=x>", '<invoke name="x">', "</think>"])
def test_a_tag_that_stands_there_again_and_again_is_read_once(opener: str) -> None:
    """All of them are one candidate; to read each as a tag takes four calls and more for each byte."""
    size = 100_000
    assert steps(opener * (size // len(opener))) < 2 * size
