"""Access to the admin paths: for who has the admin's key or, while there is none, a program on this very machine.

A web page that the operator has open is none, although the browser that asks for it is on this machine: it names its
`Origin`, and where it has made a name of its own mean this machine, that name is the `Host`. A front on this machine
is none either: it asks for others, and says so.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from proxy.config.api_keys import Keys
from proxy.errors import Forbidden, Unauthorized
from proxy.web.headers import key_bytes
from proxy.web.web_origins import web_page_of

_HOST = re.compile(r"(?:localhost|\[::1\]|(127(?:\.[0-9]{1,3}){3}))(?::[0-9]{1,5})?", re.IGNORECASE)
# What says that somebody else asks: these, all X-Forwarded-..., and the names under which fronts give an address
# (X-Real-IP, CF-Connecting-IP, True-Client-IP, X-Client-IP), as the environment of WSGI has them.
_NAMES = frozenset(("HTTP_ORIGIN", "HTTP_FORWARDED", "HTTP_VIA"))
_ADDRESS = re.compile(r"HTTP_.*IP(?:V[46])?")
_FORWARDED = "HTTP_X_FORWARDED"
_OWN_PAGE = frozenset(("HTTP_ORIGIN",))
_LOCAL_ONLY = (
    "without an admin key this path answers only programs on this machine that ask for it by a loopback address"
)
# Under this name a browser shows that it has signed in at the live page.
COOKIE = "tool_proxy_page"
_SAFE = ("GET", "HEAD")


def check_admin(environ: Mapping[str, Any], keys: Keys) -> None:
    """Raise Unauthorized or Forbidden if this request may not use an admin path."""
    if keys.admin:
        if not keys.is_admin(key_bytes(environ)):
            needed = "this path needs the admin's key, as Authorization: Bearer KEY or x-api-key: KEY"
            raise Unauthorized(needed, "admin")
        return
    reason = _why_not_local(environ)
    if reason:
        raise Forbidden(f"{_LOCAL_ONLY}, and {reason}; ask there, or set admin_key_file", "admin")


def check_page(environ: Mapping[str, Any], keys: Keys, is_signed_in: Callable[[str], bool]) -> None:
    """Raise Unauthorized or Forbidden if this request may not use a path of the live page.

    A browser sends no key when it goes to a page, or waits for its events: it has signed in, and shows a cookie. That
    goes with whatever it sends here, so what changes something must say that it comes from the page itself.
    """
    if not keys.admin:
        reason = _why_not_local(environ, ignored=_OWN_PAGE if is_of_own_page(environ) else frozenset())
        if reason or comes_from_elsewhere(environ):
            problem = reason or "this request comes from another page"
            raise Forbidden(f"{_LOCAL_ONLY}, and {problem}; ask there, or set admin_key_file", "admin")
        return
    if comes_from_elsewhere(environ):
        raise Forbidden("the live page is for itself alone, and this request comes from another page", "page")
    if keys.is_admin(key_bytes(environ)):
        return
    token = cookie_of(environ)
    if not (token and is_signed_in(token)):
        raise Unauthorized("this path needs the admin's key, or to be signed in at /_ui", "admin")
    if environ.get("REQUEST_METHOD") not in _SAFE and not is_of_own_page(environ):
        raise Forbidden("this request does not say that it comes from the live page", "page")


def is_of_own_page(environ: Mapping[str, Any]) -> bool:
    """True for a request that says that it comes from a page of this very host, by `Origin` or, without, `Referer`."""
    page = web_page_of(environ)
    host = str(environ.get("HTTP_HOST", "")).lower()
    if page is None or not host:
        return False
    return page.origin.lower() in (f"http://{host}", f"https://{host}")


def comes_from_elsewhere(environ: Mapping[str, Any]) -> bool:
    """True for a request that says that it comes from any other page."""
    crossing = str(environ.get("HTTP_SEC_FETCH_SITE", "")).strip().lower() in ("cross-site", "same-site")
    return crossing or (web_page_of(environ) is not None and not is_of_own_page(environ))


def cookie_of(environ: Mapping[str, Any]) -> str:
    """The token by which the browser shows that it has signed in, or ""."""
    pairs = str(environ.get("HTTP_COOKIE", "")).split(";")
    named = [pair.strip().removeprefix(f"{COOKIE}=") for pair in pairs if pair.strip().startswith(f"{COOKIE}=")]
    return named[0] if len(named) == 1 else ""


def _why_not_local(environ: Mapping[str, Any], ignored: Collection[str] = ()) -> str:
    """Why this is no request of a program on this machine, or ""; the headers that are `ignored` say nothing."""
    if not _is_loopback(str(environ.get("REMOTE_ADDR", ""))):
        return "this request comes from elsewhere"
    if not _is_literal(str(environ.get("HTTP_HOST", ""))):
        return "the Host of this request is no loopback address"
    named = next((name for name in environ if name not in ignored and _names_another(name)), None)
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
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    address = match[1]
    return address is None or _is_loopback(address)
