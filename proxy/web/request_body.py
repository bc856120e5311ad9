"""The client's request as it comes in: its body, read and checked by us, and what of its headers goes up.

Werkzeug truncates a chunked body silently at its limit and takes a short one for whole; so the body is read here.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from gunicorn.http.errors import ParseException

from proxy import __version__
from proxy.codec.json_text import Json, JsonObject, finite
from proxy.codec.masking import mask_of
from proxy.errors import BadRequest, BodyTooLarge, ProxyError, Unavailable
from proxy.limits import MAX_DEPTH

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# Strings are passed over whole; what is left is looked at. Only for bodies that are refused anyway.
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[{}\[\]]|NaN|-?Infinity', re.DOTALL)
_CONTAINERS = frozenset((dict, list))
# Where the environment of a request holds the key that goes up; without it that is the client's own.
BEARER = "proxy.bearer"
# The words in the name of a header, or of a field of a query, that holds a secret: x-goog-api-key, access_token.
_SECRET_NAMES = frozenset(("KEY", "APIKEY", "TOKEN", "SECRET", "AUTH", "AUTHORIZATION", "PASSWORD", "CREDENTIAL"))
_WORDS = re.compile("[A-Z]+")
_BETWEEN = re.compile('[ ,;="]+')
_LONG = 16
# More than a client has any use for.
_MAX_SECRETS = 16
_PASSED = ("HTTP_ACCEPT", "HTTP_ANTHROPIC_VERSION", "HTTP_ANTHROPIC_BETA")


class UnsupportedEncoding(BadRequest):
    """The body is compressed."""

    status = 415


class BodyTooSlow(BadRequest):
    """The body did not come in time."""

    status = 408
    kind = "timeout_error"


_UNREAD: Mapping[int, type[ProxyError]] = {408: BodyTooSlow, 503: Unavailable}


def read_body(environ: Mapping[str, Any], limit: int) -> bytes:
    """The whole body of a WSGI request.

    Raises BodyTooLarge over `limit` bytes, BadRequest if it is cut short, and what the worker has refused to read more
    of it for: BodyTooSlow, BadRequest, Unavailable.
    """
    encoding = environ.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedEncoding("the body is compressed (Content-Encoding); send it as it is")
    length = environ.get("CONTENT_LENGTH") or ""
    announced = int(length) if length.isascii() and length.isdigit() else None
    if announced is not None and announced > limit:
        raise _too_large(limit)
    if announced is None and environ.get("wsgi.input_terminated") is not True:
        return b""
    try:
        body: bytes = environ["wsgi.input"].read(limit + 1 if announced is None else announced)
    except (OSError, ParseException):
        if refused := getattr(environ.get("gunicorn.socket"), "refused", None):
            raise _UNREAD.get(refused.status, BadRequest)(refused.words) from None
        raise BadRequest("the body broke off while it was sent") from None
    if len(body) > limit:
        raise _too_large(limit)
    if announced is not None and len(body) != announced:
        raise BadRequest(f"the body has {len(body)} bytes, and Content-Length says {announced}")
    return body


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"the body is larger than {limit} bytes (max_body)")


def parse_body(raw: bytes, max_depth: int = MAX_DEPTH) -> JsonObject:
    """The JSON object that the body is. Raises BadRequest that says where it is none, or nested over `max_depth`."""
    try:
        body: Json = json.loads(raw, parse_constant=_refuse, parse_float=finite)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno} (character {error.pos})"
        raise BadRequest(f"the body is no JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is no UTF-8: byte {error.start} cannot be read") from None
    except RecursionError:
        raise _too_deep(raw, max_depth) from None
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}{_place_of_constant(raw)}") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object, at character 0")
    _check_depth(body, raw, max_depth)
    return body


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


def _place_of_constant(raw: bytes) -> str:
    for found in _TOKEN.finditer(raw):
        if found.group()[:1] in b"NI-":
            return f", at byte {found.start()}"
    return ""


def _too_deep(raw: bytes, limit: int) -> BadRequest:
    depth = 0
    for found in _TOKEN.finditer(raw):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(found.group(), 0)
        if depth > limit:
            return BadRequest(f"the body is nested more than {limit} levels deep (max_depth), at byte {found.start()}")
    return BadRequest(f"the body is nested more than {limit} levels deep (max_depth)")


def _check_depth(body: JsonObject, raw: bytes, limit: int) -> None:
    level: list[Json] = [body]
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ())
            if child.__class__ in _CONTAINERS
        ]
        if not level:
            return
    raise _too_deep(raw, limit)


def credential(environ: Mapping[str, Any]) -> str:
    """The client's API key, from `Authorization: Bearer` or `x-api-key`; empty if it sent none."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return str(token.strip())
    return str(environ.get("HTTP_X_API_KEY", "")).strip()


def secrets(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """All that a request brings, or goes up with, that is to be in no log and no error."""
    found = [str(environ.get(BEARER, "")), credential(environ)]
    for name, value in environ.items():
        if name.startswith("HTTP_") and not _SECRET_NAMES.isdisjoint(name.split("_")):
            found += _tokens(str(value).strip())
    for name, value in parse_qsl(str(environ.get("QUERY_STRING", ""))):
        if not _SECRET_NAMES.isdisjoint(_WORDS.findall(name.upper())):
            found.append(value)
    return tuple(dict.fromkeys(filter(None, found)))[:_MAX_SECRETS]


def _tokens(value: str) -> list[str]:
    """What follows the scheme, if there is one, and the long words of that: `Token token="KEY"`."""
    scheme, _, rest = value.partition(" ")
    token = rest.strip() or scheme
    return [token, *(word for word in _BETWEEN.split(token) if len(word) >= _LONG)]


def request_id(environ: Mapping[str, Any]) -> str:
    """The client's own request id if it is a plain word, and no key, else a new one."""
    given = str(environ.get("HTTP_X_REQUEST_ID", ""))
    if _REQUEST_ID.fullmatch(given) and mask_of(secrets(environ)).text(given) == given:
        return given
    return uuid.uuid4().hex


def upstream_headers(environ: Mapping[str, Any], content_type: str, id_: str) -> dict[str, str]:
    """The headers that go up: an allowlist; the credential always as `Bearer`, which is all that vLLM takes."""
    headers = {"User-Agent": f"vllm-tool-proxy/{__version__}", "X-Request-Id": id_}
    if content_type:
        headers["Content-Type"] = content_type
    for key, value in environ.items():
        if key in _PASSED or key.startswith("HTTP_OPENAI_"):
            headers[key[5:].replace("_", "-").title()] = str(value)
    key = environ.get(BEARER, credential(environ))
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers
