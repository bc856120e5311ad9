"""A whole text that is read from left to right: more of it may come, unless it is `final`.

Reading functions are ordinary ones. Where one would have to know what stands behind the end of the text, it raises
NeedMore; what it returned before never changes when more text comes. So the result does not depend on the cuts.
"""

from __future__ import annotations

import functools
import re

import regex

ENOUGH = 400


@functools.lru_cache(maxsize=512)
def _plain(pattern: regex.Pattern) -> re.Pattern:
    """The same pattern without partial matches, which is several times faster."""
    return re.compile(pattern.pattern, pattern.flags & (re.I | re.M | re.S))


BLANKS = re.compile(r"\s*")


class NeedMore(Exception):
    """The text ends where the reader must know how it goes on."""


class NoCall(Exception):
    """What is here is no call, whatever follows. `end` is where what was read ends, if that is known."""

    end = -1


class Torn(NoCall):
    """A call begins as the template writes it and is none: the one before it may have been cut."""


class Tokens:
    """Literals that are looked for at one place: the longest that stands there."""

    def __init__(self, literals) -> None:
        self.literals = tuple(sorted(set(literals), key=len, reverse=True))
        self.pattern = re.compile("|".join(map(re.escape, self.literals)) or r"\b\B")
        self.longest = max(map(len, self.literals), default=0)
        self.first = frozenset(each[0] for each in self.literals)


class Source:
    """A text, whether its end is the reply's, and whether the model stopped by itself there."""

    def __init__(self, text: str, final: bool) -> None:
        self.text, self.final, self.size = text, final, len(text)

    def blanks(self, pos: int) -> int:
        """The position behind blanks; NeedMore at the end of the text."""
        pos = BLANKS.match(self.text, pos).end()
        if pos == self.size and not self.final:
            raise NeedMore
        return pos

    def at_end(self, pos: int) -> bool:
        return self.blanks(pos) == self.size

    def starts(self, literal: str, pos: int) -> bool:
        """Whether a literal stands here."""
        if self.text.startswith(literal, pos):
            return True
        if not self.final and self.size - pos < len(literal) and literal.startswith(self.text[pos:]):
            raise NeedMore
        return False

    def token(self, tokens: Tokens, pos: int) -> str:
        """The token that stands here; empty if none does."""
        text = self.text
        if pos >= self.size or text[pos] not in tokens.first:
            return ""
        if not self.final and self.size - pos < tokens.longest:
            rest = text[pos:]
            if any(len(each) > len(rest) and each.startswith(rest) for each in tokens.literals):
                raise NeedMore
        found = tokens.pattern.match(text, pos)
        return found.group() if found else ""

    def match(self, pattern: regex.Pattern, pos: int, *, bounded: bool = True):
        """The match of a pattern here; NeedMore if more text could make it one, or a longer one. What is `bounded`
        needs no more than ENOUGH characters to tell."""
        if self.final or (bounded and self.size - pos > ENOUGH):
            found = _plain(pattern).match(self.text, pos)
            if found is not None and found.end() == self.size and not self.final:
                raise NeedMore
            return found
        found = pattern.match(self.text, pos, partial=not self.final)
        if found is not None and not self.final and (found.partial or found.end() == self.size):
            raise NeedMore
        return found

    def find(self, literal: str, pos: int) -> int:
        """Where a literal stands next; -1 if it never comes."""
        at = self.text.find(literal, pos)
        if at < 0 and not self.final:
            raise NeedMore
        return at
