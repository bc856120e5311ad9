"""Text that is read from left to right. More of it may arrive until it is `final`.

Reading functions raise NeedMore if their result depends on text that has not arrived. Every other result holds whatever
follows. So the result never depends on how the text is split into pieces.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable
from enum import Enum

import regex

# A bounded pattern needs at most this many characters.
ENOUGH = 400
# Maximum number of steps of one read: per character, plus a constant.
READ_STEPS, MORE_READ_STEPS = 8, 5_000
_BLANKS = re.compile(r"\s*")


class NeedMore(Exception):
    """The result depends on text that has not arrived."""


class Rejection(Enum):
    """Why text that looked like a call is not one.

    `label` is its label in metrics (`refused="not_offered"`), `sentence` its description for people.
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
        """True if it counts even if no offered tool was named. The others also occur in prose with brackets."""
        return self not in (Rejection.BROKEN, Rejection.RELEASED, Rejection.CUT_OFF)


class NoCall(Exception):
    """The text is not a call, whatever follows.

    `end` is the end of the text that was read, and `first_end` the end of a row's first call; -1 if unknown.
    """

    first_end = -1

    def __init__(self, why: str, rejection: Rejection = Rejection.BROKEN, end: int = -1) -> None:
        super().__init__(why)
        self.rejection, self.end = rejection, end


class Torn(NoCall):
    """Text begins like a call and is not one, so the call before it may be truncated."""


class Empty(NoCall):
    """A wrapper with nothing in it, up to `end`."""


class Touched(NoCall):
    """Text directly follows the end of the calls, at `pos`: they are part of prose."""

    def __init__(self, pos: int) -> None:
        super().__init__("text touches the end of the call")
        self.pos = pos


class Tokens:
    """A set of literals. The longest one at a position matches."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = sorted(set(literals))
        by_length = sorted(self.literals, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, by_length)) or r"\b\B")
        self.longest = max(map(len, self.literals), default=0)
        self.first = frozenset(each[0] for each in self.literals)


class Source:
    """Text to read. `final`: its end is the end of the reply. `steps` is the maximum number of reading steps."""

    def __init__(self, text: str, final: bool = True, steps: int | None = None) -> None:
        self.text, self.final, self.size = text, final, len(text)
        self.steps = READ_STEPS * self.size + MORE_READ_STEPS if steps is None else steps

    def step(self) -> None:
        """Count a step. Raise NoCall if there were too many."""
        self.steps -= 1
        if self.steps < 0:
            raise NoCall("too much to try", Rejection.OVER_LIMIT)

    def blanks(self, pos: int) -> int:
        """Return the position after whitespace. Raise NeedMore at the end of text that is not final."""
        self.step()
        pos = end_of(_BLANKS, self.text, pos)
        if pos == self.size and not self.final:
            raise NeedMore
        return pos

    def at_end(self, pos: int) -> bool:
        """Return whether only whitespace follows."""
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
            # Literals that continue the rest come directly after it in sorted order.
            following = bisect_right(tokens.literals, rest)
            if following < len(tokens.literals) and tokens.literals[following].startswith(rest):
                raise NeedMore
        found = tokens.pattern.match(text, pos)
        return found.group() if found else ""

    def match(
        self, pattern: regex.Pattern[str], pos: int, *, bounded: bool = True, ends: bool = False
    ) -> regex.Match[str] | None:
        """Return the match of a pattern at a position. Raise NeedMore if more text could yield a match or a longer one.

        `ends`: the pattern ends with a literal, so more text never makes the match longer. `bounded`: a match needs at
        most ENOUGH characters.
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
        """Return the position of the next occurrence of a literal; -1 if there is none in final text."""
        at = self.text.find(literal, pos)
        if at < 0 and not self.final:
            raise NeedMore
        return at


def end_of(pattern: re.Pattern[str], text: str, pos: int) -> int:
    """Return the end of the pattern's match at a position; without a match, the position."""
    found = pattern.match(text, pos)
    return found.end() if found else pos


@functools.lru_cache(maxsize=512)
def _plain(pattern: regex.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern compiled with `re`: without partial matches, but several times faster."""
    return re.compile(pattern.pattern, pattern.flags & (re.I | re.M | re.S))
