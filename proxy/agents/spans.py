"""A text edited in some places, and why a file is left alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class NotMergeableError(Exception):
    """A file cannot be merged safely; the text says why, behind the file's name."""


class Edit(NamedTuple):
    """An edit: the characters from `start` to `end` become `text`."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits, which do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def line_end(text: str) -> str:
    """The line end that the text uses."""
    return "\r\n" if "\r\n" in text else "\n"


def line_of(text: str, at: int) -> str:
    """The part of a line before a place."""
    return text[text.rfind("\n", 0, at) + 1 : at]
