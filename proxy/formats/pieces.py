"""What a text consists of: prose and calls; and a parser at work on what may be one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..reader import Parsing, RawCall, Reader
from ..tools import Tools
from ..window import Window
from . import Format

# Whatever is undecided when something else comes was let go; only what had named a tool is worth a word.
WAITED = "waited"
# The reasons that are counted, by how they begin.
_REASONS = (
    ("no tool ", "not_offered"),
    ("it is quoted", "quoted"),
    ("it was copied", "copied"),
    ("it is over a limit", "limit"),
    ("it waited too long", WAITED),
    ("its format is off", "format_off"),
    ("the client asked for JSON", "json_reply"),
    ("the text ends", "cut_off"),
)
OTHER = "broken"


@dataclass(frozen=True, slots=True)
class Prose:
    """The text between two byte offsets of the reply is no call."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Found:
    """The text between two byte offsets is these calls; none for blanks and tokens that are dropped.

    `weak` if they were taken because the reply ended with them (contract C3).
    """

    start: int
    end: int
    calls: tuple[RawCall, ...]
    format: str
    weak: bool = False


Piece: TypeAlias = Prose | Found


def parted(found: Found, left: Iterable[tuple[int, int, int]]) -> Iterator[Piece]:
    """What was found, without the spans in it that stay text; each has so many of its calls before it."""
    start, taken = found.start, 0
    for first, last, before in left:
        # Some of it may have been let go before.
        begin, end = max(first, start), max(last, start)
        if begin > start or before > taken:
            yield replace(found, start=start, end=begin, calls=found.calls[taken:before])
        yield Prose(begin, end)
        start, taken = end, before
    if start < found.end or taken < len(found.calls) or not taken:
        yield replace(found, start=start, calls=found.calls[taken:])


@dataclass(frozen=True, slots=True)
class Refused:
    """What began like a call at a byte offset and was none, and why."""

    start: int
    end: int
    format: str
    why: str


class Candidate:
    """A parser at work on a span that may become calls.

    `start` is where it begins, `seen` up to where the Markdown around it was followed.
    """

    def __init__(self, item: Format, window: Window, start: int, tools: Tools, may_go_back: bool = True) -> None:
        self.item = item
        self.start = self.seen = start
        self.reader = Reader(window, start, tools)
        self.reader.may_go_back = may_go_back
        self._parsing: Parsing[tuple[RawCall, ...]] = item.parse(self.reader)

    def go_on(self) -> tuple[RawCall, ...] | None:
        """The calls, or None while more text is needed; NotACall if it is none."""
        try:
            next(self._parsing)
        except StopIteration as done:
            calls: tuple[RawCall, ...] = done.value
            return calls
        return None


def reason(why: str) -> str:
    """The short name by which a refusal is counted."""
    return next((name for begins, name in _REASONS if why.startswith(begins)), OTHER)
