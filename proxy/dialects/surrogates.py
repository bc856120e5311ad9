"""Lone surrogates in the arguments of a call: JSON can write them, and no strict reader takes them.

Source: RFC 8259, 8.2. In a dialect whose clients read arguments strictly they are written as U+FFFD.
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


class SurrogateFilter:
    """JSON text in any cut to the same text without lone surrogates; equal results at every cut.

    Only half an escape waits, and the first half of a pair.
    """

    def __init__(self) -> None:
        self._pending = ""

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return not self._pending

    def feed(self, text: str) -> str:
        """Take the next text; give what is decided."""
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
        """The rest: what waited for the other half of a pair has none."""
        rest, self._pending = self._pending, ""
        if _kind(rest[:_WHOLE]) is _Token.HIGH:
            return _REPLACEMENT + rest[_WHOLE:]
        return rest


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
