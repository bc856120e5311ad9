"""What a text consists of: prose and calls; and a parser at work on what may be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ..reader import Parsing, RawCall, Reader
from ..tools import Tools
from ..window import Window
from . import Format
from .row import rest_of_row

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


@dataclass(frozen=True, slots=True)
class Refused:
    """What began like a call at a byte offset and was none, and why."""

    start: int
    end: int
    format: str
    why: str


Piece: TypeAlias = Prose | Found


class Candidate:
    """A parser at work on a span that may become calls.

    `start` is where it begins, `seen` up to where the Markdown around it was followed; `calls` what was read, once it
    is complete, and `decided` whether that may be taken for what it is without what stands behind it.
    """

    def __init__(self, item: Format, window: Window, start: int, tools: Tools, may_go_back: bool = True) -> None:
        self.item = item
        self.start = self.seen = start
        self.reader = Reader(window, start, tools)
        self.reader.may_go_back = may_go_back
        self.calls: tuple[RawCall, ...] | None = None
        self.decided = False
        self._parsing: Parsing[tuple[RawCall, ...]] = item.parse(self.reader)

    def only_last(self) -> None:
        """Let the calls count only if the reply ends with them: they stand where code would."""
        self._parsing = _only_last(self.reader, self._parsing)

    def go_on(self) -> tuple[RawCall, ...] | None:
        """The calls, or None while more text is needed; NotACall if it is none."""
        if self.calls is None:
            try:
                next(self._parsing)
            except StopIteration as done:
                self.calls = done.value
        return self.calls


def _only_last(reader: Reader, parsing: Parsing[tuple[RawCall, ...]]) -> Parsing[tuple[RawCall, ...]]:
    calls = yield from parsing
    return (yield from rest_of_row(reader, calls))


def reason(why: str) -> str:
    """The short name by which a refusal is counted."""
    return next((name for begins, name in _REASONS if why.startswith(begins)), OTHER)
