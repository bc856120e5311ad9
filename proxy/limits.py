"""The named limits (contract C7). `max_body` and `max_held` are settings; here are their defaults."""

from __future__ import annotations

# Largest configuration file of an agent to merge, in bytes. Merging searches the whole file once per key.
MAX_AGENT_FILE = 4 * 1024 * 1024
# Maximum concurrent requests per worker; a stream stops counting once its first byte is sent. Requests to the model
# server never use the reserved threads, so /health answers while all others are busy.
THREADS = 512
RESERVED_THREADS = 32
# Maximum time (s) to connect to the model server, and to send it a request.
CONNECT_SECONDS = 2.0
SEND_SECONDS = 60.0
# Maximum time (s) for one reply.
REPLY_SECONDS = 4 * 60 * 60.0
# File descriptors that upstream connections leave free, so that clients can get errors and /health.
SPARE_DESCRIPTORS = 32
# Bytes of a request body.
MAX_BODY = 32 * 1024 * 1024
# Bytes of the head of an upstream response, and of its trailers.
MAX_HEAD = 64 * 1024
# Bytes of one event of an upstream stream.
MAX_EVENT = 16 * 1024 * 1024
# Bytes of text held for one call.
MAX_HELD = 4 * 1024 * 1024
# Characters of a text, and of the call in it, that are recorded. The audit file keeps 10,000, but masks secrets before
# it cuts, so it needs more.
MAX_RECORDED = 64 * 1024
# Calls in one reply.
MAX_CALLS = 128
# Choices in one reply (`n`).
MAX_CHOICES = 128
# Levels of nesting in JSON, of requests and of arguments.
MAX_DEPTH = 200
# Bytes of an upstream response that is not a stream.
MAX_ANSWER = 64 * 1024 * 1024
# Bytes of an upstream error response: vLLM once answered a request of 4.5 kB with 23.6 MB of validation errors.
MAX_ERROR_BODY = 64 * 1024
# A request for more output tokens than fit in the context is retried only if at least this many fit.
RETRY_TOKENS = 256
# Bytes of the audit file.
AUDIT_MAX = 1024 * 1024 * 1024
# Bytes of one capture; bytes of all captures in a folder; seconds for which a capture is kept.
MAX_CAPTURE = 64 * 1024 * 1024
CAPTURES_MAX = 1024 * 1024 * 1024
CAPTURE_SECONDS = 30 * 24 * 3600.0
# Responses stored for clients that refer to them later: their number, total bytes, and maximum age in seconds.
STORE_RESPONSES = 1000
STORE_BYTES = 64 * 1024 * 1024
STORE_SECONDS = 86400.0
