"""Which headers go up, which of an answer's go down, and which of ours a web page may see: the tables of their names.

They stand here and not in `proxy/web`, as answers are read in this package and in `exchange`, which may not import it.
What is done by them: requests `proxy/web/headers.py`, web pages `proxy/web/access.py`, answers `response_headers`.
"""

from __future__ import annotations

from proxy.upstream.client import UpstreamCall

# The client's headers that go up as they came, as WSGI names them; beside these, all of OpenAI's own.
REQUEST = frozenset(("HTTP_ACCEPT", "HTTP_ANTHROPIC_VERSION", "HTTP_ANTHROPIC_BETA", "HTTP_VIA"))
REQUEST_PREFIX = "HTTP_OPENAI_"
# Of each conversation's requests: the header by which a load balancer keeps it at one of several equal model servers.
CONVERSATION = "X-Conversation-Key"
# The words in the name of a header, or of a field of a query, that holds a secret: x-goog-api-key, access_token.
SECRET_WORDS = frozenset(("KEY", "APIKEY", "TOKEN", "SECRET", "AUTH", "AUTHORIZATION", "PASSWORD", "CREDENTIAL"))
# Of the answer that is a repaired reply, whose other headers are the proxy's own.
REPLY = ("X-Request-Id",)
# Of an error, which is told in the dialect of the client.
ERROR = ("Retry-After", "X-Should-Retry", "X-Request-Id")
# Of an answer that passes as it came. Its body is framed anew, so that `Connection` and its kin mean nothing any more.
PASSED = (
    *("Content-Type", "Content-Encoding", "Retry-After", "X-Should-Retry", "X-Request-Id", "Cache-Control"),
    "X-Accel-Buffering",
)
# Of our own answer those that mean something to a program; a web page sees no other without leave.
SHOWN_TO_PAGES = ("X-Request-Id", "Request-Id", "Retry-After", "X-Should-Retry", "X-Tool-Proxy-Fixes")


def response_headers(call: UpstreamCall, allowed: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Those of the allowed headers that the answer has, as name and value."""
    headers = ((name, call.header(name)) for name in allowed)
    return tuple((name, value) for name, value in headers if value)
