"""Paths of model servers, and names of headers that are sent upstream, returned to the client, or shown to web pages.

They are not in `web`, because `upstream` and `exchange` read responses and must not import `web`.
"""

from __future__ import annotations

from proxy.upstream.client import UpstreamCall

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
# vLLM's; llama-server's differs.
TOKENIZE = "/tokenize"
# Path of the proxy, and of servers with the Messages API (llama-server, newer vLLM).
MESSAGES_COUNT_TOKENS = "/v1/messages/count_tokens"
HEALTH = "/health"

# Client headers that are sent upstream unchanged, by their WSGI names. OpenAI's headers are sent, too.
REQUEST = frozenset(("HTTP_ACCEPT", "HTTP_ANTHROPIC_VERSION", "HTTP_ANTHROPIC_BETA", "HTTP_VIA"))
REQUEST_PREFIX = "HTTP_OPENAI_"
# Header by which a load balancer keeps a conversation at one of several equal model servers.
CONVERSATION = "X-Conversation-Key"
# Words in the name of a header or query field that holds a secret: x-goog-api-key, access_token.
SECRET_WORDS = frozenset(("KEY", "APIKEY", "TOKEN", "SECRET", "AUTH", "AUTHORIZATION", "PASSWORD", "CREDENTIAL"))
# Upstream headers of a repaired reply; its other headers are the proxy's own.
REPLY = ("X-Request-Id",)
# Upstream headers of an error, which has the shape of the client's API.
ERROR = ("Retry-After", "X-Should-Retry", "X-Request-Id")
# Upstream headers of a response that is forwarded unchanged. Its body gets new framing, so `Connection` is dropped.
PASSED = (
    *("Content-Type", "Content-Encoding", "Retry-After", "X-Should-Retry", "X-Request-Id", "Cache-Control"),
    "X-Accel-Buffering",
)
# Headers of the response that a web page of an allowed origin may read.
SHOWN_TO_PAGES = ("X-Request-Id", "Request-Id", "Retry-After", "X-Should-Retry", "X-Tool-Proxy-Fixes")


def response_headers(call: UpstreamCall, allowed: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the allowed headers that the response has."""
    headers = ((name, call.header(name)) for name in allowed)
    return tuple((name, value) for name, value in headers if value)
