"""Lone surrogates in the arguments of a call: JSON can write them, and no strict reader takes them.

Source: RFC 8259, 8.2. In a dialect whose clients read arguments strictly they are written as U+FFFD.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r"[^\\]+|\\u[0-9a-fA-F]{4}|\\[^u]|\\(?:u[0-9a-fA-F]{0,3})?\Z|.", re.DOTALL)
_WHOLE = 6
_REPLACEMENT = "\\ufffd"


class SurrogateFilter:
    """JSON text in any cut to the same text without lone surrogates; equal results at every cut.

    Only half an escape waits, and the first half of a pair.
    """

    def __init__(self) -> None:
        self._pending = ""

    def feed(self, text: str) -> str:
        """Take the next text; give what is decided."""
        if not self._pending and "\\u" not in text and not text.endswith("\\"):
            return text
        given: list[str] = []
        high = ""
        self._pending, text = "", self._pending + text
        for found in _TOKEN.finditer(text):
            token = found[0]
            kind = _kind(token)
            if kind == "half" and found.end() == len(text):
                self._pending = high + token
                return "".join(given)
            if high:
                given.append(high + token if kind == "low" else _REPLACEMENT)
                kind = "done" if kind == "low" else kind
                high = ""
            if kind == "high":
                high = token
            elif kind != "done":
                given.append(_REPLACEMENT if kind == "low" else token)
        self._pending = high
        return "".join(given)

    def finish(self) -> str:
        """The rest: what waited for the other half of a pair has none."""
        rest, self._pending = self._pending, ""
        return _REPLACEMENT + rest[_WHOLE:] if _kind(rest[:_WHOLE]) == "high" else rest


def _kind(token: str) -> str:
    """`half` of an escape, the `high` or the `low` one of a pair of surrogates, or anything else."""
    if not token.startswith("\\"):
        return ""
    if token == "\\" or (token[1] == "u" and len(token) < _WHOLE):
        return "half"
    code = int(token[2:], 16) if token[1] == "u" else 0
    return "high" if 0xD800 <= code < 0xDC00 else "low" if 0xDC00 <= code < 0xE000 else ""
