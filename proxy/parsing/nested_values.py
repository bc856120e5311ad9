"""The inside of an array or an object, many brackets and strings at once as far as they are there.

    {"a": [1, "b", {"c": "d

Here all is passed up to the string that goes on; that one is read by itself (`Cursor.string`), as is whatever else is
not there as a whole, or is no JSON.
"""

from __future__ import annotations

import re

from proxy.limits import MAX_DEPTH
from proxy.parsing.buffer import TextBuffer

_DOUBLE_QUOTED = rb'"[^"%b]*+(?:\\[\x00-\xff][^"%b]*+)*+"'
_SINGLE_QUOTED = rb"'[^'%b]*+(?:\\[\x00-\xff][^'%b]*+)*+'"
_STRING = rb"(?:%b|%b)" % (_DOUBLE_QUOTED, _SINGLE_QUOTED)
_BEHIND_STRING = rb"""[ \t\r\n]*+[,:\[\]{}"']"""
_BLANKS_AND_WORDS = rb"[ \t\r\n0-9+\-.eE,:truefalsnTFNo]*+"
# Blanks, numbers and words, and behind them brackets, or a string behind which a value can go on.
_TOKEN = rb"%b(?:([{\[]{1,16}+)|([}\]]{1,16}+)|%b(?=%b))" % (_BLANKS_AND_WORDS, _STRING, _BEHIND_STRING)
_LOOSE = re.compile(_TOKEN % ((rb"\\",) * 4))
_STRICT = re.compile(_TOKEN % ((rb"\\\x00-\x1f",) * 4))


def pass_tokens(buffer: TextBuffer, pos: int, depth: int, *, strict: bool, most: int) -> tuple[int, int]:
    """How far, and to which depth, a value of this depth can be passed from `pos` on, but not beyond `most`.

    Left to be read are the last bracket, one too many, and what is no JSON. `strict`: no line ends in a string.
    """
    pattern = _STRICT if strict else _LOOSE
    while depth:
        found = buffer.token(pattern, pos)
        if found is None:
            break
        behind = pos + len(found.group())
        opened, closed = found.group(1, 2)
        deeper = depth + len(opened or b"") - len(closed or b"")
        if behind > most or not 0 < deeper <= MAX_DEPTH:
            break
        pos, depth = behind, deeper
    return pos, depth
