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

from proxy.errors import Forbidden
from proxy.upstream.headers import SHOWN_TO_PAGES

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK = "loopback"
ANY = "*"
# A host with its port, which may be empty (RFC 3986, 3.2.3): a name or an IPv4 address, or an IPv6 one in brackets.
_HOST = re.compile(r"(?:([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)|\[([0-9a-f:.]+)\])(?::[0-9]{0,5})?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)")
_URL = re.compile(rf"({_ORIGIN.pattern})(?:[/?#].*)?")
_METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_PLAIN_LIST = re.compile(r"[A-Za-z0-9_, -]{1,1000}")
_SHOWN = ", ".join(SHOWN_TO_PAGES)
# For how long a browser may remember what an OPTIONS said, in seconds.
_REMEMBERED = "600"


@dataclass(frozen=True, slots=True)
class WebPage:
    """The page that a request comes from: its origin as the browser says it, "" if it does not say."""

    origin: str


def web_page_of(environ: Mapping[str, Any]) -> WebPage | None:
    """The page that a request comes from; None if nothing says that it comes from one."""
    if "HTTP_ORIGIN" in environ:
        return WebPage(str(environ["HTTP_ORIGIN"]).strip(" \t"))
    if "HTTP_REFERER" in environ:
        return WebPage(_origin_of(str(environ["HTTP_REFERER"]).strip(" \t")))
    crossing = str(environ.get("HTTP_SEC_FETCH_SITE", "")).strip().lower() == "cross-site"
    return WebPage("") if crossing else None


def _origin_of(url: str) -> str:
    match = _URL.fullmatch(url.lower())
    return match[1] if match else ""


def check_web_page(environ: Mapping[str, Any], origins: Sequence[str]) -> None:
    """Raise Forbidden if this request comes from a page that may not ask, or under a name that is not this proxy's.

    The proxy's names are `localhost`, addresses, and the hosts of `origins`.
    """
    page = web_page_of(environ)
    if page is None:
        return
    if not _allows(origins, page.origin):
        named = f"the web page {page.origin[:100]!r}" if page.origin else "a web page that does not say which it is"
        words = f"this request comes from {named}, which may not ask here; if it shall, list it in origins"
        raise Forbidden(words, "page")
    host = str(environ.get("HTTP_HOST", ""))
    if not _is_own(host, origins):
        words = f"this request of a web page is for the host {host[:100]!r}; if that is this proxy"
        words += ", add https://HOST to origins"
        raise Forbidden(words, "page")


def _allows(origins: Sequence[str], origin: str) -> bool:
    if ANY in origins:
        return True
    origin = origin.lower()
    match = _ORIGIN.fullmatch(origin)
    if match is None:  # `null` is every sandbox and every file
        return False
    scheme, host = match[1], match[2]
    if host and not _HOST.fullmatch(host):
        return False
    if not {origin, f"{scheme}://"}.isdisjoint(origins):
        return True
    if LOOPBACK not in origins:
        return False
    return scheme in ("http", "https") and _is_loopback(host)


def _is_loopback(host: str) -> bool:
    name, address = _read_host(host)
    if address is not None:
        return address.is_loopback
    # All names under localhost are this machine (RFC 6761, 6.3), and browsers see to it.
    return f".{name}".endswith(".localhost")


def _read_host(host: str) -> tuple[str, _Address | None]:
    """The name of a host without its port, or its address; ("", None) for what is no host."""
    match = _HOST.fullmatch(host)
    if match is None:
        return "", None
    name = match[1] or ""
    try:
        if name:
            return name, ipaddress.IPv4Address(name)
        address = ipaddress.IPv6Address(match[2])
    except ValueError:
        return name, None
    return "", address.ipv4_mapped or address


def _is_own(host: str, origins: Sequence[str]) -> bool:
    """Return whether a host is an address, which DNS cannot change, or a name known to be the proxy's own."""
    name, address = _read_host(host.lower())
    if address is not None:
        return True
    if name == "":
        return False
    return name == "localhost" or name in {_read_host(each.partition("://")[2])[0] for each in origins}


def cors(environ: Mapping[str, Any]) -> dict[str, str]:
    """The headers by which a browser lets a page that was not turned away read the answer (Fetch Standard, CORS)."""
    origin = str(environ.get("HTTP_ORIGIN", "")).strip(" \t")
    if not origin:
        return {}
    headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin", "Access-Control-Expose-Headers": _SHOWN}
    if environ.get("REQUEST_METHOD") != "OPTIONS":
        return headers
    headers |= {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Max-Age": _REMEMBERED}
    requested_headers = str(environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", ""))
    if _PLAIN_LIST.fullmatch(requested_headers):
        headers["Access-Control-Allow-Headers"] = requested_headers
    if environ.get("HTTP_ACCESS_CONTROL_REQUEST_PRIVATE_NETWORK") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers
