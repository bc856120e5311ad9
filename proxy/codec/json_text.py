"""JSON text: readers and writers, and which one to use.

| function | lone surrogates | huge numbers | duplicate keys | depth | used for |
| --- | --- | --- | --- | --- | --- |
| `load_json` | accepted | integers exact | the last counts | ValueError where the stack ends | requests, captures |
| `load_upstream` | accepted | integers exact, or null | the last counts | the same | answers of model servers |
| `load_chunk` | accepted | floats beyond 64 bits, or null | the last counts | the same | events of a stream |
| `load_prefix` | accepted | integers exact | the last counts | the same | objects that follow each other |
| `read_json` | accepted | as written | refused, or `pairs` decides | MAX_DEPTH | a call's arguments |
| `dump_json` | escaped | exact | | as deep as Python writes | chunks and answers of chat |
| `dump_strict` | as U+FFFD | exact | | the same | what every client must be able to read: Messages |
| `dump_request` | escaped | exact | | the same | a request body sent upstream, ASCII only |
| `dump` | escaped | as written | | ValueError where the stack ends | a call's arguments |
| `dump_inner` | unchanged | exact | | the same | text within a request body |
| `canonical` | escaped | exact | the last counts | the text itself | comparing a call's arguments |

"As written": fractions and integers of 4,000 digits and more are `VerbatimNumber`s, so that 1.10 and 1e999 keep their
digits.

`load_upstream` and `load_chunk` read what lenient clients read: raw control characters in strings, a byte order mark,
invalid UTF-8 as U+FFFD, and as null NaN, infinities and numbers that not every client can read (1e999, an integer of
5,000 digits). They also return whether the data was strict; if it was not, it is written again before a client gets it.
The other readers accept no NaN or Infinity, except `load_prefix` and `canonical`, whose values are not sent. Text that
is not quite JSON is read by `notations.literals`. JSON files of people, which may hold comments, are
read and edited in place by `cli/merging.py`.

Python's own `json` stays where its errors count (`web/admission.py` reports where a body breaks off), its pairs
(`web/access.py`), in lines for people (the log, `check`, the entry of a model), in indented files
for people (`cli`, which also writes the strings of TOML so; the record of `setup`, the report of `doctor`), and in
the pump of `server`, which imports nothing of the package.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import chain
from typing import NoReturn, TypeAlias, cast

import orjson

from proxy.limits import MAX_DEPTH

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

# Python reads no integer of more than 4,300 digits.
_MAX_DIGITS = 4_000
_DECODER = json.JSONDecoder()
# orjson reads integers beyond 64 bits as floats: where a text holds none of 19 digits, it reads what Python's own does.
_DIGITS_AS_ZEROS = bytes(ord("0") if byte in b"0123456789" else byte for byte in range(256))
_LONG_NUMBER = b"0" * 19
_ZEROS = re.compile(b"0+")
# What may stand before an integer, but for its sign. So many long rows of digits are looked at; a text with more is
# read by Python's own reader, whatever they are.
_BEFORE_INTEGER = b" \t\r\n:,["
_MAX_LONG = 8
_CONTAINERS: frozenset[type] = frozenset((dict, list))


class VerbatimNumber(float):
    """A number that remembers how it was written: 1.10 as a text is not 1.1, and 1e999 is no infinity."""

    __slots__ = ("text",)
    text: str


def load_json(data: bytes | str) -> Json:
    """Parse strict JSON (RFC 8259) exactly; raise ValueError if it is none.

    Huge integers stay what they are, and escaped lone surrogates, which models do write, are taken. NaN and numbers
    beyond a float are none.
    """
    if isinstance(data, bytes) and not _has_long_integer(data):
        try:
            fast: Json = orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # what it refuses may be JSON all the same
        else:
            return fast
    try:
        text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
        value: Json = _STRICT.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _has_long_integer(data: bytes) -> bool:
    """True if a text may hold an integer of 19 digits. Most that look so are ids: `"id":"call-0012345678901234567"`."""
    zeros = data.translate(_DIGITS_AS_ZEROS)
    at = zeros.find(_LONG_NUMBER)
    for _ in range(_MAX_LONG):
        if at < 0:
            return False
        before = data[at - 2 : at - 1] if data[at - 1 : at] == b"-" else data[at - 1 : at]
        if before in _BEFORE_INTEGER:  # also at the very beginning, where there is nothing
            return True
        digits = _ZEROS.match(zeros, at)
        assert digits is not None, "it stands there"
        at = zeros.find(_LONG_NUMBER, digits.end())
    return at >= 0


def load_chunk(data: bytes) -> tuple[Json, bool]:
    """Parse an event of a stream as `load_upstream` does, but faster: integers beyond 64 bits become floats."""
    try:
        return orjson.loads(data), True
    except orjson.JSONDecodeError:
        return load_upstream(data)


def load_upstream(data: bytes) -> tuple[Json, bool]:
    """Parse JSON of a model server as leniently as its clients do.

    Return the value and whether strict clients can read the data, too. Raise ValueError if not even lenient ones can.
    """
    if not _has_long_integer(data):
        try:
            return orjson.loads(data), True
        except orjson.JSONDecodeError:
            pass
    encoding = json.detect_encoding(data)
    is_strict = encoding == "utf-8"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        # A client of a stream reads U+FFFD here (HTML standard, 9.2.6).
        text, is_strict = data.decode(encoding, "replace"), False
    try:
        try:
            return _STRICT.decode(text), is_strict
        except ValueError:
            return _LENIENT.decode(text), False
    except RecursionError:
        raise ValueError("nested too deeply") from None


def load_prefix(text: str, at: int) -> tuple[Json, int]:
    """The value that a text holds from a place on, whatever is behind it, and where that ends; ValueError if none."""
    value: Json
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value, end


def _refuse_duplicates(pairs: list[tuple[str, Json]]) -> JsonObject:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key is there twice")
    return members


def read_json(text: str | bytes, pairs: Callable[[list[tuple[str, Json]]], JsonObject] = _refuse_duplicates) -> Json:
    """The value of a strict JSON text, with its numbers as they were written; ValueError for everything else.

    `pairs` makes an object of its keys and values; as a rule a key that is there twice is refused.
    """
    try:
        value: Json = json.loads(
            text, object_pairs_hook=pairs, parse_constant=refuse, parse_float=verbatim, parse_int=integer
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if is_deep(value):
        raise ValueError("nested too deeply")  # it could not be written again
    return value


def verbatim(text: str) -> float:
    """The number that is written as it was read."""
    number = VerbatimNumber(text)
    number.text = text
    return number


def integer(text: str) -> int | float:
    """The integer; one with more digits than Python reads is written as it was read."""
    if len(text) < _MAX_DIGITS:
        return int(text)
    return verbatim(text)


def is_deep(value: Json, levels: int = MAX_DEPTH) -> bool:
    """True if lists and objects stand in each other over more than so many levels: `[[1]]` and `[{}]` have two."""
    level: list[JsonObject | list[Json]] = []
    if isinstance(value, dict | list):
        level.append(value)
    for _ in range(levels):
        inside = [item.values() if isinstance(item, dict) else item for item in level]
        children = [child for child in chain.from_iterable(inside) if child.__class__ in _CONTAINERS]
        level = cast("list[JsonObject | list[Json]]", children)
        if not level:
            return False
    return True


def _children(value: Json) -> Iterable[Json]:
    """The values of an object or the items of a list; none of anything else."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list):
        return value
    return ()


def dump(value: Json) -> str:
    """The JSON text of a value, numbers as they were written; escaped where a string holds a lone surrogate, so that it
    can be sent at all. ValueError if it is nested too deeply.
    """
    try:
        text = _written(value, ascii_only=False)
        text.encode()
    except UnicodeEncodeError:
        return _written(value, ascii_only=True)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return text


def _written(value: Json, *, ascii_only: bool) -> str:
    if not _has_verbatim(value):
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)
    if isinstance(value, dict):
        keys = (json.dumps(key, ensure_ascii=ascii_only) for key in value)
        texts = (_written(inner, ascii_only=ascii_only) for inner in value.values())
        return f"{{{', '.join(map('{}: {}'.format, keys, texts))}}}"
    if isinstance(value, list):
        return f"[{', '.join(_written(item, ascii_only=ascii_only) for item in value)}]"
    assert isinstance(value, VerbatimNumber)
    return value.text


def _has_verbatim(value: Json) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, VerbatimNumber):
            return True
        waiting += _children(each)
    return False


def dump_inner(value: Json) -> str:
    """The compact JSON text that stands in a string of a request's body, all of which `dump_request` escapes.
    ValueError if it is nested too deeply.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def canonical(arguments: str) -> str:
    """The same text for the same arguments, however they are written; the text itself if it is no JSON."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def dump_json(value: object) -> bytes:
    """Write compact JSON, UTF-8 as it is; what orjson cannot (lone surrogates, huge integers), escaped."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def dump_strict(value: object) -> bytes:
    """The same for what every client must be able to read: a lone surrogate, which is no character, as U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def refuse(word: str) -> NoReturn:
    """ValueError for NaN and Infinity, which no client can read."""
    raise ValueError(f"{word} is not JSON")


def finite(text: str) -> float:
    """The number that a JSON text says; ValueError if it is beyond a float, which would be written as no JSON."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:32]} is beyond a number's range")
    return number


def _null(word: str) -> None:
    """Read NaN and infinities as null: JSON has no word for them."""


def _float_or_null(text: str) -> float | None:
    number = float(text)
    return None if math.isinf(number) else number


def _integer_or_null(text: str) -> int | None:
    return int(text) if len(text) < _MAX_DIGITS else None


# What `json.loads` would build again for each text.
_STRICT = json.JSONDecoder(parse_constant=refuse, parse_float=finite)
_LENIENT = json.JSONDecoder(parse_constant=_null, parse_float=_float_or_null, parse_int=_integer_or_null, strict=False)


def dump_request(body: JsonObject) -> bytes:
    """A request body, ASCII only: huge integers and lone surrogates go up as they came down."""
    return json.dumps(body, separators=(",", ":")).encode("ascii")
