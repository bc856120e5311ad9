"""The spellings of a key that are one: letter case, separators, and markup that stuck to it."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TAG = re.compile(r"</?[\w:.-]{1,40}(?:=|\s+name=)?\"?>?|[<\[][|｜][^<>]{0,40}[|｜][>\]]")
_PIECE = re.compile(r"</?[|｜\w]*(?:arg_key|arg_value|parameter)\b")
_SEPARATORS = str.maketrans("", "", "-_")


def without_markup(key: str) -> str:
    """The key without the markup and the quotation marks that stuck to it."""
    bare = _TAG.sub("", key).strip(" \t\r\n\"'\\<>")
    return bare.removeprefix("parameter=").removeprefix("parameter name=").strip("\"'")


def is_torn(key: str, value: object) -> bool:
    """True if a server cut a key and its value in the wrong place: pieces of their tags stand in both.

    {"path<arg_key": "limit</arg_key><arg_value>5"}
    """
    return ("<" in key or ">" in key) and isinstance(value, str) and bool(_PIECE.search(value))


def fold(name: str) -> str:
    """The key without letter case and separators."""
    return name.casefold().translate(_SEPARATORS)


def respelled(key: str, names: Iterable[str]) -> str | None:
    """The one of these names that a key is another spelling of."""
    free = list(names)
    bare = without_markup(key)
    if bare in free:
        return bare
    alike = [name for name in free if fold(name) == fold(key)]
    if len(alike) == 1:
        return alike[0]
    return None
