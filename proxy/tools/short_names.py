"""Names of tools that every server takes: 64 letters, digits, `_` and `-`."""

from __future__ import annotations

import re
from hashlib import blake2b

_LONGEST = 64
_DIGEST = 8
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def short_name(name: str) -> str:
    """The name under which a tool goes up; the same if it is short and plain. A digest keeps two of them apart."""
    plain = _FORBIDDEN.sub("_", name)
    if plain == name and len(name) <= _LONGEST:
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{plain[: _LONGEST - _DIGEST - 1]}_{digest}"
