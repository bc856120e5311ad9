"""The error tree: what can go wrong with a request, and what the client is told.

Nothing of `requests`, `urllib3`, `json` or `yaml` gets past the module that called it: each maps its library's
exceptions to one of these, once.

    ProxyError                     never raised itself
    |-- BadRequest                 400  the client's request cannot be used as it is
    |   |-- NoThreads              400  the client would have the server keep its conversation
    |   |-- ContextFull            400  the answer was cut off where the model's context ends
    |   |-- NotFound               404  no such path, client, model, response or item
    |   |   `-- ResponseNotFound   404  the response from which the client would go on is not kept
    |   |-- MethodNotAllowed       405
    |   |   `-- UpgradeRefused     426  a WebSocket is asked for
    |   |-- BodyTooLarge           413
    |   `-- Denied                 never raised itself: access
    |       |-- Unauthorized       401  no key, or an unknown one
    |       |-- Forbidden          403  the client may not do this
    |       `-- TooMany            429  a limit of the key is reached
    |-- UpstreamError              never raised itself: the model server's side
    |   |-- UpstreamUnreachable    502  no connection; nothing was sent
    |   |-- UpstreamTimeout        504  no answer, or no bytes, for too long
    |   |   `-- UpstreamSlow       504  not even a connection
    |   |-- UpstreamBroken         502  it answered, and not by the protocol, or broke off
    |   |   |-- LimitExceeded      502  it sent more than a named limit allows
    |   |   `-- UnreadableReply    502  a part of its reply is not what the API says
    |   `-- UpstreamRefused        its own status: it answered with an error
    |-- Unavailable                503  the proxy has no room, or is about to end; asking again helps
    |-- Loop                       508  the proxy has asked itself
    |-- ClientGone                 499  nobody is left to tell
    |-- NotKept                    500  the file of the kept responses cannot be used
    |-- RulesError                 the rules file or a setting is not usable
    `-- InternalError              500  a defect of the proxy
"""

from __future__ import annotations

# By this code clients know that they have to make the conversation shorter.
CONTEXT_FULL = "context_length_exceeded"


class ProxyError(Exception):
    """Superclass of all errors of the proxy; never raised itself.

    `status` is the HTTP status, `kind` the `error.type` of the OpenAI shape, `retry_after` the seconds for a
    `Retry-After` header or None, `headers` others that the answer has, `message` one sentence for the person at the
    client, `code` a word for its program, or empty.
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
        """The words for the log."""
        return self.message


class BadRequest(ProxyError):
    """The request cannot be used; the message says where and why. `param` is the place in the body, or empty."""

    status = 400
    kind = "invalid_request_error"

    def __init__(self, message: str, param: str = "") -> None:
        super().__init__(message)
        self.param = param


class NoThreads(BadRequest):
    """The client would have the server keep the conversation; told by this code, the SDKs send all of it instead."""

    code = "thread_unsupported_request"


class ContextFull(BadRequest):
    """The conversation and the answer fill the model's context; told by this code, clients compact."""

    code = CONTEXT_FULL


class NotFound(BadRequest):
    """There is nothing at this path, or of this name; the message names what there is, or what to do."""

    status = 404
    kind = "not_found_error"


class ResponseNotFound(NotFound):
    """The response from which the client would go on is not kept; by this code it sends the whole conversation."""

    code = "previous_response_not_found"


class MethodNotAllowed(BadRequest):
    """The path exists, for other methods."""

    status = 405


class UpgradeRefused(MethodNotAllowed):
    """The client would speak WebSocket; told by this status, it sends an ordinary request at once."""

    status = 426


class BodyTooLarge(BadRequest):
    """The body is over the limit that the message names."""

    status = 413


class Denied(BadRequest):
    """What the client may not do; never raised itself. `reason` is a label of the metrics."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unauthorized(Denied):
    """No key, or an unknown one."""

    status = 401
    kind = "authentication_error"
    headers = (("WWW-Authenticate", "Bearer"),)


class Forbidden(Denied):
    """A known key, or a local client, that may not do this."""

    status = 403
    kind = "permission_error"


class TooMany(Denied):
    """A limit of the key is reached; `retry_after` is the time (s) to wait."""

    status = 429
    kind = "rate_limit_error"

    def __init__(self, message: str, reason: str, seconds: float) -> None:
        super().__init__(message, reason)
        self.retry_after = str(max(1, int(seconds)))


class UpstreamError(ProxyError):
    """The model server failed; never raised itself. `failure` names the failure in log and metrics."""

    status = 502
    kind = "upstream_error"
    failure = ""


class UpstreamUnreachable(UpstreamError):
    """No connection could be made; nothing was sent, so asking again is safe (F75: model servers load for minutes).

    `refused` is true if the far side said no at once, so that a second try costs nothing.
    """

    retry_after = "5"
    failure = "unreachable"

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class UpstreamTimeout(UpstreamError):
    """The upstream was silent for longer than the limit that the message names."""

    status = 504
    kind = "timeout_error"
    failure = "timeout"


class UpstreamSlow(UpstreamTimeout):
    """No connection in time: nothing was sent, and the server may still be loading."""

    retry_after = "5"
    failure = "connect_timeout"


class UpstreamBroken(UpstreamError):
    """The upstream's answer broke off or was not HTTP, or not what was asked for (F57, F69)."""

    failure = "broken"


class LimitExceeded(UpstreamBroken):
    """The upstream sent more than a limit allows: `limit` is its name (contract C7)."""

    failure = "limit"

    def __init__(self, limit: str, value: int) -> None:
        super().__init__(f"the model server sent more than is allowed: {limit} is {value}")
        self.limit = limit


class UnreadableReply(UpstreamBroken):
    """Text, reasoning or arguments may be in a part of the reply that cannot be read: `part` names it.

    The reply ends here. Without that part, what follows would look like a complete reply with a hole in it.
    """

    def __init__(self, part: str) -> None:
        super().__init__(f"the model server sent a reply that cannot be read: {part}")


class UpstreamRefused(UpstreamError):
    """The upstream answered with an error of its own, whose status and words are kept.

    `body` is its JSON body as it came (at most 64 KiB), or None where the message was taken from something else;
    `headers` are those of its answer that the client gets too.
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
        """Its kind only: what an upstream says of a request may hold the request."""
        return f"upstream: {self.kind}"


class Unavailable(ProxyError):
    """The proxy itself cannot take the request, or go on with it, now."""

    status = 503
    kind = "overloaded_error"
    retry_after = "2"


class Loop(ProxyError):
    """The request has passed through this proxy before: its upstream is the proxy itself, or leads back to it."""

    status = 508
    kind = "loop_detected"

    def __init__(self) -> None:
        super().__init__("the upstream of this proxy is this proxy")


class ClientGone(ProxyError):
    """The client closed its connection; there is nobody left to answer."""

    status = 499


class NotKept(ProxyError):
    """The file of the kept responses cannot be used, or a response is larger than all that may be kept."""


class RulesError(ProxyError):
    """The rules file or a setting cannot be used; the message gives file, place and remedy in one line."""


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
    """A text that is given, if it says something."""
    return given if isinstance(given, str) and given else otherwise


def refusal(error: object, *, status: int = 0, body: bytes | None = None) -> UpstreamRefused:
    """The upstream's own error, from the `error` member of its JSON: an object, or (vLLM's 401) a string.

    `status` is that of the response; 0 for an error event in a stream, whose status is its `code`, or told by its
    `type`, else 502.
    """
    fields = error if isinstance(error, dict) else {"message": error}
    kind = _words(fields.get("type"), "upstream_error")
    code = fields.get("code")
    if not status and isinstance(code, int) and 400 <= code <= 599:
        status = code
    message = fields.get("message")
    text = _words(message, "the model server reported an error")
    if text != message or kind != fields.get("type"):
        body = None  # clients read both: it is said anew
    refused = UpstreamRefused(text, status=status or _STATUS_OF_KIND.get(kind, 502), kind=kind, body=body)
    refused.code = _known_code(code)
    return refused


def _known_code(code: object) -> str:
    """The code that says a full context, beside which servers have words of their own; "" for any other."""
    return CONTEXT_FULL if code == CONTEXT_FULL else ""
