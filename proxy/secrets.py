"""Masking of secrets in logs, audit records, error bodies and capture heads.

Two kinds are masked: the credentials of a request, and strings that look like keys. Each byte becomes `*`, so lengths
stay the same and JSON stays valid. Model output is never searched. docs/security.md lists the limits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from proxy.errors import ProxyError, UpstreamRefused

# Shorter credentials are placeholders ("EMPTY", "ollama"): masking them would damage the text they occur in.
MIN_SECRET = 8
# The longest credential that a header can carry, with each character escaped.
_LONGEST = 6 * 8192
_BEARER = b"earer "
# Prefixes of keys, and the text after each.
_SHAPES = (
    (rb"sk-", rb"[\w-]{16,}"),
    (rb"gh[pousr]_", rb"\w{16,}"),
    (rb"github_pat_", rb"\w{16,}"),
    (rb"A[KS]IA", rb"[A-Z0-9]{16}"),
    (rb"xox[a-z]-", rb"[\w-]{10,}"),
)
# A key starts a word: `task-...` is not one, but the text after an escape (`\n`, `\u003e`) can be. The pattern starts
# with a literal, because that is fast.
_AT_WORD_START = rb"%b(?:(?<![A-Za-z0-9]%b)|(?<=\\[nrtbf]%b)|(?<=\\u[0-9A-Fa-f]{4}%b))%b"
_KEYS = re.compile(
    b"|".join(_AT_WORD_START % (start, start, start, start, rest) for start, rest in _SHAPES)
    + rb"|%b[\w.~+/=-]{16,}" % _BEARER
    # JSON escapes the line ends of a private key. A key without its last line is masked too.
    + rb"|-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:[A-Za-z0-9+/=\s]++|\\++[nrt])*+"
    rb"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
)


def masked(data: bytes, secrets: Iterable[str] = ()) -> bytes:
    """Return the data with these secrets and all strings that look like keys masked; its length stays the same."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET:
            data = _pattern(secret).sub(_stars, data)
    return _KEYS.sub(_stars, data)


def masked_text(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with these secrets and all strings that look like keys masked."""
    data = text.encode("utf-8", "surrogatepass")
    found = masked(data, secrets)
    return text if found == data else found.decode("utf-8", "replace")


def masked_start(text: str, most: int, secrets: Iterable[str]) -> str:
    """Return at most the first `most` characters, masked before the cut: half a key would not be recognized."""
    return masked_text(text[: most + _LONGEST], secrets)[:most]


def mask_error(error: ProxyError, secrets: Iterable[str]) -> None:
    """Mask the error's message, headers and body: a model server may quote the key that it rejects."""
    error.message = masked_text(error.message, secrets)
    error.headers = tuple((name, masked_text(value, secrets)) for name, value in error.headers)
    if isinstance(error, UpstreamRefused):
        error.kind = masked_text(error.kind, secrets)
        error.body = None if error.body is None else masked(error.body, secrets)


def _stars(match: re.Match[bytes]) -> bytes:
    found = match[0]
    kept = len(_BEARER) if found.startswith(_BEARER) else 0
    return found[:kept] + b"*" * (len(found) - kept)


@lru_cache(maxsize=256)
def _pattern(secret: str) -> re.Pattern[bytes]:
    """Return a pattern that matches a secret verbatim, in JSON and in URL encoding."""
    return re.compile(b"".join(map(_written, secret)))


def _written(char: str) -> bytes:
    """Return the pattern of one character: `+` is also `\\u002b`, `\\x2b` and `%2B`, and `"` is also `\\"`."""
    if char.isascii() and (char.isalnum() or char in "-_."):
        return re.escape(char).encode()  # no encoding changes these
    # WSGI shows each byte of a header as a character.
    forms = dict.fromkeys((char.encode(), char.encode("latin-1", "ignore")))  # without duplicates
    plain = b"|".join(re.escape(form) for form in forms if form)
    return rb"(?:\\{0,4}(?:%b)|(?i:\\{1,4}(?:u00|x)%02x|%%%02x))" % (plain, ord(char), ord(char))
