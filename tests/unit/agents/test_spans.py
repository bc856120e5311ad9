"""Edits of a text, and the ends of its lines."""

from __future__ import annotations

import pytest

from proxy.agents.spans import Edit, apply, line_end, line_of


def test_edits_are_made_at_the_places_that_they_name() -> None:
    """In whichever order they come: each names its place in the text as it was."""
    edits = [Edit(0, 1, "long"), Edit(4, 4, "+"), Edit(2, 3, "")]
    assert apply("a b c", edits) == apply("a b c", reversed(edits)) == "long  +c"
    assert apply("abc", []) == "abc"


@pytest.mark.parametrize(("text", "end"), [("a\r\nb\n", "\r\n"), ("a\nb", "\n"), ("", "\n"), ("a\rb", "\n")])
def test_new_lines_end_as_there(text: str, end: str) -> None:
    assert line_end(text) == end


@pytest.mark.parametrize(("at", "before"), [(0, ""), (2, "ab"), (3, ""), (5, "cd"), (6, "cd\r"), (7, "")])
def test_what_stands_before_a_place_on_its_line_is_known(at: int, before: str) -> None:
    assert line_of("ab\ncd\r\nef", at) == before
