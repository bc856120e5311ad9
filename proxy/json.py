"""JSON readers and writers.

| function | lone surrogates | huge numbers | duplicate keys | depth | used for |
| --- | --- | --- | --- | --- | --- |
| `load_json` | accepted | integers exact | the last counts | ValueError at the recursion limit | requests, captures |
| `load_upstream` | accepted | integers exact, or null | the last counts | the same | answers of model servers |
| `load_chunk` | accepted | floats beyond 64 bits, or null | the last counts | the same | events of a stream |
| `load_prefix` | accepted | integers exact | the last counts | the same | objects in a row |
| `read_json` | accepted | as written | rejected, or `pairs` decides | MAX_DEPTH | a call's arguments |
| `dump_json` | escaped | exact | | RecursionError | chunks and answers of chat |
| `dump_strict` | as U+FFFD | exact | | RecursionError | Messages, whose clients parse strictly |
| `dump_request` | escaped | exact | | RecursionError | request bodies sent upstream, ASCII only |
| `dump` | escaped | as written | | ValueError at the recursion limit | a call's arguments |
| `dump_inner` | unchanged | exact | | the same | JSON in a string of a request body |
| `canonical` | escaped | exact | the last counts | text unchanged | comparing a call's arguments |

"As written": fractions and integers of 4,000 digits and more are `VerbatimNumber`s, so that 1.10 and 1e999 keep their
digits.

`load_upstream` and `load_chunk` accept what lenient clients accept: raw control characters in strings, a byte order
mark, and invalid UTF-8 (as U+FFFD). NaN, infinities, and numbers that not every client can read (1e999, an integer of
5,000 digits) become null. Both also return whether the data was strict JSON; other data is rewritten before it is sent
to a client. The other readers reject NaN and Infinity, except `load_prefix` and `canonical`, whose values are not sent.

`notations.literals` reads text that is almost JSON. `cli/merging.py` edits users' JSON files, which may have comments.

Other modules use Python's `json` directly: `web/admission.py` for its pairs,
the log and the commands for people to read, and the pump of `server`, which imports nothing from the package.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeAlias

import orjson

from proxy.limits import MAX_DEPTH

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

# Python rejects integers of more than 4,300 digits.
_MAX_DIGITS = 4_000
_DECODER = json.JSONDecoder()
# orjson reads integers beyond 64 bits as floats. Without integers of 19 digits or more, it returns what `json` returns.
_DIGITS_AS_ZEROS = bytes(ord("0") if byte in b"0123456789" else byte for byte in range(256))
_LONG_NUMBER = b"0" * 19
# 19 digits, read as zeros, that can begin an integer: after a blank, a comma, a colon or a bracket, and a sign if any.
_LONG_INTEGER = re.compile(rb"[ \t\r\n:,\[]-?0{19}")
# `isinstance` is slower with `dict | list`, which builds a type in each call.
_CONTAINERS = (dict, list)


class VerbatimNumber(float):
    """A number that keeps its spelling, so that 1.10 is not written as 1.1, nor 1e999 as Infinity."""

    __slots__ = ("text",)
    text: str


@contextmanager
def _depth_limited() -> Iterator[None]:
    """Raise ValueError instead of RecursionError."""
    try:
        yield
    except RecursionError:
        raise ValueError("nested too deeply") from None


@_depth_limited()
def load_json(data: bytes | str) -> Json:
    """Parse strict JSON (RFC 8259). Raises ValueError for anything else, for NaN, and for numbers beyond a float.

    Huge integers are exact. Escaped lone surrogates, which models do write, are accepted.
    """
    if isinstance(data, bytes) and not _has_long_integer(data):
        try:
            fast: Json = orjson.loads(data)
        except orjson.JSONDecodeError:
            pass  # orjson rejects some valid JSON
        else:
            return fast
    text = data if isinstance(data, str) else data.decode(json.detect_encoding(data), "surrogatepass")
    value: Json = _STRICT.decode(text)
    return value


def _has_long_integer(data: bytes) -> bool:
    """Return whether a text may have an integer of 19 digits, and not just an id: `"id":"call-0012345678901234567"`."""
    zeros = data.translate(_DIGITS_AS_ZEROS)
    # The fast search suffices for nearly every text. A blank may precede any text.
    return _LONG_NUMBER in zeros and _LONG_INTEGER.search(b" " + zeros) is not None


def load_chunk(data: bytes) -> tuple[Json, bool]:
    """Parse an event of a stream as `load_upstream` does, but faster: integers beyond 64 bits become floats."""
    try:
        return orjson.loads(data), True
    except orjson.JSONDecodeError:
        return load_upstream(data)


@_depth_limited()
def load_upstream(data: bytes) -> tuple[Json, bool]:
    """Parse a model server's JSON as leniently as clients do.

    Return the value, and whether strict clients can read the data too. Raises ValueError if even lenient ones cannot.
    """
    encoding = json.detect_encoding(data)
    if encoding == "utf-8":
        with suppress(ValueError):
            data.decode()  # `load_json` accepts surrogates here
            return load_json(data), True
    # Clients of a stream decode with U+FFFD too (HTML standard, 9.2.6).
    return _LENIENT.decode(data.decode(encoding, "replace")), False


@_depth_limited()
def load_prefix(text: str, at: int) -> tuple[Json, int]:
    """Return the JSON value that starts at `at`, and its end; text after it is ignored. Raises ValueError."""
    return _DECODER.raw_decode(text, at)


def unique(pairs: list[tuple[str, Json]]) -> JsonObject:
    """Return an object with these members. Raises ValueError if a key occurs twice."""
    members = dict(pairs)
    if len(members) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {name!r} occurs twice")
    return members


@_depth_limited()
def read_json(text: str | bytes, pairs: Callable[[list[tuple[str, Json]]], JsonObject] = unique) -> Json:
    """Parse strict JSON and keep the spelling of its numbers. Raises ValueError for anything else.

    `pairs` makes an object of its keys and values; the default rejects duplicate keys.
    """
    value: Json = json.loads(
        text, object_pairs_hook=pairs, parse_constant=refuse, parse_float=verbatim, parse_int=integer
    )
    if is_deep(value):
        raise ValueError("nested too deeply")  # it could not be serialized
    return value


def verbatim(text: str) -> float:
    """Return the number as a `VerbatimNumber`, which keeps its spelling."""
    number = VerbatimNumber(text)
    number.text = text
    return number


def integer(text: str) -> int | float:
    """Return the integer, or a `VerbatimNumber` if Python cannot parse that many digits."""
    if len(text) < _MAX_DIGITS:
        return int(text)
    return verbatim(text)


def is_deep(value: Json) -> bool:
    """Return whether lists and objects are nested more than MAX_DEPTH deep; `[[1]]` and `[{}]` have two levels."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [item for item in level if isinstance(item, _CONTAINERS)]
        if not containers:
            return False
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return True


@_depth_limited()
def dump(value: Json) -> str:
    """Return the JSON of a value; numbers keep their spelling. Raises ValueError if it is nested too deeply.

    The text is ASCII if a string holds a lone surrogate, which UTF-8 cannot encode.
    """
    write = _written if _has_verbatim(value) else _dumped
    try:
        text = write(value, ascii_only=False)
        text.encode()
    except UnicodeEncodeError:
        return write(value, ascii_only=True)
    return text


def _dumped(value: Json, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False)


def _written(value: Json, *, ascii_only: bool) -> str:
    """Return the JSON of a value that contains a VerbatimNumber."""
    if isinstance(value, dict):
        keys = (json.dumps(key, ensure_ascii=ascii_only) for key in value)
        texts = (_written(inner, ascii_only=ascii_only) for inner in value.values())
        return f"{{{', '.join(map('{}: {}'.format, keys, texts))}}}"
    if isinstance(value, list):
        return f"[{', '.join(_written(item, ascii_only=ascii_only) for item in value)}]"
    return value.text if isinstance(value, VerbatimNumber) else _dumped(value, ascii_only=ascii_only)


def _has_verbatim(value: Json) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, VerbatimNumber):
            return True
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    return False


@_depth_limited()
def dump_inner(value: Json) -> str:
    """Return compact JSON to put into a string of a request body. `dump_request` escapes it with the body.

    Raises ValueError if the value is nested too deeply.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def canonical(arguments: str) -> str:
    """Return the same text for equal arguments, however they are spelled. Text that is not JSON is unchanged."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments


def dump_json(value: object) -> bytes:
    """Return compact JSON in UTF-8, or in ASCII if orjson cannot write it (lone surrogates, huge integers)."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def dump_strict(value: object) -> bytes:
    """Return compact JSON in UTF-8 with lone surrogates as U+FFFD, because strict clients reject their escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def refuse(word: str) -> NoReturn:
    """Raise ValueError for NaN or Infinity."""
    raise ValueError(f"{word} is not a JSON value")


def finite(text: str) -> float:
    """Return the number. Raises ValueError if it overflows a float: JSON cannot express infinity."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:32]} is beyond a number's range")
    return number


def _float_or_null(text: str) -> float | None:
    number = float(text)
    return None if math.isinf(number) else number


def _integer_or_null(text: str) -> int | None:
    return int(text) if len(text) < _MAX_DIGITS else None


# Built once: `json.loads` with these arguments builds a decoder per call.
_STRICT = json.JSONDecoder(parse_constant=refuse, parse_float=finite)
# NaN and infinities become null.
_LENIENT = json.JSONDecoder(
    parse_constant=lambda word: None, parse_float=_float_or_null, parse_int=_integer_or_null, strict=False
)


def dump_request(body: JsonObject) -> bytes:
    """Return a request body as ASCII; huge integers and lone surrogates are sent upstream unchanged."""
    return json.dumps(body, separators=(",", ":")).encode("ascii")



def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty list."""
    if isinstance(value, list):
        return value
    return []


def as_object(value: Json) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    if isinstance(value, dict):
        return value
    return {}


def without(entry: JsonObject, *names: str) -> JsonObject:
    """Return an object without these keys."""
    return {key: value for key, value in entry.items() if key not in names}


def as_text(value: Json) -> str:
    """Return the value if it is a string, else ""."""
    if isinstance(value, str):
        return value
    return ""


def object_in(data: bytes) -> JsonObject:
    """Parse a model server's JSON like `load_upstream`. Return its object, or {} for any other or invalid data."""
    try:
        return as_object(load_upstream(data)[0])
    except ValueError:
        return {}


def objects_in(value: Json) -> list[JsonObject]:
    """Return the objects in a list; [] for any other value. `[{"a": 1}, 2]` -> `[{"a": 1}]`."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def may_hold_text(value: Json) -> bool:
    """Return whether a value may hold text: whether it is a string, list or object that is not empty."""
    return isinstance(value, str | list | dict) and bool(value)


def is_object_text(text: str) -> bool:
    """Return whether a text is a JSON object. Numbers of any size are valid, such as 1e999."""
    try:
        return isinstance(read_json(text, dict), dict)
    except ValueError:
        return False
