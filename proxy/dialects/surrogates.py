"""Surrogates in what a model writes: the two halves of a character, which may arrive in two events.

    {"delta": {"content": "\\ud83d"}}
    {"delta": {"content": "\\ude00"}}

JSON can write a half alone, and no strict reader accepts it (RFC 8259, 8.2). Where clients read strictly, a half whose
other half never arrives is written as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

_TOKEN = re.compile(r"[^\\]+|\\u[0-9a-fA-F]{4}|\\[^u]|\\(?:u[0-9a-fA-F]{0,3})?\Z|.", re.DOTALL)
_WHOLE = 6
# `\\u` of JSON text that stands in a string of JSON.
_NUMBERED = rb"\\u"
_REPLACEMENT = "\\ufffd"


class _Token(Enum):
    """The kinds of pieces of a JSON text."""

    PLAIN = "plain"  # text, or another escape
    HALF = "half"  # an escape that may go on
    HIGH = "high"  # \ud83d, the first half of a pair
    LOW = "low"  # \ude00, the second one


def may_hold_halves(texts: Iterable[bytes]) -> bool:
    """True if JSON text, each piece as it stands in a string of JSON, may hold a surrogate, or a part of one."""
    return any(_NUMBERED in text for text in texts)


class CharacterJoiner:
    """Joins surrogate halves that arrive in separate events: a first half waits for the second."""

    __slots__ = ("half",)

    def __init__(self) -> None:
        self.half = ""

    def feed(self, text: str) -> str:
        """Take the next text; return it with the half that waited, and without a half at its end."""
        if self.half or text[-1:] >= "\ud800":
            text, self.half = _joined(self.half, text), ""
            if "\ud800" <= text[-1:] <= "\udbff":
                text, self.half = text[:-1], text[-1]
        return text

    def finish(self) -> str:
        """Return the half that waits; no second one follows."""
        half, self.half = self.half, ""
        return half


def _joined(half: str, text: str) -> str:
    if half and "\udc00" <= text[:1] <= "\udfff":
        return chr(0x10000 + ((ord(half) - 0xD800) << 10) + ord(text[0]) - 0xDC00) + text[1:]
    return half + text


class SurrogateFilter:
    """JSON text in any cut to the same text without lone surrogates in escapes; equal results at every cut.

    Only half an escape waits, and the first half of a pair, escaped (`\\ud83d`) or not.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._characters = CharacterJoiner()

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return not self._pending and not self._characters.half

    def feed(self, text: str) -> str:
        """Take the next text; return what is decided."""
        text = self._characters.feed(text)
        if not self._pending and "\\u" not in text and not text.endswith("\\"):
            return text
        decided: list[str] = []
        high = ""
        self._pending, text = "", self._pending + text
        for match in _TOKEN.finditer(text):
            token = match[0]
            kind = _kind(token)
            if kind is _Token.HALF and match.end() == len(text):
                self._pending = high + token
                return "".join(decided)
            if kind is _Token.LOW:
                decided.append(_pair(high, token))
                high = ""
                continue
            if high:
                decided.append(_REPLACEMENT)
                high = ""
            if kind is _Token.HIGH:
                high = token
            else:
                decided.append(token)
        self._pending = high
        return "".join(decided)

    def finish(self) -> str:
        """Return the rest: what waited for the other half of a pair has none."""
        rest, self._pending = self._pending, ""
        if _kind(rest[:_WHOLE]) is _Token.HIGH:
            rest = _REPLACEMENT + rest[_WHOLE:]
        return rest + self._characters.finish()


def _pair(high: str, low: str) -> str:
    """Both halves of a character; a second half alone is none."""
    if not high:
        return _REPLACEMENT
    return high + low


def _kind(token: str) -> _Token:
    if not token.startswith("\\"):
        return _Token.PLAIN
    if token == "\\":
        return _Token.HALF
    if token[1] != "u":
        return _Token.PLAIN
    if len(token) < _WHOLE:
        return _Token.HALF
    code = int(token[2:], 16)
    if 0xD800 <= code < 0xDC00:
        return _Token.HIGH
    if 0xDC00 <= code < 0xE000:
        return _Token.LOW
    return _Token.PLAIN
