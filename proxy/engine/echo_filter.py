"""Content that only repeats the arguments of a call (F28)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class EchoFilter(Generic[T]):
    """Chunks of content behind a call that may still be a repetition of its arguments.

    Those that are no repetition are given back at once, in their order.
    """

    def __init__(self) -> None:
        self._chunks: list[T] = []
        self._texts: list[str] = []
        # The arguments that the text may still repeat, and how much of them it has repeated.
        self._known: tuple[str, ...] = ()
        self._at = 0
        self._over = False

    @property
    def waits(self) -> bool:
        """True while chunks wait."""
        return bool(self._chunks)

    @property
    def repeated(self) -> str:
        """The text that waits if it is all of a call's arguments, else an empty one."""
        return "".join(self._texts) if any(len(arguments) == self._at for arguments in self._known) else ""

    def take(self, chunk: T, text: str, known: Callable[[], Iterable[str]]) -> list[T]:
        """Take the next chunk and its text; give the chunks that are content after all. `known` gives the arguments of
        the calls so far.
        """
        if not text or self._over:
            return [chunk]
        begins = not self._known
        part = text.lstrip() if begins else text
        if begins and part.startswith("{"):
            self._known = tuple(known())
        self._chunks.append(chunk)
        self._texts.append(text)
        if not part:
            return []  # blanks before what may be one
        self._known = tuple(arguments for arguments in self._known if self._goes_on(arguments, part))
        self._at += len(part.rstrip()) if any(self._at + len(part) > len(each) for each in self._known) else len(part)
        if self._known:
            return []
        # What comes behind it is content too, up to the next call.
        self._over = True
        return self.give_up()

    def next_call(self) -> None:
        """Another call came: what follows may repeat it."""
        self._over = False

    def give_up(self) -> list[T]:
        """All that waits: it is content, unless it is `repeated`."""
        chunks, self._chunks = self._chunks, []
        self._texts, self._known, self._at = [], (), 0
        return chunks

    def _goes_on(self, arguments: str, part: str) -> bool:
        """True if the arguments go on with this part, or end with it but for blanks."""
        if arguments.startswith(part, self._at):
            return True
        bare = part.rstrip()
        return len(arguments) == self._at + len(bare) and arguments.startswith(bare, self._at)
