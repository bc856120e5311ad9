"""Content that only repeats the arguments of a call (F28)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from proxy.engine.choice_delta import ChoiceDelta

T = TypeVar("T")


def repeats_its_calls(delta: ChoiceDelta) -> bool:
    """True for a chunk whose text only repeats its own fragments of arguments.

    {"content": "{}", "tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    """
    text = delta.text.strip()
    if not text:
        return False
    fragments = [call.fragment for call in delta.calls]
    return text in ("".join(fragments).strip(), *map(str.strip, fragments))


class EchoFilter(Generic[T]):
    """Chunks of content behind a call that may still be a repetition of its arguments.

    Those that are no repetition are given back at once, in their order.
    """

    __slots__ = ("_at", "_chunks", "_known", "_over", "_texts")

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
        if not any(len(arguments) == self._at for arguments in self._known):
            return ""
        return "".join(self._texts)

    def take(self, chunk: T, text: str, known: Callable[[], Iterable[str]]) -> list[T]:
        """Take the next chunk and its text; give the chunks that are content after all. `known` gives the arguments of
        the calls so far.
        """
        if not text or self._over:
            return [chunk]
        part = text
        if not self._known:
            # {"content": "\n{\"command\": \"ls\"}"} behind a call with these arguments (F28)
            part = text.lstrip()
            self._begin(part, known)
        self._chunks.append(chunk)
        self._texts.append(text)
        if not part:
            return []  # blanks before what may be one
        self._match(part)
        if self._known:
            return []
        # What comes behind it is content too, up to the next call.
        self._over = True
        return self.give_up()

    def _begin(self, part: str, known: Callable[[], Iterable[str]]) -> None:
        if part.startswith("{"):
            self._known = tuple(known())

    def _match(self, part: str) -> None:
        """Keep those of the arguments that go on with this part; blanks behind them are no part of them."""
        self._known = tuple(arguments for arguments in self._known if self._goes_on(arguments, part))
        if any(self._at + len(part) > len(arguments) for arguments in self._known):
            part = part.rstrip()
        self._at += len(part)

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
        if len(arguments) != self._at + len(bare):
            return False
        return arguments.startswith(bare, self._at)
