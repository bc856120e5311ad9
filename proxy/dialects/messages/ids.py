"""Call ids and reasoning signatures for Messages clients.

They are stateless: what a client sends back contains the server's own id or field. So any worker can read what another
one wrote, and the history is sent upstream as the server wrote it (contract C8).
"""

from __future__ import annotations

import base64
import re

from proxy.dialects.base import REASONING_FIELDS
from proxy.json import Json

_PREFIX = "toolu_"
# Marks a server's id that is encoded in base64url because of characters that an id may not have.
_ESCAPE = "b64-"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def client_id(server_id: str) -> str:
    """Return `toolu_` and the server's id, which may be `call_...`, `functions.bash:0` (Kimi, F8) or empty.

    Source: the API reference, `tool_use.id`, pattern `^[a-zA-Z0-9_-]+$`.
    """
    if _PLAIN.fullmatch(server_id) and not server_id.startswith(_ESCAPE):
        return _PREFIX + server_id
    return _PREFIX + _ESCAPE + _encode(server_id)


def server_id(client_id: str) -> str:
    """Return the server's id. An id that the proxy did not write only loses its prefix."""
    inner = client_id.removeprefix(_PREFIX) or client_id
    if not client_id.startswith(_PREFIX + _ESCAPE):
        return inner
    code = inner.removeprefix(_ESCAPE)
    try:
        text = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode("utf-8", "surrogatepass")
    except ValueError:
        return inner
    return text if _encode(text) == code else inner


def _encode(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")


def signature(field: str) -> str:
    """Return the signature of reasoning, which names the server's reasoning field."""
    return base64.b64encode(f"vllm-tool-proxy {field}".encode()).decode()


def signed_field(given: Json) -> str:
    """Return the field that a signature names, or "" if the reasoning came from the text."""
    return next((field for field in REASONING_FIELDS if given == signature(field)), "")
