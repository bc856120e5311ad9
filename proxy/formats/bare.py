"""Calls that are an offered name and its arguments, and nothing else: `NAME(key="text", other=3)` and
`NAME{key: "text", other: 3}`. They count as the whole reply only, with at least one argument (contract C3).

Code and prose look like this too, so nothing is put right: keywords and keys only, each once, and between them
literals that end where Python's and JSON's do. What stands in a string is the string's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..events import Json
from ..limits import MAX_DEPTH
from ..literals import Also, dump, read_literal
from ..reader import MAX_KEY, MAX_SCALAR, NotACall, Parsing, RawCall, Reader
from .gemma import MARKS
from .values import read_string

_AFTER_NAME = re.compile(rb"[^A-Za-z0-9_.:\-\x80-\xff]")
_AFTER_KEY = re.compile(rb"[^A-Za-z0-9_\-\x80-\xff]")
_FIRST_OF_KEY = re.compile(rb"[A-Za-z_\x80-\xff]")
_STRING = (b'"', b"'")
_TRIPLE = (b'"""', b"'''")
_IN_TRIPLE = {quote: re.compile(b"[\\\\" + quote[:1] + b"]") for quote in _TRIPLE}
_INNER = {mark: re.compile(rf"\\.|{mark}", re.DOTALL) for mark in "\"'"}
_STOPS = re.compile(rb"[{}\[\]\"'<]")
_MARKS = tuple(mark.encode() for mark in MARKS)
_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}


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


def bare_call(reader: Reader) -> Parsing[tuple[RawCall, ...]]:
    """Read one call that stands here."""
    name = yield from _name(reader)
    return ((yield from bare_arguments(reader, name)),)


def begins_bare(reader: Reader) -> Parsing[bool]:
    """Whether an offered name stands here, and directly behind it what only such a call has; nothing is read."""
    return bool((yield from reader.ahead(reader.maybe(_begins(reader)))))


def _begins(reader: Reader) -> Parsing[bool]:
    name = yield from _name(reader)
    if reader.tools.resolve(name) is None:
        return False
    return (yield from begins_arguments(reader))


def begins_arguments(reader: Reader) -> Parsing[bool]:
    """Whether a keyword in brackets, or a key without quotation marks in braces, stands here; nothing is read."""
    return bool((yield from reader.ahead(reader.maybe(_begins_arguments(reader)))))


def _begins_arguments(reader: Reader) -> Parsing[bool]:
    notation = yield from _notation(reader)
    yield from reader.expect(notation.opener)
    yield from reader.blanks()
    key = yield from _key(reader)
    yield from reader.blanks()
    # A comparison is no keyword.
    sign = yield from reader.which((b"==", notation.sign))
    return bool(key) and sign == notation.sign


def _notation(reader: Reader) -> Parsing[_Notation]:
    return _PYTHON if (yield from reader.byte()) == _PYTHON.opener else _BRACES


def bare_arguments(reader: Reader, name: str) -> Parsing[RawCall]:
    """Read the arguments of the call of this name, which stand here."""
    tool = reader.tool(name)
    notation = yield from _notation(reader)
    values: dict[str, Json] = {}
    yield from reader.expect(notation.opener)
    while True:
        yield from reader.blanks()
        if values and (yield from reader.which((notation.closer,))):
            break
        key = yield from _any_key(reader, notation)
        yield from reader.blanks()
        yield from reader.expect(notation.sign)
        yield from reader.blanks()
        reader.annul(key in values, f"the parameter {key!r} stands there twice")
        values[key] = yield from _value(reader, notation)
        yield from reader.blanks()
        end = yield from reader.which((b",", notation.closer))
        if end is None:
            raise reader.refuse("a comma or the end of the call was expected")
        if end == notation.closer:
            break
    if reader.void:
        raise NotACall(reader.why)
    return RawCall(tool, name, dump(values if notation.loose else tool.fit(values)))


def _name(reader: Reader) -> Parsing[str]:
    return (yield from reader.until(_AFTER_NAME, MAX_KEY)).decode("utf-8", "replace")


def _key(reader: Reader) -> Parsing[str]:
    """Read a key or a keyword; empty, and nothing read, if none stands here."""
    if not _FIRST_OF_KEY.match((yield from reader.byte())):
        return ""
    return (yield from reader.until(_AFTER_KEY, MAX_KEY)).decode("utf-8", "replace")


def _any_key(reader: Reader, notation: _Notation) -> Parsing[str]:
    """Read a key, in quotation marks if the notation has such."""
    if notation.loose and (yield from reader.byte()) in _STRING:
        return read_string((yield from reader.string(MAX_KEY)))
    key = yield from _key(reader)
    if not key:
        raise reader.refuse("a key was expected")
    return key


def _value(reader: Reader, notation: _Notation) -> Parsing[Json]:
    """Read one literal."""
    here = yield from reader.byte()
    if not notation.loose:
        triple = yield from reader.peek(_TRIPLE)
        if triple:
            return (yield from _triple(reader, triple))
    start = reader.pos
    if here in _STRING:
        yield from reader.string()
    elif here in (b"{", b"["):
        yield from _nested(reader)
    elif here == b"<" and notation.loose:
        yield from _marked(reader)
    else:
        yield from reader.until(notation.after_word, MAX_SCALAR)
    # Where a format has marks of its own, keys may stand without quotation marks.
    return _literal(reader, reader.text(start, reader.pos), MARKS if notation.loose else ())


def _marked(reader: Reader) -> Parsing[None]:
    """Read a string in marks."""
    mark = yield from reader.which(_MARKS)
    if mark is None:
        raise reader.refuse("a string was expected")
    yield from reader.find(mark)


def _nested(reader: Reader) -> Parsing[None]:
    """Read an array or an object, as far as its brackets and the marks of its strings tell where it ends."""
    depth = 0
    while True:
        yield from reader.until(_STOPS)
        here = yield from reader.byte()
        if here in _STRING:
            yield from reader.string()
            continue
        if here == b"<":
            yield from _marked(reader)
            continue
        depth += _LEVELS[here]
        reader.pos += 1
        if depth > MAX_DEPTH:
            raise NotACall("nested too deep")
        if depth <= 0:
            return


def _triple(reader: Reader, quote: bytes) -> Parsing[Json]:
    """Read a string in three quotation marks on either side."""
    yield from reader.expect(quote)
    start = reader.pos
    while True:
        yield from reader.until(_IN_TRIPLE[quote])
        end = reader.pos
        if (yield from reader.byte()) == b"\\":
            reader.pos += 1
            if not (yield from reader.byte()):
                raise reader.refuse("the string was expected to end")
            reader.pos += 1
        elif (yield from reader.which((quote,))):
            break
        else:
            reader.pos += 1
    # In one quotation mark on either side it is the same string, if that mark is escaped in it.
    mark = quote.decode()[0]
    inside = reader.text(start, end)
    escaped = _INNER[mark].sub(lambda found: found.group().rjust(2, "\\"), inside)
    return _literal(reader, f"{mark}{escaped}{mark}")


def _literal(reader: Reader, text: str, marks: tuple[str, ...] = ()) -> Json:
    if reader.void:
        return None
    try:
        return read_literal(text, marks=marks, also=Also.PYTHON)
    except ValueError as error:
        raise NotACall(f"a value cannot be read: {error}") from None
