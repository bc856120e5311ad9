"""Signing in at the live page: the key of the form, and the cookie."""

from __future__ import annotations

from urllib.parse import parse_qs

from proxy.web.access import COOKIE, SECONDS
from proxy.web.routes import UI

# Bytes of the form that is sent.
MAX_FORM = 16 * 1024


def given_key(body: bytes) -> bytes:
    """The key that the form says; b"" if it says none."""
    if len(body) > MAX_FORM:
        return b""
    try:
        fields = parse_qs(body.decode("latin-1"), encoding="utf-8", max_num_fields=4)
    except ValueError:
        return b""
    return fields.get("key", [""])[-1].strip().encode("utf-8", "replace")


def session_cookie(token: str, *, secure: bool) -> str:
    """The header that makes a browser show this token, to the live page alone and never for another page."""
    return _cookie(f"{token}; Max-Age={SECONDS}", secure=secure)


def expired_cookie(*, secure: bool) -> str:
    """The header that makes a browser forget it."""
    return _cookie("; Max-Age=0", secure=secure)


def _cookie(value: str, *, secure: bool) -> str:
    cookie = f"{COOKIE}={value}; Path={UI.path}; HttpOnly; SameSite=Strict"
    return f"{cookie}; Secure" if secure else cookie
