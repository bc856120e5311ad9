"""The part of a reply's text that is not let go yet, by positions that stay."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Bytes of one character in UTF-8.
MAX_CHARACTER = 4


@dataclass(slots=True)
class TextBuffer:
    """The part of the reply's text that is not let go yet.

    `base` is the position of its first byte in the reply, `last` the few bytes before that.

    `ended` says that no more comes; `stopped` that the model ended by itself, so that what stands there is all it
    wanted to say (contract C4: a call cut off by `length` is never completed). `rereads` counts how often parsers went
    back from its end.
    """

    data: bytearray = field(default_factory=bytearray)
    base: int = 0
    last: bytes = b""
    ended: bool = False
    stopped: bool = False
    rereads: int = 0

    @property
    def end(self) -> int:
        """The position behind the last byte that came."""
        return self.base + len(self.data)

    def part(self, start: int, end: int) -> bytes:
        """The bytes between two positions, as far as they are still here."""
        return bytes(self.data[max(0, start - self.base) : max(0, end - self.base)])

    def search(self, pattern: re.Pattern[bytes], start: int, limit: int = 0) -> int:
        """Where the one-byte pattern first matches from `start` on; the end of the text if it does not, or of the
        `limit` bytes that are looked at.
        """
        at = max(0, start - self.base)
        end = min(len(self.data), at + limit) if limit else len(self.data)
        found = pattern.search(self.data, at, end)
        return self.base + (found.start() if found else end)

    def first(self, pattern: re.Pattern[bytes], start: int) -> tuple[int, bytes] | None:
        """Where the pattern first matches from `start` on, and what it matches; None if it does not."""
        found = pattern.search(self.data, max(0, start - self.base))
        return (self.base + found.start(), bytes(found.group())) if found else None

    def find(self, literal: bytes, start: int) -> int:
        """Where the literal first stands from `start` on; -1 if it does not."""
        at = self.data.find(literal, max(0, start - self.base))
        return at if at < 0 else self.base + at

    def matches(self, pattern: re.Pattern[bytes], start: int) -> bool:
        """Whether the pattern matches at a position."""
        return pattern.match(self.data, start - self.base) is not None

    def character(self, pos: int) -> int:
        """Where the character begins that a position is in the middle of; else the position."""
        while pos > self.base and b"\x80" <= self.part(pos, pos + 1) < b"\xc0":
            pos -= 1
        return pos

    def drop(self, end: int) -> None:
        """Forget the bytes before a position."""
        if end > self.base:
            self.last = (self.last + self.part(end - MAX_CHARACTER, end))[-MAX_CHARACTER:]
            del self.data[: end - self.base]
            self.base = end

    def fast_path(self, data: bytes) -> None:
        """Forget these bytes as soon as they come."""
        self.base += len(data)
        self.last = (self.last + data[-MAX_CHARACTER:])[-MAX_CHARACTER:]

    def behind(self, pos: int, marks: tuple[bytes, ...]) -> bool:
        """True if one of the characters stands directly before the position."""
        return self.near(pos).endswith(marks)

    def near(self, pos: int) -> bytes:
        """The few bytes directly before the position."""
        near = self.part(pos - MAX_CHARACTER, pos)
        return near if len(near) == MAX_CHARACTER else self.last + self.part(self.base, pos)
