"""Which web pages may ask: a browser says which page a request comes from, and under which name it found this proxy.

A program that is no browser sends none of these headers, and is not looked at. A page could otherwise drive the model
of whoever has it open: a POST of `text/plain` needs nobody's leave, and a page that makes its own name mean this
machine (DNS rebinding) even reads the answers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .keys import Forbidden

LOOPBACK = "loopback"
ANY = "*"
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://((?:[^\s/?#@:\[\]]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?)?")
_METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_PLAIN_LIST = re.compile(r"[A-Za-z0-9_, -]{1,1000}")
# Of our answer's headers those that mean something to a program; a page sees no other without leave.
_SHOWN = "X-Request-Id, Request-Id, Retry-After, X-Should-Retry, X-Tool-Proxy-Fixes"
# For how long a browser may remember what an OPTIONS said, in seconds.
_REMEMBERED = "600"


@dataclass(frozen=True, slots=True)
class Page:
    """The page that a request comes from: its origin as the browser says it, "" if it does not say."""

    origin: str


def page_of(environ: Mapping[str, Any]) -> Page | None:
    """The page that a request comes from; None if nothing says that it comes from one."""
    if "HTTP_ORIGIN" in environ:
        return Page(str(environ["HTTP_ORIGIN"]).strip())
    if "HTTP_REFERER" in environ:
        return Page(_origin_of(str(environ["HTTP_REFERER"]).strip()))
    crossing = str(environ.get("HTTP_SEC_FETCH_SITE", "")).strip().lower() == "cross-site"
    return Page("") if crossing else None


def _origin_of(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.scheme else ""


def check_page(environ: Mapping[str, Any], origins: Sequence[str], hosts: Sequence[str]) -> None:
    """Raise Forbidden if this request comes from a page that may not ask, or under a name that is not this proxy's."""
    page = page_of(environ)
    if page is None:
        return
    if not _allows(origins, page.origin):
        named = f"the web page {page.origin[:100]!r}" if page.origin else "a web page that does not say which it is"
        told = f"this request comes from {named}, which may not ask here; if it shall, list it in origins"
        raise Forbidden(told, "page")
    host = str(environ.get("HTTP_HOST", ""))
    if not _is_own(host, hosts):
        told = f"this request of a web page is for the host {host[:100]!r}; if that is this proxy, list it in hosts"
        raise Forbidden(told, "page")


def _allows(origins: Sequence[str], origin: str) -> bool:
    if ANY in origins:
        return True
    origin = origin.lower()
    found = _ORIGIN.fullmatch(origin)
    if found is None:  # `null` is every sandbox and every file
        return False
    if origin in origins or f"{found[1]}://" in origins:
        return True
    return LOOPBACK in origins and found[1] in ("http", "https") and _is_loopback(_name(found[2] or ""))


def _name(host: str) -> str:
    """A host without its port."""
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]


def _is_loopback(name: str) -> bool:
    # All names under localhost are this machine (RFC 6761, 6.3), and browsers see to it.
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own(host: str, hosts: Sequence[str]) -> bool:
    """True for an address, which nobody can make mean another one, and for a name that is known to be ours."""
    name = _name(host.lower())
    if name == "localhost" or name in hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def cors(environ: Mapping[str, Any]) -> dict[str, str]:
    """The headers by which a browser lets a page that was not turned away read the answer (Fetch Standard, CORS)."""
    origin = str(environ.get("HTTP_ORIGIN", "")).strip()
    if not origin:
        return {}
    headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin", "Access-Control-Expose-Headers": _SHOWN}
    if environ.get("REQUEST_METHOD") != "OPTIONS":
        return headers
    headers |= {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Max-Age": _REMEMBERED}
    wanted = str(environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", ""))
    if _PLAIN_LIST.fullmatch(wanted):
        headers["Access-Control-Allow-Headers"] = wanted
    if environ.get("HTTP_ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers
