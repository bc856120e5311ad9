"""Spellings of a key that are one, and those that are not."""

from __future__ import annotations

import pytest

from proxy.tools.toolset import fold, respelled, without_markup

NAMES = ("file_path", "content", "oldText", "old-text")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("file_path", "file_path"),
        ("filePath", "file_path"),
        ("FILE-PATH", "file_path"),
        ("<file_path>", None),
        ("</file_path", None),
        ("parameter=content", "content"),
        ("<parameter=content>", "content"),
        ("<|content|>", None),
        ('"content"', "content"),
        (" content\n", "content"),
        # Two names are spelled like it.
        ("old_text", None),
        ("oldText", "oldText"),
        ("path", None),
        ("", None),
    ],
)
def test_a_key_is_another_spelling_of_one_name_or_of_none(key: str, name: str | None) -> None:
    assert respelled(key, NAMES) == name


@pytest.mark.parametrize(
    ("key", "bare"),
    [
        ("a", "a"),
        ("a</parameter>", "a"),
        ("<arg_key>a", "a"),
        ("<｜DSML｜>a", "a"),
        ("\\'a'", "a"),
        ("parameter name=a", "a"),
    ],
)
def test_markup_that_stuck_to_a_key_goes(key: str, bare: str) -> None:
    assert without_markup(key) == bare


def test_letter_case_and_separators_do_not_count() -> None:
    assert fold("Old-Text_2") == fold("oldtext2") != fold("old text2")
