"""The headers of a client's request: which of them go up, and what in them nobody else may read.

What of the model server's answer goes down is said where answers are read, below this package
(`proxy/upstream/response_headers.py`).
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from proxy import __version__
from proxy.codec.masking import mask_of

JSON_TYPE = "application/json"
# Under this name the environment of a request has the key that goes up; without it that is the client's own.
UPSTREAM_KEY = "tool_proxy.upstream_key"
# The client's headers that go up as they came, as WSGI names them; beside these, all of OpenAI's own.
_PASSED = frozenset(("HTTP_ACCEPT", "HTTP_ANTHROPIC_VERSION", "HTTP_ANTHROPIC_BETA"))
_PASSED_PREFIX = "HTTP_OPENAI_"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# The words in the name of a header, or of a field of a query, that holds a secret: x-goog-api-key, access_token.
_SECRET_NAMES = frozenset(("KEY", "APIKEY", "TOKEN", "SECRET", "AUTH", "AUTHORIZATION", "PASSWORD", "CREDENTIAL"))
_WORDS = re.compile("[A-Z]+")
_BETWEEN = re.compile('[ ,;="]+')
_LONG = 16
# More than a client has any use for.
_MAX_SECRETS = 16


def upstream_headers(
    environ: Mapping[str, Any], content_type: str, request_id: str, own: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The headers that go up: an allowlist, then the proxy's `own`, of which no client can say anything.

    The credential always goes as `Bearer`, which is all that vLLM takes.
    """
    headers = {"User-Agent": f"vllm-tool-proxy/{__version__}", "X-Request-Id": request_id}
    if content_type:
        headers["Content-Type"] = content_type
    ours = {} if own is None else own
    reserved = {name.lower() for name in ours}
    for key, value in environ.items():
        if not _goes_up(key):
            continue
        name = key.removeprefix("HTTP_").replace("_", "-").title()
        if name.lower() not in reserved:
            headers[name] = str(value)
    upstream_key = environ.get(UPSTREAM_KEY, credential(environ))
    if upstream_key:
        headers["Authorization"] = f"Bearer {upstream_key}"
    headers.update({name: value for name, value in ours.items() if value})
    return headers


def _goes_up(key: str) -> bool:
    """True for a header, as WSGI names it, that goes up as it came."""
    if key in _PASSED:
        return True
    return key.startswith(_PASSED_PREFIX)


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


def secrets(environ: Mapping[str, Any]) -> tuple[str, ...]:
    """All that a request brings, or goes up with, that is to be in no log and no error."""
    found = [str(environ.get(UPSTREAM_KEY, "")), credential(environ)]
    for name, value in environ.items():
        if not name.startswith("HTTP_"):
            continue
        if not _SECRET_NAMES.isdisjoint(name.split("_")):
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
    if not _REQUEST_ID.fullmatch(given):
        return uuid.uuid4().hex
    holds_key = mask_of(secrets(environ)).text(given) != given
    return uuid.uuid4().hex if holds_key else given
