"""Exceptions of the proxy, with the HTTP status and message that the client gets.

Each module maps the exceptions of its library (`requests`, `urllib3`, `json`, `yaml`) to these.

    ProxyError                     abstract
    |-- BadRequest                 400  the client's request cannot be used
    |   |-- NoThreads              400  the client expects the server to store the conversation
    |   |-- ContextFull            400  the answer was cut off at the end of the model's context
    |   |-- NotFound               404  no such path, client, model, response or item
    |   |   `-- ResponseNotFound   404  the response that the client continues is not stored
    |   |-- MethodNotAllowed       405
    |   |   `-- UpgradeRefused     426  the client asks for a WebSocket
    |   |-- BodyTooLarge           413
    |   `-- Denied                 abstract: access
    |       |-- Unauthorized       401  no key, or an unknown one
    |       |-- Forbidden          403  the client may not do this
    |       `-- TooMany            429  a limit of the key is reached
    |-- UpstreamError              abstract: failures of the model server
    |   |-- UpstreamUnreachable    502  no connection; nothing was sent
    |   |-- UpstreamTimeout        504  no answer, or no further bytes, in time
    |   |   `-- UpstreamSlow       504  no connection in time
    |   |-- UpstreamBroken         502  the answer was cut off or violates the protocol
    |   |   |-- LimitExceeded      502  the answer exceeds a named limit
    |   |   `-- UnreadableReply    502  a part of the reply does not follow the API
    |   `-- UpstreamRefused        the upstream's status: it answered with an error
    |-- Unavailable                503  the proxy is full or about to stop, or its shared file cannot be used
    |-- Loop                       508  the proxy received its own request
    |-- ClientGone                 499  the client closed its connection
    |-- RulesError                 the rules file or a setting is invalid
    `-- InternalError              500  a defect of the proxy
"""

from __future__ import annotations

import math

# This code makes clients shorten the conversation.
CONTEXT_FULL = "context_length_exceeded"
# The message of `Unavailable` while a worker ends.
ENDING = "the proxy is about to end, for a restart or a new release; send the request again"


class ProxyError(Exception):
    """Base class of all errors of the proxy.

    `status` is the HTTP status, and `kind` the `error.type` of an OpenAI error. `retry_after` is the `Retry-After`
    header in seconds, or None; `headers` are further response headers. `message` is one sentence for the user. `code`
    is for the client program, or empty.
    """

    status = 500
    kind = "server_error"
    retry_after: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    code = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def logged(self) -> str:
        """The text for the log."""
        return self.message


class BadRequest(ProxyError):
    """The request is invalid; the message says where and why. `param` is the place in the body, or empty."""

    status = 400
    kind = "invalid_request_error"

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class NoThreads(BadRequest):
    """The client expects the server to store the conversation. This code makes the SDKs send all of it instead."""

    code = "thread_unsupported_request"


class ContextFull(BadRequest):
    """The conversation and the answer fill the model's context. This code makes clients compact."""

    code = CONTEXT_FULL


class NotFound(BadRequest):
    """The path or name does not exist; the message names what exists, or what to do."""

    status = 404
    kind = "not_found_error"


class ResponseNotFound(NotFound):
    """The response that the client continues is not stored. This code makes it send the whole conversation."""

    code = "previous_response_not_found"


class MethodNotAllowed(BadRequest):
    """The path does not support the method."""

    status = 405


class UpgradeRefused(MethodNotAllowed):
    """The client asks for a WebSocket. This status makes it send an ordinary request immediately."""

    status = 426


class BodyTooLarge(BadRequest):
    """The body exceeds the limit that the message names."""

    status = 413


class Denied(BadRequest):
    """Base class of access errors. `reason` is a label of the metrics."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unauthorized(Denied):
    """No key, or an unknown one."""

    status = 401
    kind = "authentication_error"
    headers = (("WWW-Authenticate", "Bearer"),)


class Forbidden(Denied):
    """The key, or the local client without one, may not do this."""

    status = 403
    kind = "permission_error"


class TooMany(Denied):
    """A limit of the key is reached; `seconds` is the time to wait."""

    status = 429
    kind = "rate_limit_error"

    def __init__(self, message: str, reason: str, seconds: float) -> None:
        super().__init__(message, reason)
        self.retry_after = str(max(1, math.ceil(seconds)))


class UpstreamError(ProxyError):
    """Base class of model server failures. `failure` names the failure in log and metrics."""

    status = 502
    kind = "upstream_error"
    failure = ""


class UpstreamUnreachable(UpstreamError):
    """No connection could be made. Nothing was sent, so a retry is safe (F75: model servers load for minutes).

    `refused` is true if the connection was refused immediately, so a retry costs nothing.
    """

    retry_after = "5"
    failure = "unreachable"

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class UpstreamTimeout(UpstreamError):
    """The upstream sent nothing for longer than the limit that the message names."""

    status = 504
    kind = "timeout_error"
    failure = "timeout"


class UpstreamSlow(UpstreamTimeout):
    """The connection timed out. Nothing was sent; the server may still be loading."""

    retry_after = "5"
    failure = "connect_timeout"


class UpstreamBroken(UpstreamError):
    """The upstream's answer was cut off, was not HTTP, or was not what was requested (F57, F69)."""

    failure = "broken"


class LimitExceeded(UpstreamBroken):
    """The upstream sent more than the limit named `limit` allows (contract C7)."""

    failure = "limit"

    def __init__(self, limit: str, value: int) -> None:
        super().__init__(f"the model server sent more than is allowed: {limit} is {value}")
        self.limit = limit


class UnreadableReply(UpstreamBroken):
    """The named `part` of the reply cannot be read, and it may hold text, reasoning or arguments.

    The reply ends here: if the part were skipped, the rest would pass for a complete reply.
    """

    def __init__(self, part: str) -> None:
        super().__init__(f"the model server sent a reply that cannot be read: {part}")


class UpstreamRefused(UpstreamError):
    """The upstream answered with an error, which the client gets with its status and message.

    `body` is its JSON body, verbatim (at most 64 KiB), or None if the body cannot be forwarded; `headers` are the
    upstream's headers that are forwarded to the client.
    """

    failure = "refused"

    def __init__(
        self,
        message: str,
        *,
        status: int,
        kind: str = "upstream_error",
        body: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.body = body
        self.headers = headers

    @property
    def logged(self) -> str:
        """The kind only: the upstream's message may quote the request."""
        return f"upstream: {self.kind}"


class Unavailable(ProxyError):
    """The proxy cannot accept or continue the request at the moment."""

    status = 503
    kind = "overloaded_error"
    retry_after = "2"


class Loop(ProxyError):
    """The request has already passed through this proxy: its upstream is the proxy, or leads back to it."""

    status = 508
    kind = "loop_detected"

    def __init__(self) -> None:
        super().__init__("the upstream of this proxy is this proxy")


class ClientGone(ProxyError):
    """The client closed its connection, so no response can be sent."""

    status = 499


class RulesError(ProxyError):
    """The rules file or a setting is invalid; the message gives file, place and remedy in one line."""


class InternalError(ProxyError):
    """A defect of the proxy; the log has the traceback."""


_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "BadRequestError": 400,
    "authentication_error": 401,
    "not_found_error": 404,
    "NotFoundError": 404,
    "rate_limit_error": 429,
    "overloaded_error": 503,
    "unavailable_error": 503,
}


def _words(given: object, otherwise: str) -> str:
    """Return `given` if it is a string that is not empty, else `otherwise`."""
    return given if isinstance(given, str) and given else otherwise


def refusal(error: object, *, status: int = 0, body: bytes | None = None) -> UpstreamRefused:
    """Return the exception for an upstream's error, given the `error` of its JSON: an object, or (vLLM's 401) a string.

    `status` is the HTTP status of the response, or 0 for an error event in a stream. The status of an event is its
    `code` if that is an HTTP status, else the one that its `type` implies, else 502.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    kind = _words(fields.get("type"), "upstream_error")
    code = fields.get("code")
    if not status and isinstance(code, int) and 400 <= code <= 599:
        status = code
    message = fields.get("message")
    text = _words(message, "the model server reported an error")
    if text != message or kind != fields.get("type"):
        body = None  # clients read both fields, so the body is rebuilt
    refused = UpstreamRefused(text, status=status or _STATUS_OF_KIND.get(kind, 502), kind=kind, body=body)
    # Clients know this code; others are the servers' own.
    refused.code = CONTEXT_FULL if code == CONTEXT_FULL else ""
    return refused
