"""The ways in which a tool escapes what it shows, and whether all of a call was escaped so (F89)."""

from __future__ import annotations

import html
import json

import pytest

from proxy.formats.shown_escapes import (
    CARRIAGE_RETURN,
    CAT,
    COLOURS,
    DIFFS,
    HTML,
    JSON,
    Escaping,
    LineEnd,
    ShownCall,
)

TEXT = 'a "b" <c> & \\d\n\tü \N{GRINNING FACE} \x7f/e\'\n'
PLAIN = frozenset((LineEnd.PLAIN,))
ESCAPED = frozenset((LineEnd.ESCAPED,))
NAMED: dict[str, Escaping] = {"JSON": JSON, "HTML": HTML, "CAT": CAT, "CR": CARRIAGE_RETURN, "COLOURS": COLOURS}


def undone(escaping: Escaping, text: str) -> str:
    return escaping.pattern.sub(escaping.meant, text)


def shown(
    escaping: Escaping,
    text: str,
    *lines: str,
    ends: frozenset[LineEnd] = PLAIN,
    tags_end_lines: bool = True,
    delimits: bool = False,
) -> ShownCall:
    """A call whose lines, as they stand in this text, are these."""
    spans: list[tuple[int, int]] = []
    for line in lines:
        start = text.index(line, spans[-1][1] if spans else 0)
        spans.append((start, start + len(line)))
    escapes = [(*found.span(), escaping.meant(found)) for found in escaping.pattern.finditer(text)]
    inside = [each for each in escapes if any(start <= each[0] < end for start, end in spans)]
    return ShownCall(text, tuple(spans), tuple(inside), ends, tags_end_lines, lambda position: delimits)


def is_all(escaping: Escaping, text: str, *lines: str, ends: frozenset[LineEnd] = PLAIN, tags: bool = True) -> bool:
    return escaping.is_consistent(shown(escaping, text, *lines, ends=ends, tags_end_lines=tags))


@pytest.mark.parametrize(
    ("escaping", "escaped"),
    [
        ("JSON", json.dumps(TEXT)[1:-1]),
        ("JSON", json.dumps(TEXT, ensure_ascii=False)[1:-1]),
        ("JSON", json.dumps(TEXT)[1:-1].replace("/", "\\/").replace("<", "\\u003C").replace(">", "\\x3e")),
        ("HTML", html.escape(TEXT)),
        ("HTML", TEXT.replace("&", "&#38;").replace("<", "&#x3C;").replace("\n", "&#10;")),
        ("CAT", TEXT.replace("\n", "$\n").replace("\t", "^I").replace("\x7f", "^?").replace("ü", "M-CM-<")),
        ("CR", TEXT.replace("\n", "\r\n")),
        ("CR", TEXT.replace("\n", "\r")),
        ("COLOURS", f"\x1b[1;32m{TEXT}\x1b[0m\x1b[K"),
    ],
)
def test_what_was_escaped_is_what_it_was(escaping: str, escaped: str) -> None:
    assert escaped != TEXT
    assert undone(NAMED[escaping], escaped) == TEXT


@pytest.mark.parametrize(
    ("escaping", "text", "left"),
    [
        ("JSON", "\\d \\u12 \\ud83d \\xZZ \\", "\\d \\u12 \ud83d \\xZZ \\"),
        ("JSON", '"<a>\\n",\n"b"', '"<a>",\n"b"'),
        ("JSON", '"<a>\\n" and', '"<a>\n" and'),
        ("HTML", "&; &unknown; &# &#x; a && b", "&; &unknown; &# &#x; a && b"),
        ("HTML", "&#9999999; &#xFFFFFF;", "\ufffd \ufffd"),
        ("CAT", "costs 5$ each ^ a", "costs 5$ each ^ a"),
        ("CAT", "M-C$\n", "\ufffd\n"),
        ("COLOURS", "[32m a \x1b", "[32m a \x1b"),
    ],
)
def test_what_only_looks_escaped_does_no_harm(escaping: str, text: str, left: str) -> None:
    assert undone(NAMED[escaping], text) == left


@pytest.mark.parametrize(
    ("text", "lines", "ends", "all_of_it"),
    [
        ('"<a>\\n<b x=\\"1\\">\\n</a>"', ("<a>", '<b x=\\"1\\">', "</a>"), ESCAPED, True),
        ('"<a>\\n<b>\\n</a>"', ("<a>", "<b>", "</a>"), ESCAPED, True),
        ("<a>\n<b>\n</a>", ("<a>", "<b>", "</a>"), PLAIN, True),
        ('"<a>\\n<b x="1" y=\\"2\\">\\n</a>"', ("<a>", '<b x="1" y=\\"2\\">', "</a>"), ESCAPED, False),
        ('"<a>\\ngrep \\d\\n</a>"', ("<a>", "grep \\d", "</a>"), ESCAPED, False),
        ("\"<a>\\n'b' \"c\"\\n</a>\"", ("<a>", "'b' \"c\"", "</a>"), ESCAPED, False),
        ('"<a>\\n",\n"<b>\\n",\n"</a>"', ("<a>", "<b>", "</a>"), PLAIN, True),
        ('"<a>\\n",\n<b>\\n,\n"</a>"', ("<a>", "<b>", "</a>"), PLAIN, True),
        ('<a>\n<b x=\\"1\\">\n</a>', ("<a>", '<b x=\\"1\\">', "</a>"), PLAIN, False),
        ('"<a>\\n<b>\n</a>"', ("<a>", "<b>", "</a>"), ESCAPED | PLAIN, False),
    ],
    ids=[
        "in one string",
        "without marks of its own",
        "nothing is escaped",
        "one mark is not escaped",
        "a backslash is not escaped",
        "both marks are not escaped",
        "each line in a string",
        "lines of which nothing is escaped",
        "escapes in no string",
        "only some of its line ends",
    ],
)
def test_a_call_in_json_is_escaped_as_a_whole(
    text: str, lines: tuple[str, ...], ends: frozenset[LineEnd], all_of_it: bool
) -> None:
    assert is_all(JSON, text, *lines, ends=ends) is all_of_it


@pytest.mark.parametrize(
    ("text", "between", "inside"),
    [('"<a>x\\ny</a>"', True, False), ("<a>x\\ny</a>", False, False), ('["<a>x\\ny</a>", \'a\']', True, False)],
)
def test_marks_around_the_lines_make_them_a_string(text: str, between: bool, inside: bool) -> None:
    call = shown(JSON, text, "<a>x", "y</a>", ends=ESCAPED, tags_end_lines=False)
    assert call.is_between('"') is between
    assert call.is_between("'") is inside
    assert JSON.is_consistent(call) is between


def test_a_mark_that_delimited_an_earlier_string_counts_only_in_another_one() -> None:
    """A string in a string: `"['…']"`."""
    for text, between in (("\"['<a>x\\ny</a>']\"", True), ("['<a>x\\ny</a>']", False)):
        assert shown(JSON, text, "<a>x", "y</a>", ends=ESCAPED, delimits=True).is_between("'") is between


@pytest.mark.parametrize(
    ("lines", "all_of_it"),
    [
        (("&lt;a&gt;", "x &amp; y", "&lt;/a&gt;"), True),
        (("<a>", "x", "</a>"), True),
        (("&lt;a&gt;", "x & y", "&lt;/a&gt;"), False),
        (("<a>", "x &lt; y", "</a>"), False),
        (("[a]", "x &lt; y", "[/a]"), True),
        (("[a]", 'x &lt; "y"', "[/a]"), False),
        (("&lt;a&gt;", 'x "y"', "&lt;/a&gt;"), True),
    ],
)
def test_a_call_in_html_has_no_sign_left_that_is_escaped(lines: tuple[str, ...], all_of_it: bool) -> None:
    assert is_all(HTML, "\n".join(lines), *lines) is all_of_it


@pytest.mark.parametrize(
    ("text", "lines", "all_of_it"),
    [
        ("<a>$\n^Ix$\n</a>$", ("<a>", "^Ix", "</a>"), True),
        ("<a>^M$\nx^M$\n</a>^M$", ("<a>", "x", "</a>"), True),
        ("<a>$\nx\n</a>$", ("<a>", "x", "</a>"), False),
        ("<a>$\n\tx$\n</a>$", ("<a>", "\tx", "</a>"), False),
        ("<a>$\nü$\n</a>$", ("<a>", "ü", "</a>"), False),
    ],
)
def test_cat_ends_each_line_and_leaves_no_tab_and_no_letter_beyond_ascii(
    text: str, lines: tuple[str, ...], all_of_it: bool
) -> None:
    assert is_all(CAT, text, *lines) is all_of_it


def test_all_lines_end_with_a_carriage_return_or_none() -> None:
    for text, all_of_it in (("a\r\nb\r\nc", True), ("a\nb\nc", True), ("a\r\nb\nc", False)):
        assert is_all(CARRIAGE_RETURN, text, "a", "b", "c") is all_of_it


DIFF = "@@ -1,2 +1,2 @@\n head\n-old\n+<a>\n+</a>\n tail"


@pytest.mark.parametrize("numbers", [0, 1, 2])
def test_a_diff_has_two_sides_without_the_signs(numbers: int) -> None:
    text = "\n".join("".join(f"{at:4} " for _ in range(numbers)) + line for at, line in enumerate(DIFF.split("\n")))
    diff = DIFFS[numbers]
    assert diff.is_in(text)
    sides = {undone(side, text).replace(" ", "") for side in diff.sides}
    numbered = [str(at) * numbers for at in range(6)]
    before = [f"{numbered[0]}@@-1,2+1,2@@", f"{numbered[1]}head", f"{numbered[2]}old", f"{numbered[5]}tail"]
    after = [*before[:2], f"{numbered[3]}<a>", f"{numbered[4]}</a>", before[3]]
    assert sides == {"\n".join(before), "\n".join(after)}


@pytest.mark.parametrize("text", ["- a\n- b", "+ a", " a\n b", ""])
def test_a_list_is_no_diff(text: str) -> None:
    assert not any(diff.is_in(text) for diff in DIFFS)


def test_a_call_in_a_diff_stands_in_lines_with_a_sign_alone() -> None:
    before, after = DIFFS[0].sides
    for side in (before, after):
        assert is_all(side, DIFF, "<a>", "</a>")
        assert not is_all(side, f"{DIFF}\n<b>", "<b>")


def test_escaped_and_plain_are_told_of_the_lines_alone() -> None:
    call = shown(JSON, 'x\\t "a\\"b", "\\nc"\\r z', 'a\\"b', "\\nc")
    assert (call.escaped, call.plain) == (frozenset('"\n'), frozenset("abc"))
    assert call.is_mixed is False and call.is_untouched is False
    assert shown(JSON, 'a\\"b"', 'a\\"b"').is_mixed


@pytest.mark.parametrize(("line", "begins"), [("&lt;a&gt;", True), ("[&lt;", True), ("a&lt;", False), ("<a>", False)])
def test_the_first_tag_is_escaped_if_no_word_stands_before_its_escape(line: str, begins: bool) -> None:
    assert shown(HTML, f"x {line}", line).begins_escaped is begins
