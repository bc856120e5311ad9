"""Texts as people are shown them."""

from __future__ import annotations

import pytest

from proxy.display import cut, escaped


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a" * 10, "a" * 10), ("a" * 11, "a" * 7 + "...")])
def test_a_text_is_cut_to_so_many_characters(text: str, shown: str) -> None:
    assert cut(text, 10) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain é", "plain é"), ("a\nb", r"a\nb"), ("\x1b[3m", r"\u001b[3m"), ("\u2028\ud83d", r"\u2028\ud83d"), ("", "")],
)
def test_what_cannot_be_printed_is_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
