"""Comments that stand where the next member of an object may begin, and may as well be a string's own.

    {"edits": [{"old": "a", "new": "say "x""}, /* next */ {"old": "c", "new": "d"}]}

Where marks in strings have no backslash, nothing tells whether that comment stands between two items or in the second
text. So the text must say the same with it and without it.
"""

from __future__ import annotations

import re

from proxy.codec.json_text import Json

_BEGINS = re.compile(r"/[*/]")
_ENDS = {"/*": "*/", "//": "\n"}
_MARKS = frozenset("\"'")
# What may stand before a comment, and behind it; one that marks enclose is a string: `x = "/*"; y = "*/"`.
_BEFORE = frozenset((*",;{}[]", *_MARKS))
_BEHIND = frozenset((*_BEFORE, "/"))
# Blanks that may stand beside a comment.
_NEAR = 64


def without_comments_between(text: str) -> str:
    """The text without the comments that stand between what may be members, items or brackets."""
    parts: list[str] = []
    taken = 0
    ends = {"/*": 0, "//": 0}
    for match in _BEGINS.finditer(text):
        kind = match.group()
        before = _before(text, taken, match.start())
        if before not in _BEFORE:
            continue
        # Each end is looked for once, whatever number of comments seem to begin before it.
        if 0 <= ends[kind] < match.end():
            ends[kind] = text.find(_ENDS[kind], match.end())
        end = ends[kind]
        if end < 0:
            continue
        end += len(_ENDS[kind])
        behind = text[end : end + _NEAR].lstrip()[:1]
        if behind not in _BEHIND:
            continue
        if before in _MARKS and behind in _MARKS:
            continue
        parts += (text[taken : match.start()], " ")
        taken = end
    return "".join((*parts, text[taken:]))


def _before(text: str, taken: int, start: int) -> str:
    """The character before what may be a comment, blanks aside; a comma if another comment, which ends at `taken`,
    stands there, and nothing if that one goes on.
    """
    if start < taken:
        return ""
    before = text[max(taken, start - _NEAR) : start].rstrip()
    if before:
        return before[-1]
    return "," if taken > 0 else ""


def alike(one: Json, other: Json) -> bool:
    """True if two values have the same keys and the same number of items, whatever their strings are."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other)
