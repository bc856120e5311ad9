"""Ids of calls and signatures of reasoning, as Messages clients see them.

Nothing is remembered: what a client sends back holds what the server said, so any worker can read what another one
wrote, and the history is sent upstream as the server wrote it (contract C8).
"""

from __future__ import annotations

import base64
import re
from hashlib import blake2b

from proxy.codec.json_text import Json

_PREFIX = "toolu_"
# Marks a server's id in base64url, because it has characters that an id may not have.
_ESCAPE = "b64-"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
# The fields for reasoning by their numbers in a signature; 0 is reasoning that the server left in the text.
FIELDS = ("", "reasoning", "reasoning_content")
_SIZE = 23


def client_id(server_id: str) -> str:
    """Return `toolu_` and the server's id, which may be `call_...`, `functions.bash:0` (Kimi, F8) or empty.

    Source: the API reference, `tool_use.id`, pattern `^[a-zA-Z0-9_-]+$`.
    """
    if _PLAIN.fullmatch(server_id) and not server_id.startswith(_ESCAPE):
        return _PREFIX + server_id
    return _PREFIX + _ESCAPE + _encode(server_id)


def server_id(client_id: str) -> str:
    """Return the server's id; an id that no proxy wrote loses only its `toolu_`."""
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


class Signature:
    """The signature of reasoning, while it streams: the field in which the server said it, and a digest of the text."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=_SIZE)

    def add(self, text: str) -> None:
        """Take the next text."""
        self._digest.update(text.encode("utf-8", "surrogatepass"))

    def sign(self, field: str) -> str:
        """Return the signature of the text so far, said in this field."""
        number = bytes([FIELDS.index(field) if field in FIELDS else 0])
        mark = blake2b(number + self._digest.digest(), digest_size=_SIZE).digest()
        return base64.b64encode(number + mark).decode()


def signed_field(signature: Json, text: str) -> str:
    """Return the field named in the signature; "" if the proxy did not sign this text."""
    own = Signature()
    own.add(text)
    return next((field for field in FIELDS[1:] if signature == own.sign(field)), "")
