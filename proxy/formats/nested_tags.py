"""Tags that were opened inside a raw value, and whether one stands there in quotation marks."""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto

from proxy.formats.end_tag_chains import Level, Mark
from proxy.parsing.cursor import Cursor, Parsing

_QUOTES = (b'"', b"'", b"`")
_BACKSLASH = b"\\"


class OpenTags:
    """Tags that were opened inside a value and are not closed yet."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []
        self._counts: Counter[tuple[Level, str]] = Counter()
        # How many of them name one of these keys.
        self.named = 0

    def __bool__(self) -> bool:
        return bool(self._marks)

    def push(self, mark: Mark) -> None:
        """Open one; the key of a mark is empty if it counts for nothing."""
        self._marks.append(mark)
        self._counts[mark.level, mark.kind] += 1
        self.named += bool(mark.key)

    def close(self, mark: Mark) -> Mark | None:
        """The innermost opening tag that an end tag closes, with all that stands open in it; None if there is none."""
        if not self._counts[mark.level, mark.kind]:
            return None
        while True:
            opened = self._marks.pop()
            self._counts[opened.level, opened.kind] -= 1
            self.named -= bool(opened.key)
            if (opened.level, opened.kind) == (mark.level, mark.kind):
                return opened

    def clear(self) -> set[str]:
        """Forget all of them; give the keys that they name."""
        keys = {mark.key for mark in self._marks if mark.key}
        if self._marks:
            self._marks.clear()
            self._counts.clear()
            self.named = 0
        return keys


class Quoted(Enum):
    """Whether an opening tag is one that a value shows in quotation marks, as in `X = "<parameter=new>"`."""

    NO = auto()
    YES = auto()
    # The mark before it may end a quotation of the value: `say "hello"<parameter=new>`.
    PERHAPS = auto()


class Quotations:
    """Counts the quotation marks of a value up to a place; each byte of it is looked at once."""

    def __init__(self, start: int) -> None:
        self._counted = dict.fromkeys(_QUOTES, (start, 0))

    def around(self, cursor: Cursor, start: int) -> Parsing[Quoted]:
        """Whether the tag that began at `start`, and was just read, stands in quotation marks."""
        mark = cursor.preceding(start)
        if mark not in _QUOTES:
            return Quoted.NO
        closed = self._closed(cursor, mark, start)
        again = (yield from cursor.byte()) in (mark, _BACKSLASH)
        if closed and not again:
            return Quoted.NO
        return Quoted.YES if again and not closed else Quoted.PERHAPS

    def _closed(self, cursor: Cursor, mark: bytes, end: int) -> bool:
        """Whether each of these marks has another one up to a place."""
        start, count = self._counted[mark]
        count += cursor.text(start, end).count(mark.decode())
        self._counted[mark] = (end, count)
        return count % 2 == 0
