"""The named limits (contract C7), each in one place. `max_body` and `max_held` are settings, with these defaults."""

from __future__ import annotations

# Largest configuration file of an agent to merge, in bytes. Merging searches the whole file once per key.
MAX_AGENT_FILE = 4 * 1024 * 1024
# Requests that one worker serves at the same time; a stream stops counting once its first byte is sent. Those in
# reserve are never taken by a reply of the model server, so that /health answers while all others are busy.
THREADS = 512
RESERVED_THREADS = 32
# Seconds to wait for a connection to the model server, and for it to take a request.
CONNECT_SECONDS = 2.0
SEND_SECONDS = 60.0
# Seconds that one reply may take in all.
REPLY_SECONDS = 4 * 60 * 60.0
# File descriptors that upstream connections leave for clients: for errors and /health.
SPARE_DESCRIPTORS = 32
# Bytes of a request's body.
MAX_BODY = 32 * 1024 * 1024
# Bytes of the head of an upstream's answer, and of its trailers.
MAX_HEAD = 64 * 1024
# Bytes of one event of an upstream's stream.
MAX_EVENT = 16 * 1024 * 1024
# Bytes of text that wait for one call.
MAX_HELD = 4 * 1024 * 1024
# Characters of a text, and of the call in it, that are kept for the record. The audit file masks secrets beyond its own
# 10,000 characters before it cuts, so more than that are needed.
MAX_RECORDED = 64 * 1024
# Calls in one reply.
MAX_CALLS = 128
# Choices in one reply (`n`).
MAX_CHOICES = 128
# Levels of nesting in JSON, of requests and of arguments.
MAX_DEPTH = 200
# Bytes of a whole answer of the upstream.
MAX_ANSWER = 64 * 1024 * 1024
# Bytes of an answer that is an error: vLLM once answered a request of 4.5 kB with 23.6 MB of validation errors.
MAX_ERROR_BODY = 64 * 1024
# Tokens that must be left of a context, so that a request which asks for more is worth a second try.
RETRY_TOKENS = 256
# Bytes of the audit file.
AUDIT_MAX = 1024 * 1024 * 1024
# Bytes of one capture, and of all captures in a folder; seconds for which a capture is kept.
MAX_CAPTURE = 64 * 1024 * 1024
CAPTURES_MAX = 1024 * 1024 * 1024
CAPTURE_SECONDS = 30 * 24 * 3600.0
# Responses kept for clients that refer to them later: their number, their bytes in all, and their age in seconds.
STORE_RESPONSES = 1000
STORE_BYTES = 64 * 1024 * 1024
STORE_SECONDS = 86400.0
