"""The longest of many texts that stands at a place."""

from __future__ import annotations

import random
import re

import pytest

from proxy.parsing.literal_table import Literals, branching, literal_table

TABLE = Literals((b"<", b"<tool", b"<tool_call>", b"[TOOL", b"x"))


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    ("here", "found"),
    [
        (b"<tool_call>abc", b"<tool_call>"),
        (b"<tool_calls>", b"<tool"),
        (b"<tools>        ", b"<tool"),
        (b"<a", b"<"),
        (b"[TOOLS", b"[TOOL"),
        (b"[TO ", b""),
        (b"xy", b"x"),
        (b"abc", b""),
    ],
)
def test_the_longest_is_found(here: bytes, found: bytes, ended: bool) -> None:
    assert TABLE.match(here, ended) == found


@pytest.mark.parametrize(
    ("here", "found"), [(b"<tool_call", b"<tool"), (b"<to", b"<"), (b"[", b""), (b"", b""), (b"[TOO", b"")]
)
def test_half_of_one_is_waited_for_and_counts_for_nothing_at_the_end(here: bytes, found: bytes) -> None:
    assert TABLE.match(here, ended=False) is None
    assert TABLE.match(here, ended=True) == found
    assert TABLE.breaks_off(here) is (here != b"")


@pytest.mark.parametrize("here", [b"", b"a", b"<b", b"<tool_call>", b"<tool_call>x"])
def test_a_text_that_ends_elsewhere_breaks_no_literal_off(here: bytes) -> None:
    assert not TABLE.breaks_off(here)


def test_a_table_of_nothing_finds_nothing() -> None:
    empty = Literals(())
    assert (empty.longest, empty.match(b"a", ended=True), empty.breaks_off(b"a")) == (0, b"", False)


def test_a_table_is_made_once() -> None:
    assert literal_table((b"a", b"b")) is literal_table((b"a", b"b")) is not literal_table((b"b", b"a"))


TEXTS = (b"<", b"<a", b"<a>", b"<ab", b"<abc>", b"{", b"re", b"read", b"read.read", b"functions.read", "｜D".encode())


def longest(literals: tuple[bytes, ...], here: bytes, ended: bool) -> bytes | None:
    """What is right, by looking at all of them."""
    found = max((each for each in literals if here.startswith(each)), key=len, default=b"")
    may_go_on = any(each.startswith(here) and len(each) > len(here) for each in literals)
    return None if may_go_on and not ended else found


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_is_found_wherever_the_text_stops(seed: int) -> None:
    rng = random.Random(seed)
    literals = tuple(rng.sample(TEXTS, rng.randint(1, len(TEXTS))))
    table = Literals(literals)
    for _ in range(60):
        text = b"".join(rng.choice((*TEXTS, b"x", b" ")) for _ in range(rng.randint(0, 4)))
        for at in range(len(text) + 1):
            for ended in (True, False):
                here = text[:at]
                assert table.match(here, ended) == longest(literals, here, ended), (literals, here, ended)


def test_only_what_a_text_begins_with_costs_a_pattern() -> None:
    """The names of tools are new with every agent, the markers beside them are not."""
    table = Literals((*TEXTS, *(b"tool_%d" % number for number in range(200))))
    assert table.match(b"<abc> and so on, and on", False) == b"<abc>"
    assert table.match(b"<abd> and so on, and on", False) == b"<ab"
    assert table.match(b"So it is, and no call", False) == b""
    assert [*table._patterns] == [b"<a"]


def test_few_texts_cost_no_pattern() -> None:
    """The tags of a call are new with every name in them."""
    for number in range(1, 4):
        texts = [b"<read>" * count for count in range(1, number + 1)]
        table = Literals(texts)
        assert table.match(b"<read>" * 5, False) == texts[-1]
        assert table.match(b"<rea>" + b"<read>" * 5, False) == b""
        assert not table._patterns


def test_no_more_is_looked_at_than_the_longest_that_begins_so() -> None:
    table = Literals((b"{", b"<a", b"<abc>", b""))
    assert table.lengths == {ord("{"): 1, ord("<"): 5}


def test_a_pattern_that_branches_finds_what_one_of_alternatives_does() -> None:
    rng = random.Random(5)
    for _ in range(300):
        texts = {bytes(rng.choices(b"<ab>", k=rng.randint(1, 5))) for _ in range(rng.randint(1, 6))}
        longest_first = re.compile(b"|".join(map(re.escape, sorted(texts, key=len, reverse=True))))
        found = re.compile(branching(dict.fromkeys(texts, b"")))
        may_end = re.compile(branching(dict.fromkeys(texts, b""), may_end=True))
        for _ in range(20):
            here = bytes(rng.choices(b"<ab>", k=rng.randint(0, 8)))
            one, other = longest_first.search(here), found.search(here)
            assert (one and one.span()) == (other and other.span())
            halves = {text[:size] for text in texts for size in range(1, len(text))}
            if one is None and not here.endswith(tuple(halves)):
                # What differs from the beginning of a text, and is of its bytes, is looked at once more.
                continue
            assert may_end.search(here)
