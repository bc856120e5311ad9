"""The longest of many fixed texts that stands at a position, found by its first bytes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

# In a pattern: the end of what has come.
END = rb"\Z"
# So many texts are tried one by one: what a tag names makes texts of its own, and a pattern of them takes 100 us.
_FEW = 3


class Literals:
    """Texts of which the longest that stands somewhere is looked for, by their first two bytes."""

    def __init__(self, literals: Collection[bytes]) -> None:
        self._by_prefix: dict[bytes, list[bytes]] = {}
        for literal in sorted(literals, key=len, reverse=True):
            for prefix in {literal[:1], literal[:2]}:
                self._by_prefix.setdefault(prefix, []).append(literal)
        self._single = {literal: literal for literal in literals if len(literal) == 1}
        # Made when the first text begins so: a pattern of all takes 30 ms, and the names of new tools need a new one.
        self._patterns: dict[bytes, re.Pattern[bytes]] = {}
        # The longest of all, and of those that begin with a byte.
        self.longest = max(map(len, literals), default=0)
        self.lengths = longest_by_first(literals)

    def match(self, here: bytes, ended: bool) -> bytes | None:
        """The longest literal that `here` begins with; empty if none; None while more text could tell otherwise."""
        near = self._by_prefix.get(here[:2])
        if near is None:
            return self._match_single(here, ended)
        if len(near) > _FEW and len(here) >= self.lengths[here[0]]:
            match = self._pattern(here[:2], near).match(here)
            return match.group() if match else self._single.get(here[:1], b"")
        for literal in near:
            if here.startswith(literal):
                return literal
            if not ended and literal.startswith(here):
                return None
        return self._single.get(here[:1], b"")

    def _pattern(self, prefix: bytes, near: list[bytes]) -> re.Pattern[bytes]:
        """The pattern of the literals that begin so."""
        pattern = self._patterns.get(prefix)
        if pattern is None:
            pattern = self._patterns[prefix] = _longest_of(tuple(near))
        return pattern

    def _match_single(self, here: bytes, ended: bool) -> bytes | None:
        """The same where no longer literal can begin."""
        if not here and not ended:
            return None
        return self._single.get(here[:1], b"")

    def breaks_off(self, here: bytes) -> bool:
        """True if the text ends in the middle of a literal: `here` is all of it."""
        if not 0 < len(here) < self.longest:
            return False
        return any(literal.startswith(here) for literal in self._by_prefix.get(here[:2], ()))


def longest_by_first(literals: Collection[bytes]) -> Mapping[int, int]:
    """The length of the longest of these texts by the first byte."""
    return {literal[0]: len(literal) for literal in sorted(literals, key=len) if literal}


@lru_cache(maxsize=1024)
def _longest_of(literals: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The pattern of these texts, which finds the longest; those of markers are the same for all tools."""
    return re.compile(branching(dict.fromkeys(literals, b"")))


def branching(behind: Mapping[bytes, bytes], *, may_end: bool = False) -> bytes:
    """A pattern of the longest of these texts, each with the pattern of what follows it.

    It branches where the texts do, so that each byte is looked at once: with an alternative for each text all would be
    tried. If it `may_end`, the beginning of one counts where all ends, and so does what goes on with its bytes there:
    its first two are its own, as in the patterns of plain text (`Grammar.plain`).
    """
    by_first: dict[bytes, dict[bytes, bytes]] = {}
    for text, pattern in behind.items():
        by_first.setdefault(text[:1], {})[text[1:]] = pattern
    last = by_first.pop(b"", {}).values()
    # Each begins with one byte, so that a search goes from one of them to the next.
    branches = [re.escape(first) + _branch(rest, may_end=may_end) for first, rest in sorted(by_first.items())]
    return _any([*branches, *last])


def _branch(behind: Mapping[bytes, bytes], *, may_end: bool) -> bytes:
    """The same behind a byte that they share."""
    shared = _shared_beginning(behind)
    if not shared:
        ends = (END,) if may_end and b"" not in behind else ()
        return _any([branching(behind, may_end=may_end), *ends])
    rest = _branch({text[len(shared) :]: pattern for text, pattern in behind.items()}, may_end=may_end)
    if not may_end:
        return re.escape(shared) + rest
    return _any([re.escape(shared) + rest, _half(shared)])


def _half(shared: bytes) -> bytes:
    """A pattern of the beginning of a text where all ends: its first byte, and then what is of its bytes."""
    if len(shared) < 3:
        return END if len(shared) < 2 else b"%b?%b" % (re.escape(shared[:1]), END)
    more = b"[%b]{0,%d}+" % (_escaped_bytes(shared[1:-1]), len(shared) - 2)
    return b"(?:%b%b)?%b" % (re.escape(shared[:1]), more, END)


def _shared_beginning(texts: Collection[bytes]) -> bytes:
    """What all these texts begin with: it is what the first and the last of them share, in their order."""
    first, last = min(texts), max(texts)
    at = next((at for at, byte in enumerate(first) if byte != last[at]), len(first))
    return first[:at]


def _any(patterns: list[bytes]) -> bytes:
    """A pattern of the first of these that matches."""
    return patterns[0] if len(patterns) == 1 else b"(?:%b)" % b"|".join(patterns)


def _escaped_bytes(text: bytes) -> bytes:
    """The bytes of a text as they stand in a set of a pattern."""
    return re.escape(bytes(sorted(set(text))))


@lru_cache(maxsize=256)
def literal_table(literals: tuple[bytes, ...]) -> Literals:
    """The table of these texts, made once."""
    return Literals(literals)


class Sought(NamedTuple):
    """A pattern of texts of which the first one that stands somewhere is looked for, and how long the longest is."""

    pattern: re.Pattern[bytes]
    longest: int


@lru_cache(maxsize=256)
def any_of(literals: tuple[bytes, ...]) -> Sought:
    """What finds the first of these texts that stands somewhere."""
    return Sought(re.compile(b"|".join(map(re.escape, literals))), max(map(len, literals)))
