"""Who may use the proxy: client keys, the admin key, and the origins of web pages.

Programs that are not browsers send no `Origin`, `Referer` or `Sec-Fetch-Site`, and no check of web pages applies to
them. Without these checks, any page that the user has open could drive the model: a POST of `text/plain` needs no CORS
preflight, and a page whose own name resolves to this machine (DNS rebinding) could read the answers.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from proxy import SERVICE
from proxy.config.api_keys import ClientKey, Keys
from proxy.errors import Forbidden, Unauthorized
from proxy.server.snapshot import Snapshot
from proxy.upstream.api import SHOWN_TO_PAGES
from proxy.web.headers import key_bytes
from proxy.web.routes import Access, Route

# A host with its port, which may be empty (RFC 3986, 3.2.3): a name or an IPv4 address, or an IPv6 one in brackets.
_HOST = re.compile(r"(?:([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)|\[([0-9a-f.]*:[0-9a-f:.]*)\])(?::[0-9]{0,5})?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)")
# Headers of web pages and of reverse proxies, including those with an address (X-Real-IP, CF-Connecting-IP,
# True-Client-IP, X-Client-IP).
_OF_OTHERS = re.compile(r"HTTP_(?:ORIGIN|FORWARDED|VIA|X_FORWARDED.*|.*IP(?:V[46])?)")
_LOCAL_ONLY = (
    "without an admin key, this path is available only to programs on this machine through a loopback address, but {}; "
    "use a loopback address, or set admin_key_file"
)
_METHODS = "GET, HEAD, POST, PUT, DELETE, OPTIONS"
_PLAIN_LIST = re.compile(r"[A-Za-z0-9_, -]{1,1000}")
# Seconds for which a browser may cache the answer to a preflight.
_MAX_AGE = "600"


def authenticate(route: Route, environ: Mapping[str, Any], snapshot: Snapshot) -> ClientKey | None:
    """Return the client key of a request, or None if its route needs none. Raises Unauthorized or Forbidden."""
    keys = snapshot.keys
    if route.access in (Access.ADMIN, Access.PAGE):
        check_admin(environ, keys, of_page=route.access is Access.PAGE)
    elif route.access is Access.CLIENT and keys.clients:
        return keys.client(key_bytes(environ))
    return None


def check_admin(environ: Mapping[str, Any], keys: Keys, *, of_page: bool = False) -> None:
    """Check access to an admin path. Raises Unauthorized or Forbidden.

    If an admin key is set, the request must have it. Otherwise the request must come from this machine.

    `of_page`: the path is the live page's. A browser asks its user for the key (HTTP Basic, any name) and then sends it
    with every request to this host. A request from another page is therefore rejected, even with the key.
    """
    own = of_page and is_of_own_page(environ)
    crossing = environ.get("HTTP_SEC_FETCH_SITE", "").strip().lower() in ("cross-site", "same-site")
    elsewhere = of_page and (crossing or (not own and _page_origin(environ) is not None))
    if not keys.admin:
        reason = _why_not_local(environ, of_page=own)
        if reason or elsewhere:
            raise Forbidden(_LOCAL_ONLY.format(reason or "this request comes from another page"), "admin")
        return
    if elsewhere:
        raise Forbidden("this request comes from another web page; the live page answers only its own", "page")
    key, needed = key_bytes(environ), "as Authorization: Bearer KEY or x-api-key: KEY"
    if of_page:
        needed = "as the password of HTTP Basic or as a Bearer"
        scheme, _, encoded = str(environ.get("HTTP_AUTHORIZATION", "")).partition(" ")
        if scheme.lower() == "basic":
            try:
                key = base64.b64decode(encoded.strip(), validate=True).partition(b":")[2]
            except ValueError:
                key = b""
    if not keys.is_admin(key):
        refused = Unauthorized(f"this path needs the admin's key, {needed}", "admin")
        if of_page:
            refused.headers = (("WWW-Authenticate", f'Basic realm="{SERVICE}", charset="UTF-8"'),)
        raise refused


def _why_not_local(environ: Mapping[str, Any], *, of_page: bool = False) -> str:
    """Return why a request is not from a program on this machine, or "". `of_page` allows the header `Origin`."""
    address = _address(environ.get("REMOTE_ADDR", ""))
    if address is None or not address.is_loopback:
        return "this request comes from elsewhere"
    host = environ.get("HTTP_HOST", "").lower()
    name, address = _read_host(host)
    if host.endswith(":") or not (name == "localhost" if address is None else address.is_loopback):
        return "the Host of this request is not a loopback address"
    for header in environ:
        if _OF_OTHERS.fullmatch(header) and not (of_page and header == "HTTP_ORIGIN"):
            return f"this request has the header {header.removeprefix('HTTP_').replace('_', '-').title()}"
    return ""


def is_of_own_page(environ: Mapping[str, Any]) -> bool:
    """Return whether `Origin` or, without it, `Referer` names a page of the requested host."""
    host = environ.get("HTTP_HOST", "").lower()
    origin = _page_origin(environ)
    return bool(host and origin) and str(origin).lower() in (f"http://{host}", f"https://{host}")


def check_web_page(environ: Mapping[str, Any], origins: Sequence[str]) -> None:
    """Raise Forbidden for a web page that is not in `origins`, or that uses a foreign host name for this proxy.

    The proxy's names are `localhost`, addresses, and the hosts of `origins`.
    """
    origin = _page_origin(environ)
    if origin is None:
        return
    if not _allows(origins, origin.lower()):
        named = f"the web page {origin[:100]!r}" if origin else "an unnamed web page"
        words = f"this request comes from {named}, which may not ask here; if it shall, list it in origins"
        raise Forbidden(words, "page")
    host = environ.get("HTTP_HOST", "")
    name, address = _read_host(host.lower())
    own_names = {"localhost", *(_read_host(each.partition("://")[2])[0] for each in origins)}
    # DNS rebinding needs a name, so addresses are safe.
    if address is None and (not name or name not in own_names):
        words = f"this request from a web page is for the host {host[:100]!r}; if that is this proxy"
        raise Forbidden(f"{words}, add https://HOST to origins", "page")


def _page_origin(environ: Mapping[str, Any]) -> str | None:
    """Return the origin of the page that sent a request, "" if it is not named, or None if no page sent it."""
    if "HTTP_ORIGIN" in environ:
        return str(environ["HTTP_ORIGIN"]).strip(" \t")
    if "HTTP_REFERER" in environ:
        match = _ORIGIN.match(environ["HTTP_REFERER"].strip(" \t").lower())
        return match[0] if match else ""
    crossing = environ.get("HTTP_SEC_FETCH_SITE", "").strip().lower() == "cross-site"
    return "" if crossing else None


def _allows(origins: Sequence[str], origin: str) -> bool:
    if "*" in origins:
        return True
    match = _ORIGIN.fullmatch(origin)
    if match is None:  # `null` is the origin of all sandboxed pages and local files
        return False
    scheme, host = match.groups()
    if host and not _HOST.fullmatch(host):
        return False
    if origin in origins or f"{scheme}://" in origins:
        return True
    if "loopback" not in origins or scheme not in ("http", "https"):
        return False
    name, address = _read_host(host)
    # Browsers resolve all names under localhost to this machine (RFC 6761, 6.3).
    return f".{name}".endswith(".localhost") if address is None else address.is_loopback


def _read_host(host: str) -> tuple[str, ipaddress.IPv4Address | ipaddress.IPv6Address | None]:
    """Return the name of a host without its port, and its address if it is one; ("", None) if it is not a host."""
    match = _HOST.fullmatch(host)
    return (match[1] or "", _address(match[1] or match[2])) if match else ("", None)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address  # a listener on :: sees IPv4 addresses mapped


def cors(environ: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers by which a browser lets an allowed page read the answer (Fetch Standard, CORS)."""
    origin = environ.get("HTTP_ORIGIN", "").strip(" \t")
    if not origin:
        return {}
    shown = ", ".join(SHOWN_TO_PAGES)
    headers = {"Access-Control-Allow-Origin": origin, "Vary": "Origin", "Access-Control-Expose-Headers": shown}
    if environ.get("REQUEST_METHOD") != "OPTIONS":
        return headers
    headers |= {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Max-Age": _MAX_AGE}
    requested_headers = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    if _PLAIN_LIST.fullmatch(requested_headers):
        headers["Access-Control-Allow-Headers"] = requested_headers
    return headers
