"""What stands before the lines of a text that a tool shows: line numbers, file names, quotation marks, indentation.

    src/[id]/page.tsx:12:<tool_call>          ^1a2b3c4 (A. Body 2026-01-01 10:00:00 +0000 12) <tool_call>
    src/[id]/page.tsx:13:{"name": "now"}      5d6e7f80 (Jo      2026-01-02 11:00:00 +0000 13) {"name": "now"}
    src/[id]/page.tsx:14:</tool_call>         ^1a2b3c4 (A. Body 2026-01-01 10:00:00 +0000 14) </tool_call>

No prefix is known by itself. That every line of a call is there, and that what stands before one line stands before
all, is what makes it a copy: a call with `a.py` is none of one with `src/a.py`, and one with `ls` none of one with
`$ ls`. Blanks before a line may be its own, so that the last of a prefix must be the same in each line. Two prefixes
are of the same shape if they have the same words, where one number is like another, and behind these the same blanks
and as many signs; or if each holds a number that is one more than the one in the line before, and what is between it
and the text is of the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

# Numbers of one prefix, and places in what stands before a call where a text may begin.
_MAX_NUMBERS = 8
_MAX_BEGINNINGS = 8
_WORD = re.compile(r"\w+")
_SIGN_OR_BLANK = re.compile(r"[^\w\s]| ")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\b[0-9]{1,9}\b")
# What a text begins behind, in which the first line of a call is not the first one: `{"text": "12: <tool_call>\n…`.
_BEGINNINGS = ('"', "'", ">")


class PrefixRule(Protocol):
    """What the prefixes of the lines have in common, as far as they were seen."""

    def takes(self, written: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""

    def takes_empty(self, written: str) -> bool:
        """Whether this is the prefix of an empty line, behind which no blanks may be left of it."""


class SameForm:
    """The prefixes are the same but for numbers and which signs stand there.

    A mark in the margin takes the place of a blank: `>  x` beside `   y`.
    """

    def __init__(self, first: str, *, loose: bool, stripped: bool = False) -> None:
        """`first` is what stands before the first line of the call, the prefix and perhaps other text. `loose`: blanks
        may stand behind the prefix there, because a tag of a later line tells where it ends. `stripped`: the blanks
        of that line may have been taken away.
        """
        self._first = first
        self._loose = loose
        self._stripped = stripped
        self._shape: _Prefix | None = None

    def takes(self, written: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""
        prefix = _prefix(written)
        if self._shape is not None:
            return self._shape.is_like(prefix)
        if not self._begins(prefix):
            return False
        self._shape = prefix
        return True

    def takes_empty(self, written: str) -> bool:
        """Whether this is the prefix of an empty line, behind which no blanks may be left of it."""
        prefix = _prefix(written)
        if self._shape is not None:
            return self._shape.is_like_cut(prefix)
        return any(_prefix(self._first[at:]).begins_like(prefix) for at in _text_beginnings(self._first))

    def _begins(self, prefix: _Prefix) -> bool:
        """Whether such a prefix stands before the first line."""
        if self._stripped and not prefix.words and not prefix.rest.strip():
            return True
        return any(prefix.begins(self._first[at:], self._loose) for at in _text_beginnings(self._first))


class CountedUp:
    """Each prefix holds a number that is one more than the one in the line before."""

    def __init__(self, first: str, *, loose: bool) -> None:
        """`first` is what stands before the first line of the call, and `loose` as above."""
        self._first = first
        self._loose = loose
        # What may be the number of the last line with a text, and the prefix from there on.
        self._seen: list[tuple[int, _Prefix]] | None = None
        # Empty lines since then that have a number.
        self._empty = 0

    def takes(self, written: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""
        numbers = [(number, _prefix(behind)) for number, behind in _numbers(written)]
        found = [each for each in numbers if self._is_next(*each)]
        if not found:
            return False
        self._seen = found
        self._empty = 0
        return True

    def takes_empty(self, written: str) -> bool:
        """Whether this is the prefix of an empty line, behind which no blanks may be left of it."""
        self._empty += 1
        return any(self._is_next_empty(number, _prefix(behind)) for number, behind in _numbers(written))

    def _is_next_empty(self, number: int, prefix: _Prefix) -> bool:
        wanted = number - self._empty
        if self._seen is not None:
            return any(before == wanted and seen.is_like_cut(prefix) for before, seen in self._seen)
        numbers = _numbers(self._first)
        return any(before == wanted and _prefix(behind).begins_like(prefix) for before, behind in numbers)

    def _is_next(self, number: int, prefix: _Prefix) -> bool:
        wanted = number - 1 - self._empty
        if self._seen is not None:
            return any(before == wanted and seen.is_like(prefix) for before, seen in self._seen)
        numbers = _numbers(self._first)
        return any(before == wanted and prefix.begins(behind, self._loose) for before, behind in numbers)


@dataclass(frozen=True, slots=True)
class _Prefix:
    """The words of a prefix, each with a digit as the same number, and what stands behind the last one."""

    words: tuple[str, ...]
    rest: str

    def is_like(self, other: _Prefix) -> bool:
        """Whether they are of the same shape."""
        if self.words != other.words:
            return False
        return len(self.rest) == len(other.rest) and self._goes_with(other.rest)

    def is_like_cut(self, other: _Prefix) -> bool:
        """The same, if the end of the other one may have been taken away."""
        if self.words != other.words:
            return False
        return len(self.rest) >= len(other.rest) and self._goes_with(other.rest)

    def begins(self, text: str, loose: bool) -> bool:
        """Whether a text begins with a prefix of this shape, and then with no blank if it is not `loose`."""
        end = 0
        found: list[str] = []
        for word in _WORD.finditer(text):
            if len(found) == len(self.words):
                break
            found.append(_form(word.group()))
            end = word.end()
        if self.words != tuple(found):
            return False
        rest, behind = text[end : end + len(self.rest)], text[end + len(self.rest) :]
        if len(rest) != len(self.rest) or not self._goes_with(rest):
            return False
        return loose or not behind[:1].isspace()

    def begins_like(self, other: _Prefix) -> bool:
        """Whether this text begins with the words of another prefix."""
        return self.words[: len(other.words)] == other.words

    def _goes_with(self, rest: str) -> bool:
        """Whether what stands behind the words is the same as far as both go."""
        return all(self._fits(*pair) for pair in zip(self.rest, rest, strict=False))

    def _fits(self, one: str, other: str) -> bool:
        """Whether one character of a prefix may stand where another one does."""
        if one == other:
            return True
        if not _SIGN_OR_BLANK.match(one) or not _SIGN_OR_BLANK.match(other):
            return False
        # `12:` beside `13-`, but `$ ` is no `> `.
        return bool(self.words) or " " in (one, other)


def _prefix(written: str) -> _Prefix:
    """A prefix, told by what stands there."""
    end = 0
    words = []
    for word in _WORD.finditer(written):
        words.append(_form(word.group()))
        end = word.end()
    return _Prefix(tuple(words), written[end:])


def _form(word: str) -> str:
    """A word, or the same for each that holds a digit."""
    return "0" if _DIGIT.search(word) else word


def _numbers(prefix: str) -> Iterator[tuple[int, str]]:
    """The last numbers of a prefix, each with what is behind it."""
    for found in [*_NUMBER.finditer(prefix)][-_MAX_NUMBERS:]:
        yield int(found.group()), prefix[found.end() :]


def _text_beginnings(before: str) -> list[int]:
    """Where a shown text may begin in what stands before the first line of a call."""
    found = [at + 1 for at, character in enumerate(before) if character in _BEGINNINGS]
    return [0, *found[-_MAX_BEGINNINGS:]]
