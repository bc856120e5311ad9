"""JSON text: which function reads or writes what."""

from __future__ import annotations

import json
import math
from typing import NoReturn, TypeAlias

import orjson

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


def load_json(data: bytes | str) -> Json:
    """Parse strict JSON (RFC 8259) exactly; raise ValueError if it is none.

    Huge integers stay what they are, and escaped lone surrogates, which models do write, are taken. NaN and numbers
    beyond a float are none.
    """
    try:
        value: Json = json.loads(data, parse_constant=_refuse, parse_float=finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def load_chunk(data: bytes) -> Json:
    """Parse an event of a stream, fast; what orjson refuses, exactly. Raises ValueError if it is no JSON.

    What is no UTF-8 is read as a client of the stream would (HTML standard, 9.2.6): with U+FFFD.
    """
    try:
        value: Json = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = load_json(data)
        except UnicodeDecodeError:
            value = load_json(data.decode("utf-8", "replace"))
    return value


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


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def finite(text: str) -> float:
    """The number that a JSON text says; ValueError if it is beyond a float, which would be written as no JSON."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:32]} is beyond a number's range")
    return number


def dump_request(body: JsonObject) -> bytes:
    """A request body, ASCII only: huge integers and lone surrogates go up as they came down."""
    return json.dumps(body, separators=(",", ":")).encode("ascii")
