"""The body of a client's request, read and checked by us.

Werkzeug truncates a chunked body silently at its limit and takes a short one for whole; so the body is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from gunicorn.http.errors import ParseException

from proxy.codec.json_text import JsonObject, finite, is_deep, load_json
from proxy.errors import BadRequest, BodyTooLarge, Unavailable
from proxy.limits import MAX_DEPTH

# Strings are skipped whole, also one that never ends. Only for bodies that are refused anyway.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}\[\]]|NaN|-?Infinity', re.DOTALL)
_LENGTH = re.compile("[0-9]+")
# The codings of a body that is not compressed.
_PLAIN = frozenset(("", "identity"))


class UnsupportedEncoding(BadRequest):
    """The body is compressed."""

    status = 415


class BodyTooSlow(BadRequest):
    """The body did not come in time."""

    status = 408
    kind = "timeout_error"


def read_body(environ: Mapping[str, Any], limit: int) -> bytes:
    """The whole body of a WSGI request.

    Raises BodyTooLarge over `limit` bytes, BadRequest if it is incomplete, BodyTooSlow, and Unavailable if the worker
    ends.
    """
    if environ.get("HTTP_CONTENT_ENCODING", "").strip().lower() not in _PLAIN:
        raise UnsupportedEncoding("the body is compressed (Content-Encoding); send it as it is")
    if environ.get("HTTP_TRANSFER_ENCODING", "chunked").strip().lower() != "chunked":
        raise BadRequest("the transfer coding must be chunked (Transfer-Encoding)")
    announced = _announced_length(environ)
    if announced is None:
        chunked = environ.get("wsgi.input_terminated") is True
        # One byte more than may come tells that there is more.
        body = _read_input(environ, limit + 1) if chunked else b""
        if len(body) > limit:
            raise _too_large(limit)
        return body
    if announced > limit:
        raise _too_large(limit)
    body = _read_input(environ, announced)
    if len(body) != announced:
        raise BadRequest(f"the body has {len(body)} bytes, and Content-Length says {announced}")
    return body


def _announced_length(environ: Mapping[str, Any]) -> int | None:
    """The body's length by its Content-Length, None without one."""
    length = environ.get("CONTENT_LENGTH", "")
    return int(length) if _LENGTH.fullmatch(length) else None


def _read_input(environ: Mapping[str, Any], size: int) -> bytes:
    """Return at most `size` bytes of the body. Raises BodyTooSlow, Unavailable or BadRequest."""
    try:
        body: bytes = environ["wsgi.input"].read(size)
    except TimeoutError as error:
        raise BodyTooSlow(str(error)) from None
    except InterruptedError as error:
        raise Unavailable(str(error)) from None
    except (OSError, ParseException):
        raise BadRequest("the request body was incomplete") from None
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes (max_body)")


def parse_body(raw: bytes) -> JsonObject:
    """The JSON object that the body is. Raises BadRequest that says where it is none, or nested over MAX_DEPTH."""
    try:
        body = load_json(raw)
    except ValueError:
        raise _not_json(raw) from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object, at character 0")
    # Where fewer begin than may stand in each other nothing is to be counted.
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and is_deep(body, MAX_DEPTH):
        raise _too_deep(raw)
    return body


def _not_json(raw: bytes) -> BadRequest:
    """Where a body that is no JSON breaks off, in the words of Python's own reader."""
    try:
        _DECODER.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    except json.JSONDecodeError as error:
        position = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        return BadRequest(f"the body is no JSON: {error.msg} at {position}")
    except UnicodeDecodeError as error:
        return BadRequest(f"the body is no UTF-8: byte {error.start} cannot be read")
    except RecursionError:
        return _too_deep(raw)
    except ValueError as error:
        return BadRequest(f"the body is no JSON: {error}{_place_of_constant(raw)}")
    return BadRequest("the body is no JSON")


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


# What `json.loads` would make anew for each body.
_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=finite)


def _place_of_constant(raw: bytes) -> str:
    for token in _TOKEN.finditer(raw):
        if token.group()[:1] in b"NI-":
            return f", at byte {token.start()}"
    return ""


def _too_deep(raw: bytes) -> BadRequest:
    words = f"the body is nested more than {MAX_DEPTH} levels deep (max_depth)"
    depth = 0
    for token in _TOKEN.finditer(raw):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token.group(), 0)
        if depth > MAX_DEPTH:
            return BadRequest(f"{words}, at byte {token.start()}")
    return BadRequest(words)
