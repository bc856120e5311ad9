"""Where an array, an object or an expression in brackets ends, whatever stands in it.

    [{"a": "]"}, (1, 2)]      or      {key: <|"|>text}<|"|>, other: [1]}

Brackets in strings count for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from proxy.limits import MAX_DEPTH
from proxy.parsing.cursor import Cursor, NotACall, Parsing

_QUOTES = b"\"'"
# By the byte that it begins with, what reads a string.
Strings = Mapping[bytes, Callable[[Cursor], Parsing[object]]]


class Brackets:
    """Brackets of some kinds, `pairs` as `()[]`; `strings` says what else than a quotation mark begins a string, and
    what reads that.
    """

    def __init__(self, pairs: bytes, strings: Strings | None = None) -> None:
        self._strings = {bytes((quote,)): Cursor.string for quote in _QUOTES} | dict(strings or {})
        self._levels = {bytes((pair,)): 1 if at % 2 == 0 else -1 for at, pair in enumerate(pairs)}
        self._stops = re.compile(b"[" + re.escape(b"".join((*self._strings, *self._levels))) + b"]")

    def skip(self, cursor: Cursor) -> Parsing[None]:
        """Read from an opening bracket, which stands here, to behind the one that closes it. Raises NotACall."""
        depth = 0
        while True:
            yield from cursor.until(self._stops)
            here = yield from cursor.byte()
            if here in self._strings:
                yield from self._strings[here](cursor)
                continue
            depth += self._levels[here]
            cursor.pos += 1
            if depth > MAX_DEPTH:
                raise NotACall("nested too deep")
            if depth <= 0:
                return
