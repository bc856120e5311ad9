"""Request headers, the keys and ids in them, and response headers.

Which headers are forwarded is in the tables of `proxy/upstream/api.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

from werkzeug.datastructures import Headers

from proxy.secrets import masked_text
from proxy.upstream.api import REQUEST, REQUEST_PREFIX, SECRET_WORDS

JSON_TYPE = "application/json"
# Tell reverse proxies not to buffer a stream.
STREAM_HEADERS = (
    ("Content-Type", "text/event-stream; charset=utf-8"),
    ("Cache-Control", "no-cache"),
    ("X-Accel-Buffering", "no"),
)
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WORDS = re.compile("[A-Z]+")
_BETWEEN = re.compile('[ ,;="]+')
_LONG = 16
# The maximum number of secrets of one request.
MAX_SECRETS = 16


def forwarded(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the client's headers that are sent upstream: `OpenAI-Project` for `HTTP_OPENAI_PROJECT`."""
    return {
        key.removeprefix("HTTP_").replace("_", "-").title(): str(value)
        for key, value in environ.items()
        # A slice is faster than `startswith`, and this runs for every name in the environment.
        if key in REQUEST or key[: len(REQUEST_PREFIX)] == REQUEST_PREFIX
    }


def credential(environ: Mapping[str, Any]) -> str:
    """Return the client's API key, from `Authorization: Bearer` or `x-api-key`, or ""."""
    scheme, _, rest = str(environ.get("HTTP_AUTHORIZATION", "")).strip().partition(" ")
    token = rest.strip()
    if token and scheme.lower() == "bearer":
        return token
    return str(environ.get("HTTP_X_API_KEY", "")).strip()


def key_bytes(environ: Mapping[str, Any]) -> bytes:
    """Return the client's key as bytes. In WSGI, each character stands for one byte."""
    return credential(environ).encode("latin-1", "replace")


def owner_digest(environ: Mapping[str, Any]) -> bytes:
    """Return a digest that identifies a client without a client key.

    It is the digest of the key that the client sent, as in the file of client keys, or of an Authorization of another
    scheme (`Basic …`).
    """
    key = key_bytes(environ) or environ.get("HTTP_AUTHORIZATION", "").encode("latin-1", "replace")
    return sha256(key).digest()


def secrets(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of a request that no log and no error may show."""
    values = [credential(environ)]
    for name in [name for name in environ if name[:5] == "HTTP_"]:
        if not SECRET_WORDS.isdisjoint(name.split("_")):
            # The text after the scheme, if there is one, and its long words: `Token token="KEY"`.
            scheme, _, rest = environ[name].strip().partition(" ")
            token = rest.strip() or scheme
            values += [token, *(word for word in _BETWEEN.split(token) if len(word) >= _LONG)]
    query = environ.get("QUERY_STRING", "")
    if query:
        values += [
            value for name, value in parse_qsl(query) if not SECRET_WORDS.isdisjoint(_WORDS.findall(name.upper()))
        ]
    return tuple(dict.fromkeys(filter(None, values)))[:MAX_SECRETS]


def request_id(environ: Mapping[str, Any], request_secrets: tuple[str, ...]) -> str:
    """Return the client's own request id if it is a plain word and not a secret, else a new id."""
    client_id = str(environ.get("HTTP_X_REQUEST_ID", ""))
    usable = _REQUEST_ID.fullmatch(client_id) and masked_text(client_id, request_secrets) == client_id
    return client_id if usable else fresh_id(16)


def add_id(headers: Headers, id_: str, *, in_messages: bool) -> None:
    """Add the request id unless the response has the model server's. In Messages, also add it as `Request-Id`."""
    # `setdefault` raises and catches an error for a missing name.
    answered = [value for name, value in headers if name.lower() == "x-request-id"]
    if not answered:
        headers.add("X-Request-Id", id_)
    if in_messages:
        headers["Request-Id"] = answered[0] if answered else id_


def fresh_id(size: int) -> str:
    """Return `size` random bytes as hexadecimal digits."""
    return os.urandom(size).hex()
