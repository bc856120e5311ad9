"""Text of a reply as it arrives: the released part, the held part, and the prose before the current position."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from proxy.json import JsonObject
from proxy.notations.strings import NOT_ODD, Oddity
from proxy.notations.surroundings import Prose
from proxy.notations.thoughts import Mark


class Channel(Enum):
    """Field of the reply that contains the text."""

    CONTENT = auto()
    REASONING = auto()


@dataclass(frozen=True, slots=True)
class Found:
    """A call to emit: its tool's name, the name as written, arguments and id.

    `weak`: it counts only because the reply ended after it. `odd`: how its JSON deviates from the standard.
    """

    name: str
    written: str
    arguments: JsonObject
    id: str = ""
    weak: bool = False
    odd: frozenset[Oddity] = NOT_ODD


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of the text: prose, calls, or a mark around reasoning. Dropped text is a piece with an empty tuple of calls.

    `row` is the notation. `broken` names the tool of an unreadable call at the end of the reply.
    """

    text: str
    calls: tuple[Found, ...] | None = None
    row: str = ""
    mark: Mark | None = None
    broken: str = ""

    @property
    def is_prose(self) -> bool:
        """True if the text is released unchanged."""
        return self.calls is None and self.mark is None


class Stream:
    """Text of a reply from character `base` on. Positions are relative to `base`.

    `pos` is where to resume reading, `out` the end of the released text, and `fed` the end of the text seen by `prose`.
    `blank`: only whitespace was released in this segment. The reply, reasoning and calls each begin a new segment.
    """

    def __init__(self) -> None:
        self.text, self.base = "", 0
        self.pos = self.out = self.fed = 0
        self.prose = Prose()
        self.blank = True
        self.final = False
        self._pending: list[str] = []
        self.pending_size = 0
        self._pieces: list[Piece] = []

    @property
    def held(self) -> bool:
        """True if some text is not released."""
        return self.out < len(self.text) or bool(self._pending)

    @property
    def size(self) -> int:
        """The number of characters that have arrived."""
        return self.base + len(self.text) + self.pending_size

    def join(self) -> None:
        """Append the added text to `text`."""
        if self._pending:
            self.text += "".join(self._pending)
            self._pending, self.pending_size = [], 0

    def pass_by(self, text: str) -> None:
        """Release prose immediately; nothing is held."""
        self.text += text
        self.pos = self.out = len(self.text)
        self.blank = self.blank and text.isspace()

    def taken(self) -> list[Piece]:
        """Return the pieces decided since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def leave(self, end: int) -> None:
        """Release prose up to a position."""
        if end > self.out:
            text = self.text[self.out : end]
            self.blank = self.blank and text.isspace()
            self.emit(Piece(text), end)
        self.pos = max(self.pos, end)

    def drop(self, end: int, row: str) -> None:
        """Drop tokens up to a position that are neither prose nor a call; `row` is their kind."""
        if end > self.out:
            self.emit(Piece(self.text[self.out : end], (), row), end)

    def emit(self, piece: Piece, end: int) -> None:
        """Release a piece that ends at a position."""
        self._pieces.append(piece)
        self.out, self.pos = end, max(self.pos, end)

    def mark(self, end: int, mark: Mark) -> None:
        """Release a mark around reasoning, up to a position."""
        self.emit(Piece(self.text[self.out : end], mark=mark), end)
        self.blank = mark is not Mark.STRAY or self.blank

    def see(self, end: int) -> None:
        """Feed `prose` up to a position."""
        if end > self.fed:
            self.prose.feed(self.text[self.fed : end])
            self.fed = end

    def restart(self, pos: int, *, any_text: bool = False) -> None:
        """Resume at a position with no open quotation or code."""
        self.pos = self.fed = pos
        self.prose = Prose()
        self.prose.any = any_text
