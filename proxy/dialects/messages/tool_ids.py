"""The ids of calls, as Messages clients know them and as the model server does.

Clients and the `anthropic` SDKs know ids of the form `toolu_...`; servers give `call_...`, `chatcmpl-tool-...`, Kimi's
`functions.bash:0` (F8) and others. Nothing is remembered: each id holds the other one, so that any worker can read
what another one wrote, and the history goes up with the ids that the server gave (contract C8).
"""

from __future__ import annotations

import base64
import re

_PREFIX = "toolu_"
# Stands before a server's id that is written as base64url, because it holds other letters than an id may.
_ESCAPE = "b64-"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def client_id(server_id: str) -> str:
    """The id that the client gets for the server's: `toolu_` and the id itself, if it is made of an id's letters.

    Source: the API reference, `tool_use.id`, pattern `^[a-zA-Z0-9_-]+$`. Any string is taken, the empty one too.
    """
    if _PLAIN.fullmatch(server_id) and not server_id.startswith(_ESCAPE):
        return _PREFIX + server_id
    return _PREFIX + _ESCAPE + _encode(server_id)


def server_id(client_id: str) -> str:
    """The server's id from the client's; one that no proxy wrote stays as it is, but for its `toolu_`."""
    if not client_id.startswith(_PREFIX) or client_id == _PREFIX:
        return client_id
    inner = client_id.removeprefix(_PREFIX)
    if not inner.startswith(_ESCAPE):
        return inner
    try:
        code = inner.removeprefix(_ESCAPE)
        text = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return inner
    return text if _encode(text) == code else inner


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")
