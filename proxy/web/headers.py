"""The headers of a client's request: those that go up, and what in them nobody else may read; and those of our answers.

The names of what goes up, and of an answer's headers that go down, are in the tables of `proxy/upstream/headers.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.datastructures import Headers

from proxy import __version__
from proxy.codec.secrets import masked_text
from proxy.upstream.headers import REQUEST, REQUEST_PREFIX, SECRET_WORDS
from proxy.web.fresh_ids import fresh_id

JSON_TYPE = "application/json"
STREAM_TYPE = "text/event-stream; charset=utf-8"
# Of each stream: what stands between keeps nothing of it back.
STREAM_HEADERS = (("Content-Type", STREAM_TYPE), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WORDS = re.compile("[A-Z]+")
_BETWEEN = re.compile('[ ,;="]+')
_LONG = 16
# More than a client has any use for.
_MAX_SECRETS = 16
# What the same request will be told again: the SDKs read it from a header.
_PERMANENT = frozenset((400, 401, 403, 404, 405, 413, 415, 422, 508))


def upstream_headers(
    environ: Mapping[str, Any],
    content_type: str,
    request_id: str,
    upstream_key: str,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The headers that go up: an allowlist, then the proxy's `own`, of which no client can say anything.

    The key always goes as `Bearer`, which is all that vLLM takes.
    """
    headers = {"User-Agent": f"vllm-tool-proxy/{__version__}", "X-Request-Id": request_id}
    if content_type:
        headers["Content-Type"] = content_type
    ours = {} if own is None else own
    reserved = {name.lower() for name in ours}
    for key, value in environ.items():
        # Asked for each name in the environment: a slice takes no call.
        goes_up = key in REQUEST
        if key[: len(REQUEST_PREFIX)] == REQUEST_PREFIX:
            goes_up = True
        if not goes_up:
            continue
        name = _field_name(key)
        if name.lower() not in reserved:
            headers[name] = str(value)
    if upstream_key:
        headers["Authorization"] = f"Bearer {upstream_key}"
    headers.update({name: value for name, value in ours.items() if value})
    return headers


@lru_cache(maxsize=256)
def _field_name(key: str) -> str:
    """`X-Forwarded-For` of `HTTP_X_FORWARDED_FOR`."""
    return key.removeprefix("HTTP_").replace("_", "-").title()


def credential(environ: Mapping[str, Any]) -> str:
    """The client's API key, from `Authorization: Bearer` or `x-api-key`; empty if it sent none."""
    scheme, _, rest = str(environ.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    token = rest.strip()
    if token and scheme.lower() == "bearer":
        return token
    return str(environ.get("HTTP_X_API_KEY", "")).strip()


def key_bytes(environ: Mapping[str, Any]) -> bytes:
    """The client's key as the bytes that it sent: WSGI shows each of them as a character."""
    return credential(environ).encode("latin-1", "replace")


def owner_digest(environ: Mapping[str, Any]) -> bytes:
    """The digest of who asks, where the proxy knows no keys: of the key, whichever header brings it, as the file of
    client keys has it; of an Authorization that is no key (`Basic …`) all of it.
    """
    key = key_bytes(environ) or str(environ.get("HTTP_AUTHORIZATION", "")).encode("latin-1", "replace")
    return sha256(key).digest()


def secrets(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """All that a request brings that is to be in no log and no error."""
    values = [credential(environ)]
    for name in [name for name in environ if name[:5] == "HTTP_"]:
        if not SECRET_WORDS.isdisjoint(name.split("_")):
            values += _tokens(str(environ[name]).strip())
    query = str(environ.get("QUERY_STRING", ""))
    if query:
        values += [value for name, value in parse_qsl(query) if _names_secret(name)]
    return tuple(dict.fromkeys(filter(None, values)))[:_MAX_SECRETS]


def with_secret(known: tuple[str, ...], secret: str) -> tuple[str, ...]:
    """The secrets of a request, and one that it goes up with; the very same if that is none, or one of them."""
    if not secret or secret in known:
        return known
    return (secret, *known)[:_MAX_SECRETS]


def _names_secret(name: str) -> bool:
    """True for a field of a query whose name says that it holds a secret."""
    return not SECRET_WORDS.isdisjoint(_WORDS.findall(name.upper()))


def _tokens(value: str) -> list[str]:
    """The text behind the scheme, if there is one, and its long words: `Token token="KEY"`."""
    scheme, _, rest = value.partition(" ")
    token = rest.strip() or scheme
    return [token, *(word for word in _BETWEEN.split(token) if len(word) >= _LONG)]


def request_id(environ: Mapping[str, Any], request_secrets: tuple[str, ...]) -> str:
    """The client's own request id if it is a plain word, and none of its secrets, else a new one."""
    client_id = str(environ.get("HTTP_X_REQUEST_ID", ""))
    if not _REQUEST_ID.fullmatch(client_id):
        return fresh_id(16)
    holds_key = masked_text(client_id, request_secrets) != client_id
    return fresh_id(16) if holds_key else client_id


def error_headers(status: int, retry_after: str | None) -> Iterator[tuple[str, str]]:
    """The headers that tell a client whether, and when, to ask again."""
    if retry_after is not None:
        yield "Retry-After", retry_after
    if status in _PERMANENT:
        yield "X-Should-Retry", "false"


def add_id(headers: Headers, id_: str, *, in_messages: bool) -> None:
    """The id of the request, unless its answer has the model server's; in Messages under its name there, too."""
    # `setdefault` makes an error of a request for each name that is not there.
    answered = [value for name, value in headers if name.lower() == "x-request-id"]
    if not answered:
        headers.add("X-Request-Id", id_)
    if in_messages:
        headers["Request-Id"] = answered[0] if answered else id_
