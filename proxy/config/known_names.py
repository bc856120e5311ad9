"""Caches by the name of a model: most requests are for the same few."""

from __future__ import annotations

from collections.abc import Hashable
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TypeVar

# What clients write is kept no longer than this, and no more of it.
LONG_NAME, MANY_NAMES = 256, 256
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def keep(cache: dict[_Key, _Value], key: _Key, value: _Value, *names: str) -> None:
    """Keep what was found for a key made of these names, if there is room."""
    if max(map(len, names)) > LONG_NAME:
        return
    if len(cache) < MANY_NAMES:
        cache[key] = value


def first_match(name: str, globs: tuple[str, ...]) -> int | None:
    """Which of the globs matches first; None if none does."""
    if len(name) > LONG_NAME:
        return _find_match(name, globs)
    return _known_match(name, globs)


def _find_match(name: str, globs: tuple[str, ...]) -> int | None:
    return next((at for at, glob in enumerate(globs) if fnmatchcase(name, glob)), None)


_known_match = lru_cache(maxsize=MANY_NAMES)(_find_match)
