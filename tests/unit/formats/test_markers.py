"""The tables of tokens: what the parsers rely on holds for each line of them."""

from __future__ import annotations

import itertools

import pytest

from proxy.formats.markers import (
    AFTER_CALL,
    BEFORE_TEXT,
    CUT_OPENERS,
    END_OF_TURN,
    FILLERS,
    MARKER_BY_OPENER,
    MARKER_CLOSERS,
    MARKER_OPENERS,
    MARKERS,
    MIN_REST,
    NAME_FOLLOWS,
    OPENERS,
    SEPARATORS,
    WRAPPER_KINDS,
    WRAPPER_TAGS,
    encoded,
)
from proxy.notations.thoughts import REASONING_MARKERS
from proxy.formats.xml_tags import peek_tag, read_tag
from tests.support.helpers import outcome

TABLES = {
    "wrapper tags": WRAPPER_TAGS,
    "markers": tuple(marker.opener for marker in MARKERS),
    "fillers": FILLERS,
    "separators": (*SEPARATORS, *NAME_FOLLOWS),
    "ends of turns": END_OF_TURN,
    "behind calls": AFTER_CALL,
    "before text": BEFORE_TEXT,
    "cut openers": CUT_OPENERS,
}


@pytest.mark.parametrize("name", TABLES)
def test_no_line_of_a_table_is_empty_or_stands_there_twice(name: str) -> None:
    assert all(TABLES[name])
    assert len(set(TABLES[name])) == len(TABLES[name])


@pytest.mark.parametrize("opener", WRAPPER_TAGS)
def test_each_wrapper_that_is_a_tag_is_read_as_one(opener: str) -> None:
    whole = opener if opener.endswith(">") else f"{opener}{'0a>' if opener.endswith(':') else 'tool_calls>'}"
    found = outcome(peek_tag, whole).given
    assert found is not None and not found.closing
    assert found.kind in WRAPPER_KINDS or found.marked


@pytest.mark.parametrize("kind", sorted(WRAPPER_KINDS))
def test_each_kind_of_wrapper_has_a_line_in_the_table(kind: str) -> None:
    found = [read_tag(opener.strip("<>")) for opener in WRAPPER_TAGS if opener.startswith("<") and opener.endswith(">")]
    assert kind in {each.kind for each in found if each is not None}


@pytest.mark.parametrize("marker", MARKERS, ids=lambda marker: str(marker.opener))
def test_each_marker_is_found_by_its_opener(marker: object) -> None:
    opener = next(opener for opener, known in MARKER_BY_OPENER.items() if known is marker)
    assert MARKER_OPENERS.match(opener, True) == opener
    assert opener not in MARKER_CLOSERS


def test_what_closes_a_marker_neither_opens_one_nor_is_a_single_byte() -> None:
    """F16: the bracket of the bridge's rendering closes that alone."""
    assert not set(MARKER_CLOSERS) & set(encoded(*OPENERS))
    assert min(map(len, MARKER_CLOSERS)) > 1


def test_what_ends_a_turn_neither_opens_a_call_nor_reasoning() -> None:
    """F18."""
    begins = {*OPENERS, *(thought.opener for thought in REASONING_MARKERS)}
    for token, opener in itertools.product(END_OF_TURN, begins):
        assert not opener.startswith(token) and not token.startswith(opener)


def test_a_cut_opener_is_the_end_of_one_and_says_something() -> None:
    """F3: one byte or two alone could be anything."""
    for rest in CUT_OPENERS:
        assert len(rest) >= MIN_REST
        assert rest.endswith((">", "]"))
        assert rest not in OPENERS or any(opener != rest and opener.endswith(rest) for opener in OPENERS)


def test_texts_are_encoded_as_utf8() -> None:
    assert encoded("a", "｜") == (b"a", b"\xef\xbd\x9c")
    assert encoded() == ()
