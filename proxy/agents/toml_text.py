"""TOML files of people: keys are set in the table that they belong to, line by line; the rest stays, to the byte.

A line has its own end with it, as files of several systems have both kinds.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Sequence

from proxy.agents.spans import NotMergeableError, line_end
from proxy.codec.json_text import Json, JsonObject

_HEADER = re.compile(r"\s*\[")
# Other marks at which `splitlines` would cut may stand in a text or a comment.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def edited(text: str, content: JsonObject) -> str:
    """The text with the content in it, whatever else it says."""
    newline = line_end(text)
    lines = _LINE.findall(text)
    for path, values in _tables(content, ()):
        lines = _with_table(lines, path, values, newline)
    return "".join(lines)


def without(text: str, path: Sequence[str]) -> str:
    """The text without the line of a key that is there; of a table's own line nothing is known."""
    lines = _LINE.findall(text)
    *outer, key = path
    start = _start(lines, tuple(outer))
    if start is None:
        return text
    end = next((at for at in range(start, len(lines)) if _HEADER.match(lines[at])), len(lines))
    kept = [line for line in lines[start:end] if not (_is_of(line, key) and _value(line))]
    return "".join([*lines[:start], *kept, *lines[end:]])


def _tables(content: JsonObject, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JsonObject]]:
    """Each table with the values that are none; the top one first."""
    values: JsonObject = {key: value for key, value in content.items() if not isinstance(value, dict)}
    if values:
        yield path, values
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _tables(value, (*path, key))


def _with_table(lines: list[str], path: tuple[str, ...], values: JsonObject, newline: str) -> list[str]:
    """The lines with these values in the table; the top one, whose path is empty, ends at the first header."""
    start = _start(lines, path)
    if start is None:
        gap = [newline] if "".join(lines[-1:]).strip() else []
        header = f"[{'.'.join(map(_key, path))}]{newline}"
        return [*_ended(lines, newline), *gap, header, *(_line(key, values[key]) + newline for key in values)]
    end = next((at for at in range(start, len(lines)) if _HEADER.match(lines[at])), len(lines))
    return [*_ended(lines[:start], newline), *_filled(lines[start:end], values, newline), *lines[end:]]


def _filled(table: list[str], values: JsonObject, newline: str) -> list[str]:
    """The lines of a table with these values: each in its place, new ones behind the last."""
    new = []
    for key, value in values.items():
        at = next((number for number, line in enumerate(table) if _is_of(line, key)), None)
        if at is None:
            new.append(_line(key, value) + newline)
        elif _value(table[at]) != {key: value}:
            plain = table[at].rstrip("\r\n")
            table[at] = _line(key, value) + _comment(plain) + table[at][len(plain) :]
    if not new:
        return table
    place = max((number + 1 for number, line in enumerate(table) if _says_something(line)), default=0)
    return [*_ended(table[:place], newline), *new, *_gap(table[place:], newline), *table[place:]]


def _ended(lines: list[str], newline: str) -> list[str]:
    """The lines, of which the last one has an end too, as others come behind it."""
    if not lines or lines[-1].endswith("\n"):
        return lines
    return [*lines[:-1], lines[-1] + newline]


def _says_something(line: str) -> bool:
    return bool(line.partition("#")[0].strip())


def _gap(rest: list[str], newline: str) -> list[str]:
    """An empty line where new lines would stick to a comment that stood alone."""
    return [newline] if rest and rest[0].strip() else []


def _start(lines: list[str], path: tuple[str, ...]) -> int | None:
    """The number of the line behind the table's header; None if it has none."""
    if not path:
        return 0
    for number, line in enumerate(lines):
        if _HEADER.match(line) and _path(line) == path:
            return number + 1
    return None


def _path(line: str) -> tuple[str, ...]:
    """The table that a header names; empty if it is none alone on its line."""
    table = _value(line)
    path = []
    while table:
        key, inner = next(iter(table.items()))
        path.append(key)
        table = inner if isinstance(inner, dict) else {}
    return tuple(path)


def _value(line: str) -> JsonObject:
    """The content of one line alone; an empty one if it has none by itself."""
    try:
        return tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return {}


def _is_of(line: str, key: str) -> bool:
    """Say whether the line sets the key."""
    name, equals, _ = line.partition("=")
    return bool(equals) and name.strip().strip("\"'") == key


def _comment(line: str) -> str:
    """The comment behind a line's value, with a blank before it."""
    for at, letter in enumerate(line):
        if letter == "#" and _value(line[:at]):
            return f"  {line[at:]}"
    return ""


def _line(key: str, value: Json) -> str:
    if isinstance(value, list):
        raise NotMergeableError("a list belongs into it")
    return f"{_key(key)} = {json.dumps(value, ensure_ascii=False)}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)
