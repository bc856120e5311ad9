"""The part of a reply's text that is not let go yet, by positions that stay."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

# Bytes of one character in UTF-8.
MAX_CHARACTER = 4
# The longest of what begins a call.
MAX_MATCH = 64


@dataclass(slots=True)
class TextBuffer:
    """The part of the reply's text that is not let go yet.

    `base` is the position of its first byte in the reply, `last` the few bytes before that.

    `ended` says that no more comes; `stopped` that the model ended by itself, so that what stands there is all it
    wanted to say (contract C4: a call cut off by `length` is never completed). `rereads` counts how often parsers went
    back from its end. `looked` is how far it was looked at since somebody set that back: past
    the end if more could have told more.
    """

    data: bytearray = field(default_factory=bytearray)
    base: int = 0
    last: bytes = b""
    ended: bool = False
    stopped: bool = False
    rereads: int = 0
    looked: int = 0

    @property
    def end(self) -> int:
        """The position behind the last byte that came."""
        return self.base + len(self.data)

    def slice(self, start: int, end: int) -> bytes:
        """The bytes between two positions, as far as they are still here."""
        # Several times for each token of a call: max() would take as long as all the rest.
        if end > self.looked:  # noqa: PLR1730
            self.looked = end
        base = self.base
        if end < base:
            return b""
        if start < base:  # noqa: PLR1730
            start = base
        return bytes(self.data[start - base : end - base])

    def beginning(self, lengths: Mapping[int, int], pos: int, most: int) -> bytes | None:
        """As many bytes from a position on as belong to the first of them; `most` if that has not come, and None if
        nothing belongs to it.
        """
        at = pos - self.base
        if 0 <= at < len(self.data):
            most = lengths.get(self.data[at], 0)
            if not most:
                if pos >= self.looked:
                    self.looked = pos + 1
                return None
        return self.slice(pos, pos + most)

    def search(self, pattern: re.Pattern[bytes], start: int, limit: int = 0) -> int:
        """Where the one-byte pattern first matches from `start` on; the end of the text if it does not, or of the
        `limit` bytes that are looked at.
        """
        at = max(0, start - self.base)
        end = min(len(self.data), at + limit) if limit else len(self.data)
        match = pattern.search(self.data, at, end)
        stop = self.base + (match.start() if match else end)
        if stop >= self.looked:
            self.looked = stop + 1
        return stop

    def skip(self, pattern: re.Pattern[bytes], start: int) -> int:
        """Where what the pattern matches at `start` ends; it matches nothing, too."""
        match = pattern.match(self.data, max(0, start - self.base))
        assert match is not None
        stop = self.base + match.end()
        self.look(stop + 1)
        return stop

    def first(self, pattern: re.Pattern[bytes], start: int, longest: int) -> tuple[int, bytes] | None:
        """Where the pattern first matches from `start` on, and what it matches; None if it does not. `longest` is the
        length of the longest text that it matches.
        """
        match = pattern.search(self.data, max(0, start - self.base))
        if match is None:
            self.look(self.end + 1)
            return None
        # A longer one may have been tried just before.
        self.look(self.base + match.start() + longest)
        return self.base + match.start(), bytes(match.group())

    def find(self, literal: bytes, start: int) -> int:
        """Where the literal first stands from `start` on; -1 if it does not."""
        at = self.data.find(literal, max(0, start - self.base))
        if at < 0:
            self.look(self.end + 1)
            return at
        self.look(self.base + at + len(literal))
        return self.base + at

    def look(self, end: int) -> None:
        """Note that it was looked at up to here."""
        self.looked = max(self.looked, end)

    def token(self, pattern: re.Pattern[bytes], start: int) -> re.Match[bytes] | None:
        """What the pattern matches at a position; nothing is told of how far that was looked at, if it matches less."""
        match = pattern.match(self.data, start - self.base)
        if match is not None:
            self.look(self.base + match.end() + MAX_MATCH)
        return match

    def complete_match(self, pattern: re.Pattern[bytes], start: int, most: int) -> bytes | None:
        """What the pattern matches at a position, which its own bytes alone tell; None if it does not (yet), or if that
        goes on beyond `most`, and nothing is told of how far it was looked at.
        """
        at = start - self.base
        found = pattern.match(self.data, at) if at >= 0 else None
        if found is None or self.base + found.end() > most:
            return None
        self.look(self.base + found.end())
        return bytes(found.group())

    def character(self, pos: int) -> int:
        """Where the character begins that a position is in the middle of; else the position."""
        while pos > self.base and b"\x80" <= self.slice(pos, pos + 1) < b"\xc0":
            pos -= 1
        return pos

    def drop(self, end: int) -> None:
        """Forget the bytes before a position."""
        if end > self.base:
            self.last = (self.last + self.slice(end - MAX_CHARACTER, end))[-MAX_CHARACTER:]
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
        near = self.slice(pos - MAX_CHARACTER, pos)
        return near if len(near) == MAX_CHARACTER else self.last + self.slice(self.base, pos)
