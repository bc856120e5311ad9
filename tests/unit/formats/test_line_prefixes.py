"""What stands before the lines of a text that a tool shows: which prefixes go together, and which do not (F89)."""

from __future__ import annotations

import pytest

from proxy.formats.line_prefixes import CountedUp, PrefixRule, SameForm

ALIKE = {
    "numbers": ["12: ", "13: ", "9: "],
    "a path with a number": ["src/[id]/a.tsx:12:", "src/[id]/a.tsx:13:"],
    "the signs of grep's context": ["a.py-11-", "a.py:12:", "a.py-13-"],
    "a mark in the margin": ["   ", ">  ", "   "],
    "nothing": ["", "", ""],
    "indentation": ["\t\t", "\t\t"],
    "other words before the number, counted": ["(A. Body 12) ", "(Jean-Luc van Damme 13) ", "(dependabot[bot] 14) "],
}
COUNTED = {"other words before the number, counted"}
NOT_ALIKE = {
    "other words": ["a.py: ", "b.py: "],
    "a word more": ["a.py: ", "src/a.py: "],
    "a word less": ["src/a.py: ", "a.py: "],
    "other signs without a word": ["$ ", "> "],
    "another blank": ["12:\t", "13: "],
    "a sign more": ["12: ", "13:: "],
    "a blank less": ["12:  ", "13: "],
    "a prefix only behind the first": ["", "12: "],
}


def rules(first: str, *, loose: bool) -> list[PrefixRule]:
    return [SameForm(first, loose=loose), CountedUp(first, loose=loose)]


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("prefixes", ALIKE.values(), ids=ALIKE)
def test_prefixes_of_one_shape_go_together(prefixes: list[str], loose: bool) -> None:
    first, *others = prefixes
    assert any(all(map(rule.takes, others)) for rule in rules(first, loose=loose))


@pytest.mark.parametrize("prefixes", [ALIKE[name] for name in COUNTED], ids=COUNTED)
def test_words_may_differ_only_before_a_number_that_counts(prefixes: list[str]) -> None:
    first, second, _ = prefixes
    assert not SameForm(first, loose=False).takes(second)
    assert not CountedUp(first, loose=False).takes(second.replace("13", "14"))


@pytest.mark.parametrize("prefixes", NOT_ALIKE.values(), ids=NOT_ALIKE)
def test_prefixes_of_another_shape_do_not(prefixes: list[str]) -> None:
    first, second = prefixes
    assert not any(rule.takes(second) for rule in rules(first, loose=False))


def test_what_goes_with_the_first_line_must_go_with_the_second_too() -> None:
    """Before the first line other text may stand, so the second line tells what of it is the prefix."""
    rule = SameForm("It is: 12: ", loose=False)
    assert not rule.takes("13: ")
    rule = SameForm('{"text": "12: ', loose=False)
    assert rule.takes("13: ")
    assert not rule.takes("13- - ")
    assert rule.takes("14- ")


@pytest.mark.parametrize("mark", ['"', "'", ">"])
def test_the_text_may_begin_behind_a_mark_in_the_first_line(mark: str) -> None:
    assert SameForm(f"other words {mark}12: ", loose=False).takes("13: ")
    assert not SameForm("other words |12: ", loose=False).takes("13: ")


def test_blanks_behind_the_prefix_are_the_first_lines_own_only_if_a_later_tag_tells() -> None:
    for rule in (SameForm, CountedUp):
        assert not rule("12:   ", loose=False).takes("13: ")
        assert rule("12:   ", loose=True).takes("13: ")


def test_the_first_line_of_what_is_shown_may_have_lost_its_indentation() -> None:
    assert SameForm("", loose=True, stripped=True).takes("    ")
    assert not SameForm("", loose=True, stripped=False).takes("    ")
    assert not SameForm("", loose=True, stripped=True).takes("12: ")


def test_a_number_must_be_one_more_than_the_one_before() -> None:
    rule = CountedUp("A 12) ", loose=False)
    assert [rule.takes(f"B {number}) ") for number in (12, 14, 13, 13, 14)] == [False, False, True, False, True]


def test_empty_lines_count_too() -> None:
    rule = CountedUp("A 12) ", loose=False)
    assert rule.takes_empty("B 13)")
    assert rule.takes_empty("C 14)")
    assert not rule.takes("D 13) ")
    assert rule.takes("D 15) ")
    assert rule.takes_empty("E 16)")
    assert rule.takes("F 17) ")


@pytest.mark.parametrize("written", ["B 14)", "B)", ""])
def test_an_empty_line_with_another_number_or_none_is_not_the_next(written: str) -> None:
    assert not CountedUp("A 12) ", loose=False).takes_empty(written)


@pytest.mark.parametrize(
    ("written", "takes"),
    [("13:", True), ("13: ", True), ("13", True), ("13:  ", False), ("a 13:", False), ("13|", True)],
)
def test_of_the_prefix_of_an_empty_line_the_end_may_be_gone(written: str, takes: bool) -> None:
    rule = SameForm("12: ", loose=False)
    assert rule.takes("13: ")
    assert rule.takes_empty(written) is takes


def test_before_any_other_line_an_empty_one_has_the_words_of_the_first() -> None:
    assert SameForm("a.py:12: ", loose=False).takes_empty("a.py:13:")
    assert SameForm('"12: ', loose=False).takes_empty("13:")
    assert not SameForm("a.py:12: ", loose=False).takes_empty("b.py:13:")


def test_numbers_of_any_length_are_read_without_harm() -> None:
    """C7: a number that is longer than a line's is none, and of many numbers the last ones are looked at."""
    assert not CountedUp(f"{'9' * 5000}: ", loose=False).takes(f"1{'0' * 5000}: ")
    first = " ".join(map(str, range(100, 200)))
    assert CountedUp(f"{first}: ", loose=False).takes("B 200: ")
    assert not CountedUp(f"{first}: ", loose=False).takes("B 101: ")
