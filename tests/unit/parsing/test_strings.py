"""What ends a string, and what it is passed over by."""

from __future__ import annotations

import pytest

from proxy.parsing.strings import DOUBLE_QUOTED, IN_STRICT_STRING, IN_STRING, WITHIN_STRING


@pytest.mark.parametrize("quote", [b'"', b"'"])
def test_its_quotation_mark_and_a_backslash_matter(quote: bytes) -> None:
    [other] = {b'"', b"'"} - {quote}
    for stops in (IN_STRING, IN_STRICT_STRING):
        assert stops[quote].search(quote) and stops[quote].search(b"\\")
        assert not stops[quote].search(b"a {[,:" + other)


def test_a_control_character_matters_in_a_strict_one_only() -> None:
    assert IN_STRICT_STRING[b'"'].search(b"\n") and not IN_STRING[b'"'].search(b"\n")


@pytest.mark.parametrize("stop", [*IN_STRING.values(), *IN_STRICT_STRING.values()])
def test_a_string_is_passed_over_up_to_its_end_or_half_an_escape(stop: object) -> None:
    within = WITHIN_STRING[stop]  # type: ignore[index]
    quote = within.pattern[2:3]
    for text in (b"", b"a", b"a\\nb", b"\\" + quote, b"\\\\"):
        for end in (quote, b"\\", b""):
            found = within.match(text + end)
            assert found is not None and found.group() == text


def test_those_of_double_quotation_marks_are_told_apart() -> None:
    assert {*DOUBLE_QUOTED} == {IN_STRING[b'"'], IN_STRICT_STRING[b'"']}
