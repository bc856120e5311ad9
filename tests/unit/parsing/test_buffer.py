"""The text that is not let go yet: positions stay, whatever was forgotten before them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.parsing.buffer import MAX_CHARACTER, TextBuffer

TEXT = "naïve “text” < 🙂 and more".encode()


def at(dropped: int) -> TextBuffer:
    """A window over the text of which so many bytes were forgotten."""
    window = TextBuffer(bytearray(TEXT))
    window.drop(dropped)
    return window


@settings(max_examples=100, derandomize=True)
@given(st.lists(st.tuples(st.binary(max_size=6), st.sampled_from(["feed", "fast_path", "drop"])), max_size=12))
def test_the_bytes_directly_before_a_position_are_known_however_they_went(steps: list[tuple[bytes, str]]) -> None:
    """What stands before a marker must be told at every cut."""
    window, text = TextBuffer(), b""
    for data, how in steps:
        if how == "fast_path":
            window.drop(window.end)
            window.fast_path(data)
        else:
            window.data += data
        text += data
        if how == "drop":
            window.drop(window.base + len(data) // 2)
        assert (window.end, bytes(window.data)) == (len(text), text[window.base :])
        for pos in range(window.base, window.end + 1):
            assert window.near(pos)[-MAX_CHARACTER:] == text[max(0, pos - MAX_CHARACTER) : pos]


@pytest.mark.parametrize("dropped", [0, 1, 7, 10, len(TEXT)])
def test_positions_stay_when_bytes_are_forgotten(dropped: int) -> None:
    window = at(dropped)
    assert (window.base, window.end) == (dropped, len(TEXT))
    for start in range(dropped, len(TEXT) + 1):
        assert window.slice(start, start + 5) == TEXT[start : start + 5]
        assert window.find(b"<", start) == TEXT.find(b"<", start)
        sought = re.compile(b"[<m]").search(TEXT, start)
        assert window.search(re.compile(b"[<m]"), start) == (sought.start() if sought else len(TEXT))
        assert window.first(re.compile(b"[<m]"), start, 1) == (sought and (sought.start(), sought.group()))
        token = window.token(re.compile(b"m"), start)
        assert (token is not None) is (TEXT[start : start + 1] == b"m")


def test_what_was_forgotten_is_not_there_and_is_forgotten_once() -> None:
    window = at(7)
    assert window.slice(0, 9) == TEXT[7:9]
    assert window.slice(0, 5) == b""
    window.drop(3)
    assert window.base == 7


LENGTHS = {ord("m"): 4, ord(","): 1}


@pytest.mark.parametrize("dropped", [0, 2])
@pytest.mark.parametrize(
    ("start", "found", "looked"),
    [(2, b"more", 6), (3, None, 4), (6, b",", 7), (8, b"mo", 12), (10, b"123456789", 19)],
)
def test_what_belongs_to_the_byte_at_a_position(start: int, found: bytes | None, looked: int, dropped: int) -> None:
    window = TextBuffer(bytearray(b"a more, mo"))
    window.drop(dropped)
    window.looked = 0
    here = window.beginning(LENGTHS, start, 9)
    assert here == (b"" if start == 10 else found)
    assert window.looked == looked


@pytest.mark.parametrize("dropped", [0, 2])
def test_what_has_come_as_a_whole(dropped: int) -> None:
    pattern = re.compile(b"<[^>]*>")
    window = TextBuffer(bytearray(b"a <b>, <b"))
    window.drop(dropped)
    window.looked = 0
    assert window.complete_match(pattern, 2, 5) == b"<b>"
    assert window.looked == 5
    assert window.complete_match(pattern, 2, 4) is None
    assert window.complete_match(pattern, 7, 99) is None
    assert window.complete_match(pattern, 1, 99) is None
    window.drop(3)
    assert window.complete_match(pattern, 2, 99) is None


def test_behind_what_was_found_a_longer_one_may_have_been_looked_for() -> None:
    window = TextBuffer(bytearray(b"abcx"))
    assert window.first(re.compile(b"abcd|bc"), 0, 4) == (1, b"bc")
    assert window.looked == 5


def test_a_mark_of_several_bytes_is_known_behind_the_edge() -> None:
    """C3: what stands directly behind a quotation mark is quoted, though the mark itself has left."""
    mark = "“".encode()
    behind = TEXT.index(mark) + len(mark)
    for dropped in (0, behind - 1, behind):
        assert at(dropped).behind(behind, (b'"', mark))
        assert not at(dropped).behind(behind, (b'"', b"'"))
