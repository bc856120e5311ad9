"""Calls that are an offered name and its arguments, and nothing else: `NAME(key="text", other=3)` and
`NAME{key: "text", other: 3}`. They count as the whole reply only, with at least one argument (contract C3).

Code and prose look like this too, so nothing is put right: keywords and keys only, each once, and between them
literals that end where Python's and JSON's do. What stands in a string is the string's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.codec.json_text import Json, dump
from proxy.codec.literals import Also, read_literal
from proxy.formats.argument_values import read_string
from proxy.formats.brackets import Brackets
from proxy.formats.gemma import MARKS
from proxy.parsing.cursor import MAX_KEY, MAX_SCALAR, Cursor, NotACall, Parsing, RawCall

_AFTER_NAME = re.compile(rb"[^A-Za-z0-9_.:\-\x80-\xff]")
_AFTER_KEY = re.compile(rb"[^A-Za-z0-9_\-\x80-\xff]")
_FIRST_OF_KEY = re.compile(rb"[A-Za-z_\x80-\xff]")
_STRING = (b'"', b"'")
_TRIPLE = (b'"""', b"'''")
_IN_TRIPLE = {quote: re.compile(b"[\\\\" + quote[:1] + b"]") for quote in _TRIPLE}
_INNER = {mark: re.compile(rf"\\.|{mark}", re.DOTALL) for mark in "\"'"}
_MARKS = tuple(mark.encode() for mark in MARKS)


@dataclass(frozen=True, slots=True)
class _Notation:
    """How the arguments are written: the brackets around them, and the sign between a key and its value."""

    opener: bytes
    closer: bytes
    sign: bytes
    after_word: re.Pattern[bytes]
    # Whether keys may stand in quotation marks, and in inner objects without any; strings in Gemma's marks.
    loose: bool


_PYTHON = _Notation(b"(", b")", b"=", re.compile(rb"[\s,)]"), loose=False)
_BRACES = _Notation(b"{", b"}", b":", re.compile(rb"[\s,}]"), loose=True)


def bare_call(cursor: Cursor) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    name = yield from _name(cursor)
    return ((yield from bare_arguments(cursor, name)),)


def begins_bare(cursor: Cursor) -> Parsing[bool]:
    """Whether an offered name stands here, and directly behind it what only such a call has; nothing is read."""
    return bool((yield from cursor.ahead(cursor.maybe(_begins(cursor)))))


def _begins(cursor: Cursor) -> Parsing[bool]:
    name = yield from _name(cursor)
    if cursor.context.tools.resolve(name) is None:
        return False
    return (yield from begins_arguments(cursor))


def begins_arguments(cursor: Cursor) -> Parsing[bool]:
    """Whether a keyword in brackets, or a key without quotation marks in braces, stands here; nothing is read."""
    return bool((yield from cursor.ahead(cursor.maybe(_begins_arguments(cursor)))))


def _begins_arguments(cursor: Cursor) -> Parsing[bool]:
    notation = yield from _notation(cursor)
    yield from cursor.expect(notation.opener)
    yield from cursor.blanks()
    key = yield from _key(cursor)
    yield from cursor.blanks()
    # A comparison is no keyword.
    sign = yield from cursor.which((b"==", notation.sign))
    if not key:
        return False
    return sign == notation.sign


def _notation(cursor: Cursor) -> Parsing[_Notation]:
    return _PYTHON if (yield from cursor.byte()) == _PYTHON.opener else _BRACES


def bare_arguments(cursor: Cursor, name: str) -> Parsing[RawCall]:
    """Read the arguments of the call of this name, which stand here."""
    tool = cursor.tool(name)
    notation = yield from _notation(cursor)
    values: dict[str, Json] = {}
    yield from cursor.expect(notation.opener)
    while True:
        yield from cursor.blanks()
        if values and (yield from cursor.which((notation.closer,))):
            break
        key = yield from _any_key(cursor, notation)
        yield from cursor.blanks()
        yield from cursor.expect(notation.sign)
        yield from cursor.blanks()
        cursor.reject_if(key in values, f"the parameter {key!r} stands there twice")
        values[key] = yield from _value(cursor, notation)
        yield from cursor.blanks()
        end = yield from cursor.which((b",", notation.closer))
        if end is None:
            raise cursor.refuse("a comma or the end of the call was expected")
        if end == notation.closer:
            break
    if cursor.void:
        raise cursor.rejected()
    return RawCall(tool, name, dump(values if notation.loose else tool.coerce_strings(values)))


def _name(cursor: Cursor) -> Parsing[str]:
    return (yield from cursor.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")


def _key(cursor: Cursor) -> Parsing[str]:
    """Read a key or a keyword; empty, and nothing read, if none stands here."""
    if not _FIRST_OF_KEY.match((yield from cursor.byte())):
        return ""
    return (yield from cursor.until(_AFTER_KEY, MAX_KEY)).decode("utf-8", "replace")


def _any_key(cursor: Cursor, notation: _Notation) -> Parsing[str]:
    """Read a key, in quotation marks if the notation has such."""
    if notation.loose and (yield from cursor.byte()) in _STRING:
        return read_string((yield from cursor.string(MAX_KEY)))
    key = yield from _key(cursor)
    if not key:
        raise cursor.refuse("a key was expected")
    return key


def _value(cursor: Cursor, notation: _Notation) -> Parsing[Json]:
    """Read one literal."""
    here = yield from cursor.byte()
    if not notation.loose:
        triple = yield from cursor.peek(_TRIPLE)
        if triple:
            return (yield from _triple(cursor, triple))
    start = cursor.pos
    if here in _STRING:
        yield from cursor.string()
    elif here in (b"{", b"["):
        yield from _NESTED.skip(cursor)
    elif here == b"<" and notation.loose:
        yield from _marked(cursor)
    else:
        yield from cursor.until(notation.after_word, MAX_SCALAR)
    # Where a format has marks of its own, keys may stand without quotation marks.
    return _literal(cursor, cursor.text(start, cursor.pos), MARKS if notation.loose else ())


def _marked(cursor: Cursor) -> Parsing[None]:
    """Read a string in marks."""
    mark = yield from cursor.which(_MARKS)
    if mark is None:
        raise cursor.refuse("a string was expected")
    yield from cursor.find(mark)


_NESTED = Brackets(b"{}[]", {b"<": _marked})


def _triple(cursor: Cursor, quote: bytes) -> Parsing[Json]:
    """Read a string in three quotation marks on either side."""
    yield from cursor.expect(quote)
    start = cursor.pos
    while True:
        yield from cursor.until(_IN_TRIPLE[quote])
        end = cursor.pos
        if (yield from cursor.byte()) == b"\\":
            cursor.pos += 1
            if not (yield from cursor.byte()):
                raise cursor.refuse("the string was expected to end")
            cursor.pos += 1
        elif (yield from cursor.which((quote,))):
            break
        else:
            cursor.pos += 1
    # In one quotation mark on either side it is the same string, if that mark is escaped in it.
    mark = quote.decode()[0]
    inside = cursor.text(start, end)
    escaped = _INNER[mark].sub(lambda found: found.group().rjust(2, "\\"), inside)
    return _literal(cursor, f"{mark}{escaped}{mark}")


def _literal(cursor: Cursor, text: str, marks: tuple[str, ...] = ()) -> Json:
    if cursor.void:
        return None
    try:
        return read_literal(text, marks=marks, also=Also.PYTHON)
    except ValueError as error:
        raise NotACall(f"a value cannot be read: {error}") from None
