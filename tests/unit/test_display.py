"""Text for display."""

from __future__ import annotations

import pytest

from proxy.display import cut, escaped


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("a" * 10, "a" * 10), ("a" * 11, "a" * 7 + "...")])
def test_a_long_text_is_truncated(text: str, shown: str) -> None:
    assert cut(text, 10) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain é", "plain é"), ("a\nb", r"a\nb"), ("\x1b[3m", r"\u001b[3m"), ("\u2028\ud83d", r"\u2028\ud83d"), ("", "")],
)
def test_unprintable_characters_are_escaped(text: str, shown: str) -> None:
    assert escaped(text) == shown
