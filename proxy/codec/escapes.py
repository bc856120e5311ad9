"""The escapes in which a character of a secret may stand, and bytes with all of them undone.

`+` may be `\\u002b` or `\\x2B` (JSON, Python), `%2B` (URL), `&#43;`, `&#x2b;` or `&plus;` (HTML), each of them within
another one (`%252B`, `&amp;#43;`, `\\u0026#43;`), and `/` may be `\\/`. Each way of escaping is one row of a table. All
of it is linear: a row is found by its first byte, and cannot go back.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import cached_property
from html.entities import html5
from itertools import accumulate
from string import ascii_letters, digits
from typing import NamedTuple, TypeAlias

# Backslashes before what they escape: more are no JSON of anything.
MOST_BACKSLASHES = 64
# Escapes within escapes are undone so often.
_MOST_LAYERS = 5

# How many of its first bytes an escape leaves as they are, and the byte that the others mean; None if it is no escape.
_Meaning: TypeAlias = tuple[int, bytes] | None

_BACKSLASH = rb"\\"
# Those behind the first of all that stand before what they escape.
_MORE_BACKSLASHES = rb"(?<!\\\\)\\{0,%d}+" % (MOST_BACKSLASHES - 1)
_BACKSLASHES = _BACKSLASH + _MORE_BACKSLASHES
_HEX = b"[0-9A-Fa-f]"
_MARK = rb"[!-/:-@\[\]-`{-~]"
# The names of single characters: `amp`, `quot`, `plus`, `equals`.
_NAMES = {
    name[:-1].encode(): character.encode()
    for name, character in html5.items()
    if name.endswith(";") and len(character) == 1 and character.isascii()
}
_LONGEST_NAME = max(map(len, _NAMES))


def _from_backslashes(escape: bytes) -> _Meaning:
    """`\\u002b`, `\\\\u002b` in JSON within JSON; of `\\\\\\u002b` the first two are an escaped backslash."""
    count = len(escape) - len(escape.lstrip(b"\\"))
    before = count - 1 if count % 2 else 0
    return before, bytes((int(escape[-2:], 16),))


def _from_braces(escape: bytes) -> _Meaning:
    """`\\u{2b}`"""
    return _byte(int(escape.partition(b"{")[2][:-1], 16))


def _from_mark(escape: bytes) -> _Meaning:
    """`\\/`, `\\\\\\/` in JSON within JSON"""
    return 0, escape[-1:]


def _from_url(escape: bytes) -> _Meaning:
    """`%2B`"""
    return 0, bytes((int(escape[-2:], 16),))


def _from_decimal(escape: bytes) -> _Meaning:
    """`&#43;`, `&#043`"""
    return _byte(int(escape[2:].rstrip(b";")))


def _from_hex(escape: bytes) -> _Meaning:
    """`&#x2b;`, `&#X2B`"""
    return _byte(int(escape[3:].rstrip(b";"), 16))


def _from_name(escape: bytes) -> _Meaning:
    """`&plus;`"""
    character = _NAMES.get(escape[1:-1])
    if character is None:
        return None
    return 0, character


def _from_other(escape: bytes) -> _Meaning:
    """`\\u4e2d`: no character of a secret, but none that may be left in half either."""
    return None


def _byte(number: int) -> _Meaning:
    if number > 255:
        return None
    return 0, bytes((number,))


class _Spelling(NamedTuple):
    """A way of escaping: its parts in their order, and what all of them mean.

    What ends before the last part may be the beginning of such an escape.
    """

    parts: tuple[bytes, ...]
    meaning: Callable[[bytes], _Meaning]


_SPELLINGS = (
    _Spelling((_BACKSLASHES, b"u", b"0", b"0", _HEX, _HEX), _from_backslashes),
    _Spelling((_BACKSLASHES, b"u", _HEX, _HEX, _HEX, _HEX), _from_other),
    _Spelling((_BACKSLASHES, b"x", _HEX, _HEX), _from_backslashes),
    _Spelling((_BACKSLASHES, b"U", b"0", b"0", b"0", b"0", b"0", b"0", _HEX, _HEX), _from_backslashes),
    _Spelling((_BACKSLASHES, b"u", rb"\{", _HEX + b"{1,6}+", rb"\}"), _from_braces),
    _Spelling((_BACKSLASHES, _MARK), _from_mark),
    _Spelling((b"%", _HEX, _HEX), _from_url),
    _Spelling((b"%", b"u", b"0", b"0", _HEX, _HEX), _from_url),
    _Spelling((b"&", b"#", b"[0-9]{1,16}+", b";?"), _from_decimal),
    _Spelling((b"&", b"#", b"[xX]", _HEX + b"{1,16}+", b";?"), _from_hex),
    _Spelling((b"&", b"[A-Za-z]{1,%d}+" % _LONGEST_NAME, b";"), _from_name),
)
# No escape is longer.
LONGEST = MOST_BACKSLASHES + _LONGEST_NAME + 2
# What an escape consists of.
BYTES = (r"\%&#;{}" + ascii_letters + digits).encode()


def _beginning(parts: tuple[bytes, ...]) -> bytes:
    """A pattern of what begins an escape of these parts: `a(?:b(?:c)?)?`."""
    pattern = b""
    for part in reversed(parts[:-1]):
        rest = b"(?:%b)?" % pattern if pattern else b""
        pattern = part + rest
    return pattern


def _any_of(patterns: list[bytes]) -> bytes:
    return b"|".join(patterns)


def _behind_first(parts: tuple[bytes, ...]) -> bytes:
    """A pattern of an escape of these parts, as a group, behind its first byte."""
    first, *others = parts
    if first == _BACKSLASHES:
        return b"(?<=%b)(%b)" % (_BACKSLASH, b"".join((_MORE_BACKSLASHES, *others)))
    return b"(?<=%b)(%b)" % (first, b"".join(others))


# Each way is a group: which of them it is tells the number of the group. A pattern that begins with a set of bytes
# passes all others at once, which one of alternatives does not: a tenth of the time, where there are few escapes.
_ESCAPE = re.compile(rb"[\\%%&](?:%b)" % _any_of([_behind_first(spelling.parts) for spelling in _SPELLINGS]))
_OPEN = re.compile(rb"(?:%b)\Z" % _any_of([_beginning(spelling.parts) for spelling in _SPELLINGS]))


def escape_of(marks: frozenset[int]) -> re.Pattern[bytes]:
    """A pattern of the escapes that are looked at for a secret with these bytes. A backslash counts only before one of
    them, or before what begins another escape: quotation marks are everywhere.
    """
    own = (bytes((mark,)) for mark in sorted(marks | frozenset(b"%&")))
    ours = b"[%b]" % b"".join(re.escape(each) for each in own if re.fullmatch(_MARK, each))
    # By their first parts: each event of each stream is searched, and most backslashes begin none of these.
    by_first: dict[bytes, list[bytes]] = {}
    for spelling in _SPELLINGS:
        first, *others = (ours if part is _MARK else part for part in spelling.parts)
        if spelling.meaning is not _from_other:
            by_first.setdefault(first, []).append(b"".join(others))
    alternatives = {first: b"(?:%b)" % _any_of(rests) for first, rests in by_first.items()}
    alternatives[rb"\\"] = alternatives.pop(_BACKSLASHES)
    return re.compile(_any_of([first + rest for first, rest in alternatives.items()]))


class _Escape(NamedTuple):
    """An escape in a text; None is the meaning of one that stays. `begin`: where it begins, but for what it leaves."""

    start: int
    begin: int
    end: int
    meaning: bytes | None


class Layer:
    """A text in which escapes are undone. What may be the beginning of one at its end is no part of it: `open` is where
    in the data that stands.
    """

    def __init__(self, text: bytes, before: Layer | None = None, *, ended: bool) -> None:
        self._before = before
        self._escapes = [*_escapes(text)]
        self.text = text if ended else text[: _open(text, self._escapes)]
        self.open = self.position_of(len(self.text))

    def position_of(self, at: int) -> int:
        """Where in the data a place in the text is."""
        if self._before is None:
            return at
        return self._before.position_of(self._before.origin(at))

    @cached_property
    def _undone(self) -> list[_Escape]:
        return [each for each in self._escapes if each.meaning is not None and each.end <= len(self.text)]

    @cached_property
    def _places(self) -> list[int]:
        """For each escape its place in the next layer."""
        shorter = accumulate((each.end - each.begin - 1 for each in self._undone), initial=0)
        return [each.begin - less for each, less in zip(self._undone, shorter, strict=False)]

    def origin(self, at: int) -> int:
        """Where in this text a place in the next layer is."""
        before = bisect_left(self._places, at)
        if not before:
            return at
        return self._undone[before - 1].end + at - self._places[before - 1] - 1

    def next(self, *, ended: bool) -> Layer | None:
        """The text with its escapes undone; None if it has none."""
        if not self._undone:
            return None
        parts: list[bytes] = []
        end = 0
        for each in self._undone:
            assert each.meaning is not None
            parts += [self.text[end : each.begin], each.meaning]
            end = each.end
        return Layer(b"".join((*parts, self.text[end:])), self, ended=ended)


def _escapes(text: bytes) -> Iterator[_Escape]:
    for match in _ESCAPE.finditer(text):
        assert match.lastindex is not None
        before, character = _SPELLINGS[match.lastindex - 1].meaning(match[0]) or (0, None)
        yield _Escape(match.start(), match.start() + before, match.end(), character)


def _open(text: bytes, escapes: list[_Escape]) -> int:
    """Where an escape may have begun at the end of a text: not within another one. The text's end if none has.

    `100\\%`: a backslash and its mark, not the beginning of `%2B`; but what has come of `&#4` may be of `&#43;`.
    """
    begun = _OPEN.search(text, max(0, len(text) - LONGEST))
    for escape in reversed(escapes[-LONGEST:]):
        if begun is None or escape.end <= begun.start():
            break
        if escape.start < begun.start():
            begun = _OPEN.search(text, escape.end)
    return len(text) if begun is None else begun.start()


def layers(data: bytes, *, ended: bool) -> Iterator[Layer]:
    """The data as it is, with its escapes undone, with those undone that have come to light by that, and so on.

    `ended`: nothing follows that could be the rest of an escape.
    """
    layer: Layer | None = Layer(data, ended=ended)
    for _ in range(_MOST_LAYERS):
        if layer is None:
            return
        yield layer
        layer = layer.next(ended=ended)


def undone(data: bytes) -> bytes:
    """The data with its escapes undone, once."""
    layer = Layer(data, ended=True).next(ended=True)
    return data if layer is None else layer.text
