"""Which parts of a text that leaves as it comes are reasoning, for those who only want to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.notations.front import Reader
from proxy.notations.signs import may_begin
from proxy.notations.stream import Piece
from proxy.notations.thoughts import Mark, Thoughts
from proxy.tools.toolset import ToolSet


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text, without the marks around it."""

    text: str
    thinking: bool


def holds_no_mark(text: str) -> bool:
    """Return whether nothing in a text can begin a mark: at the beginning of a reply it then is no reasoning."""
    return not may_begin(text)


class ThoughtReader:
    """Splits text in any pieces into parts; equal ones at every cut, joined by kind."""

    def __init__(self) -> None:
        self._reader = Reader(ToolSet(()), thoughts=Thoughts())
        self._thinking = self._ended = False

    @property
    def closer(self) -> str:
        """What would end the reasoning that is open; empty if none is."""
        return self._reader.closer

    def feed(self, text: str) -> Iterator[TextPart]:
        """Take more text; return what is decided."""
        return self._parts(self._reader.feed(text))

    def finish(self) -> Iterator[TextPart]:
        """Return what waited for the rest of a mark; nothing a second time."""
        if self._ended:
            return iter(())
        self._ended = True
        return self._parts(self._reader.finish())

    def _parts(self, pieces: Iterable[Piece]) -> Iterator[TextPart]:
        for piece in pieces:
            if piece.mark is not None:
                self._thinking = piece.mark is Mark.THOUGHT
            else:
                yield TextPart(piece.text, self._thinking)
