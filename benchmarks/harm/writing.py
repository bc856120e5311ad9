"""Writers of arguments as JSON, Python, Gemma literals, or tags: intact, or broken by a `Style`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]


def dump(value: Any) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False)


def _number(value: int | float) -> str:
    return dump(value)


def _quoted(text: str, path: Path) -> str:
    return dump(text)


def _comma(number: int, path: Path) -> str:
    return ", "


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """Style of JSON text. Writers receive the `path` of a string or key; `between` separates two members."""

    string: Callable[[str, Path], str] = _quoted
    key: Callable[[str, Path], str] = _quoted
    between: Callable[[int, Path], str] = _comma
    number: Callable[[int | float], str] = _number
    colon: str = ": "
    first: str = ""
    last: str = ""
    # None: the family's words.
    words: tuple[str, str, str] | None = None

    def word(self, value: bool | None, usual: tuple[str, str, str]) -> str:
        """Return true, false or null in this style."""
        return (self.words or usual)[(True, False, None).index(value)]


CLEAN_JSON = JsonStyle()
IN_JSON = ("true", "false", "null")
IN_PYTHON = ("True", "False", "None")


@dataclass(frozen=True, slots=True)
class Style:
    """Differences of one call from the family's template.

    `name` replaces the tool's name; `text` changes the written arguments; `no_end` are the numbers of the parameters
    without an end tag; `twice` are the doubled parts of the frame, `without` the missing ones; `typed` replaces the
    types of keys in formats that declare them.
    """

    name: str | None = None
    json: JsonStyle = CLEAN_JSON
    text: Callable[[str], str] | None = None
    no_end: frozenset[int] = frozenset()
    twice: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    typed: dict[str, str] = field(default_factory=dict)


CLEAN = Style()


def write_json(value: Any, style: JsonStyle = CLEAN_JSON, path: Path = ()) -> str:
    """Return a value as JSON in this style."""
    match value:
        case dict():
            members = [
                f"{style.key(key, path)}{style.colon}{write_json(inner, style, (*path, key))}"
                for key, inner in value.items()
            ]
            return "{" + _joined(members, style, path) + "}"
        case list():
            items = [write_json(inner, style, (*path, at)) for at, inner in enumerate(value)]
            return "[" + _joined(items, style, path) + "]"
        case str():
            return style.string(value, path)
        case True | False | None:
            return style.word(value, IN_JSON)
    return style.number(value)


def _joined(parts: list[str], style: JsonStyle, path: Path) -> str:
    if not parts:
        return ""
    text = parts[0]
    for number, part in enumerate(parts[1:], 1):
        text += style.between(number, path) + part
    return style.first + text + style.last


def write_python(values: dict[str, Any], style: JsonStyle = CLEAN_JSON) -> str:
    """Return Python arguments, to follow a function's name."""
    members = [f"{style.key(key, ())}={_literal(value, style, (key,))}" for key, value in values.items()]
    return _joined(members, style, ())


def _literal(value: Any, style: JsonStyle, path: Path) -> str:
    match value:
        case dict():
            members = [f"{key!r}: {_literal(inner, style, (*path, key))}" for key, inner in value.items()]
            return "{" + ", ".join(members) + "}"
        case list():
            return "[" + ", ".join(_literal(inner, style, (*path, at)) for at, inner in enumerate(value)) + "]"
        case str():
            return style.string(value, path)
        case True | False | None:
            return style.word(value, IN_PYTHON)
    return repr(value)


GEMMA_MARK = '<|"|>'


def write_gemma(value: Any, style: JsonStyle = CLEAN_JSON, path: Path = ()) -> str:
    """Return a value as a Gemma 4 literal: bare keys, strings between special tokens."""
    match value:
        case dict():
            members = [
                f"{style.key(key, path)}:{write_gemma(inner, style, (*path, key))}" for key, inner in value.items()
            ]
            return "{" + _joined(members, style, path) + "}"
        case list():
            items = [write_gemma(inner, style, (*path, at)) for at, inner in enumerate(value)]
            return "[" + _joined(items, style, path) + "]"
        case str():
            return style.string(value, path)
        case True | False | None:
            return style.word(value, IN_JSON)
    return dump(value)
