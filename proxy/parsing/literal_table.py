"""The longest of many fixed texts that stands at a position, found by its first bytes."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache


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
        self.firsts = frozenset(literal[0] for literal in literals if literal)
        self.longest = max(map(len, literals), default=0)

    def match(self, here: bytes, ended: bool) -> bytes | None:
        """The longest literal that `here` begins with; empty if none; None while more text could tell otherwise."""
        near = self._by_prefix.get(here[:2])
        if near is None:
            return self._match_single(here, ended)
        if len(here) >= self.longest:
            found = self._pattern(here[:2], near).match(here)
            return found.group() if found else self._single.get(here[:1], b"")
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


@lru_cache(maxsize=1024)
def _longest_of(literals: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """The pattern of these texts, the longest of which come first; those of markers are the same for all tools."""
    return re.compile(b"|".join(map(re.escape, literals)))


@lru_cache(maxsize=256)
def literal_table(literals: tuple[bytes, ...]) -> Literals:
    """The table of these texts, made once."""
    return Literals(literals)
