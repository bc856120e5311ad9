"""Which headers of a model server's answer go down to the client.

It stands here and not beside the requests' (`proxy/web/headers.py`), for answers are read in this package and in
`exchange`, which may not import `web`.
"""

from __future__ import annotations

from proxy.upstream.client import UpstreamCall

# Of a repaired reply, whose other headers are the proxy's own.
REPLY = ("X-Request-Id",)
# Of an error, which is told in the dialect of the client.
ERROR = ("Retry-After", "X-Should-Retry", "X-Request-Id")
# Of an answer that passes as it came. Its body is framed anew, so that `Connection` and its kin mean nothing any more.
PASSED = (
    *("Content-Type", "Content-Encoding", "Retry-After", "X-Should-Retry", "X-Request-Id", "Cache-Control"),
    "X-Accel-Buffering",
)


def response_headers(call: UpstreamCall, allowed: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Those of the allowed headers that the answer has, as name and value."""
    found = ((name, call.header(name)) for name in allowed)
    return tuple((name, value) for name, value in found if value)
