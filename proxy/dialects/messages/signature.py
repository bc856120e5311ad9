"""The signature of a thinking block: the field in which the server said the thought, and a mark of its integrity.

Clients give blocks back with their signatures, so that no state is needed to give a thought back in its own field
(contract C8). A signature that is not the proxy's, or that of another text, names no field.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b

# The fields by their numbers in a signature; 0 is a thought that the server left in the text.
FIELDS = ("", "reasoning", "reasoning_content")
_SIZE = 23


class Signature:
    """The signature of a thought, while it comes."""

    def __init__(self) -> None:
        self._digest = blake2b(digest_size=_SIZE)

    def add(self, text: str) -> None:
        """Take the next text of the thought."""
        self._digest.update(text.encode("utf-8", "surrogatepass"))

    def sign(self, field: str) -> str:
        """The signature of the whole, with the field in which it came."""
        number = FIELDS.index(field) if field in FIELDS else 0
        return base64.b64encode(bytes([number]) + _mark(number, self._digest.digest())).decode()


def _mark(number: int, digest: bytes) -> bytes:
    return blake2b(bytes([number]) + digest, digest_size=_SIZE).digest()


def signed_field(signature: str, text: str) -> str:
    """The field that the signature of a text names; "" if it names none."""
    try:
        data = base64.b64decode(signature, validate=True)
    except (ValueError, binascii.Error):
        return ""
    if len(data) != _SIZE + 1 or data[0] >= len(FIELDS):
        return ""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()
    return FIELDS[data[0]] if data[1:] == _mark(data[0], digest) else ""
