"""Where something in brackets ends, whatever stands in it."""

from __future__ import annotations

import pytest

from proxy.formats.brackets import Brackets
from proxy.limits import MAX_DEPTH
from tests.support.helpers import all_cuts
from tests.unit.parsing.test_cursor import NO, Verb, drive

SQUARE = Brackets(b"[]{}")
ALL = Brackets(b"()[]{}")


def skip(brackets: Brackets) -> Verb:
    return brackets.skip


@pytest.mark.parametrize(
    ("brackets", "text", "end"),
    [
        (SQUARE, b"[] x", 2),
        (SQUARE, b"[1, [2], {3: 4}]]", 16),
        (SQUARE, b'["]", \'}\', "\\"]"] x', 17),
        (SQUARE, b"[)(]", 4),
        (ALL, b"(a, [b], {c})(", 13),
    ],
)
def test_it_ends_at_the_bracket_that_closes_it(brackets: Brackets, text: bytes, end: int) -> None:
    for cut in all_cuts(text):
        assert drive(skip(brackets), cut) == (None, end)


@pytest.mark.parametrize("text", [b"[", b"[1, [2]", b'["]', b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2)])
def test_what_does_not_end_or_is_nested_too_deep_is_none(text: bytes) -> None:
    assert drive(skip(SQUARE), [text]) == (NO, -1)


def test_it_may_be_nested_as_deep_as_is_allowed() -> None:
    text = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert drive(skip(SQUARE), [text, b"]"]) == (None, len(text))
