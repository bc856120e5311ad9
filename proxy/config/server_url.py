"""Base URL of a model server."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

ONE_SERVER = (
    "the URL of one model server; put several equal servers behind HAProxy or vLLM's router "
    "and give its URL (docs/scale.md)"
)
_URL = re.compile(r"[!-~]+")


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URL that `server_url` returned (RFC 6454)."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def server_url(text: str) -> str:
    """Return the URL without a final `/v1`. Raises ValueError, which says what is needed."""
    needed = ValueError("an http:// or https:// URL of a host, without user, query or fragment")
    if "," in text:
        raise ValueError(ONE_SERVER)
    if not _URL.fullmatch(text) or re.search(r"[@?#\\]", text):
        raise needed
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an invalid port or IPv6 address
        raise needed from None
    if not usable:
        raise needed
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').rstrip('/')}"
