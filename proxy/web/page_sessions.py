"""Sessions of the live page: a random token in a cookie, whose digest the ring keeps for all workers.

It holds for some hours, for the admin's key with which it was given alone, and ends with the service.
"""

from __future__ import annotations

import hashlib
import secrets
import time

from proxy.activity.activity import Activity

SECONDS = 12 * 3600


def begin_session(activity: Activity, admin: bytes) -> str:
    """The token of somebody who has shown the admin's key, of which `admin` is the digest."""
    token = secrets.token_urlsafe(32)
    activity.ring.begin_session(_digest(token, admin), time.time() + SECONDS)
    return token


def has_session(activity: Activity | None, admin: bytes, token: str) -> bool:
    """True if the token was given for this key, and holds still."""
    if activity is None:
        return False
    return activity.ring.has_session(_digest(token, admin), time.time())


def end_session(activity: Activity, admin: bytes, token: str) -> None:
    """The token holds no more."""
    activity.ring.end_session(_digest(token, admin))


def _digest(token: str, admin: bytes) -> bytes:
    return hashlib.sha256(admin + token.encode("latin-1", "replace")).digest()
