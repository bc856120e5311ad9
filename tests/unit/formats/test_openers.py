"""What may begin at a place in a text that is still being written."""

from __future__ import annotations

import pytest

from proxy.formats.grammar import TEXT, Format, grammars
from proxy.formats.openers import beginning, begins_here, looked_for, may_follow, may_stand, nothing_begins
from proxy.parsing.buffer import MAX_MATCH, TextBuffer
from proxy.parsing.cursor import MAX_BLANKS
from proxy.parsing.markdown import Markdown

GRAMMAR = grammars(json_reply=False, raw_text=False)[TEXT]
OBJECT = Format("json", b"{", then=b"\"'")


def buffer(text: str, *, ended: bool = False) -> TextBuffer:
    return TextBuffer(bytearray(text.encode()), ended=ended)


def names(text: str, at: int = 0) -> set[str]:
    return {item.name for item in beginning(buffer(text), GRAMMAR, at)}


@pytest.mark.parametrize("behind", ["", "x" * MAX_MATCH], ids=["so far", "and more"])
@pytest.mark.parametrize(
    ("text", "name"), [("<tool_call>", "<tool_call>"), ('{"a"', "json"), ("<!--", "comment"), ("<think>", "reasoning")]
)
def test_what_stands_there_may_begin(text: str, name: str, behind: str) -> None:
    assert name in names(f"{text}{behind}")
    assert name in names(f"a {text}{behind}", 2)


@pytest.mark.parametrize("text", ["<", "<t", "<tool_cal", "Act"])
def test_what_may_still_become_an_opener_may_begin(text: str) -> None:
    assert names(text)


@pytest.mark.parametrize("text", ["<b>", "<tool_cax", "x", "4", "<b>" + "x" * MAX_MATCH, "Act of" + "x" * MAX_MATCH])
def test_where_nothing_stands_nothing_begins(text: str) -> None:
    assert names(text) == set()


# How far it is from a `<` to behind the longest opener.
LESS = GRAMMAR.longest[ord("<")] + 1
OPENERS = sorted({opener.decode() for opener in GRAMMAR.standing})


@pytest.mark.parametrize("opener", OPENERS)
def test_each_opener_is_told_by_its_own_bytes(opener: str) -> None:
    """What stands behind the longest that begins so is not looked at, and says nothing new."""
    data = opener.encode()
    room = GRAMMAR.longest[data[0]]
    text = TextBuffer(bytearray(data + b"x" * MAX_MATCH))
    found = beginning(text, GRAMMAR, 0)
    assert {item.opener for item in found} == {each for each in GRAMMAR.standing if data.startswith(each)}
    assert text.looked == room
    begun = beginning(TextBuffer(bytearray(data[:-1])), GRAMMAR, 0)
    assert len(data) == 1 or data in {item.opener for item in begun}


@pytest.mark.parametrize(
    ("text", "at", "behind"),
    [
        *(("{", 0, 2), ("a {x", 2, 2), ('{"{"', 2, 2), ("<b>{", 3, 3), (">>```", 2, 4)),
        *(("<tool_cal{", 9, LESS - 9), ("<{", 1, LESS - 1)),
    ],
)
def test_how_far_was_looked_for_an_opener(text: str, at: int, behind: int) -> None:
    assert looked_for(buffer(text), GRAMMAR, at) == at + behind


@pytest.mark.parametrize(("text", "passed"), [("ab", b"a"), ("`a", b"`"), ("```a`", b"```"), ("``", b"``"), ("", b"")])
def test_a_run_of_backticks_is_passed_whole(text: str, passed: bytes) -> None:
    assert nothing_begins(buffer(text), 0) == passed


@pytest.mark.parametrize(
    ("before", "apart", "glued"),
    [("", True, True), ("a", False, True), ("_", False, True), ("9", False, True), (".", True, True)]
    + [(before, True, False) for before in (" ", "\t", "`", '"')],
)
def test_what_may_stand_before_a_format(before: str, apart: bool, glued: bool) -> None:
    text = buffer(f"{before}X")
    at = len(before)
    assert may_follow(text, Format("a", b"X"), at) is True
    assert may_follow(text, Format("a", b"X", apart=True), at) is apart
    assert may_follow(text, Format("a", b"X", glued=True), at) is glued


def test_what_was_let_go_counts_too() -> None:
    text = buffer("word X")
    text.drop(5)
    assert may_follow(text, Format("a", b"X", apart=True), 5)
    assert not may_follow(text, Format("a", b"X", glued=True), 5)


@pytest.mark.parametrize(
    ("before", "may"), [("", True), ("a\n", True), ("a\n  ", True), ("a", False), ("a\n    ", False)]
)
def test_a_format_of_lines_stands_at_the_start_of_one(before: str, may: bool) -> None:
    markdown = Markdown()
    markdown.feed(before.encode())
    text, at = buffer(f"{before}X"), len(before)
    assert may_stand(text, markdown, Format("a", b"X", line_start=True), at) is may
    assert may_stand(text, markdown, Format("a", b"X"), at) is True


@pytest.mark.parametrize(
    ("text", "begins", "at_the_end"),
    [
        ("<tool", None, False),
        ("<tools>", True, True),
        ("<toolx", False, False),
        ("", None, False),
    ],
)
def test_half_an_opener_waits_while_more_may_come(text: str, begins: bool | None, at_the_end: bool) -> None:
    item = Format("a", b"<tools>")
    assert begins_here(buffer(text), item, 0) is begins
    assert begins_here(buffer(text, ended=True), item, 0) is at_the_end


@pytest.mark.parametrize(
    ("text", "begins", "at_the_end"),
    [
        ('{"', True, True),
        ("{ \n'", True, True),
        ("{a", False, False),
        ("{}", False, False),
        ("{ ", None, False),
        ("{" + " " * MAX_BLANKS, None, False),
        ("{" + " " * (MAX_BLANKS + 1), False, False),
    ],
)
def test_what_must_follow_is_waited_for_behind_blanks(text: str, begins: bool | None, at_the_end: bool) -> None:
    assert begins_here(buffer(text), OBJECT, 0) is begins
    assert begins_here(buffer(text, ended=True), OBJECT, 0) is at_the_end
