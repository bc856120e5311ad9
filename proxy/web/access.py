"""Access to the proxy: the key that a request needs, the model that the key may use, and how much of both.

It goes by the route that was found, never by the text of a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from proxy.activity.activity import Activity
from proxy.codec.json_access import as_text
from proxy.codec.json_text import Json
from proxy.config.api_keys import ClientKey
from proxy.errors import BadRequest, Loop, TooMany
from proxy.web.admin_access import check_admin, check_page
from proxy.web.headers import credential, key_bytes
from proxy.web.page_sessions import has_session
from proxy.web.routes import Access, Route
from proxy.worker.shared_file import SharedFile
from proxy.worker.snapshot import Snapshot

# What a client that has too much under way is told to wait, in seconds: nobody knows.
_WAIT = 2


def check_target(environ: Mapping[str, Any]) -> None:
    """Raise BadRequest for what gunicorn lets pass and two readers may take for two things: no Host, another's URL."""
    # HTTP/1.0 knows no Host (RFC 9112, 3.2).
    needs_host = environ.get("SERVER_PROTOCOL") == "HTTP/1.1"
    if needs_host and not environ.get("HTTP_HOST"):
        raise BadRequest("the request has no Host header")
    target = str(environ.get("RAW_URI", "/"))
    if target.startswith("/"):
        return
    if target == "*" and environ.get("REQUEST_METHOD") == "OPTIONS":
        return
    raise BadRequest("the request target must be a path; absolute URLs are not supported")


def check_loop(environ: Mapping[str, Any], pseudonym: str) -> None:
    """Raise Loop for a request with this proxy's own entry in `Via` (RFC 9110, 7.6.3): `1.1 PSEUDONYM`."""
    entries = str(environ.get("HTTP_VIA", "")).split(",")
    if pseudonym and any(pseudonym in entry.split()[1:2] for entry in entries):
        raise Loop


def authenticate(
    route: Route, environ: Mapping[str, Any], snapshot: Snapshot, activity: Activity | None = None
) -> ClientKey | None:
    """The client key that lets a request in, None where none is needed.

    `activity` knows who has signed in at the live page.

    Raises Unauthorized or Forbidden.
    """
    keys = snapshot.keys
    if route.access is Access.ADMIN:
        check_admin(environ, keys)
        return None
    if route.access is Access.PAGE:
        check_page(environ, keys, lambda token: has_session(activity, keys.admin, token))
        return None
    if route.access is Access.ANYONE:
        return None
    if not keys.clients:
        return None
    return keys.client(key_bytes(environ))


def upstream_key(environ: Mapping[str, Any], snapshot: Snapshot) -> str:
    """The key that goes up with a request that was let in: the client's own, the server's, or "" for none."""
    return snapshot.keys.upstream_key(credential(environ))


def count_request(key: ClientKey, shared: SharedFile) -> None:
    """Count a request against the quota of its key. Raises TooMany if that is used up."""
    limit = key.requests_per_minute
    if not limit:
        return
    wait = shared.rate_limit(_name(key), limit)
    if wait:
        raise TooMany(f"the key {key.name} has {limit} requests a minute (requests_per_minute)", "rate", wait)


def check_named_model(key: ClientKey, route: Route, body: bytes) -> None:
    """Check the model of a body that goes up as it came; the dialects check theirs, by the name that servers know.

    Raises Forbidden, and BadRequest where another reader may find another model.
    """
    if not key.restricted:
        return
    if not route.names_model:
        return
    named = named_model(body)
    if route.dialect == "passed":
        key.check_model(named)


def named_model(body: bytes) -> str:
    """Return the model that a body requests, or "". Raises BadRequest if another reader may find another model.

    For keys that may not use every model: a body that is forwarded unchanged must mean the same to the server.
    """
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(pairs, _Pairs):
        return ""
    named = [(name, value) for name, value in pairs if name.casefold() == "model"]
    if not named:
        return ""
    name, model = named[0]
    if len(named) > 1 or name != "model":
        raise BadRequest("the body must name its model once, as model: this key may not use every model")
    return as_text(model)


class _Pairs(list[tuple[str, Json]]):
    """The keys and values of a JSON object, duplicates included."""


def acquire_slot(key: ClientKey, route: Route, shared: SharedFile) -> bool:
    """Take one of the slots of a key for running requests. Returns False if there is no limit; raises TooMany."""
    if not key.streams:
        return False
    if not route.keeps_model_busy:
        return False
    if not shared.acquire_slot(_name(key), key.streams):
        words = f"the key {key.name} has {key.streams} requests under way already (streams)"
        raise TooMany(words, "streams", _WAIT)
    return True


def release_slot(key: ClientKey, shared: SharedFile) -> None:
    """Return the slot of a request that has ended."""
    shared.release_slot(_name(key))


def _name(key: ClientKey) -> str:
    return f"key {key.name}"
