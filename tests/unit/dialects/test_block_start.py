"""With which text a block begins."""

from __future__ import annotations

import pytest

from proxy.dialects.block_start import BlockStart, TextKind

THINKING, TEXT = "thinking", "text"


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ([(TEXT, "Hi")], ["Hi"]),
        ([(TEXT, " \n"), (TEXT, "Hi ")], ["", " \nHi "]),
        ([(THINKING, " a"), (THINKING, "b")], ["a", "b"]),
        ([(THINKING, " a"), (TEXT, "\n\n"), (TEXT, " Hello")], ["a", "", "Hello"]),
        ([(TEXT, "\n"), (THINKING, "a"), (TEXT, "b")], ["", "a", "b"]),
        ([(THINKING, " "), (TEXT, " Hi"), (TEXT, " you")], ["", "Hi", " you"]),
    ],
)
def test_no_block_is_blank(said: list[tuple[TextKind, str]], taken: list[str]) -> None:
    """Blanks before text wait for it, those around thinking go."""
    start = BlockStart()
    assert [start.take(kind, text) for kind, text in said] == taken


def test_endless_blanks_are_not_kept() -> None:
    start = BlockStart()
    for _ in range(10):
        assert start.take("text", " " * 1000) == ""
    assert start.take("text", "x") == " " * 4096 + "x"


def test_what_was_kept_is_forgotten_where_something_else_begins() -> None:
    start = BlockStart()
    assert (start.take("thinking", "a"), start.take("text", "\n")) == ("a", "")
    start.forget()
    assert start.take("text", " b") == " b"
