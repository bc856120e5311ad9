"""The text of a reply as it arrives: what has left of it, what waits, and the prose before the place that is read."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.codec.json_text import JsonObject
from proxy.notations.strings import NOT_ODD, Oddity
from proxy.notations.surroundings import Prose
from proxy.notations.thoughts import Mark

# Released text that is kept to look back at, and how much more before it is dropped.
LOOK_BACK, MUCH = 256, 8_192


@dataclass(frozen=True, slots=True)
class Found:
    """A call as it leaves: its tool's name, the name as it is written, arguments and id.

    `weak`: the end of the reply proved it. `odd`: how its JSON differs from JSON.
    """

    name: str
    written: str
    arguments: JsonObject
    id: str = ""
    weak: bool = False
    odd: frozenset[Oddity] = NOT_ODD


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text: prose, calls, or a mark around reasoning. Text that is dropped is a piece without calls.

    `row` is what read it. `broken` names the tool of prose that was to be a call, cannot be read and ends the reply.
    """

    text: str
    calls: tuple[Found, ...] | None = None
    row: str = ""
    mark: Mark | None = None
    broken: str = ""

    @property
    def is_prose(self) -> bool:
        """True if the text leaves as it is."""
        return self.calls is None and self.mark is None


class Stream:
    """Text from character `base` on; positions count from there.

    `pos` is where to look on, `out` how much has left, and `fed` how far `prose` has followed. `fresh`: a segment
    begins here, blanks aside: the reply, or what follows reasoning or a call.
    """

    def __init__(self) -> None:
        self.text, self.base = "", 0
        self.pos = self.out = self.fed = 0
        self.prose = Prose()
        self.fresh = True
        self.final = False
        self._pending: list[str] = []
        self.pending_size = 0
        self._pieces: list[Piece] = []

    @property
    def waits(self) -> bool:
        """True if some text has not left."""
        return self.out < len(self.text) or bool(self._pending)

    @property
    def size(self) -> int:
        """The characters that arrived."""
        return self.base + len(self.text) + self.pending_size

    def add(self, text: str) -> None:
        """Take more text, without a look at it."""
        self._pending.append(text)
        self.pending_size += len(text)

    def newest(self) -> str:
        """Return the end of the text, with at least the piece that arrived last."""
        if len(self._pending) == 1:
            return self.text[-2:] + self._pending[0]
        return "".join(self._pending[-2:])

    def join(self) -> None:
        """Look at what was added."""
        if self._pending:
            self.text += "".join(self._pending)
            self._pending, self.pending_size = [], 0

    def pass_by(self, text: str) -> None:
        """Release prose immediately; nothing is held."""
        self.text += text
        self.pos = self.out = len(self.text)
        self.fresh = self.fresh and text.isspace()

    def taken(self) -> list[Piece]:
        """Return what has been decided since the last time."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def leave(self, end: int) -> None:
        """Release prose up to a position."""
        if end > self.out:
            text = self.text[self.out : end]
            self.fresh = self.fresh and text.isspace()
            self.emit(Piece(text), end)
        self.pos = max(self.pos, end)

    def drop(self, end: int, row: str) -> None:
        """Drop text up to a position: tokens that are neither prose nor call; `row` is their kind."""
        if end > self.out:
            self.emit(Piece(self.text[self.out : end], (), row), end)

    def emit(self, piece: Piece, end: int) -> None:
        """Release what is no plain prose, up to a position."""
        self._pieces.append(piece)
        self.out, self.pos = end, max(self.pos, end)

    def mark(self, end: int, mark: Mark) -> None:
        """Release a mark around reasoning, up to a position."""
        self.emit(Piece(self.text[self.out : end], mark=mark), end)
        self.fresh = mark is not Mark.STRAY or self.fresh

    def see(self, end: int) -> None:
        """Follow the prose up to a position."""
        if end > self.fed:
            self.prose.feed(self.text[self.fed : end])
            self.fed = end

    def restart(self, pos: int, *, any_text: bool = False) -> None:
        """Go on at a position at which no quotation or code is open."""
        self.pos = self.fed = pos
        self.prose = Prose()
        self.prose.any = any_text

    def forget(self, keep: int) -> int:
        """Drop released text before `keep` that nothing looks back at; return how far positions moved."""
        if keep <= MUCH:
            return 0
        self.see(keep)
        gone = keep - LOOK_BACK
        self.text = self.text[gone:]
        self.base += gone
        self.pos, self.out, self.fed = self.pos - gone, self.out - gone, self.fed - gone
        return gone
