"""Answers to what is no HTTP request that could be read, in the words of the path's API.

gunicorn's own answer is a page of HTML that quotes the line which it does not like: there may be a key in it. Here
nothing of the request is said but what is wrong with it, and what to do.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus

# `POST /for/my-agent/v1/messages?beta=true HTTP/1.1`: the path without the client that it may name.
_PATH = re.compile(rb"[^ ]{1,20} (?:/for/[^/? ]{1,256}(?=/))?(/[^? \r\n]*)")
# These, and all that is below them, speak a dialect of their own.
_DIALECTS = {"/v1/messages": "messages", "/v1/responses": "responses"}
# These speak as OpenAI's chat does, whatever the headers say (web/routes.py has them too).
CHAT_PATHS = frozenset(("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/tokenize", "/detokenize"))
_VERSION = re.compile(rb"^anthropic-version[ \t]*:", re.IGNORECASE | re.MULTILINE)
# That API has not all of the statuses.
_TOO_LARGE = 413
_MESSAGES_STATUSES = {414: _TOO_LARGE, 417: 400, 431: _TOO_LARGE, 501: 400}
_OTHER = "the request is no HTTP/1.1 that can be read; see that nothing between client and proxy changes it"
# By the names of gunicorn's exceptions, and of our own.
_WORDS = {
    "InvalidRequestLine": "the request's first line is none; it must be METHOD, path, HTTP/1.1 and blanks between",
    "InvalidRequestMethod": "the request's method is none; send GET, POST or OPTIONS, in capital letters",
    "InvalidHTTPVersion": "the request's version of HTTP is not spoken here; send HTTP/1.1 or HTTP/1.0",
    "InvalidHeader": "a header of the request cannot be read, or is there twice; send NAME: VALUE, each once",
    "InvalidHeaderName": "the name of a header is none; send letters, digits and hyphens, no blank before the colon",
    "ObsoleteFolding": "a header of the request goes on in the next line; send each in one line",
    "LimitRequestLine": "the request's first line is too long; send what is in its URL in the body",
    "LimitRequestHeaders": "the request's headers are too long, or too many; send fewer",
    "UnsupportedTransferCoding": "the request's Transfer-Encoding is not known; send chunked, or a Content-Length",
    "ExpectationFailed": "the request's Expect is not known; send 100-continue, or none",
    "InvalidChunkSize": "the size of a chunk of the body is none; see that nothing between client and proxy changes it",
    "LongHead": "the request's head is longer than max_request_head; send fewer or shorter headers",
}



class StatusReader:
    """A client that only looks at the status of gunicorn's answer."""

    status = 400

    def gettimeout(self) -> float:
        """Nothing waits."""
        return 0.0

    def sendall(self, data: bytes) -> None:
        """`HTTP/1.1 414 URI Too Long`"""
        self.status = int(data.split(b" ", 2)[1])


def answer(status: int, fault: str, head: bytes) -> bytes:
    """The whole answer to a request of which no more than this head is known; `fault` is the name of what was wrong."""
    words = _WORDS.get(fault, _OTHER)
    if status >= 500 and fault not in _WORDS:
        words = "the proxy failed; its log says why"
    dialect = _dialect(head)
    envelope = _openai(status, words, _code(status) if dialect == "responses" else status)
    if dialect == "messages":
        status = _MESSAGES_STATUSES.get(status, status)
        envelope = _anthropic(status, words)
    body = json.dumps(envelope).encode()
    lines = (
        f"HTTP/1.1 {status} {_phrase(status)}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "\r\n",
    )
    return "\r\n".join(lines).encode() + body


def _dialect(head: bytes) -> str:
    """The dialect of the answer: by the path, else by the header that clients of Messages send."""
    match = _PATH.match(head)
    path = match[1].decode("latin-1") if match else ""
    for top, dialect in _DIALECTS.items():
        if path == top or path.startswith(f"{top}/"):
            return dialect
    if path in CHAT_PATHS:
        return "chat"
    return "messages" if _VERSION.search(head) else "chat"


def _openai(status: int, words: str, code: object) -> dict[str, object]:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": words, "type": kind, "param": None, "code": code}}


def _code(status: int) -> str | None:
    """Responses has words for codes, and none for what is no request."""
    if status >= 500:
        return "server_error"
    return None


def _anthropic(status: int, words: str) -> dict[str, object]:
    kind = "api_error" if status >= 500 else "invalid_request_error"
    if status == _TOO_LARGE:
        kind = "request_too_large"
    return {"type": "error", "error": {"type": kind, "message": words}}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
