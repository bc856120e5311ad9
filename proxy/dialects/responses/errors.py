"""The errors of the Responses API and their codes.

Codex retries after `server_error`, waits after `rate_limit_exceeded` and `server_is_overloaded`, compacts after
`context_length_exceeded`, and shows all others.
"""

from __future__ import annotations

import re

from proxy.errors import CONTEXT_FULL, BadRequest, ProxyError, UpstreamRefused
from proxy.json import JsonObject, dump_strict
from proxy.upstream.context_overflow import read_overflow

_BY_STATUS = {429: "rate_limit_exceeded", 503: "server_is_overloaded", 529: "server_is_overloaded"}
_REFUSED = (400, 422)
_SERVER_ERROR = "server_error"
_INVALID = "invalid_prompt"
# llama-server reports a template's refusal as an internal error, which Codex would retry:
# HTTP/1.1 500 … {"error": {"code": 500, "message": "… Jinja Exception: Conversation roles must alternate …"}}
_TEMPLATE = re.compile(r"\bjinja|chat[ _-]?template|raise_exception", re.IGNORECASE)
_LONGEST = 4096
_SECONDS = re.compile(r"[0-9]{1,9}")


def error_code(error: ProxyError) -> str:
    """Return the code of an error before the response starts; "" if this API has none."""
    if error.code:
        return error.code
    if isinstance(error, UpstreamRefused):
        if read_overflow(error.message, error.body) is not None:
            return CONTEXT_FULL
        if error.status in _REFUSED or _TEMPLATE.search(error.message[:_LONGEST]):
            return _INVALID
    if error.status in _BY_STATUS:
        return _BY_STATUS[error.status]
    if error.status >= 500:
        return _SERVER_ERROR
    return ""


def error_status(error: ProxyError) -> int:
    """Return the HTTP status of an error. A request that can never succeed must not be retried."""
    if error.status >= 500 and error_code(error) in (_INVALID, CONTEXT_FULL):
        return 400
    return error.status


def failure(error: ProxyError) -> JsonObject:
    """Return the error of a failed response, which always has a code."""
    return {"code": error_code(error) or _SERVER_ERROR, "message": _words(error)}


def error_body(error: ProxyError) -> bytes:
    """Return the body of an error."""
    place = error.param if isinstance(error, BadRequest) else ""
    words: JsonObject = {"message": _words(error), "type": error.kind}
    return dump_strict({"error": {**words, "param": place or None, "code": error_code(error) or None}})


def _words(error: ProxyError) -> str:
    """Return the message, from which Codex reads how long to wait."""
    if error.status != 429 or not isinstance(error, UpstreamRefused):
        return error.message
    waits = [value for name, value in error.headers if name.lower() == "retry-after" and _SECONDS.fullmatch(value)]
    if not waits or "try again in" in error.message:
        return error.message
    return f"{error.message} Please try again in {waits[0]}s."
