"""Reference reader of unescaped quotation marks: decides whether a broken text has exactly one reading.

A string ends at its first mark that is followed by a comma, whitespace, a quoted key of its object that is not given
yet, and a colon. The last string of an object ends at the object's last mark. There is no reading if the start of such
a key occurs twice, or an unescaped mark is inside an array of strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from benchmarks.harm.offers import Schema

_BLANKS = re.compile(r"\s*")
_NEXT = re.compile(r'\s*,\s*"((?:[^"\\]|\\.)*)"\s*:')
_OBJECT_ENDS = re.compile(r"\s*\}")
_TEXT_ENDS = re.compile(r"\s*\}\s*\Z")
# Maximum number of readings to try.
_MOST = 64

Found = tuple[Any, int]


class NoReading(ValueError):
    """There is no reading by the rules."""


def read(text: str, schema: Schema) -> dict[str, Any] | None:
    """Return the object that a text can be read as, or None if there are several or none."""
    found: list[dict[str, Any]] = []
    try:
        for number, (values, end) in enumerate(_object(text, _blanks(text, 0), schema, outermost=True)):
            if number >= _MOST:
                return None
            if not text[end:].strip() and values not in found:
                found.append(values)
    except (NoReading, RecursionError):
        return None
    return found[0] if len(found) == 1 else None


def _blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _object(text: str, at: int, schema: Schema, *, outermost: bool = False) -> Iterator[Found]:
    if text[at : at + 1] != "{":
        return
    start = _blanks(text, at + 1)
    if text[start : start + 1] == "}":
        yield {}, start + 1
        return
    yield from _members(text, start, schema, {}, outermost)


def _members(text: str, at: int, schema: Schema, given: dict[str, Any], outermost: bool) -> Iterator[Found]:
    """Yield all readings of an object's members, from a key on."""
    try:
        key, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except ValueError:
        return
    colon = _blanks(text, end)
    if not isinstance(key, str) or key in given or text[colon : colon + 1] != ":":
        return
    own = frozenset(schema.get("properties", {})) - given.keys() - {key}
    inner = schema.get("properties", {}).get(key, {})
    for value, after in _value(text, _blanks(text, colon + 1), inner, own, outermost):
        stop = _blanks(text, after)
        mark = text[stop : stop + 1]
        if mark == "}":
            yield {**given, key: value}, stop + 1
        elif mark == ",":
            yield from _members(text, _blanks(text, stop + 1), schema, {**given, key: value}, outermost)


def _value(text: str, at: int, schema: Schema, own: frozenset[str], outermost: bool) -> Iterator[Found]:
    first = text[at : at + 1]
    if first == '"':
        yield from _string(text, at, own, outermost)
        return
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, at)
    except ValueError:
        if first == "{":
            yield from _object(text, at, schema)
        elif first == "[":
            yield from _items(text, at, schema.get("items", {}))
        return
    yield value, end


def _items(text: str, at: int, schema: Schema) -> Iterator[Found]:
    """Yield the readings of an array of objects, one with an unescaped mark."""
    if schema.get("type") != "object":
        raise NoReading("inside an array of strings")
    waiting: list[tuple[list[Any], int]] = [([], _blanks(text, at + 1))]
    while waiting:
        items, start = waiting.pop()
        for value, end in _value(text, start, schema, frozenset(), False):
            stop = _blanks(text, end)
            if text[stop : stop + 1] == "]":
                yield [*items, value], stop + 1
            elif text[stop : stop + 1] == ",":
                waiting.append(([*items, value], _blanks(text, stop + 1)))


def _string(text: str, at: int, own: frozenset[str], outermost: bool) -> Iterator[Found]:
    mark = _mark(text, at, own)
    start = at + len(mark)
    marks = list(_marks(text, start, mark))
    ends = _at_next_key(text, marks, len(mark), own)
    if not ends:
        ends = _at_object_end(text, marks, len(mark), outermost)
    for place in ends:
        yield _unescaped(text[start:place]), place + len(mark)


def _mark(text: str, at: int, own: frozenset[str]) -> str:
    """Return the delimiter of the string at a position: one mark or three. A fourth may belong to the text."""
    if text.startswith('""""', at):
        raise NoReading("four marks")
    if not text.startswith('"""', at) or _ends_or_goes_on(text, at + 2, own):
        return '"'
    return '"""'


def _at_next_key(text: str, marks: list[int], length: int, own: frozenset[str]) -> list[int]:
    """Return the first mark that is followed by a key of the object, in a list, or an empty one."""
    found = [(place, _next_key(text, place + length, own)) for place in marks]
    openers = [(place, key) for place, key in found if key]
    if not openers:
        return []
    place, key = openers[0]
    if any(other == key for _, other in openers[1:]):
        raise NoReading(f"{key!r} begins twice")
    return [place]


def _at_object_end(text: str, marks: list[int], length: int, outermost: bool) -> list[int]:
    """Return the marks at which the object may end; for the outermost object, the last one at the text's end."""
    if not outermost:
        return [place for place in marks if _OBJECT_ENDS.match(text, place + length)]
    return [place for place in marks if _TEXT_ENDS.match(text, place + length)][-1:]


def _ends_or_goes_on(text: str, at: int, own: frozenset[str]) -> bool:
    """Return whether `""` before a third mark is an empty string."""
    return bool(_next_key(text, at, own)) or bool(_OBJECT_ENDS.match(text, at))


def _marks(text: str, start: int, mark: str) -> Iterator[int]:
    """Yield the positions of marks without a backslash."""
    at = start
    while at < len(text):
        if text[at] == "\\":
            at += 2
            continue
        if text.startswith(mark, at):
            yield at
        at += 1


def _next_key(text: str, at: int, own: frozenset[str]) -> str:
    found = _NEXT.match(text, at)
    return found.group(1) if found and found.group(1) in own else ""


def _unescaped(inside: str) -> str:
    """Return the string's value: escapes decoded, marks and line ends unchanged."""
    raw = re.sub(r'(\\.)|"', lambda found: found.group(1) or '\\"', inside, flags=re.DOTALL)
    try:
        value: str = json.loads(f'"{raw}"', strict=False)
    except ValueError as error:
        raise NoReading("a broken escape") from error
    return value
