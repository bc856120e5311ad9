"""Whether the lines of a call stand below each other in a text, each behind a prefix of the same shape.

    src/[id]/page.tsx:12:<tool_call>          ^1a2b3c4 (A. Body 2026-01-01 10:00:00 +0000 12) <tool_call>
    src/[id]/page.tsx:13:{"name": "now"}      5d6e7f80 (Jo      2026-01-02 11:00:00 +0000 13) {"name": "now"}
    src/[id]/page.tsx:14:</tool_call>         ^1a2b3c4 (A. Body 2026-01-01 10:00:00 +0000 14) </tool_call>

No prefix is known by itself. That every line of the call is there, and that what stands before one line stands before
all, is what makes it a copy: a call with `a.py` is none of one with `src/a.py`. Two prefixes are of the same shape if
they differ only in blanks, numbers, and which signs stand there; or if each holds a number that is one more than the
one in the line before, and what is between it and the text is of the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

MAX_PREFIX = 400
# Blanks and the edge of a frame behind a line.
MAX_EDGE = 300
# How often each character may be looked at.
MOST_WORK = 32
# Places in the call's last line's line that are tried, and numbers of one prefix.
_MAX_PLACES = 8
_MAX_NUMBERS = 8
_EDGE = re.compile(r"[^\w\s]{0,4}")
_WORD = re.compile(r"\b\w+")
_SIGN = re.compile(r"[^\w\s]")
_BLANK = re.compile(r"\s")
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\b[0-9]{1,9}\b")


class Shape(Protocol):
    """What the prefixes of the lines have in common, as far as they were seen."""

    def takes(self, prefix: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""


class SameForm:
    """The prefixes are the same but for blanks, numbers, and which signs stand there.

    Where a blank stands before the text there may be further signs in some lines: `> 12 | x` beside `  11 | y`.
    """

    def __init__(self, first: str) -> None:
        """`first` is what stands before the first line of the call, the prefix and perhaps other text."""
        self._first = _form(first)
        # The shortest form of all, and that of those behind which no blank stands.
        self._shortest: str | None = None
        self._glued: str | None = None

    def takes(self, prefix: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""
        form = _form(prefix)
        shortest = self._shortest
        if shortest is None:
            if _words(form) not in _words(self._first):
                return False
            shortest = form
        if _words(form) != _words(shortest):
            return False
        shortest = min(shortest, form, key=len)
        glued = self._glued
        if prefix[-1:].strip():
            if form not in self._first or glued not in (None, form):
                return False
            glued = form
        # A sign that only some texts begin with is a part of them: `-2`, `/a.py`.
        if glued is not None and len(glued) > len(shortest):
            return False
        self._shortest, self._glued = shortest, glued
        return True


class CountedUp:
    """Each prefix holds a number that is one more than the one in the line before."""

    def __init__(self, first: str) -> None:
        """`first` is what stands before the first line of the call."""
        self._first = {number for number, _ in _numbers(first)}
        # What may be the line's number, with the form of what is behind it.
        self._seen: set[tuple[int, str]] = set()

    def takes(self, prefix: str) -> bool:
        """Whether the next line's prefix goes with those before it; then it is one of them."""
        found = {(number, behind) for number, behind in _numbers(prefix) if self._is_next(number, behind)}
        if not found:
            return False
        self._seen, self._first = found, set()
        return True

    def _is_next(self, number: int, behind: str) -> bool:
        if number - 1 in self._first:
            return True
        return (number - 1, behind) in self._seen


def _form(prefix: str) -> str:
    """A prefix without blanks, in which each sign is the same one, and each word with a digit the same number."""
    return _SIGN.sub(".", _BLANK.sub("", _WORD.sub(_numbered, prefix)))


def _words(form: str) -> str:
    """A form without signs."""
    return form.replace(".", "")


def _numbered(found: re.Match[str]) -> str:
    word = found.group()
    return "0" if _DIGIT.search(word) else word


def _numbers(prefix: str) -> Iterator[tuple[int, str]]:
    """The last numbers of a prefix, each with the form of what is behind it."""
    for found in [*_NUMBER.finditer(prefix)][-_MAX_NUMBERS:]:
        yield int(found.group()), _form(prefix[found.end() :])


class ShownLines:
    """A text in lines, with a line end before the first and behind the last one, in which calls are looked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._work = 0

    def hold(self, call: Sequence[str]) -> bool:
        """True if these lines stand in the text below each other, all with such a prefix or none.

        In the first one's line other text may stand before it, and in the last one's other text behind it. A text that
        repeats itself so often that the same lines are looked at again and again holds anything.
        """
        first, *others = call
        at = self._text.find(first)
        if not others:
            return at >= 0
        self._work = MOST_WORK * len(self._text)
        while at >= 0:
            if self._goes_on(at, first, others) or self._work < 0:
                return True
            at = self._text.find(first, at + 1)
        return False

    def _goes_on(self, at: int, first: str, others: Sequence[str]) -> bool:
        """Whether the other lines follow on the first one, which stands at this place."""
        text = self._text
        begin = text.rfind("\n", max(0, at - MAX_PREFIX), at) + 1
        before = text[begin:at] if begin else ""
        behind = at + len(first)
        end = text.find("\n", behind, behind + MAX_EDGE)
        if end < 0:
            return False
        edge = text[behind:end].strip()
        if _EDGE.fullmatch(edge) is None:
            return False
        return any(self._follow(end + 1, others, edge, shape) for shape in (SameForm(before), CountedUp(before)))

    def _follow(self, at: int, others: Sequence[str], edge: str, shape: Shape) -> bool:
        """Whether these lines stand from this place on. A line that is a prefix and nothing else is an empty one."""
        number = 0
        while number < len(others):
            line = others[number]
            last = number == len(others) - 1
            shown = self._line(at, MAX_PREFIX + len(line) + MAX_EDGE, last)
            prefixes = _before_last(shown, line) if last else _before(shown, line, edge)
            if any(shape.takes(prefix) for prefix in prefixes):
                number += 1
            elif not shown or not shape.takes(shown.removesuffix(edge)):
                return False
            at += len(shown) + 1
        return True

    def _line(self, at: int, most: int, last: bool) -> str:
        """The line that begins here; nothing if it is longer, but of the `last` one its beginning."""
        end = self._text.find("\n", at, at + most)
        if end < 0:
            end = at + most if last else at
        self._work -= end - at + 1
        return self._text[at:end]


def _before(shown: str, line: str, edge: str) -> Iterator[str]:
    """What stands before a line of the call, if this shows it."""
    text = shown.removesuffix(edge).rstrip()
    if text.endswith(line):
        yield text[: len(text) - len(line)]


def _before_last(shown: str, line: str) -> Iterator[str]:
    """What may stand before the last line of the call, behind which other text may stand."""
    at = shown.find(line)
    for _ in range(_MAX_PLACES):
        if at < 0:
            return
        yield shown[:at]
        at = shown.find(line, at + 1)
