"""Who may use the admin paths: who has the admin's key or, while there is none, a program on this very machine.

A web page that the operator has open is none, although the browser that asks for it is on this machine: it names its
`Origin`, and where it has made a name of its own mean this machine, that name is the `Host`. A front on this machine
is none either: it asks for others, and says so.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from proxy.config.api_keys import Forbidden, Keys, Unauthorized
from proxy.web.headers import key_bytes

_HOST = re.compile(r"(?:localhost|\[::1\]|(127(?:\.[0-9]{1,3}){3}))(?::[0-9]{1,5})?", re.IGNORECASE)
# What says that somebody else asks: these, all X-Forwarded-..., and the names under which fronts give an address
# (X-Real-IP, CF-Connecting-IP, True-Client-IP, X-Client-IP), as the environment of WSGI has them.
_NAMES = frozenset(("HTTP_ORIGIN", "HTTP_FORWARDED", "HTTP_VIA"))
_ADDRESS = re.compile(r"HTTP_.*IP(?:V[46])?")
_FORWARDED = "HTTP_X_FORWARDED"


def check_admin(environ: Mapping[str, Any], keys: Keys) -> None:
    """Raise Unauthorized or Forbidden if this request may not use an admin path."""
    if keys.admin:
        if not keys.is_admin(key_bytes(environ)):
            needed = "this path needs the admin's key, as Authorization: Bearer KEY or x-api-key: KEY"
            raise Unauthorized(needed, "admin")
        return
    reason = _why_not_local(environ)
    if reason:
        raise Forbidden(
            "without an admin key this path answers only programs on this machine that ask for it by a loopback "
            f"address, and {reason}; ask there, or set admin_key_file",
            "admin",
        )


def _why_not_local(environ: Mapping[str, Any]) -> str:
    """Why this is no request of a program on this machine, or ""."""
    if not _is_loopback(str(environ.get("REMOTE_ADDR", ""))):
        return "this request comes from elsewhere"
    if not _is_literal(str(environ.get("HTTP_HOST", ""))):
        return "the Host of this request is no loopback address"
    named = next(filter(_names_another, environ), None)
    if named is not None:
        return f"this request has the header {named.removeprefix('HTTP_').replace('_', '-').title()}"
    return ""


def _names_another(key: str) -> bool:
    """True for a header by which a page says where it is from, or a front for whom it asks."""
    if key in _NAMES or key.startswith(_FORWARDED):
        return True
    return _ADDRESS.fullmatch(key) is not None


def _is_loopback(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)  # a listener on :: sees IPv4 so
    return bool((mapped or parsed).is_loopback)


def _is_literal(host: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    address = found[1]
    return address is None or _is_loopback(address)
