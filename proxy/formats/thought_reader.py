"""Which parts of a text that leaves as it comes are thoughts, for those who only want to know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from proxy.formats.grammar import TEXT, thought_grammars
from proxy.formats.reasoning import REASONING_MARKERS, Thoughts
from proxy.formats.scanner import Scanner
from proxy.formats.spans import Piece
from proxy.formats.thought_marks import ThoughtMark
from proxy.tools.toolset import ToolSet


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text, without the marks around it."""

    text: str
    thinking: bool


def holds_no_mark(text: str) -> bool:
    """True if nothing in a text can begin a mark: at the beginning of a reply it then is no thought."""
    begin = thought_grammars(REASONING_MARKERS)[TEXT].begin
    return begin.search(text.encode("utf-8", "surrogatepass")) is None


class ThoughtReader:
    """Text in any cut to parts; equal ones at every cut, joined by kind."""

    def __init__(self) -> None:
        thoughts = Thoughts()
        self._scanner = Scanner(ToolSet(()), thought_grammars(thoughts.markers), thoughts=thoughts)
        # What is not decided begins at `_at`.
        self._pending = b""
        self._at = 0
        self._thinking = False
        self._ended = False

    @property
    def closer(self) -> str:
        """What would end the thought that is open; "" if none is."""
        return self._scanner.marks.closer

    def feed(self, text: str) -> Iterator[TextPart]:
        """Take the next text; give what is decided."""
        self._pending += text.encode("utf-8", "surrogatepass")
        return self._parts(self._scanner.feed(text))

    def finish(self) -> Iterator[TextPart]:
        """Give what waited for the rest of a mark; nothing a second time."""
        if self._ended:
            return iter(())
        self._ended = True
        return self._parts(self._scanner.finish(stopped=True))

    def _parts(self, pieces: Iterable[Piece]) -> Iterator[TextPart]:
        for piece in pieces:
            size = piece.end - self._at
            data, self._pending = self._pending[:size], self._pending[size:]
            self._at = piece.end
            if isinstance(piece, ThoughtMark):
                self._thinking = piece.thinking
            else:
                yield TextPart(data.decode("utf-8", "surrogatepass"), self._thinking)
