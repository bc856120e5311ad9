"""A place in JSON that is still being written: what is there is read, and more is awaited where it ends.

A reader is a generator that yields where it needs bytes that have not come; the caller goes on with it when they have.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeAlias, TypeVar

from proxy.limits import MAX_DEPTH

T = TypeVar("T")
Reading: TypeAlias = Generator[None, None, T]

MAX_KEY, MAX_SCALAR, MAX_BLANKS = 128, 4096, 64
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_QUOTES = (b'"', b"'")
# The rest of a string in either quotation marks, with whole escapes; a strict one has no control characters.
_WITHIN = {b'"': re.compile(rb'(?:[^"\\]++|\\.)*+', re.S), b"'": re.compile(rb"(?:[^'\\]++|\\.)*+", re.S)}
_STRICT = {
    b'"': re.compile(rb'(?:[^"\\\x00-\x1f]++|\\.)*+', re.S),
    b"'": re.compile(rb"(?:[^'\\\x00-\x1f]++|\\.)*+", re.S),
}
# Blanks, numbers and words, JSON's and Python's (F30).
_BETWEEN = re.compile(rb"[ \t\r\n0-9+\-.eE,:truefalsnTFNo]*+")
_SCALAR = re.compile(rb"[0-9A-Za-z+.-]*+")
_SCALAR_STARTS = b"-0123456789tfnTFN"
_AFTER_STRING = (b",", b":", b"]", b"}", b"[", b"{", *_QUOTES)
_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


class NotJson(Exception):
    """What is there is no JSON, whatever follows."""


class JsonPrefix:
    """A position in bytes that grow."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.pos = 0

    def text(self, start: int, end: int) -> str:
        """Return the text between two positions."""
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def byte(self) -> Reading[bytes]:
        """Return the next byte, which is not read yet."""
        while self.pos >= len(self.data):
            yield
        return bytes(self.data[self.pos : self.pos + 1])

    def blanks(self) -> Reading[None]:
        """Read blanks; NotJson if they are too many."""
        start = self.pos
        yield from self._skip(_BLANKS)
        if self.pos - start > MAX_BLANKS:
            raise NotJson

    def expect(self, *marks: bytes) -> Reading[bytes]:
        """Read one of these bytes, and return it."""
        mark = yield from self.byte()
        if mark not in marks:
            raise NotJson
        self.pos += 1
        return mark

    def string(self, most: int = 0) -> Reading[bytes]:
        """Read a string with its marks, and return it; a strict one of at most so many bytes if `most` is given."""
        start = self.pos
        quote = yield from self.expect(*_QUOTES)
        within = (_STRICT if most else _WITHIN)[quote]
        while True:
            self._pass(within)
            if most and self.pos - start > most:
                raise NotJson
            rest = self.data[self.pos : self.pos + 2]
            if rest[:1] == quote:
                break
            if rest and rest != b"\\":
                raise NotJson
            yield
        self.pos += 1
        return bytes(self.data[start : self.pos])

    def value(self) -> Reading[bytes]:
        """Read a value as far as its brackets and quotation marks tell where it ends, and return it."""
        first = yield from self.byte()
        if first in _QUOTES:
            return (yield from self.string())
        if first in (b"{", b"["):
            return (yield from self._nested())
        if first not in _SCALAR_STARTS:
            raise NotJson
        start = self.pos
        yield from self._skip(_SCALAR)
        if self.pos - start > MAX_SCALAR:
            raise NotJson
        return bytes(self.data[start : self.pos])

    def _nested(self) -> Reading[bytes]:
        """Read an array or an object."""
        start, depth = self.pos, 0
        while True:
            yield from self._skip(_BETWEEN)
            mark = yield from self.byte()
            if mark in _QUOTES:
                yield from self.string()
                yield from self._skip(_BLANKS)
                if (yield from self.byte()) not in _AFTER_STRING:
                    raise NotJson
                continue
            if mark not in _LEVELS:
                raise NotJson
            depth += _LEVELS[mark]
            self.pos += 1
            if depth > MAX_DEPTH:
                raise NotJson
            if not depth:
                return bytes(self.data[start : self.pos])

    def _skip(self, pattern: re.Pattern[bytes]) -> Reading[None]:
        """Go on to the first byte that a pattern does not match."""
        self._pass(pattern)
        while self.pos == len(self.data):
            yield
            self._pass(pattern)

    def _pass(self, pattern: re.Pattern[bytes]) -> None:
        found = pattern.match(self.data, self.pos)
        assert found is not None
        self.pos = found.end()
        del found  # it would keep the bytes from growing
