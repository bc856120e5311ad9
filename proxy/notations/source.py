"""A text that is read from left to right: more of it may arrive, unless it is `final`.

Reading functions are ordinary ones. Where the answer depends on text that has not arrived they raise NeedMore; every
other result is true whatever follows. So the result never depends on how the text is cut into pieces.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from enum import Enum

import regex

# A bounded pattern needs no more characters than this.
ENOUGH = 400
_BLANKS = re.compile(r"\s*")


class NeedMore(Exception):
    """The text ends where the reader must know how it goes on."""


class Rejection(Enum):
    """Why text that looked like a call is not one.

    `label` is what metrics count it by (`refused="not_offered"`), `sentence` what people read of it.
    """

    NOT_OFFERED = "not_offered", "no such tool is offered"
    QUOTED = "quoted", "it is shown: quoted, in code, in a listing or in a sentence"
    COPIED = "copied", "it was copied from a tool result or a user message"
    OVER_LIMIT = "limit", "it is over a limit"
    RELEASED = "waited", "it waited too long, or something else came"
    FORMAT_OFF = "format_off", "its notation is off for this model"
    JSON_REPLY = "json_reply", "the client asked for JSON"
    CUT_OFF = "cut_off", "the text ends in the middle of it"
    BROKEN = "broken", "it has named a tool and goes on as no call does"

    def __init__(self, label: str, sentence: str) -> None:
        self.label, self.sentence = label, sentence

    @property
    def telling(self) -> bool:
        """True if it is worth counting even where no offered tool was named: prose is full of brackets."""
        return self not in (Rejection.BROKEN, Rejection.RELEASED, Rejection.CUT_OFF)


class NoCall(Exception):
    """The text here is not a call, whatever follows.

    `end` is where the text that was read ends, if that is known, and `first_end` where the first call of a row ends.
    """

    end = first_end = -1

    def __init__(self, why: str, rejection: Rejection = Rejection.BROKEN) -> None:
        super().__init__(why)
        self.rejection = rejection


class Torn(NoCall):
    """Text begins like the call of a template and is not one: the call before it may have been cut."""


class Empty(NoCall):
    """A wrapper with nothing in it, up to `end`."""


class Touched(NoCall):
    """Text touches the end of calls, at `pos`: they are part of a text."""

    def __init__(self, pos: int) -> None:
        super().__init__("text touches the end of the call")
        self.pos = pos


class Tokens:
    """Literals of which the longest at a position counts."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(sorted(set(literals), key=len, reverse=True))
        self.pattern = re.compile("|".join(map(re.escape, self.literals)) or r"\b\B")
        self.longest = max(map(len, self.literals), default=0)
        self.first = frozenset(each[0] for each in self.literals)


class Source:
    """A text, and whether its end is the reply's. After so many `steps` what is read is given up."""

    def __init__(self, text: str, final: bool, steps: int = sys.maxsize) -> None:
        self.text, self.final, self.size, self.steps = text, final, len(text), steps

    def step(self) -> None:
        """Count a step; NoCall if there were too many."""
        self.steps -= 1
        if self.steps < 0:
            raise NoCall("too much to try", Rejection.OVER_LIMIT)

    def blanks(self, pos: int) -> int:
        """Return the position after blanks; NeedMore at the end of the text."""
        self.step()
        pos = end_of(_BLANKS, self.text, pos)
        if pos == self.size and not self.final:
            raise NeedMore
        return pos

    def at_end(self, pos: int) -> bool:
        """Return whether only blanks follow."""
        return self.blanks(pos) == self.size

    def starts(self, literal: str, pos: int) -> bool:
        """Return whether a literal is at a position."""
        if self.text.startswith(literal, pos):
            return True
        if not self.final and self.size - pos < len(literal) and literal.startswith(self.text[pos:]):
            raise NeedMore
        return False

    def token(self, tokens: Tokens, pos: int) -> str:
        """Return the token at a position; empty if none is there."""
        text = self.text
        if pos >= self.size or text[pos] not in tokens.first:
            return ""
        if not self.final and self.size - pos < tokens.longest:
            rest = text[pos:]
            if any(len(each) > len(rest) and each.startswith(rest) for each in tokens.literals):
                raise NeedMore
        found = tokens.pattern.match(text, pos)
        return found.group() if found else ""

    def match(
        self, pattern: regex.Pattern[str], pos: int, *, bounded: bool = True, ends: bool = False
    ) -> regex.Match[str] | None:
        """Return the match of a pattern at a position; NeedMore if more text could make it one, or a longer one.

        `ends`: the pattern ends with a literal, so a match is never longer.
        """
        self.step()
        if self.final or (bounded and self.size - pos > ENOUGH):
            found = _plain(pattern).match(self.text, pos)
            if found is not None:
                self.steps -= (found.end() - pos) >> 3
                if found.end() == self.size and not self.final and not ends:
                    raise NeedMore
            return found  # type: ignore[return-value]
        partial = pattern.match(self.text, pos, partial=True)
        if partial is not None and (partial.partial or (partial.end() == self.size and not ends)):
            raise NeedMore
        return partial

    def find(self, literal: str, pos: int) -> int:
        """Return where a literal is next; -1 if it never comes."""
        at = self.text.find(literal, pos)
        if at < 0 and not self.final:
            raise NeedMore
        return at


def end_of(pattern: re.Pattern[str], text: str, pos: int, limit: int = sys.maxsize) -> int:
    """Return the end of a match at a position and before a limit, or the position."""
    found = pattern.match(text, pos, limit)
    return found.end() if found else pos


@functools.lru_cache(maxsize=512)
def _plain(pattern: regex.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern without partial matches, which is several times faster."""
    return re.compile(pattern.pattern, pattern.flags & (re.I | re.M | re.S))
