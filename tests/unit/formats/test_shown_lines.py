"""Where the lines of a call stand in a text that a tool shows: below each other, all behind the same (F89)."""

from __future__ import annotations

import pytest

from proxy.formats import shown_lines
from proxy.formats.shown_lines import MAX_EDGE, MAX_PREFIX, Comparisons, ShownLines, ends_in_markup, only_closers

CALL = ("<tool_call>", '{"name": "now"}', "</tool_call>")
VALUES = ("<tool_call>", "a", "b", "</tool_call>")


def places(text: str, call: tuple[str, ...] = CALL) -> list[list[str]]:
    """What stands at each place of a call in a text."""
    found = ShownLines(text, Comparisons()).places(call)
    return [[text[start:end] for start, end in spans] for spans in found]


SHOWN = {
    "as they are": "{0}\n{1}\n{2}",
    "behind numbers": "8: {0}\n9: {1}\n10: {2}",
    "in a frame": "12 | {0}        |\n13 | {1}    |\n14 | {2}       |",
    "behind a path": "src/[id]/a.tsx:12:{0}\nsrc/[id]/a.tsx:13:{1}\nsrc/[id]/a.tsx:14:{2}",
    "behind authors": "(A. Body 12) {0}\n(Jo 13) {1}\n(Li 14) {2}",
    "with an empty line behind each": "1: {0}\n2:\n3: {1}\n4:\n5: {2}",
    "with blanks at the ends": "{0}  \n{1}  \n{2}  ",
    "with a sign at the ends": "{0} $\n{1} $\n{2} $",
    "in other text": "before: {0}\n{1}\n{2} and more",
    "behind another call": "7 | x}}{0}\n8 | {1}\n9 | {2}",
}
NOT_SHOWN = {
    "a line between": "{0}\nx\n{1}\n{2}",
    "another order": "{1}\n{0}\n{2}",
    "a line that is missing": "{0}\n{2}",
    "something before one line": "{0}\nx {1}\n{2}",
    "something behind one line": "{0}\n{1} x\n{2}",
    "words behind the first": "{0} and\n{1}\n{2}",
    "other blanks at an end": "{0}  \n{1} \n{2}",
    "one line": "{0} {1} {2}",
    "nothing": "",
}


@pytest.mark.parametrize("form", SHOWN.values(), ids=SHOWN)
def test_lines_below_each_other_behind_the_same_are_a_place(form: str) -> None:
    assert [*CALL] in places(f"head\n{form.format(*CALL)}\ntail")


@pytest.mark.parametrize("form", NOT_SHOWN.values(), ids=NOT_SHOWN)
def test_all_else_is_none(form: str) -> None:
    assert places(f"head\n{form.format(*CALL)}\ntail") == []


def test_only_the_first_line_of_all_may_have_lost_its_blanks() -> None:
    indented = "\n    ".join(CALL)
    assert places(indented) == [[*CALL]]
    assert places(f"head\n{indented}") == []


def test_each_place_is_found() -> None:
    text = "\n".join(["x", *CALL, "y", *(f"> {line}" for line in CALL)])
    starts = {spans[0][0] for spans in ShownLines(text, Comparisons()).places(CALL)}
    assert starts == {2, text.rindex(CALL[0])}


def test_a_call_of_one_line_stands_wherever_it_is_written() -> None:
    text = "an a b and\n> a b"
    found = [*ShownLines(text, Comparisons()).places(("a b",))]
    assert found == [[(3, 6)], [(13, 16)]]
    assert places(text, ("a  b",)) == []


def test_empty_lines_of_the_call_must_be_empty_and_have_no_place() -> None:
    call = ("<a>", "", "</a>")
    assert ["<a>", "</a>"] in places("1: <a>\n2:\n3: </a>", call)
    assert places("1: <a>\n2: x\n3: </a>", call) == []
    assert places("1: <a>\n3: </a>", call) == []


def test_a_number_is_no_prefix_where_it_ends_in_the_middle_of_a_word() -> None:
    """`1two` is another word than `two`."""
    call = ("<a>", "two", "</a>")
    assert places("0 <a>\n1 two\n2 </a>", call)
    assert places("<a>\n1two\n</a>", call) == []


def test_an_empty_line_behind_each_is_a_tools_own_only_if_markup_ends_lines() -> None:
    """Else all line ends are those of a value, which has its empty lines itself."""
    assert places("<a>\n\nb\n\n</a>", ("<a>", "b", "</a>"))
    assert places("<a>x\n\nb\n\nc</a>", ("<a>x", "b", "c</a>")) == []


@pytest.mark.parametrize(("length", "found"), [(MAX_PREFIX, True), (MAX_PREFIX + 1, False)])
def test_a_prefix_has_a_bound(length: int, found: bool) -> None:
    prefix = "x" * (length - 1) + ":"
    text = "\n".join(f"{prefix}{line}" for line in VALUES)
    assert bool(places(text, VALUES)) is found


def test_what_stands_behind_lines_has_a_bound() -> None:
    for length, found in ((MAX_EDGE, True), (MAX_EDGE + 1, False)):
        text = "\n".join(f"{line}{' ' * length}" for line in CALL)
        assert bool(places(text)) is found


def test_what_is_compared_has_a_bound_for_all_texts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""
    monkeypatch.setattr(shown_lines, "MOST_COMPARED", 3000)
    compared = Comparisons()
    text = "\n".join([*CALL[:2], "x", *CALL] * 50)
    first = [*ShownLines(text, compared).places(CALL)]
    assert compared.over and 0 < len(first) < 50
    assert [*ShownLines("\n".join(CALL), compared).places(CALL)] == []
    assert [*ShownLines("\n".join(CALL), compared).places(CALL[:1])] == []
    assert [*ShownLines("\n".join(CALL), Comparisons()).places(CALL)]


@pytest.mark.parametrize(
    ("line", "only", "markup"),
    [
        ("</tool_call>", True, True),
        ("</parameter></function>", True, True),
        ("]<]minimax[>[</tool_call>", True, True),
        ("<|tool_call_end|>", True, True),
        ("<｜tool▁call▁end｜>", True, True),
        ("}]```", True, True),
        ('{"name": "now"}', False, True),
        ('[{"name": "now"}]', False, True),
        ("<tool_call>", False, False),
        ("x</parameter>", False, False),
        ('"a": 1}', False, False),
        ("", False, False),
    ],
)
def test_closers_are_no_part_of_a_text_that_a_call_holds(line: str, only: bool, markup: bool) -> None:
    assert (only_closers(line), ends_in_markup(line)) == (only, markup)
